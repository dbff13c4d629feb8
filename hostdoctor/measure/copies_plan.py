"""Which nodes to copy from, and why not: everything that is decided before anything is started."""

from collections.abc import Iterator
from typing import Any

import msgspec

from hostdoctor.diagnosis import needs
from hostdoctor.diagnosis.api import gpu_label
from hostdoctor.diagnosis.cores import core_threads
from hostdoctor.diagnosis.subjects import cpuset, near_nodes, nodes_by_id
from hostdoctor.errors import MeasureError, SourceError, UnknownNodeError, UsageError
from hostdoctor.facts import Fact, Gpu, Host, NumaNode
from hostdoctor.measure.copies_model import Cell, Load, Loop, MeasuredGpu, Setting, Settings
from hostdoctor.measure.memory_plan import group_room_bytes
from hostdoctor.measure.paired import pairs_needed
from hostdoctor.parsers.bdf import canonical_bdf
from hostdoctor.parsers.cpulist import format_cpulist

MIB = 1 << 20
MAX_BUFFER_BYTES = 256 * MIB
PAIRS = 12  # unless more are needed
LOAD_THREADS = 4  # for each node
CONTENDING_PARTS = 2 + 2 * LOAD_THREADS  # for each node: a second stream's, and two for each thread
FREE_PARTS = 16  # of what a node has free, a buffer takes one at most: two processes have two there each
NEAR_ONLY = "--near-only measures the near node alone"
ASSUME = "--assume-node N says where it is"
LATENCIES: tuple[Loop, ...] = ("closed", "open")


class Plan(Fact, frozen=True, kw_only=True):
    """What will be measured: ``cpus`` are those that may be used on each node, ``cpu`` is the copying thread's.

    ``shared`` are the hardware threads of the copying threads' cores.
    """

    gpu: MeasuredGpu
    settings: Settings
    cells: tuple[Cell, ...]
    cpus: dict[int, frozenset[int]]
    cpu: dict[int, int]
    path: tuple[str, ...]
    shared: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()


class Nodes(Fact, frozen=True, kw_only=True):
    """The two ends: the near node, and the far one unless only the near one is measured."""

    near: int
    far: int | None
    assumed: bool = False


