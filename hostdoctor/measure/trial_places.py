"""Where a running workload is: threads by the CPU that each ran on last, memory by node, against what was intended."""

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from hostdoctor.errors import ParseError
from hostdoctor.facts import Host, Process, ProcessMemory
from hostdoctor.measure.trial_model import Arm, Intended, Place
from hostdoctor.parsers.cpulist import parse_cpulist
from hostdoctor.parsers.proc_pid import parse_stat
from hostdoctor.sources.base import Source
from hostdoctor.survey.process_memory import with_memory
from hostdoctor.survey.processes import PS_LIMIT_BYTES, gpu_users, read_processes, read_stat

INSIDE = 0.95
MAX_THREADS = 65536
_SHOWN = 3


class _Count(msgspec.Struct):
    """Amounts seen, and how much of them was where it should be."""

    inside: float = 0.0
    judged: float = 0.0

    def share(self) -> float | None:
        return self.inside / self.judged if self.judged else None


def read_place(source: Source, host: Host, pids: Iterable[int], arm: Arm, when: Literal["start", "end"]) -> Place:
    """Return where these processes are now. Each stands still meanwhile, 8 ms for each GiB of small pages."""
    users = _users(arm)
    processes, gaps = read_processes(source, {pid: users.get(pid, ()) for pid in pids}, PS_LIMIT_BYTES)
    homes = {cpu: str(node.id) for node in host.numa_nodes for cpu in parse_cpulist(node.cpus or "")}
    threads, memory = _Count(), _Count()
    by_node: dict[str, int] = {}
    bytes_by_node: dict[str, int] = {}
    outside, seen_threads = [], 0
    for process in processes:
        intended = _intended(arm, process)
        last = _last_cpus(source, process.pid)
        seen_threads += len(last)
        for cpu in last:
            by_node[homes.get(cpu, "?")] = by_node.get(homes.get(cpu, "?"), 0) + 1
        told, more = with_memory(source, process, ())
        gaps = (*gaps, *more) if read_stat(source, process.pid) is not None else gaps  # who has ended needs no place
        pages = () if told is None else told.memory
        for node in pages:
            bytes_by_node[str(node.node)] = bytes_by_node.get(str(node.node), 0) + _own(node)
        if intended is not None and (why := _judge(process, last, pages, intended, threads, memory)):
            outside.append(why)
    reasons = dict.fromkeys(gap.reason for gap in gaps if gap.fact.endswith(".memory"))
    if arm.gpus and processes and not threads.judged and not memory.judged:
        reasons["none of its processes was seen to use these GPUs"] = None
    return Place(
        when=when,
        processes=len(processes),
        threads=seen_threads,
        memory_bytes=dict(sorted(bytes_by_node.items())),
        threads_by_node=dict(sorted(by_node.items())),
        threads_inside=threads.share(),
        memory_inside=memory.share(),
        outside=tuple(outside[:_SHOWN]),
        reason="; ".join(reasons) or None,
    )


def misplaced(place: Place) -> str | None:
    """Return what is not where it should be, None where nothing is known to."""
    found = []
    for name, share in (("threads", place.threads_inside), ("memory", place.memory_inside)):
        if share is not None and share < INSIDE:
            found.append(f"{100 * share:.0f} % of its {name} as intended at the {place.when}")
    return "; ".join((*found, *place.outside)) if found else None


def _judge(
    process: Process,
    last: list[int],
    pages: tuple[ProcessMemory, ...],
    intended: Intended,
    threads: _Count,
    memory: _Count,
) -> str | None:
    """Add a process to the counts; return what of it is elsewhere."""
    found = []
    if intended.cpus is not None:
        cpus = parse_cpulist(intended.cpus)
        inside = sum(cpu in cpus for cpu in last)
        threads.inside += inside
        threads.judged += len(last)
        if inside < INSIDE * len(last):
            found.append(f"{len(last) - inside} of {len(last)} threads outside CPUs {intended.cpus}")
    if intended.mems:
        total = sum(map(_own, pages))
        inside_bytes = sum(_own(node) for node in pages if node.node in intended.mems)
        memory.inside += inside_bytes
        memory.judged += total
        if inside_bytes < INSIDE * total:
            elsewhere = (total - inside_bytes) >> 20
            found.append(f"{elsewhere} MiB outside node {','.join(map(str, intended.mems))}")
    return f"{process.name} ({process.pid}): {', '.join(found)}" if found else None


def _own(node: ProcessMemory) -> int:
    """Return the memory that a process asked for; page cache of files is wherever it was first read."""
    return node.anon_bytes + node.shared_bytes


def _intended(arm: Arm, process: Process) -> Intended | None:
    """Return where a process should be; None where nothing was intended for it."""
    if arm.gpus:
        return next((arm.gpus[str(index)] for index in process.gpus if str(index) in arm.gpus), None)
    return arm.intended if arm.intended.cpus is not None or arm.intended.mems else None


def _users(arm: Arm) -> Mapping[int, tuple[int, ...]]:
    """Return who uses a GPU now, where that decides where a process should be."""
    if not arm.gpus:
        return {}
    from hostdoctor.sources.live import LiveSource

    return gpu_users(LiveSource(30.0))[0]  # the survey's answer is older than the workload


def _last_cpus(source: Source, pid: int) -> list[int]:
    """Return the CPU that each thread ran on last; a thread that ended meanwhile is left out."""
    threads = source.listdir(f"/proc/{pid}/task")[:MAX_THREADS]
    told = (_last_cpu(source.read(f"/proc/{pid}/task/{name}/stat") or "") for name in threads)
    return [cpu for cpu in told if cpu is not None]


def _last_cpu(stat: str) -> int | None:
    try:
        return parse_stat(stat).last_cpu
    except ParseError:
        return None
