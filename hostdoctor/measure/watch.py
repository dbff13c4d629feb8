"""Three signals without load, as differences over an interval: device latency, queue depth, an engine's cache hits."""

import math
import time
from collections.abc import Mapping, Sequence

from hostdoctor.diagnosis.block_rates import rates
from hostdoctor.errors import HostdoctorError
from hostdoctor.facts import BlockDevice, Fact, Host, Sample
from hostdoctor.measure.documents import CacheHits, DiskMeans, DiskWatch
from hostdoctor.parsers.prometheus import parse_prometheus
from hostdoctor.sources.base import Source
from hostdoctor.survey.samples import read_counters

# vLLM counts tokens; its client library adds _total. Older versions say gpu_prefix_cache.
CACHES: dict[str, Sequence[tuple[str, str]]] = {
    "vLLM prefix cache": (
        ("vllm:prefix_cache_queries", "vllm:prefix_cache_hits"),
        ("vllm:gpu_prefix_cache_queries", "vllm:gpu_prefix_cache_hits"),
    ),
    "vLLM external prefix cache": (("vllm:external_prefix_cache_queries", "vllm:external_prefix_cache_hits"),),
}
_ENDINGS = ("_total", "")


class Watched(Fact, frozen=True, kw_only=True):
    """What happened in an interval."""

    seconds: float
    disks: tuple[DiskWatch, ...] = ()
    caches: tuple[CacheHits, ...] = ()
    notes: tuple[str, ...] = ()


class Watch:
    """An interval in which disks and an engine are looked at; it begins when it is made."""

    def __init__(self, source: Source, disks: Sequence[str], metrics_url: str = "", timeout_s: float = 5.0) -> None:
        """Read all counters; raise SourceError where the engine does not answer, UsageError for what is no address."""
        self._source, self._disks, self._url, self._timeout_s = source, tuple(disks), metrics_url, timeout_s
        self._metrics = self._read_metrics()
        self._counters, self._began = self._read_counters(), time.monotonic()

    def end(self) -> "Watched":
        """Read all counters again and return what happened between; an engine that is gone by now is a note."""
        after, seconds = self._read_counters(), time.monotonic() - self._began
        sample = Sample(seconds=seconds, before=self._counters, after=after)
        notes: tuple[str, ...] = ()
        caches: tuple[CacheHits, ...] = ()
        try:
            caches = cache_hits(self._metrics, self._read_metrics())
        except HostdoctorError as error:
            notes = (f"the engine's metrics cannot be read any more: {error}",)
        return Watched(seconds=seconds, disks=watch_disks(self._disks, sample), caches=caches, notes=notes)

    def _read_counters(self) -> dict[str, int]:
        return read_counters(self._source, Host(block_devices=tuple(BlockDevice(name=disk) for disk in self._disks)))

    def _read_metrics(self) -> dict[str, float]:
        if not self._url:
            return {}
        from hostdoctor.sources.web import read_url

        return parse_prometheus(read_url(self._url, self._timeout_s), self._url)


def disk_means(disk: str, sample: Sample) -> DiskMeans | None:
    """Return what a disk did between two readings of its counters, None when they were not read."""
    told = rates(Host(samples=(sample,)), disk)
    if told is None:
        return None
    return DiskMeans(r_await_ms=told.r_await_ms, w_await_ms=told.w_await_ms, queue_depth=told.queue_depth)


def watch_disks(disks: Sequence[str], sample: Sample) -> tuple[DiskWatch, ...]:
    """Return what each disk did."""
    return tuple(DiskWatch(disk=disk, means=disk_means(disk, sample)) for disk in disks)


def cache_hits(before: Mapping[str, float], after: Mapping[str, float]) -> tuple[CacheHits, ...]:
    """Return what each cache that the engine's metrics tell of did between two readings."""
    found = (_cache(name, pairs, before, after) for name, pairs in CACHES.items())
    return tuple(cache for cache in found if cache is not None)


def _cache(
    name: str, pairs: Sequence[tuple[str, str]], before: Mapping[str, float], after: Mapping[str, float]
) -> CacheHits | None:
    for queries_name, hits_name in pairs:
        for ending in _ENDINGS:
            queries = _rise(before, after, queries_name + ending)
            hits = _rise(before, after, hits_name + ending)
            if queries is not None and hits is not None:
                return _judged(name, queries, hits)
    return None


def _judged(name: str, queries: float, hits: float) -> CacheHits:
    if not (0 <= hits <= queries and math.isfinite(queries)):  # counters start anew with the engine
        return CacheHits(cache=name)
    share = 100.0 * hits / queries if queries > 0 else None
    return CacheHits(cache=name, queries=queries, hits=hits, hit_percent=share)


def _rise(before: Mapping[str, float], after: Mapping[str, float], name: str) -> float | None:
    return after[name] - before[name] if name in before and name in after else None
