from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.diagnosis.drive_health import alarms, wear
from hostdoctor.diagnosis.needs import nvme
from hostdoctor.facts import Host

ADDS = "SMART would add critical warnings, media errors and spare capacity"
Said = dict[str, list[tuple[str, str, object]]]


@check("HD405", "nvme-health", "critical", needs=(nvme,))
def nvme_health(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find NVMe drives that report themselves failing, and those that lose data or run out of spare cells.

    ## What it checks
    The SMART log, as root with nvme-cli: a critical warning is critical; media errors, or spare capacity down to the
    drive's threshold, are a warning. Without root the temperature alarm of the drive's sensor, which is critical too.

    ## Why it matters
    A model or KV cache on such a drive stalls on retries and fails to load one day; a RAID0 loses everything with it.

    ## Remedy
    Copy what matters and replace the drive; cool one that is hot. One media error, long ago, may be watched instead.

    ## References
    - https://nvmexpress.org/specification/nvm-express-base-specification/ (SMART / Health Information log)
    """
    names = {drive.name: drive for drive in host.nvme if drive.name}
    critical = {name: said for name, drive in names.items() if (said := alarms(drive))}
    worn = {name: said for name, drive in names.items() if (said := wear(drive))}
    if critical:
        yield _finding("NVMe drives report critical warnings", critical, failing=True)
    if worn:
        yield _finding("NVMe drives wear out", worn, failing=False)
    unread = [name for name, drive in names.items() if drive.health is None]
    if unread and host.is_live and not any(gap.fact == "source:nvme-smart" for gap in host.gaps):
        yield Skip(kind="needs-root", reason=f"{', '.join(unread)}: {ADDS}")
    elif unread:
        yield Skip(kind="no-evidence", reason=f"no SMART log of {', '.join(unread)} was read")


def _finding(message: str, said: Said, *, failing: bool) -> Finding:
    words = (f"{name} {', '.join(text for text, _, _ in found)}" for name, found in said.items())
    return finding(
        ", ".join(said),
        f"{message}: {'; '.join(words)}",
        "critical" if failing else "warning",
        evidence=[(source, value) for found in said.values() for _, source, value in found],
        effect="reads stall on retries, or fail",
        remedy=Remedy(
            text="Copy what matters, then replace the drive; cool one that is only hot."
            if failing
            else "Watch the counts (nvme smart-log, as root) and plan the replacement; keep copies elsewhere.",
            undo="None needed.",
            verify="nvme smart-log shows critical_warning 0 and counts that no longer rise.",
        ),
    )
