from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.facts import Host


@check("HD903", "source-timeout", "info")
def source_timeout(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Name sources that did not answer in time: what they tell is unknown, neither good nor bad.

    ## What it checks
    Commands and the NVIDIA driver (NVML) that were given up at the deadline (`--timeout`).

    ## Why it matters
    A driver that starts cold can take 25 s. One that never answers hangs in the kernel, and so will the service. The
    report is "unknown" rather than "ok" when it was the driver.

    ## Remedy
    Ask again with a longer deadline. If it hangs again, look for NVRM and Xid lines in the kernel's log.

    ## References
    - https://docs.nvidia.com/deploy/driver-persistence/index.html
    """
    late = dict.fromkeys((gap.source, gap.reason) for gap in host.gaps if gap.kind == "timeout")
    if host.nvidia.state == "timeout" and not any("nvml" in source.lower() for source, _ in late):
        late[("NVML", host.nvidia.reason or "no answer in time")] = None
    if late:
        sources = ", ".join(dict.fromkeys(source for source, _ in late))
        yield finding(
            sources,
            f"No answer in time: {sources}",
            "info",
            evidence=late,
            effect="what it tells is unknown",
            remedy=Remedy(
                text="Ask again with a longer --timeout; if it hangs again, read dmesg for NVRM and Xid lines.",
                scope="process",
                undo="None needed.",
                verify="hostdoctor check ends without this line.",
            ),
        )
