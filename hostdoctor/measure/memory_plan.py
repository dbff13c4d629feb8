"""Which CPU nodes are measured against which memory nodes, over how much memory, and why others are not."""

from collections.abc import Iterable, Mapping, Sequence

from hostdoctor.budget.limits import group_limits, tightest
from hostdoctor.errors import MeasureError
from hostdoctor.facts import Fact, Host, NumaNode
from hostdoctor.measure.chase import STRIDE_BYTES
from hostdoctor.parsers.cpulist import parse_cpulist
from hostdoctor.sources.base import Source

MIB = 1 << 20
LINE_BYTES = 64
CACHES = 4  # the lines touched are to be this many times the last cache
LEAST_WANTED_BYTES = 1 << 30
LEAST_BYTES = 4 * MIB
MOST_SHUFFLED_LINES = 4 << 20  # without numpy: some seconds
MOST_THREADS = 64


class Pair(Fact, frozen=True, kw_only=True):
    """CPUs of a node (one a core) against memory of a node; ``skipped`` says why it cannot be measured."""

    cpu_node: int
    memory_node: int
    distance: int | None = None
    cpus: tuple[int, ...] = ()
    skipped: str | None = None


class MemoryPlan(Fact, frozen=True, kw_only=True):
    """The pairs, row by row, and the size of each node's buffer; ``notes`` says what limits it."""

    pairs: tuple[Pair, ...]
    size_bytes: int
    wanted_bytes: int
    l3_bytes: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def measured(self) -> tuple[Pair, ...]:
        """The pairs that can be measured."""
        return tuple(pair for pair in self.pairs if pair.skipped is None)

    @property
    def memory_nodes(self) -> tuple[int, ...]:
        """The nodes whose memory is measured."""
        return tuple(sorted({pair.memory_node for pair in self.measured}))

    @property
    def cpu_nodes(self) -> tuple[int, ...]:
        """The nodes whose CPUs measure."""
        return tuple(sorted({pair.cpu_node for pair in self.measured}))


class Limits(Fact, frozen=True, kw_only=True):
    """What the machine allows: the last cache, memory that the control group still has, lines that can be shuffled."""

    l3_bytes: int | None = None
    cgroup_bytes: int | None = None
    most_lines: int | None = None


