"""What a run meets beside its placement: stolen time, throttling, clocks, reads from storage."""

import re
import time
from collections.abc import Iterable, Sequence

import msgspec

from hostdoctor.facts import Host
from hostdoctor.measure.trial_model import Conditions
from hostdoctor.sources.base import Source
from hostdoctor.survey.samples import read_counters
from hostdoctor.survey.values import integer

_BUSY = 0.5
_READ = re.compile(r"^read_bytes: (\d{1,18})$", re.MULTILINE)
_THROTTLED_NS = {"throttled_usec": 1000, "throttled_time": 1}
MAX_CPUS = 1024
CLOCKS_PERIOD_S = 5.0  # reading the clock of another CPU may interrupt it


class Watch:
    """Counters from now on, for these CPUs and GPUs (the driver's indices); :meth:`tick` every now and then."""

    def __init__(self, source: Source, host: Host, cpus: Iterable[int], gpus: Sequence[int]) -> None:
        self._source = source
        self._host = msgspec.structs.replace(host, pci_devices=(), block_devices=(), processes=())
        self._cpus = sorted(cpus)[:MAX_CPUS]
        self._gpus = gpus
        self._clocks: dict[int, list[float]] = {}
        self._read_bytes: int | None = None
        self._next_clocks = 0.0
        self._gpu_before = self._gpu_throttled_ns()
        self._began = time.monotonic()
        self._before = read_counters(source, self._host)

    def tick(self) -> None:
        """Read the clocks of the CPUs, unless they were read just now."""
        if time.monotonic() < self._next_clocks:
            return
        self._next_clocks = time.monotonic() + CLOCKS_PERIOD_S
        for cpu in self._cpus:
            khz = integer(
                (self._source.read(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq") or "").strip()
            )
            if khz:
                self._clocks.setdefault(cpu, []).append(khz / 1000)

    def look(self, pids: Iterable[int]) -> None:
        """Read what the workload's processes have read from storage until now."""
        self._read_bytes = _read_bytes(self._source, pids)

    def finish(self) -> Conditions:
        """Return what was met until now."""
        after, seconds = read_counters(self._source, self._host), time.monotonic() - self._began
        rises = {name: value - self._before[name] for name, value in after.items() if name in self._before}
        gpu_after = self._gpu_throttled_ns()
        return Conditions(
            seconds=round(seconds, 3),
            steal_share=_share(rises, "steal", self._cpus),
            throttled_share=_throttled(rises, seconds),
            gpu_throttled_s=None if None in (gpu_after, self._gpu_before) else _seconds(self._gpu_before, gpu_after),
            cpu_mhz=self._mhz(rises),
            read_bytes=self._read_bytes,
        )

    def _mhz(self, rises: dict[str, int]) -> float | None:
        """Return the mean clock of the busy CPUs: an idle one shows any."""
        busy = [
            cpu
            for cpu in self._clocks
            if (total := rises.get(f"cpu{cpu}.total")) and 1 - rises.get(f"cpu{cpu}.idle", total) / total >= _BUSY
        ]
        told = [mhz for cpu in busy for mhz in self._clocks[cpu]]
        return round(sum(told) / len(told), 1) if told else None

    def _gpu_throttled_ns(self) -> int | None:
        if not self._gpus or self._host.nvidia.state != "ok":
            return None
        sample = self._source.nvml_sample(0.0)
        if sample is None:
            return None
        names = tuple(f"nvml.{index}.throttle_" for index in self._gpus)
        told = [value for name, value in sample.after.items() if name.startswith(names)]
        return sum(told) if told else None


def _share(rises: dict[str, int], name: str, cpus: Sequence[int]) -> float | None:
    totals = [rises.get(f"cpu{cpu}.total", 0) for cpu in cpus]
    if not sum(totals):
        return None
    return round(sum(rises.get(f"cpu{cpu}.{name}", 0) for cpu in cpus) / sum(totals), 5)


def _throttled(rises: dict[str, int], seconds: float) -> float | None:
    told = [
        rise * unit / 1e9
        for name, rise in rises.items()
        if name.startswith("cgroup.") and (unit := _THROTTLED_NS.get(name.rpartition(".")[2]))
    ]
    return round(max(told) / seconds, 5) if told and seconds > 0 else None


def _seconds(before: int | None, after: int | None) -> float:
    return round(((after or 0) - (before or 0)) / 1e9, 3)


def _read_bytes(source: Source, pids: Iterable[int]) -> int | None:
    told = [int(found[1]) for pid in pids if (found := _READ.search(source.read(f"/proc/{pid}/io") or ""))]
    return sum(told) if told else None
