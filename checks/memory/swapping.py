from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.diagnosis.needs import sampled
from hostdoctor.facts import Host, Sample

SWAPS = {"vmstat.pswpin": "pages swapped in", "vmstat.pswpout": "pages swapped out"}
STALL = "psi.memory.some.total_us"
STALLED_SHARE = 0.01  # reclaim stalls for microseconds on any busy host


@check("HD312", "swapping", "warning", needs=(sampled,))
def swapping(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Warn that the host swaps, or waits for memory, right now.

    ## What it checks
    Between two readings (`--sample`): pages swapped in or out, and the time in which some task waited for memory
    (pressure stall information) as more than 1 % of the interval. Both count the whole host, also in a container.

    ## Why it matters
    A page of an inference process that went to disk costs its next user a disk read: seconds in the tail of every
    percentile. Pinned memory is never swapped, so everything else is squeezed.

    ## Remedy
    Find what grows: plan less pinned memory, or move the neighbour. Turning swap off turns slowness into kills.

    ## References
    - https://docs.kernel.org/accounting/psi.html
    """
    rises = [(sample, key, sample.after[key] - sample.before[key]) for sample in host.samples for key in _keys(sample)]
    if not rises:
        yield Skip(kind="no-evidence", reason="neither swap nor pressure counters were read")
    swapped = [(SWAPS[key], rise) for _, key, rise in rises if key in SWAPS and rise > 0]
    stalls = [(s, us / 1e6) for s, key, us in rises if key == STALL and us / 1e6 > s.seconds * STALLED_SHARE]
    said = [f"{rise} {name}" for name, rise in swapped]
    said += [f"tasks waited {waited:.2f} s of {sample.seconds:g} s for memory" for sample, waited in stalls]
    if said:
        yield finding(
            "host",
            f"The host is short of memory now: {', '.join(said)}",
            "warning",
            evidence=[(f"/proc/vmstat, {name} between two readings", f"+{rise}") for name, rise in swapped]
            + [(f"/proc/pressure/memory, some, in {s.seconds:g} s", f"+{waited:.2f} s") for s, waited in stalls],
            effect="page faults wait for the disk: pauses of milliseconds to seconds",
            remedy=Remedy(
                text="Find what grows (systemd-cgtop, ps) and move it or plan less pinned memory. Keep swap on.",
                risk="restart",
                scope="process",
                undo="Start it again.",
                verify="hostdoctor check --sample 10 ends without this line.",
            ),
        )


def _keys(sample: Sample) -> list[str]:
    return [key for key in (*SWAPS, STALL) if key in sample.before and key in sample.after]
