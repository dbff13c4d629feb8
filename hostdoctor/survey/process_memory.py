"""Where a process' memory and threads are now. Reading ``numa_maps`` stalls it: 8 ms for each GiB of 4 KiB pages."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from hostdoctor.errors import ParseError, SourceError
from hostdoctor.facts import Gap, NumaNode, Process, ProcessMemory
from hostdoctor.parsers.numa_maps import NumaMaps, parse_numa_maps
from hostdoctor.parsers.numa_stat import parse_numa_stat
from hostdoctor.parsers.proc_pid import ProcessStat, parse_stat
from hostdoctor.sources.base import Source
from hostdoctor.survey.cgroups import MOUNT
from hostdoctor.survey.processes import read_stat
from hostdoctor.survey.values import ids

MAX_THREADS = 65536


def with_memory(source: Source, process: Process, nodes: Iterable[NumaNode]) -> tuple[Process | None, tuple[Gap, ...]]:
    """Return the process with its memory on each node and its threads counted by node; None when it has ended.

    What cannot be told is a gap. ``numa_maps`` is read once, or ``memory.numa_stat`` where the survey says so.
    """
    before = read_stat(source, process.pid)
    if before is None or before.start_ticks != process.start_ticks:
        return None, (_gap(process, "", f"/proc/{process.pid}", "ended while it was looked at"),)
    threads = _threads_by_node(source, process.pid, nodes)
    told, reason = _told(source, process)
    after = read_stat(source, process.pid)
    if after is None or after.start_ticks != before.start_ticks:
        return None, (_gap(process, "", f"/proc/{process.pid}", "ended while it was looked at"),)
    if told is not None and not _is_whole(source, before, after):
        told, reason = None, "it ran another program, or ended, while it was looked at"
    gaps = () if told or reason is None else (_gap(process, ".memory", _path(process), reason),)
    seen = told or NumaMaps()
    return msgspec.structs.replace(process, memory=seen.nodes, policies=seen.policies, threads_by_node=threads), gaps


def read_shared(source: Source, process: Process) -> tuple[ProcessMemory, ...]:
    """Return a process' memory on each node, ``()`` when it cannot be told or the PID is another process' now."""
    seen, _ = with_memory(source, process, ())
    return () if seen is None else seen.memory


def _told(source: Source, process: Process) -> tuple[NumaMaps | None, str | None]:
    """Return what there is, or the reason why there is nothing; both None where a gap says it already."""
    try:
        if process.memory_source == "numa_maps":
            lines = source.read_lines(_path(process))
            return (None, "cannot be opened") if lines is None else (parse_numa_maps(lines, _path(process)), None)
        if process.memory_source == "memory.numa_stat":
            return NumaMaps(nodes=parse_numa_stat(source.read(_path(process)) or "", _path(process))), None
    except (ParseError, SourceError) as error:
        return None, str(error)
    return None, None


def _is_whole(source: Source, before: ProcessStat, after: ProcessStat) -> bool:
    """Tell whether one and the same program was looked at to the end: without memory, what came is a part of it."""
    return before.stack_start == after.stack_start and "\nVmRSS:" in (source.read(f"/proc/{after.pid}/status") or "")


def _path(process: Process) -> str:
    if process.memory_source == "memory.numa_stat":
        return f"{MOUNT}{process.cgroup}".rstrip("/") + "/memory.numa_stat"
    return f"/proc/{process.pid}/numa_maps"


def _threads_by_node(source: Source, pid: int, nodes: Iterable[NumaNode]) -> dict[str, int]:
    """Count threads by the node of the CPU that each ran on last; a thread that ended meanwhile is left out."""
    homes = {cpu: node.id for node in nodes for cpu in ids(node.cpus) or ()}
    counts: Counter[int] = Counter()
    folder = f"/proc/{pid}/task"
    for name in source.listdir(folder)[:MAX_THREADS] if homes else ():
        try:
            home = homes.get(parse_stat(source.read(f"{folder}/{name}/stat") or "").last_cpu)
        except ParseError:
            continue
        if home is not None:
            counts[home] += 1
    return {str(node): counts[node] for node in sorted(counts)}


def _gap(process: Process, fact: str, source: str, reason: str) -> Gap:
    return Gap(fact=f"processes[{process.pid}]{fact}", source=source, reason=reason)
