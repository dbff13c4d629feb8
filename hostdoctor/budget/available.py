"""What a node has left: the kernel's own MemAvailable rule (``si_mem_available``, mm/show_mem.c), for each node.

    available = free − Σ_zones min(managed, high + reserve) + (F − min(F/2, low)) + (K − min(K/2, low))

with F the page cache's lists (active and inactive file), K what the kernel can give back of its own (KReclaimable),
and ``low`` the sum of the zones' low watermarks. Half of F and K, or the low watermark, counts as in use.

Of the same memory less can be pinned for long: pages of ZONE_MOVABLE and of CMA areas serve movable data alone, and a
pinned page does not move. :attr:`Available.pinnable_bytes` leaves them out; the kernel's figure counts them.
"""

from collections.abc import Iterable

from hostdoctor.facts import Fact, MemoryZone, NodeMemory, NumaNode

UNPINNABLE_ZONES = frozenset(("Movable", "Device"))


class Available(Fact, frozen=True, kw_only=True):
    """What a node has left; both None, with the ``reason``, where it cannot be told.

    ``available_bytes`` can be allocated without swapping, movable memory included. ``pinnable_bytes`` of it can be
    pinned. ``untouchable_bytes`` is what the kernel keeps free for itself (watermarks and reserves).
    """

    available_bytes: int | None = None
    pinnable_bytes: int | None = None
    untouchable_bytes: int | None = None
    reason: str | None = None


def node_available(node: NumaNode) -> Available:
    """Return what a node has left, in bytes; a node known to have no memory has 0."""
    if node.memory_bytes == 0:
        return Available(available_bytes=0, pinnable_bytes=0, untouchable_bytes=0)
    memory = node.memory
    if memory is None:
        return Available(reason=f"how node {node.id}'s memory is used is not known")
    if not memory.zones:
        return Available(reason=f"the zones of node {node.id} or the page size are not known")
    file, reclaimable = _file(memory), memory.kreclaimable_bytes
    if file is None or reclaimable is None:
        return Available(reason=f"the page cache or reclaimable slab of node {node.id} is not known")
    kept = untouchable(memory.zones)
    fixed = [zone for zone in memory.zones if zone.name not in UNPINNABLE_ZONES]
    fixed_free = sum(zone.free_bytes - (zone.cma_free_bytes or 0) for zone in fixed)
    fixed_file = _pinnable_file(memory.zones, fixed, file)
    available = _rule(memory.zones, sum(zone.free_bytes for zone in memory.zones), file, reclaimable)
    pinnable = _rule(fixed, fixed_free, fixed_file, reclaimable) if fixed else 0
    return Available(
        available_bytes=available,
        pinnable_bytes=min(available, pinnable),  # a full movable zone is short of its own watermark
        untouchable_bytes=kept,
    )


def untouchable(zones: Iterable[MemoryZone]) -> int:
    """Return the bytes that the kernel keeps free in these zones (its totalreserve_pages)."""
    return sum(min(zone.managed_bytes, zone.high_bytes + zone.reserve_bytes) for zone in zones)


def _rule(zones: Iterable[MemoryZone], free: int, file: int, reclaimable: int) -> int:
    zones = tuple(zones)
    low = sum(zone.low_bytes for zone in zones)
    given_back = sum(part - min(part // 2, low) for part in (file, reclaimable))
    return max(0, free - untouchable(zones) + given_back)


def _file(memory: NodeMemory) -> int | None:
    if memory.active_file_bytes is None or memory.inactive_file_bytes is None:
        return None
    return memory.active_file_bytes + memory.inactive_file_bytes


def _pinnable_file(zones: Iterable[MemoryZone], fixed: list[MemoryZone], file: int) -> int:
    """Return the page cache outside movable zones; none of it where its zones are not told and some are movable."""
    if len(fixed) == len(tuple(zones)):
        return file
    told = [zone.file_bytes for zone in fixed]
    return min(file, sum(part for part in told if part is not None)) if None not in told else 0
