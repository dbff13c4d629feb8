"""The budget: how much may be pinned on each node and in all, what bound it, and whether a plan fits.

    pinnable_j = (available_j − growth_j − cache floor_j − reserve_j) ÷ (1 + 24 / page size)

For each pinned page the driver's array, the page tables and the IOMMU's take 8 bytes each. What cannot be told is None
and makes the answer None; it is never taken for nothing or for enough.
"""

from collections.abc import Sequence

from hostdoctor.budget.available import Available, node_available
from hostdoctor.budget.growth import Growth
from hostdoctor.budget.limits import Limit, tightest
from hostdoctor.budget.ranks import Rank
from hostdoctor.budget.shares import split
from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact, Host, NumaNode
from hostdoctor.parsers.cpulist import parse_cpulist

GIB = 1 << 30
ENTRIES_BYTES = 24  # for each page: the driver's array, page table and IOMMU entry
MIN_RESERVE_BYTES = 2 * GIB
RESERVE_SHARE = 50  # 2 %


class Keep(Fact, frozen=True, kw_only=True):
    """What is not to be pinned: page cache (``cache_percent`` of each node, or more), a reserve for OS and bursts.

    ``cache_bytes`` are for the whole host and shared out by the nodes' sizes; ``reserve_bytes`` are for each node, None
    for the default of 2 GiB or 2 % of the node.
    """

    cache_percent: float = 5.0
    cache_bytes: int = 0
    reserve_bytes: int | None = None


class NodeBudget(Fact, frozen=True, kw_only=True):
    """One node. ``own_bytes`` is what it could pin by itself, ``pinnable_bytes`` what other limits leave of that."""

    id: int
    memory_bytes: int | None
    available_bytes: int | None
    own_bytes: int | None
    pinnable_bytes: int | None
    bound_by: str | None
    cache_bytes: int
    growth_bytes: int | None
    reserve_bytes: int
    weights_bytes: int | None
    kv_bytes: int | None
    reason: str | None = None


class Budget(Fact, frozen=True, kw_only=True):
    """The whole: nodes, what all of them may pin together (None while unknown), and the limit that bound it."""

    nodes: tuple[NodeBudget, ...]
    ranks: tuple[Rank, ...]
    limits: tuple[Limit, ...]
    pinnable_bytes: int | None
    bound_by: str | None
    reason: str | None = None


def make_budget(
    host: Host, ranks: tuple[Rank, ...], growth: Growth, keep: Keep, limits: tuple[Limit, ...] = ()
) -> Budget:
    """Return the budget of a host for these ranks; ``limits`` bind what all nodes pin together."""
    floors = _floors(host, keep)
    nodes = tuple(
        _node(host, node, ranks, growth, floor, keep) for node, floor in zip(host.numa_nodes, floors, strict=True)
    )
    bound = tightest(limits)
    unknown_limit = next((limit for limit in limits if limit.bytes is None), None)
    nodes = tuple(_capped(node, bound, unknown_limit) for node in nodes)
    total, by, reason = _total(nodes, bound, unknown_limit)
    return Budget(nodes=nodes, ranks=ranks, limits=limits, pinnable_bytes=total, bound_by=by, reason=reason)


def without_overhead(bytes_: int, page_size_bytes: int) -> int:
    """Return how much can be pinned when pages and what the kernel notes for them share so many bytes."""
    return max(0, bytes_) * page_size_bytes // (page_size_bytes + ENTRIES_BYTES)


def total_growth(ranks: Sequence[Rank], growth: Growth) -> int:
    """Return the growth of all processes together."""
    return len(ranks) * growth.rank_bytes + (growth.shared_bytes if ranks else 0)


def _floors(host: Host, keep: Keep) -> tuple[int, ...]:
    """Return each node's page-cache floor: its percentage, or its share of the bytes where that is more."""
    sizes = [node.memory_bytes or 0 for node in host.numa_nodes]
    shares = split(keep.cache_bytes, sizes)
    return tuple(max(share, int(size * keep.cache_percent / 100)) for share, size in zip(shares, sizes, strict=True))


def _node(host: Host, node: NumaNode, ranks: tuple[Rank, ...], growth: Growth, floor: int, keep: Keep) -> NodeBudget:
    here = [rank for rank in ranks if rank.node == node.id]
    lost = next((rank for rank in ranks if rank.node is None), None)
    grown = None if lost else len(here) * growth.rank_bytes + (growth.shared_bytes if here else 0)
    reserve = keep.reserve_bytes
    if reserve is None:
        reserve = max(MIN_RESERVE_BYTES, (node.memory_bytes or 0) // RESERVE_SHARE)
    left = node_available(node)
    own, by, reason = _own(host, node, left, None if grown is None else grown + floor + reserve)
    return NodeBudget(
        id=node.id,
        memory_bytes=node.memory_bytes,
        available_bytes=left.available_bytes,
        own_bytes=own,
        pinnable_bytes=own,
        bound_by=by,
        cache_bytes=floor,
        growth_bytes=grown,
        reserve_bytes=reserve,
        weights_bytes=None if lost else sum(rank.weights_bytes for rank in here),
        kv_bytes=None if lost else sum(rank.kv_bytes for rank in here),
        reason=reason or (lost.reason if lost else None),
    )


def _own(host: Host, node: NumaNode, left: Available, kept: int | None) -> tuple[int | None, str | None, str | None]:
    """Return what a node could pin by itself, what bound that, and why it is not known."""
    if node.kind == "gpu-memory":
        return 0, "the GPU's own memory", None
    if node.memory_bytes == 0:
        return 0, "no memory", None
    if not _allowed(host, node.id):
        return 0, "cpuset (Mems_allowed)", None
    page_size = host.system.page_size_bytes
    if left.pinnable_bytes is None or page_size is None:
        return None, None, left.reason or "the page size is not known"
    if kept is None:
        return None, None, None
    by = "movable memory" if left.pinnable_bytes < (left.available_bytes or 0) else "available memory"
    return without_overhead(left.pinnable_bytes - kept, page_size), by, None


def _allowed(host: Host, node: int) -> bool:
    """Tell whether the caller's cpuset lets it use a node's memory; it does where nothing is told."""
    try:
        mems = parse_cpulist(host.allowed.mems or "")
    except ParseError:
        return True
    return not mems or node in mems


def _capped(node: NodeBudget, bound: Limit | None, unknown: Limit | None) -> NodeBudget:
    """Return the node with what the limits on all nodes together leave of it."""
    if node.own_bytes in (None, 0):
        return node
    if unknown is not None:
        return _replaced(node, None, None, unknown.reason)
    if bound is None or bound.bytes is None or bound.bytes >= (node.own_bytes or 0):
        return node
    return _replaced(node, bound.bytes, bound.name, node.reason)


def _replaced(node: NodeBudget, pinnable: int | None, by: str | None, reason: str | None) -> NodeBudget:
    import msgspec

    return msgspec.structs.replace(node, pinnable_bytes=pinnable, bound_by=by, reason=reason)


def _total(
    nodes: tuple[NodeBudget, ...], bound: Limit | None, unknown: Limit | None
) -> tuple[int | None, str | None, str | None]:
    lost = next((node for node in nodes if node.own_bytes is None), None)
    if not nodes:
        return None, None, "NUMA nodes are not known"
    if lost is not None or unknown is not None:
        return None, None, (lost.reason if lost else None) or (unknown.reason if unknown else None)
    together = sum(node.own_bytes or 0 for node in nodes)
    if bound is not None and bound.bytes is not None and bound.bytes < together:
        return bound.bytes, bound.name, None
    return together, "nodes", None
