from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope, needs
from hostdoctor.diagnosis.limits import Limit, limits
from hostdoctor.diagnosis.paths import on_pcie, pcie_links, physical_ports, spell
from hostdoctor.diagnosis.subjects import brief, gpu_labels, sysfs
from hostdoctor.facts import Gpu, Host


@check("HD202", "slot-narrower-than-gpu", "info", needs=(needs.gpus, physical_ports, pcie_links))
def slot_narrower_than_gpu(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find GPUs whose slot, or a bridge above it, carries less than the card can.

    ## What it checks
    For each GPU in scope the weakest link on the way to the CPU, as built (lanes and generation of both ends), against
    the card's own maximum. Information, as the board is what it is; a warning where another usable GPU of the same
    model has a better way. Not judged: virtual machines and chip-to-chip GPUs.

    ## Why it matters
    Host copies, offloaded KV blocks and peer traffic run at the slot's rate. Of several GPUs in one tensor-parallel
    group the slowest sets the pace.

    ## Remedy
    Move the card to a better slot, or raise the slot's generation in the BIOS if the board allows it. Leave unequal
    GPUs out of one tensor-parallel group.

    ## References
    - https://docs.kernel.org/admin-guide/abi-testing.html (max_link_width, max_link_speed)
    """
    every = limits(host, on_pcie(host, (*in_scope(host, Ask()), *in_scope(host, ask))))
    scope = on_pcie(host, in_scope(host, ask))
    groups: dict[tuple[str, str, bool], list[tuple[Gpu, Limit]]] = {}
    for gpu in scope:
        limit = every.get(id(gpu))
        if limit and limit.is_short:
            rivals = (other.path_gbs for other in every.values() if other.model and other.model == limit.model)
            worse = max(rivals, default=0.0) > limit.path_gbs * 1.01
            key = (spell(limit.width_lanes, limit.speed_gts), spell(*limit.card), worse)
            groups.setdefault(key, []).append((gpu, limit))
    for (slot, card, worse), members in groups.items():
        labels, first = gpu_labels(host, (gpu for gpu, _ in members)), members[0][1]
        yield finding(
            ", ".join(labels),
            f"{brief(labels)}: card can do {card}, its path carries {slot}" + (", a sibling has more" if worse else ""),
            "warning" if worse else "info",
            evidence=[
                pair
                for gpu, limit in members
                for pair in (
                    (f"{sysfs(limit.card_bdf, 'max_link_width')} and max_link_speed", card),
                    (f"{sysfs(limit.port_bdf, 'max_link_width')} and max_link_speed", limit.port_text),
                )
            ],
            effect=f"at most {first.path_gbs:.1f} instead of {first.card_gbs:.1f} GB/s each way (lane arithmetic)",
            remedy=Remedy(
                text="Move the card to a better slot or raise the slot's generation in the BIOS; else keep unequal GPUs"
                " out of one tensor-parallel group."
                if worse
                else "By design of the board: nothing to repair; a better slot is the only way to more.",
                risk="reboot" if worse else "none",
                undo="Move the card back." if worse else "None needed.",
                verify=f"cat {sysfs(first.port_bdf, 'max_link_width')} {sysfs(first.port_bdf, 'max_link_speed')}",
            ),
        )
    unknown = [gpu for gpu in scope if id(gpu) not in every]
    if unknown:
        yield Skip(
            kind="no-evidence", reason=f"{brief(gpu_labels(host, unknown))}: its slot's or card's maximum is not known"
        )
