from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.diagnosis.block_rates import Rates, rates
from hostdoctor.diagnosis.needs import nvme, sampled
from hostdoctor.facts import BlockDevice, Host, IoBaseline

FAR_ABOVE = 3.0  # times the baseline; a mean of seconds varies by less on a steady load


@check("HD407", "nvme-latency-high", "warning", needs=(nvme, sampled))
def nvme_latency_high(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Warn that a drive answers far later, or is queued far deeper, than it usually does.

    ## What it checks
    With `--sample`, the mean time of a read and of a write and the requests in flight between two readings of
    `/sys/block/*/stat`: more than three times the drive's own baseline, from 100 ms of summed request time on. One run
    alone knows no baseline, and the check is skipped. `%util` says nothing of drives.

    ## Why it matters
    The same drive under a heavier load, a failing flash cell or a hot controller look alike here: the KV tier's reads
    come late, and with them the first token.

    ## Remedy
    Look who reads (`iotop`), then at the drive's health (HD405) and temperature.

    ## References
    - https://docs.kernel.org/admin-guide/iostats.html
    """
    judged = [(disk, rates(host, disk.name)) for disk in host.block_devices if disk.baseline]
    if not judged:
        yield Skip(kind="no-evidence", reason="no drive's usual latency is known to compare with")
    high = {disk.name: said for disk, seen in judged if seen and (said := _far_above(disk, seen))}
    if high:
        yield finding(
            ", ".join(high),
            "NVMe drives answer late: " + "; ".join(f"{name} {', '.join(said)}" for name, said in high.items()),
            "warning",
            evidence=[(f"/sys/block/{name}/stat between two readings", "; ".join(said)) for name, said in high.items()],
            effect="reads of the model or the KV tier come that much later",
            remedy=Remedy(
                text="See who uses the drive (iotop, as root) and move one of them; look at its health.",
                scope="process",
                undo="None needed.",
                verify="hostdoctor check --sample 10 ends without this line under the usual load.",
            ),
        )


def _far_above(disk: BlockDevice, seen: Rates) -> list[str]:
    usual = disk.baseline or IoBaseline()
    pairs = (
        ("read", seen.r_await_ms, usual.r_await_ms, " ms"),
        ("write", seen.w_await_ms, usual.w_await_ms, " ms"),
        ("in flight", seen.queue_depth, usual.queue_depth, ""),
    )
    return [
        f"{name} {now:.2f}{unit} (usually {before:.2f}{unit})"
        for name, now, before, unit in pairs
        if now is not None and before and now > FAR_ABOVE * before
    ]
