"""Latency and queue depth of a disk from two readings of its counters (Documentation/admin-guide/iostats.rst)."""

from hostdoctor.diagnosis.counters import rise
from hostdoctor.facts import Fact, Host

MIN_TICKS_MS = 100  # ticks are whole milliseconds: a mean of less is rounding
MS_PER_S = 1000.0


class Rates(Fact, frozen=True, kw_only=True):
    """Means over one interval; None where too little happened to tell."""

    r_await_ms: float | None = None
    w_await_ms: float | None = None
    queue_depth: float | None = None


def rates(host: Host, disk: str) -> Rates | None:
    """Return what a disk did between the two readings, None when its counters were not read."""
    in_flight = rise(host, f"block.{disk}.time_in_queue_ms")
    if in_flight is None:
        return None
    busy = in_flight.by >= MIN_TICKS_MS and in_flight.seconds > 0
    return Rates(
        r_await_ms=_mean(host, disk, "read"),
        w_await_ms=_mean(host, disk, "write"),
        queue_depth=in_flight.by / (in_flight.seconds * MS_PER_S) if busy else None,
    )


def _mean(host: Host, disk: str, kind: str) -> float | None:
    ticks, requests = rise(host, f"block.{disk}.{kind}_ticks_ms"), rise(host, f"block.{disk}.{kind}_ios")
    if ticks is None or requests is None or ticks.by < MIN_TICKS_MS or requests.by == 0:
        return None
    return ticks.by / requests.by
