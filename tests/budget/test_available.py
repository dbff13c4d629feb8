"""What a node has left: the kernel's rule, and what of that can be pinned."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.budget.available import node_available
from hostdoctor.facts import MemoryZone, NodeMemory, NumaNode

MIB = 1 << 20


def zone(name: str = "Normal", managed: int = 1000, free: int = 500, **more: Any) -> MemoryZone:
    """Return a zone in MiB; watermarks 4, 5 and 6."""
    given = {"min": 4, "low": 5, "high": 6, "reserve": 0, "cma_free": 0, "file": 0} | more
    sizes = {f"{key}_bytes": None if value is None else value * MIB for key, value in given.items()}
    return MemoryZone(name=name, managed_bytes=managed * MIB, free_bytes=free * MIB, **sizes)  # type: ignore[arg-type]


def node(*zones: MemoryZone, active: int = 100, inactive: int = 200, slab: int = 40, **more: Any) -> NumaNode:
    memory = NodeMemory(
        active_file_bytes=active * MIB,
        inactive_file_bytes=inactive * MIB,
        kreclaimable_bytes=slab * MIB,
        zones=zones,
    )
    return NumaNode(id=0, memory_bytes=sum(z.managed_bytes for z in zones), memory=memory, **more)


def mib(size: int | None) -> float | None:
    return None if size is None else size / MIB


def test_free_less_the_reserve_plus_what_can_be_given_back() -> None:
    told = node_available(node(zone()))
    # 500 - 6 + (300 - 5) + (40 - 5): the low mark of cache and slab stays in use
    assert mib(told.available_bytes) == 500 - 6 + 295 + 35
    assert told.pinnable_bytes == told.available_bytes
    assert mib(told.untouchable_bytes) == 6


def test_of_a_small_cache_half_stays() -> None:
    assert mib(node_available(node(zone(), active=4, inactive=4, slab=2)).available_bytes) == 500 - 6 + 4 + 1


def test_what_lower_zones_keep_back_counts_and_never_more_than_they_have() -> None:
    dma = zone("DMA", managed=15, free=15, reserve=78)
    assert mib(node_available(node(dma, zone())).available_bytes) == 500 - 6 + (300 - 10) + (40 - 10)


def test_movable_memory_is_available_and_not_pinnable() -> None:
    told = node_available(node(zone(file=50), zone("Movable", free=700, file=250)))
    assert mib(told.available_bytes) == 1200 - 12 + 290 + 30
    assert mib(told.pinnable_bytes) == 500 - 6 + 45 + 35


def test_cache_of_unknown_zones_is_not_pinnable_beside_movable_ones() -> None:
    told = node_available(node(zone(file=None), zone("Movable", free=700)))
    assert mib(told.pinnable_bytes) == 500 - 6 + 35


def test_free_pages_of_cma_areas_are_not_pinnable() -> None:
    told = node_available(node(zone(cma_free=64)))
    assert told.available_bytes is not None
    assert told.pinnable_bytes == told.available_bytes - 64 * MIB


def test_a_full_node_has_nothing_not_less() -> None:
    told = node_available(node(zone(free=1), active=0, inactive=0, slab=0))
    assert (told.available_bytes, told.pinnable_bytes) == (0, 0)


def test_a_node_without_memory_has_none() -> None:
    assert node_available(NumaNode(id=3, memory_bytes=0)).available_bytes == 0


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (NumaNode(id=2, memory_bytes=MIB), "how node 2's memory is used is not known"),
        (NumaNode(id=2, memory=NodeMemory(free_bytes=9)), "the zones of node 2 or the page size are not known"),
        (NumaNode(id=2, memory=NodeMemory(zones=(zone(),), kreclaimable_bytes=1)), "page cache"),
        (NumaNode(id=2, memory=NodeMemory(zones=(zone(),), active_file_bytes=1, inactive_file_bytes=1)), "slab"),
    ],
)
def test_what_is_not_known_is_no_number(told: NumaNode, reason: str) -> None:
    available = node_available(told)
    assert available.reason is not None
    assert reason in available.reason
    assert (available.available_bytes, available.pinnable_bytes) == (None, None)


SIZES = st.integers(0, 4000)


@given(
    st.lists(st.tuples(st.sampled_from(["Normal", "Movable"]), SIZES, SIZES, SIZES), max_size=3), SIZES, SIZES, SIZES
)
def test_pinnable_is_never_more_than_available(
    zones: list[tuple[str, int, int, int]], active: int, inactive: int, slab: int
) -> None:
    made = [
        zone(name, managed=free + file, free=free, cma_free=min(cma, free), file=file)
        for name, free, cma, file in zones
    ]
    in_zones = sum(z.file_bytes or 0 for z in made) // MIB
    told = node_available(node(*made, active=in_zones, inactive=0, slab=slab))
    if told.available_bytes is not None:
        assert told.pinnable_bytes is not None
        assert 0 <= told.pinnable_bytes <= told.available_bytes
