from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.diagnosis.places import stated
from hostdoctor.facts import Host

FULL = 0.85
GIB = 1 << 30


@check("HD410", "cold-tier-full", "warning")
def cold_tier_full(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Warn that the file system of the KV cache's path is nearly full.

    ## What it checks
    The file system that holds `--kv-path`: more than 85 % used, of what users other than root may use (as `df` counts).

    ## Why it matters
    A KV tier writes all the time. A full file system makes it drop or fail; a drive without free cells has to collect
    garbage while it writes, and answers reads later. On the root file system the host stops with it.

    ## Remedy
    Limit or clear the tier, or give it a file system of its own.

    ## References
    - https://docs.vllm.ai/en/latest/features/kv_offloading_usage.html
    """
    place = next((place for _, place in stated(host, ask) if place.path == ask.kv_path), None)
    if place is None:
        yield Skip(kind="no-plan", reason="no path stated: --kv-path")
        return
    size, free, available = place.size_bytes, place.free_bytes, place.available_bytes
    if size is None or free is None or available is None:
        reason = f"how full the file system of {place.path} is, nobody told"
        yield Skip(kind="no-evidence" if host.is_live else "live-only", reason=reason)
        return
    used = size - free
    share = used / (used + available) if used + available else 0.0
    if share > FULL:
        yield finding(
            place.mount_point or place.path,
            f"The file system of --kv-path {place.path} is {share:.0%} full: {available / GIB:.1f} GiB left",
            "warning",
            evidence=[(f"statvfs {place.path}", f"{used} of {used + available} bytes used, {available} available")],
            effect="the KV tier stops taking blocks when it is full; slower writes before",
            remedy=Remedy(
                text="Clear old blocks or set the tier's size limit, or give it a file system of its own.",
                scope="process",
                undo="None needed.",
                verify=f"df {place.path} shows less than 85 %.",
            ),
        )
