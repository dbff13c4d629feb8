"""What is seen beside a cell: the engine's queue and copies, drives, pressure, links, and the CPUs' own troubles."""

import time
from collections.abc import Iterable, Mapping, Sequence

from hostdoctor.errors import HostdoctorError
from hostdoctor.facts import Host
from hostdoctor.measure.copies_links import LinkWatch
from hostdoctor.measure.matrix.model import Signals
from hostdoctor.measure.trial_watch import Watch as CpuWatch
from hostdoctor.measure.watch import Watch as DiskWatch
from hostdoctor.sources.base import Source
from hostdoctor.survey.samples import PRESSURE

LINK_PERIOD_S = 1.0
METRICS_PERIOD_S = 2.0
GAUGES = ("vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:kv_cache_usage_perc")
COUNTERS = (
    "vllm:num_preemptions", "vllm:kv_offload_load_bytes", "vllm:kv_offload_load_time", "vllm:kv_offload_store_bytes",
    "vllm:kv_offload_store_time", "vllm:kv_offload_total_bytes", "vllm:kv_offload_total_time",
    "vllm:kv_offload_stores_skipped", "vllm:kv_offload_tiering_read_bytes", "vllm:kv_offload_tiering_read_time",
    "vllm:kv_offload_tiering_write_bytes", "vllm:kv_offload_tiering_write_time",
)  # fmt: skip
_ENDINGS = ("_total", "", "_sum")


class Beside:
    """Everything that is watched from now on until :meth:`finish`; :meth:`tick` every now and then."""

    def __init__(
        self,
        source: Source,
        host: Host,
        *,
        cpus: Iterable[int],
        gpus: Sequence[int],
        links: Sequence[str],
        disks: Sequence[str],
        metrics_url: str,
    ) -> None:
        self._notes: list[str] = []
        self._cpus = CpuWatch(source, host, cpus, gpus)
        self._disks = self._watch_disks(source, disks, metrics_url)
        self._links = LinkWatch(source, links, LINK_PERIOD_S)
        self._copying = self._links.copying()
        self._copying.__enter__()
        self._gauges: dict[str, list[float]] = {}
        self._next = 0.0

    def tick(self) -> None:
        """Read the clocks of the CPUs and the engine's gauges, unless they were read just now."""
        self._cpus.tick()
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + METRICS_PERIOD_S
        for name, value in self._disks.metrics_now().items():
            if name in GAUGES:
                self._gauges.setdefault(name, []).append(value)

    def look(self, pids: Iterable[int]) -> None:
        """Read what the server's processes have read from storage until now."""
        self._cpus.look(pids)

    def stop(self) -> None:
        """Stop watching the links; nothing is told."""
        self._copying.__exit__(None, None, None)

    def finish(self) -> Signals:
        """Return what was seen until now."""
        self.stop()
        seen = self._disks.end()
        return Signals(
            conditions=self._cpus.finish(),
            disks=seen.disks,
            caches=seen.caches,
            pressure=pressure(seen.counters.before, seen.counters.after, seen.seconds) if seen.counters else {},
            engine=engine_signals(seen.metrics_before, seen.metrics_after, self._gauges),
            links=self._links.readings(),
            notes=(*self._notes, *seen.notes),
        )

    def _watch_disks(self, source: Source, disks: Sequence[str], metrics_url: str) -> DiskWatch:
        try:
            return DiskWatch(source, disks, metrics_url)
        except HostdoctorError as error:
            self._notes.append(f"the engine's metrics were not read: {error}")
            return DiskWatch(source, disks)


def prompts_read(url: str) -> float | None:
    """Return how many tokens of prompts an engine has read since its start, None where it does not tell."""
    from hostdoctor.parsers.prometheus import parse_prometheus
    from hostdoctor.sources.web import read_url

    try:
        told = parse_prometheus(read_url(url, METRICS_PERIOD_S), url)
    except HostdoctorError:
        return None
    found = [value for name, value in told.items() if name.endswith(":prompt_tokens_total")]
    return sum(found) if found else None


def pressure(before: Mapping[str, int], after: Mapping[str, int], seconds: float) -> dict[str, float]:
    """Return the share of the time in which some task waited, for each resource that the kernel tells."""
    found = {}
    for resource in PRESSURE:
        name = f"psi.{resource}.some.total_us"
        if name in before and name in after and seconds > 0:
            found[resource] = round((after[name] - before[name]) / 1e6 / seconds, 5)
    return found


def engine_signals(
    before: Mapping[str, float], after: Mapping[str, float], gauges: Mapping[str, Sequence[float]]
) -> dict[str, float]:
    """Return how much the engine's counters rose, and the means of its gauges."""
    found = {_plain(name): sum(values) / len(values) for name, values in gauges.items() if values}
    for name in COUNTERS:
        ending = next((e for e in _ENDINGS if name + e in after), None)
        if ending is not None:
            rise = after[name + ending] - before.get(name + ending, 0.0)
            if rise >= 0:  # an engine that was started anew counts anew
                found[_plain(name)] = rise
    return found


def _plain(name: str) -> str:
    return name.removeprefix("vllm:")
