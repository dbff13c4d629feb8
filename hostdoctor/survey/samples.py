"""Counters read twice, some seconds apart: what only a running host can tell."""

import re
import time
from collections.abc import Callable, Iterator

from hostdoctor.facts import Host, Process, Sample
from hostdoctor.facts.processes import is_monitor, shared_counter
from hostdoctor.sources.base import Source
from hostdoctor.survey.pci import DEVICES
from hostdoctor.survey.pci_details import AER_FILES, read_errors
from hostdoctor.survey.values import integer

VMSTAT = ("numa_hint_faults", "numa_hint_faults_local", "numa_pages_migrated", "pswpin", "pswpout")
PRESSURE = ("cpu", "io", "memory")
CPU_STAT = ("nr_periods", "nr_throttled", "throttled_usec", "throttled_time")
# Documentation/block/stat.rst; the ninth, in_flight, is no counter.
BLOCK_STAT = (
    "read_ios", "read_merges", "read_sectors", "read_ticks_ms", "write_ios", "write_merges", "write_sectors",
    "write_ticks_ms", "", "io_ticks_ms", "time_in_queue_ms", "discard_ios", "discard_merges", "discard_sectors",
    "discard_ticks_ms", "flush_ios", "flush_ticks_ms",
)  # fmt: skip
IDLE, IO_WAIT, STEAL = 3, 4, 7  # of user nice system idle iowait irq softirq steal; guest time is in user already
_CPU = re.compile(r"^cpu(\d{1,5}) ((?:\d{1,18} ){7}\d{1,18})", re.MULTILINE)
_PAIR = re.compile(r"^(\w+) (\d{1,18})$", re.MULTILINE)
_PRESSURE = re.compile(r"^(some|full) .*\btotal=(\d{1,18})$", re.MULTILINE)


def take_samples(
    source: Source,
    host: Host,
    seconds: float,
    *,
    numa_maps: bool = False,
    wait: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Sample, ...]:
    """Return the kernel's counters, and the driver's where it answers, read twice at least ``seconds`` apart.

    ``numa_maps``: read it too, of the processes that use GPUs. They stall meanwhile, so nothing that repeats may ask.
    """
    began = clock()
    before = read_counters(source, host, numa_maps=numa_maps)
    driver = source.nvml_sample(seconds) if host.nvidia.state == "ok" else None
    wait(max(0.0, began + seconds - clock()))
    ended = clock()
    kernel = Sample(seconds=ended - began, before=before, after=read_counters(source, host, numa_maps=numa_maps))
    return (kernel,) if driver is None else (kernel, driver)


def read_counters(source: Source, host: Host, *, numa_maps: bool = False) -> dict[str, int]:
    """Return every counter that the kernel shows now, by name; one that cannot be read is left out."""
    readers = (_vmstat, _cpus, _pressure)
    found = {name: value for reader in readers for name, value in reader(source)}
    for group in host.cgroups:
        stat = dict(_PAIR.findall(source.read(f"{group.folder}/cpu.stat") or ""))
        found |= {f"cgroup.{group.path}.{name}": int(stat[name]) for name in CPU_STAT if name in stat}
    for device in host.pci_devices:
        if device.errors is not None:
            found |= _errors(source, device.bdf)
    for disk in host.block_devices:
        found |= _block(source, disk.name)
    for process in host.processes:
        if numa_maps or process.memory_source != "numa_maps":
            found |= _shared_memory(source, process)
    return found


def _vmstat(source: Source) -> Iterator[tuple[str, int]]:
    for name, value in _PAIR.findall(source.read("/proc/vmstat") or ""):
        if name in VMSTAT:
            yield f"vmstat.{name}", int(value)


def _cpus(source: Source) -> Iterator[tuple[str, int]]:
    """Yield each CPU's stolen ticks, those in which it had nothing to run, and all of its ticks."""
    for cpu, values in _CPU.findall(source.read("/proc/stat") or ""):
        ticks = [int(value) for value in values.split()]
        yield f"cpu{cpu}.steal", ticks[STEAL]
        yield f"cpu{cpu}.idle", ticks[IDLE] + ticks[IO_WAIT]
        yield f"cpu{cpu}.total", sum(ticks)


def _pressure(source: Source) -> Iterator[tuple[str, int]]:
    for resource in PRESSURE:
        for share, total in _PRESSURE.findall(source.read(f"/proc/pressure/{resource}") or ""):
            yield f"psi.{resource}.{share}.total_us", int(total)


def _errors(source: Source, bdf: str) -> dict[str, int]:
    errors = read_errors(source, f"{DEVICES}/{bdf}")
    told = {name: getattr(errors, name, None) for name in AER_FILES}
    return {f"aer.{bdf}.{name}": value for name, value in told.items() if value is not None}


def _shared_memory(source: Source, process: Process) -> dict[str, int]:
    """Return the shared memory of a process by node; a service that watches all GPUs is left alone."""
    if process.memory_source is None or is_monitor(process):
        return {}
    from hostdoctor.survey.process_memory import read_shared

    return {shared_counter(process, told.node): told.shared_bytes for told in read_shared(source, process)}


def _block(source: Source, name: str) -> dict[str, int]:
    fields = (source.read(f"/sys/block/{name}/stat") or "").split()
    pairs = zip(BLOCK_STAT, fields, strict=False)
    told = {key: integer(text) for key, text in pairs if key}
    return {f"block.{name}.{key}": value for key, value in told.items() if value is not None}
