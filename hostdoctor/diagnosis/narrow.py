"""Links with fewer lanes than both ends have, grouped so that one cause is one finding."""

from collections.abc import Iterable, Iterator

from hostdoctor.diagnosis.api import finding
from hostdoctor.diagnosis.paths import Hop, link_gbs
from hostdoctor.diagnosis.report import Finding, Remedy, Severity
from hostdoctor.diagnosis.subjects import brief, sysfs


def narrow_findings(links: Iterable[tuple[str, Hop, bool]], severity: Severity) -> Iterator[Finding]:
    """Yield a finding per kind of shortfall; ``links`` are (device label, link, whether it is the device's own)."""
    groups: dict[tuple[int | None, int | None, bool], dict[Hop, list[str]]] = {}
    for label, hop, own in links:
        if hop.is_narrow:
            groups.setdefault((hop.width_lanes, hop.max_width_lanes, own), {}).setdefault(hop, []).append(label)
    for (width, most, own), hops in groups.items():
        labels = list(dict.fromkeys(label for below in hops.values() for label in below))
        where = "link" if own else "uplink " + ", ".join(f"{hop.port_bdf}-{hop.end_bdf}" for hop in hops)
        yield finding(
            ", ".join(labels),
            f"{brief(labels)}: PCIe {where} has x{width}, both ends can do x{most}",
            severity,
            evidence=[pair for hop in hops for pair in hop.width_evidence()],
            effect=_effect(next(iter(hops))),
            remedy=Remedy(
                text="Read it again under load; if it stays, reseat card, riser and cables and check the slot's"
                " lane setting in the BIOS; if the width follows the card, replace the card, else the riser or board.",
                risk="reboot",
                undo="None needed.",
                verify=f"cat {sysfs(next(iter(hops)).end_bdf, 'current_link_width')} shows {most}.",
            ),
        )


def _effect(hop: Hop) -> str:
    now, best = link_gbs(hop.width_lanes, hop.max_speed_gts), hop.max_gbs
    if now is None or best is None:
        return f"{hop.width_lanes} of {hop.max_width_lanes} lanes: bandwidth to the host falls alike"
    return f"at most {now:.1f} instead of {best:.1f} GB/s each way (lane arithmetic)"