def plan_copies(host: Host, position: int, settings: Settings, assume_node: int | None = None) -> Plan:
    """Return the plan for one GPU (its position in ``host.gpus``); ``buffer_bytes`` and ``pairs`` of 0 are chosen here.

    Raises SourceError off the running host, UnknownNodeError where the GPU's node is not known, UsageError for an
    assumed node that cannot be one, MeasureError where this process may not measure here.
    """
    refuse_elsewhere(host)
    gpu = host.gpus[position]
    if gpu.bdf is None:
        raise MeasureError(f"{gpu_label(host, gpu)}: its PCI address is not known, so that CUDA cannot be asked for it")
    near = _near(host, gpu, assume_node)
    nodes = Nodes(near=near, far=None if settings.near_only else _far(host, near), assumed=assume_node is not None)
    cpus = {node: _cpus(host, node) for node in _ids(nodes)}
    buffer_bytes, notes = _buffer(host, nodes, settings)
    settings = msgspec.structs.replace(settings, buffer_bytes=buffer_bytes)
    pairs, told = _pairs(settings)
    cpu = {node: sorted(ids)[len(ids) // 2] for node, ids in cpus.items()}
    return Plan(
        gpu=_gpu(host, gpu, nodes),
        settings=msgspec.structs.replace(settings, pairs=pairs),
        cells=tuple(_cells(nodes)),
        cpus=cpus,
        cpu=cpu,
        path=(*gpu.upstream, gpu.bdf),
        shared=frozenset[int]().union(*(threads for threads in core_threads(host) if threads & {*cpu.values()})),
        notes=(*notes, *told),
    )


def load_cpus(plan: Plan, node: int) -> tuple[int, ...]:
    """Return the CPUs of a node that copy memory meanwhile where copies are contended; empty where it has one alone.

    Those of the copying thread's core come last: they would slow it down by more than memory.
    """
    spare = plan.cpus[node] - {plan.cpu[node]}
    return tuple(sorted(spare, key=lambda cpu: (cpu in plan.shared, cpu))[:LOAD_THREADS])


def second_stream_cpus(plan: Plan, node: int) -> frozenset[int]:
    """Return the CPUs for a second stream's thread: it is always busy, so not on the copying thread's if it can be.

    Nor on another of its core, nor on those of the memory loads, where there are more.
    """
    spare = plan.cpus[node] - {plan.cpu[node]}
    rest = spare.difference(load_cpus(plan, node))
    return rest - plan.shared or spare - plan.shared or rest or spare or plan.cpus[node]


def refuse_elsewhere(host: Host) -> None:
    """Raise SourceError for any host but the running one."""
    if not host.is_live:
        raise SourceError("measure copy: only the running host can be measured, not a capture or a text")


def refuse_shared(label: str, processes: dict[int, str], *, force: bool) -> str | None:
    """Raise MeasureError where others use the GPU, unless ``force`` is given; then return the note to keep."""
    if not processes:
        return None
    named = ", ".join(f"{pid} ({name})" if name else str(pid) for pid, name in sorted(processes.items())[:5])
    more = f" and {len(processes) - 5} more" if len(processes) > 5 else ""
    if not force:
        raise MeasureError(
            f"{label} is in use by process {named}{more}: its copies and these would disturb each other; --force"
            " measures all the same"
        )
    return f"{label} was in use by process {named}{more}"


def users_of(document: dict[str, Any] | None, bdf: str | None) -> tuple[int, ...] | None:
    """Return the PIDs of the processes that the driver says are on a GPU, None when it does not tell."""
    for gpu in (document or {}).get("gpus", ()):
        if bdf is not None and canonical_bdf(str(gpu.get("bdf"))) == bdf and isinstance(gpu.get("processes"), list):
            return tuple(pid for pid in gpu["processes"] if isinstance(pid, int))
    return None


def settings_of(settings: Settings) -> tuple[Setting, ...]:
    """Return the settings of one load after another, large copies first in each, as they keep the link busy."""
    loads: tuple[Load, ...] = ("idle", "contended") if settings.contend else ("idle",)
    return tuple(setting for load in loads for setting in _of_load(load, settings))


def _of_load(load: Load, settings: Settings) -> Iterator[Setting]:
    sizes: list[tuple[Loop, int]] = [("bandwidth", settings.buffer_bytes)]
    sizes += [(loop, size) for size in settings.sizes_bytes for loop in LATENCIES]
    for loop, size in sizes:
        for memory in settings.memories:
            for direction in settings.directions:
                if loop in settings.loops:
                    yield Setting(load=load, memory=memory, direction=direction, size_bytes=size, loop=loop)


def _near(host: Host, gpu: Gpu, assumed: int | None) -> int:
    label = gpu_label(host, gpu)
    known = near_nodes(gpu) if needs.node_known(host, gpu) else ()
    if assumed is not None:
        _check_assumed(host, label, known, assumed)
        return assumed
    if not known:
        raise UnknownNodeError(f"{label}: its NUMA node is not known; {ASSUME}")
    usable = [node for node in known if _is_usable(nodes_by_id(host).get(node))]
    if not usable:
        raise MeasureError(f"{label}: its node {known[0]} has no CPUs or no memory: nothing can be near")
    return usable[0]


def _check_assumed(host: Host, label: str, known: tuple[int, ...], node: int) -> None:
    if not _is_usable(nodes_by_id(host).get(node)):
        usable = ", ".join(str(n.id) for n in host.numa_nodes if _is_usable(n)) or "none"
        raise UsageError(f"--assume-node {node}: no such node with CPUs and memory (known: {usable})")
    if known and node not in known:
        raise UsageError(f"--assume-node {node}: {label} is known to be near node {known[0]}")


def _far(host: Host, near: int) -> int:
    """Return the farthest node with CPUs and memory, on another package where there is one."""
    nodes = nodes_by_id(host)
    others = [node for node in host.numa_nodes if node.id != near and _is_usable(node)]
    if not others:
        raise MeasureError(f"node {near} is the only node with CPUs and memory: nothing is far; {NEAR_ONLY}")
    here = nodes.get(near)

    def farness(node: NumaNode) -> tuple[bool, int, int]:
        return (
            here is not None and node.package != here.package,
            (here.distances.get(str(node.id), 0) if here else 0),
            -node.id,
        )

    return max(others, key=farness).id


def _is_usable(node: NumaNode | None) -> bool:
    return node is not None and bool(node.cpus) and bool(node.memory_bytes)


def _cpus(host: Host, node: int) -> frozenset[int]:
    """Return the CPUs of a node that this process may use; raise MeasureError where its CPUs or memory are not its."""
    own = cpuset(nodes_by_id(host)[node].cpus) or frozenset()
    allowed, mems = cpuset(host.allowed.cpus), cpuset(host.allowed.mems)
    if mems is not None and node not in mems:
        raise MeasureError(_outside(node, "memory is", "Mems_allowed_list", host.allowed.mems))
    usable = own if allowed is None else own & allowed
    if not usable:
        raise MeasureError(_outside(node, "CPUs are", "Cpus_allowed_list", host.allowed.cpus))
    return usable


def _outside(node: int, what: str, name: str, value: str | None) -> str:
    return f"node {node}: its {what} not in this process's cpuset ({name} {value}); {NEAR_ONLY}"


def _buffer(host: Host, nodes: Nodes, settings: Settings) -> tuple[int, tuple[str, ...]]:
    """Return the size of each buffer, a multiple of 2 MiB, and what is to be said of it."""
    largest = max(settings.sizes_bytes)
    allowed = group_room_bytes(host)
    # What cannot be had in all would end in an out-of-memory kill: a control group counts every process.
    most = None if allowed is None else allowed // 2 // _parts(nodes, settings)
    wanted = max(settings.buffer_bytes, largest)
    if most is not None and most < wanted:
        raise MeasureError(
            f"no room for buffers of {wanted / MIB:g} MiB: the control group still allows {(allowed or 0) // MIB} MiB,"
            f" of which half may be used for {_parts(nodes, settings)} of them"
        )
    if settings.buffer_bytes:
        return wanted, ()
    free = [node.free_bytes for node in host.numa_nodes if node.id in _ids(nodes) and node.free_bytes]
    room = min(free, default=MAX_BUFFER_BYTES * FREE_PARTS) // FREE_PARTS
    room = room if most is None else min(room, most)
    chosen = max(min(MAX_BUFFER_BYTES, room // (2 * MIB) * 2 * MIB), largest)
    if chosen >= MAX_BUFFER_BYTES:
        return chosen, ()
    where = "a node has little free" if most is None or room < most else "the control group allows few"
    return chosen, (f"buffers of {chosen // MIB} MiB, as {where}: caches may hold part of them",)


def _parts(nodes: Nodes, settings: Settings) -> int:
    """Return how many buffers there are at a time, with those of contending copies and memory loads."""
    ends = len(_ids(nodes))
    return ends * ends * len(settings.memories) + (ends * CONTENDING_PARTS if settings.contend else 0)


def _cells(nodes: Nodes) -> Iterator[Cell]:
    near, far = nodes.near, nodes.far
    yield Cell(role="near", cpu_node=near, memory_node=near)
    if far is not None:
        yield Cell(role="far", cpu_node=far, memory_node=far)
        yield Cell(role="far-memory", cpu_node=near, memory_node=far)
        yield Cell(role="far-cpu", cpu_node=far, memory_node=near)
    yield Cell(role="near-again", cpu_node=near, memory_node=near)


def _gpu(host: Host, gpu: Gpu, nodes: Nodes) -> MeasuredGpu:
    here = nodes_by_id(host).get(nodes.near)
    return MeasuredGpu(
        index=gpu.index,
        bdf=gpu.bdf or "",
        uuid=gpu.uuid,
        name=gpu.name,
        near_node=nodes.near,
        far_node=nodes.far,
        distance=here.distances.get(str(nodes.far)) if here else None,
        assumed_node=nodes.assumed,
    )


def _pairs(settings: Settings) -> tuple[int, tuple[str, ...]]:
    """Return how often to visit each cell, and what is to be said where that is too seldom for a verdict."""
    large = [setting.loop == "bandwidth" for setting in settings_of(settings)]
    compared = max(large.count(True), large.count(False))  # in one way: by quantiles, or by mean times
    needed = pairs_needed(compared)
    if not settings.pairs:
        return max(PAIRS, needed), ()
    if settings.pairs >= needed:
        return settings.pairs, ()
    return settings.pairs, (f"{settings.pairs} pairs are too few for verdicts on {compared} settings: {needed}",)


def _ids(nodes: Nodes) -> tuple[int, ...]:
    return (nodes.near,) if nodes.far is None else (nodes.near, nodes.far)


def cpulist_of(ids: frozenset[int]) -> str:
    """Return CPUs as the kernel prints them."""
    return format_cpulist(ids)
