"""Whether a process and its memory are near the GPUs that it uses: what ``ps`` prints and HD105 judges."""

from collections.abc import Iterable, Mapping
from typing import Literal

from hostdoctor.diagnosis.needs import node_known, one_cpu_node
from hostdoctor.diagnosis.nodes import distances_to, lacks, usable_nodes
from hostdoctor.diagnosis.subjects import cpuset, near_nodes, nodes_by_id
from hostdoctor.facts import SCHEMA_VERSION, Fact, Gap, Gpu, Host, NumaNode, Process, ProcessMemory
from hostdoctor.facts.processes import is_monitor
from hostdoctor.parsers.cpulist import format_cpulist

FAR_SHARE = 0.2
MIN_BYTES = 64 << 20  # less than this moves too little to matter

Verdict = Literal["ok", "memory-far", "cpus-far", "spans-nodes", "not-judged", "unknown"]
WARNINGS = ("memory-far", "cpus-far")

RESTART = (
    "Restart it bound to its GPUs' node ({how}): memory stays on the node where it was first touched, and pinned memory"
    " cannot be moved at all."
)
MIGRATE = (
    " Without a restart `migratepages {pid} {far} {near}` moves pages that are not pinned (shared ones only as root);"
    " the process waits while they are copied, and what it allocates later goes where its policy says."
)


class Placement(Fact, frozen=True, kw_only=True):
    """A process against the nodes that it should be on. Shares are 0 to 1, None when not known.

    ``nodes`` are the home nodes of its GPUs, or those that were named. ``local_share`` is of all its memory,
    ``shared_local_share`` of pinned and other shared memory. ``reasons`` say why the verdict is what it is.
    """

    process: Process
    nodes: tuple[int, ...] = ()
    verdict: Verdict = "unknown"
    reasons: tuple[str, ...] = ()
    local_share: float | None = None
    shared_local_share: float | None = None
    remedy: str | None = None


class ProcessReport(Fact, frozen=True, kw_only=True):
    """What ``hostdoctor ps --format json`` prints."""

    schema_version: str = SCHEMA_VERSION
    processes: tuple[Placement, ...] = ()
    gaps: tuple[Gap, ...] = ()


def gpus_of(host: Host, process: Process) -> tuple[Gpu, ...]:
    """Return the GPUs that a process uses."""
    return tuple(gpu for gpu in host.gpus if gpu.index is not None and gpu.index in process.gpus)


def nodes_of(host: Host, process: Process) -> tuple[int, ...]:
    """Return the nodes that are home to a process' GPUs; ``()`` while that of one is not known."""
    homes = [home_nodes(host, gpu) for gpu in gpus_of(host, process)]
    if not all(homes) or len(homes) < len(process.gpus):
        return ()
    return tuple(sorted({node for nodes in homes for node in nodes}))


def home_nodes(host: Host, gpu: Gpu) -> tuple[int, ...]:
    """Return the near nodes of a GPU that a process can live on, else the nearest such nodes; ``()`` when not known.

    A list of all nodes says only that nobody knows. A node without CPUs or without memory is nobody's home.
    """
    if gpu.numa_nodes and not node_known(host, gpu):
        return ()
    records = nodes_by_id(host)
    near = [records.get(node, NumaNode(id=node)) for node in near_nodes(gpu)]
    whole = tuple(node.id for node in near if not lacks(node))
    return whole if whole or not near else _nearest(host, near[0])


def _nearest(host: Host, lacking: NumaNode) -> tuple[int, ...]:
    told = distances_to(lacking, usable_nodes(host))
    if len(told) < 2:
        return tuple(told)
    least = next(iter(told.values()))
    return () if None in told.values() else tuple(node for node, distance in told.items() if distance == least)


def _spans(host: Host, process: Process) -> bool:
    """Tell whether a process' GPUs have different homes; one GPU near two nodes has both."""
    return len({home_nodes(host, gpu) for gpu in gpus_of(host, process)}) > 1


def local_nodes(host: Host, process: Process, nodes: Iterable[int]) -> frozenset[int]:
    """Return the nodes whose memory is near: the CPU nodes given, and those that its GPUs' own memory forms."""
    own = {gpu.memory_numa_node for gpu in gpus_of(host, process) if gpu.memory_numa_node is not None}
    return frozenset(nodes) | own


def share(sizes: Mapping[int, int], local: frozenset[int]) -> float | None:
    """Return which part of the bytes by node is on these nodes; None of nothing."""
    total = sum(sizes.values())
    return sum(size for node, size in sizes.items() if node in local) / total if total else None


def is_far(sizes: Mapping[int, int], local: frozenset[int]) -> bool:
    """Tell whether more than a fifth of the bytes by node, and of no small amount, is on other nodes."""
    near = share(sizes, local)
    return near is not None and sum(sizes.values()) >= MIN_BYTES and 1 - near > FAR_SHARE


