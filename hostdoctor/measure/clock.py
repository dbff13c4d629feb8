"""What lies below every time measured: the clock's own reading and a call into C."""

import time
from statistics import median

from hostdoctor.measure import kernel
from hostdoctor.measure.documents import Clock

_TRIALS = 2000


def clock_floor() -> Clock:
    """Return the medians of two readings in a row and of a call into C between two readings, in ns."""
    tick, call = time.perf_counter_ns, kernel.libc().sched_getcpu
    readings, calls = [], []
    for _ in range(_TRIALS):
        began = tick()
        readings.append(tick() - began)
        began = tick()
        call()
        calls.append(tick() - began)
    return Clock(reading_ns=median(readings), call_ns=median(calls))


def now() -> str:
    """Return the time of day, UTC, ISO 8601."""
    import datetime

    return datetime.datetime.now(tz=datetime.timezone.utc).isoformat(timespec="seconds")
