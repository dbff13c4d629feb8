"""Which signal moved with the boundary: what was seen where the SLO breaks against what was where it holds. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hostdoctor.measure.matrix.model import Moved, Signals

TIMES = 1.5  # less moves with any load


class _Kind(NamedTuple):
    """A signal's words, its unit, and the smallest rise (or fall, negative) that says anything."""

    words: str
    unit: str
    least: float


_KINDS: dict[str, _Kind] = {
    "requests waiting": _Kind("requests waiting in the engine", "", 1.0),
    "preemptions": _Kind("sequences preempted for want of KV blocks", "a second", 0.01),
    "copy queue": _Kind("time that KV copies between GPU and RAM took", "s a second", 0.05),
    "tier reads": _Kind("time that reads from the tier below RAM took", "s a second", 0.05),
    "tier writes": _Kind("time that writes to the tier below RAM took", "s a second", 0.05),
    "read await": _Kind("NVMe read await", "ms", 0.2),
    "write await": _Kind("NVMe write await", "ms", 0.2),
    "queue depth": _Kind("NVMe queue depth", "", 1.0),
    "io pressure": _Kind("pressure: waiting for I/O", "of the time", 0.05),
    "memory pressure": _Kind("pressure: waiting for memory", "of the time", 0.02),
    "cpu pressure": _Kind("pressure: waiting for a CPU", "of the time", 0.1),
    "stolen": _Kind("CPU time stolen by the hypervisor", "of the time", 0.01),
    "throttled": _Kind("CPU quota throttling", "of the time", 0.01),
    "GPU throttled": _Kind("GPU clocks held down", "of the time", 0.05),
    "cache hits": _Kind("cache hits", "%", -5.0),
    "link width": _Kind("PCIe link width", "lanes", -1.0),
    "link speed": _Kind("PCIe link speed", "GT/s", -1.0),
}


def flat(signals: Signals) -> dict[str, float]:
    """Return what was seen in one run by short names; of several disks the slowest, of links the narrowest."""
    seconds = max(signals.conditions.seconds, 0.001)
    engine, conditions = signals.engine, signals.conditions
    copies = [engine[k] for k in ("kv_offload_load_time", "kv_offload_store_time") if k in engine]
    copies = copies or [engine[k] for k in ("kv_offload_total_time",) if k in engine]
    told: dict[str, float | None] = {
        "requests waiting": engine.get("num_requests_waiting"),
        "preemptions": _a_second(engine.get("num_preemptions"), seconds),
        "copy queue": sum(copies) / seconds if copies else None,
        "tier reads": _a_second(engine.get("kv_offload_tiering_read_time"), seconds),
        "tier writes": _a_second(engine.get("kv_offload_tiering_write_time"), seconds),
        "read await": _most(disk.means.r_await_ms for disk in signals.disks if disk.means),
        "write await": _most(disk.means.w_await_ms for disk in signals.disks if disk.means),
        "queue depth": _most(disk.means.queue_depth for disk in signals.disks if disk.means),
        **{f"{name} pressure": share for name, share in signals.pressure.items()},
        "stolen": conditions.steal_share,
        "throttled": conditions.throttled_share,
        "GPU throttled": _a_second(conditions.gpu_throttled_s, seconds),
        "cache hits": _most(cache.hit_percent for cache in signals.caches),
        "link width": _least(width for link in signals.links for width in map(float, link.widths_lanes)),
        "link speed": _least(speed for link in signals.links for speed in map(float, link.speeds_gts)),
    }
    return {name: round(value, 6) for name, value in told.items() if value is not None}


def means(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each signal over the repeats that have it."""
    names = dict.fromkeys(name for run in runs for name in run)
    found = {name: [run[name] for run in runs if name in run] for name in names}
    return {name: sum(values) / len(values) for name, values in found.items()}


def moved(holds: Mapping[str, float], breaks: Mapping[str, float]) -> tuple[Moved, ...]:
    """Return the signals that are another where the SLO breaks, the most telling kinds first."""
    found = []
    for name, kind in _KINDS.items():
        if name in holds and name in breaks and _has_moved(holds[name], breaks[name], kind.least):
            before, after = holds[name], breaks[name]
            unit = f" {kind.unit}" if kind.unit else ""
            words = f"{kind.words} {before:.3g} → {after:.3g}{unit}"
            found.append(Moved(signal=name, holds=before, breaks=after, unit=kind.unit, words=words))
    return tuple(found)


def _has_moved(before: float, after: float, least: float) -> bool:
    if least < 0:
        return after - before <= least
    return after - before >= least and after >= TIMES * before


def _a_second(value: float | None, seconds: float) -> float | None:
    return None if value is None else value / seconds


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _least(values: Iterable[float]) -> float | None:
    return min(values, default=None)