def plan_memory(host: Host, limits: Limits, *, size_bytes: int | None = None, threads: int | None = None) -> MemoryPlan:
    """Return what to measure on a host; ``size_bytes`` is what the caller asks for a node, None: what is sensible.

    Raises MeasureError, with the reason, when no pair is left.
    """
    wanted = size_bytes or max(LEAST_WANTED_BYTES, CACHES * STRIDE_BYTES // LINE_BYTES * (limits.l3_bytes or 0))
    rooms = {node.id: (node.free_bytes or 0) // 2 for node in host.numa_nodes}
    cpus = {node.id: cpus_of(host, node, threads) for node in host.numa_nodes if node.cpus}
    reasons = {node.id: _why_not(host, node, rooms, wanted, size_bytes) for node in _with_memory(host)}
    pairs = [
        _pair(host, cpu_node, memory_node, cpus[cpu_node], reasons[memory_node])
        for cpu_node in cpus
        for memory_node in reasons
    ]
    used = sorted({pair.memory_node for pair in pairs if pair.skipped is None})
    if not used:
        raise MeasureError(_nothing_left(pairs))
    size, notes = _size(wanted, {node: rooms[node] for node in used}, limits)
    if size < LEAST_BYTES:
        raise MeasureError(f"no room to measure in: {notes[-1] if notes else 'ask for at least 4 MiB'}")
    notes += _about_nodes(cpus, pairs) + _about_l3(limits, size)
    return MemoryPlan(
        pairs=tuple(pairs), size_bytes=size, wanted_bytes=wanted, l3_bytes=limits.l3_bytes, notes=tuple(notes)
    )


def cpus_of(host: Host, node: NumaNode, most: int | None = None) -> tuple[int, ...]:
    """Return the CPUs of a node that the caller may use, one a core, at most so many."""
    allowed = parse_cpulist(node.cpus or "")
    if host.allowed.cpus is not None:
        allowed &= parse_cpulist(host.allowed.cpus)
    seconds: set[int] = set()
    for core in host.cores:
        seconds.update(sorted(parse_cpulist(core.cpus) & allowed)[1:])
    return tuple(sorted(allowed - seconds))[: most or MOST_THREADS]


def read_limits(source: Source, host: Host, *, fast_shuffle: bool) -> Limits:
    """Return what this machine allows."""
    return Limits(
        l3_bytes=_l3_bytes(source),
        cgroup_bytes=group_room_bytes(host),
        most_lines=None if fast_shuffle else MOST_SHUFFLED_LINES,
    )


def group_room_bytes(host: Host) -> int | None:
    """Return how much more memory the caller's control groups let it take, None where they do not limit or tell it."""
    limit = tightest(group_limits(host.memory_groups))
    return None if limit is None else limit.bytes


def _with_memory(host: Host) -> Iterable[NumaNode]:
    return (node for node in host.numa_nodes if node.memory_bytes and node.kind not in ("cpu-only", "empty"))


def _why_not(host: Host, node: NumaNode, rooms: Mapping[int, int], wanted: int, size_bytes: int | None) -> str | None:
    """Return why a node's memory cannot be measured: the cpuset, what it is, or no room where others have some."""
    if node.kind == "gpu-memory":
        return f"node {node.id} is a GPU's memory"
    if host.allowed.mems is not None and node.id not in parse_cpulist(host.allowed.mems):
        return f"node {node.id} is outside this process's cpuset (Mems_allowed_list {host.allowed.mems})"
    if node.free_bytes is None:
        return f"how much of node {node.id} is free is not known"
    room = rooms[node.id]
    others = max((rooms[other.id] for other in _with_memory(host)), default=0)
    small = size_bytes is not None or room < min(wanted, others) // 4
    if room < LEAST_BYTES or (small and room < wanted):
        return f"node {node.id} has {2 * room // MIB} MiB free, of which half may be used: not {wanted // MIB} MiB"
    return None


def _pair(host: Host, cpu_node: int, memory_node: int, cpus: tuple[int, ...], skipped: str | None) -> Pair:
    if not cpus and skipped is None:
        skipped = f"no CPU of node {cpu_node} may be used (Cpus_allowed_list {host.allowed.cpus})"
    distances = next(node.distances for node in host.numa_nodes if node.id == cpu_node)
    distance = distances.get(str(memory_node))
    return Pair(cpu_node=cpu_node, memory_node=memory_node, distance=distance, cpus=cpus, skipped=skipped)


def _size(wanted: int, rooms: Mapping[int, int], limits: Limits) -> tuple[int, list[str]]:
    """Return the size of each node's buffer, whole MiB, and what made it smaller than wanted."""
    smallest = min(rooms, key=lambda node: rooms[node])
    bounds = [(rooms[smallest], f"half of node {smallest}'s free memory")]
    if limits.cgroup_bytes is not None:
        bounds.append((limits.cgroup_bytes // 2 // len(rooms), "half of what the control group still allows"))
    if limits.most_lines is not None:
        bounds.append((limits.most_lines * STRIDE_BYTES, "a chain that is shuffled without numpy"))
    least, why = min(bounds)
    if least >= wanted:
        return wanted, []
    size = max(0, least) // MIB * MIB
    return size, [f"{size // MIB} MiB a node where {wanted // MIB} MiB were wanted: {why}"]


def _about_nodes(cpus: Mapping[int, tuple[int, ...]], pairs: Sequence[Pair]) -> list[str]:
    measured = [pair for pair in pairs if pair.skipped is None]
    if len({pair.cpu_node for pair in measured}) > 1:
        return []
    what = "no second CPU node" if len(cpus) < 2 else "only one CPU node may be used"
    return [what if len(measured) > 1 else f"{what}: near only"]


def _about_l3(limits: Limits, size: int) -> list[str]:
    if not limits.l3_bytes:
        return ["the size of the last cache is not told: the buffer may be too small for it"]
    touched = size // STRIDE_BYTES * LINE_BYTES
    if touched >= CACHES * limits.l3_bytes:
        return []
    return [
        f"the lines touched are {touched // MIB} MiB a node, less than {CACHES} times the last cache"
        f" ({limits.l3_bytes // MIB} MiB): figures are partly or wholly the cache's, not the memory's"
    ]


def _nothing_left(pairs: Sequence[Pair]) -> str:
    if not pairs:
        return "no NUMA node with CPUs and none with memory is known on this host"
    return f"nothing can be measured: {pairs[0].skipped}"


def _l3_bytes(source: Source) -> int | None:
    text = (source.read("/sys/devices/system/cpu/cpu0/cache/index3/size") or "").strip()
    digits = text.removesuffix("K")
    return int(digits) * 1024 if digits.isdecimal() and len(digits) < 10 and digits != text else None
