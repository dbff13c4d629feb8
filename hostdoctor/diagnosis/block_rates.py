"""Latency and queue depth of a disk from two readings of its counters (Documentation/admin-guide/iostats.rst)."""

from hostdoctor.facts import Fact, Host, Sample

MIN_TICKS_MS = 100  # ticks are whole milliseconds: a mean of less is rounding
MS_PER_S = 1000.0


class Rates(Fact, frozen=True, kw_only=True):
    """Means over one interval; None where too little happened to tell."""

    r_await_ms: float | None = None
    w_await_ms: float | None = None
    queue_depth: float | None = None


def rates(host: Host, disk: str) -> Rates | None:
    """Return what a disk did in the last sample that has its counters, None when there is none."""
    for sample in reversed(host.samples):
        if f"block.{disk}.reads" in sample.before:
            in_flight_ms = _rise(sample, disk, "weighted_ticks_ms")
            busy = in_flight_ms is not None and in_flight_ms >= MIN_TICKS_MS and sample.seconds > 0
            return Rates(
                r_await_ms=_mean(_rise(sample, disk, "read_ticks_ms"), _rise(sample, disk, "reads")),
                w_await_ms=_mean(_rise(sample, disk, "write_ticks_ms"), _rise(sample, disk, "writes")),
                queue_depth=(in_flight_ms or 0) / (sample.seconds * MS_PER_S) if busy else None,
            )
    return None


def _mean(ticks_ms: int | None, requests: int | None) -> float | None:
    return ticks_ms / requests if ticks_ms and requests and requests > 0 and ticks_ms >= MIN_TICKS_MS else None


def _rise(sample: Sample, disk: str, counter: str) -> int | None:
    key = f"block.{disk}.{counter}"
    before, after = sample.before.get(key), sample.after.get(key)
    return None if before is None or after is None else after - before
