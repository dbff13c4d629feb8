from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope, needs
from hostdoctor.diagnosis.paths import Tree, model, on_pcie, pcie_links, physical_ports
from hostdoctor.diagnosis.subjects import brief, gpu_labels, sysfs
from hostdoctor.diagnosis.uplinks import sentences, shared_uplinks
from hostdoctor.facts import Host


@check("HD204", "uplink-shared", "info", needs=(needs.gpus, physical_ports, pcie_links))
def uplink_shared(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Tell which GPUs and NVMe drives share one PCIe way to the CPU, and by how much they can outrun it.

    ## What it checks
    Root ports and switch uplinks with several GPUs or drives below, at least one GPU of them in scope: the sum of their
    own link rates against the uplink's. NICs are named but not added, as GPU-NIC traffic below one switch stays
    below it. A warning where some GPUs in scope share an uplink and others of the same model have theirs alone.

    ## Why it matters
    Offload, weight loading and host copies of all sharers at once get their part of the uplink only: the ratio is how
    much slower the worst case is. Traffic between the sharers does not pass the uplink.

    ## Remedy
    Spread the GPUs of one engine, and the drive that feeds them, over uplinks; put cards into other slots if some
    uplinks are empty.

    ## References
    - https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html
    """
    tree = Tree(host)
    scope = [gpu for gpu in on_pcie(host, in_scope(host, ask)) if tree.hops(gpu)]
    names = gpu_labels(host, scope)
    if not scope:
        yield Skip(kind="no-evidence", reason="the GPUs' paths are not known")
    uplinks = [uplink for uplink in shared_uplinks(host) if set(uplink.sharers) & set(names)]
    if not uplinks:
        return
    crowded = {label for uplink in uplinks if len(uplink.gpus) > 1 for label in uplink.gpus}
    kinds = {label: model(host, gpu) for label, gpu in zip(names, scope, strict=True)}
    alone = [label for label in names if label not in crowded and kinds[label]]
    unequal = {kinds[label] for label in alone} & {kinds[label] for label in names if label in crowded}
    better = [label for label in alone if kinds[label] in unequal]
    yield finding(
        ", ".join(label for label in names if any(label in uplink.sharers for uplink in uplinks)),
        "; ".join(sentences(uplinks)) + (f"; {brief(better)} of the same model: alone" if better else ""),
        "warning" if better else "info",
        evidence=[(f"{sysfs(u.port_bdf, 'max_link_width')} and max_link_speed", u.described()) for u in uplinks],
        effect="all sharers at once get 1/ratio of their rate to the host (lane arithmetic); peer traffic stays below",
        remedy=Remedy(
            text="Move a card to an uplink of its own, or take GPUs of one engine from different uplinks."
            if better
            else "By design: choose GPUs of one engine, and the drive that feeds them, from different uplinks.",
            risk="reboot" if better else "restart",
            scope="host" if better else "process",
            undo="Move the card back." if better else "Choose the former GPUs.",
            verify="lspci -tv shows what hangs below each port.",
        ),
    )