def place(host: Host, process: Process, named: tuple[int, ...] = (), why: str | None = None) -> Placement:
    """Return the verdict on a process whose memory was looked at; ``named`` are nodes given instead of its GPUs'.

    ``why`` is the reason where its memory could not be told.
    """
    nodes = named or nodes_of(host, process)
    local = local_nodes(host, process, nodes)
    known = Placement(process=process, nodes=nodes)
    if nodes and process.memory:
        known = Placement(
            process=process,
            nodes=nodes,
            local_share=share(_sizes(process.memory, "anon", "shared", "file"), local),
            shared_local_share=share(_sizes(process.memory, "shared"), local),
        )
    verdict, reasons = _verdict(host, known, local, why)
    remedy = _remedy(known, local) if verdict in WARNINGS else None
    return Placement(
        process=process,
        nodes=nodes,
        verdict=verdict,
        reasons=reasons,
        local_share=known.local_share,
        shared_local_share=known.shared_local_share,
        remedy=remedy,
    )


def _verdict(host: Host, known: Placement, local: frozenset[int], why: str | None) -> tuple[Verdict, tuple[str, ...]]:
    process = known.process
    settled = _not_to_judge(host, known, spans=len(known.nodes) > 1 and _spans(host, process))
    if settled is not None:
        return settled
    far = _far_memory(process.memory, local)
    cpus = _far_cpus(host, process, known.nodes)
    if far:
        return "memory-far", far + cpus
    if cpus:
        return "cpus-far", cpus + ((why,) if why else ())
    if not process.memory:
        return "unknown", (why or "where its memory is could not be told",)
    return "ok", ()


def _not_to_judge(host: Host, known: Placement, *, spans: bool) -> tuple[Verdict, tuple[str, ...]] | None:
    """Return the verdict on what has no one right place, or whose right place is not known."""
    process = known.process
    if one_cpu_node(host):
        return "ok", ("this host has one CPU node",)
    if is_monitor(process):
        return "not-judged", ("it only watches GPUs",)
    if not known.nodes and not process.gpus:
        return "unknown", ("it uses no GPU that the driver lists: name its GPUs (--gpus) or node (--node)",)
    if not known.nodes:
        return "unknown", ("the NUMA node of its GPUs is not known",)
    if spans:
        listed = format_cpulist(known.nodes)
        return "spans-nodes", (f"its GPUs are on nodes {listed}: each rank's memory belongs on its own GPU's node",)
    return None


def _far_memory(memory: tuple[ProcessMemory, ...], local: frozenset[int]) -> tuple[str, ...]:
    shared, private = _sizes(memory, "shared"), _sizes(memory, "anon", "shared")
    if is_far(shared, local):
        return (f"{1 - (share(shared, local) or 0):.0%} of its pinned and shared memory is on other nodes",)
    if is_far(private, local):
        return (f"{1 - (share(private, local) or 0):.0%} of its memory is on other nodes",)
    return ()


def _far_cpus(host: Host, process: Process, nodes: tuple[int, ...]) -> tuple[str, ...]:
    """Say that a process may run on no CPU of these nodes; one that may run anywhere is no finding."""
    allowed = cpuset(process.cpus)
    records = nodes_by_id(host)
    near = frozenset().union(*(cpuset(records[node].cpus) or () for node in nodes if node in records))
    if not allowed or not near or allowed & near:
        return ()
    return (f"it may run on CPUs {process.cpus} only, none of them on node {format_cpulist(nodes)}",)


def _sizes(memory: tuple[ProcessMemory, ...], *kinds: str) -> dict[int, int]:
    return {told.node: sum(getattr(told, f"{kind}_bytes") for kind in kinds) for told in memory}


def far_nodes(sizes: Mapping[int, int], local: frozenset[int]) -> tuple[int, ...]:
    """Return the other nodes that hold any of the bytes."""
    return tuple(sorted(node for node, size in sizes.items() if size and node not in local))


def remedy_text(process: Process, near: tuple[int, ...], far: tuple[int, ...]) -> str:
    """Return how to bring a process and its memory to its nodes, and what each way cannot do."""
    home = format_cpulist(near)
    how = f"`hostdoctor run --gpus {','.join(map(str, process.gpus))} -- …`, or " if process.gpus else ""
    text = RESTART.format(how=f"{how}`numactl --cpunodebind={home} --membind={home} …`")
    return text + (MIGRATE.format(pid=process.pid, far=format_cpulist(far), near=home) if far else "")


def _remedy(known: Placement, local: frozenset[int]) -> str:
    far = far_nodes(_sizes(known.process.memory, "anon", "shared"), local)
    return remedy_text(known.process, known.nodes, far)
