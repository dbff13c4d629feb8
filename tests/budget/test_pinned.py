"""The budget itself: never beyond any single limit, and what fits is told apart from what is not known."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.budget.available import node_available
from hostdoctor.budget.fit import judge, largest_kv, largest_weights
from hostdoctor.budget.growth import Growth
from hostdoctor.budget.limits import Limit, group_limits, sglang_limit, shm_limit, tightest, total_limits
from hostdoctor.budget.pinned import Budget, Keep, make_budget, without_overhead
from hostdoctor.budget.ranks import Wish, place_ranks
from hostdoctor.budget.shares import split
from hostdoctor.errors import UsageError
from hostdoctor.facts import Allowed, Gpu, Host, HostMemory, NodeMemory, NumaNode, System
from tests.checks.test_memory_plans import filled, gpu, group, shm
from tests.support.build_memory import GIB

NO_GROWTH = Growth(rank_bytes=0, shared_bytes=0, source="none")
NOTHING = Keep(cache_percent=0, reserve_bytes=0)


def host(*free_gib: int, gpus: tuple[Gpu, ...] | None = None, **more: Any) -> Host:
    """Return a host with so much free on each node, and a GPU on each."""
    nodes = tuple(filled(i, f"{i}", free) for i, free in enumerate(free_gib))
    cards = tuple(gpu(i, i) for i in range(len(free_gib))) if gpus is None else gpus
    given: dict[str, Any] = {"numa_nodes": nodes, "gpus": cards, "system": System(page_size_bytes=4096)}
    return Host(**(given | more))


def budget_of(h: Host, wish: Wish, growth: Growth = NO_GROWTH, keep: Keep = NOTHING, **more: Any) -> Budget:
    cards = [(f"GPU{card.index}", card) for card in h.gpus]
    return make_budget(h, place_ranks(h, cards, wish), growth, keep, **more)


def room(name: str, size_gib: int | None) -> Limit:
    size = None if size_gib is None else size_gib * GIB
    return Limit(name=name, bytes=size, source="s", value="v", reason="not told" if size is None else None)


def test_growth_cache_reserve_and_page_tables_come_off() -> None:
    keep = Keep(cache_percent=5, reserve_bytes=4 * GIB)
    made = budget_of(host(400, 400), Wish(tp=1), Growth(rank_bytes=6 * GIB, shared_bytes=GIB, source="x"), keep)
    cache = int(512 * GIB * 0.05)
    assert made.nodes[0].own_bytes == without_overhead((400 - 6 - 1 - 4) * GIB - cache, 4096)
    assert made.nodes[1].own_bytes == without_overhead((400 - 4) * GIB - cache, 4096)  # no rank, no growth
    assert made.bound_by == "nodes"


def test_the_default_reserve_is_2_gib_or_2_percent() -> None:
    made = budget_of(host(400), Wish(), keep=Keep(cache_percent=0))
    assert made.nodes[0].reserve_bytes == 512 * GIB // 50
    small = Host(numa_nodes=(NumaNode(id=0, cpus="0", memory_bytes=GIB),))
    assert budget_of(small, Wish(), keep=Keep()).nodes[0].reserve_bytes == 2 * GIB


@pytest.mark.parametrize(("page", "per_mille"), [(4096, 5.9), (16384, 1.5), (65536, 0.4)])
def test_larger_pages_cost_less(page: int, per_mille: float) -> None:
    left = without_overhead(1000 * GIB, page)
    assert (1000 * GIB - left) / GIB == pytest.approx(per_mille, abs=0.1)


def test_a_page_cache_in_bytes_is_shared_out_by_size_and_the_larger_floor_counts() -> None:
    made = budget_of(host(400, 400), Wish(), keep=Keep(cache_percent=0, cache_bytes=100 * GIB))
    assert [node.cache_bytes for node in made.nodes] == [50 * GIB, 50 * GIB]
    made = budget_of(host(400, 400), Wish(), keep=Keep(cache_percent=50, cache_bytes=100 * GIB))
    assert made.nodes[0].cache_bytes == 256 * GIB


def test_movable_memory_of_a_gpu_and_forbidden_nodes_hold_nothing() -> None:
    h = host(100, 100, 100, allowed=Allowed(mems="0,2"))
    nodes = (*h.numa_nodes[:2], msgspec.structs.replace(h.numa_nodes[2], kind="gpu-memory"))
    made = budget_of(msgspec.structs.replace(h, numa_nodes=nodes), Wish())
    assert [node.bound_by for node in made.nodes] == [
        "available memory",
        "cpuset (Mems_allowed)",
        "the GPU's own memory",
    ]
    assert [node.pinnable_bytes for node in made.nodes][1:] == [0, 0]


def test_what_limits_all_nodes_limits_each() -> None:
    made = budget_of(host(100, 100), Wish(), limits=(room("cgroup /a memory.max", 30), room("CommitLimit", 300)))
    assert [(node.pinnable_bytes, node.bound_by) for node in made.nodes] == [(30 * GIB, "cgroup /a memory.max")] * 2
    assert (made.pinnable_bytes, made.bound_by) == (30 * GIB, "cgroup /a memory.max")


def test_an_unknown_limit_makes_the_budget_unknown() -> None:
    made = budget_of(host(100), Wish(kv_bytes=GIB), limits=(room("cgroup /a memory.max", None),))
    assert (made.pinnable_bytes, made.nodes[0].pinnable_bytes) == (None, None)
    told = judge(made, Wish(kv_bytes=GIB), None)
    assert (told.fits, told.reason) == (None, "not told")


def test_an_unknown_node_elsewhere_does_not_matter_to_the_plan() -> None:
    h = host(100, 100)
    h = msgspec.structs.replace(h, numa_nodes=(h.numa_nodes[0], NumaNode(id=1, cpus="1", memory_bytes=GIB)))
    made = budget_of(h, Wish(kv_bytes=GIB))
    assert made.pinnable_bytes is None
    assert judge(made, Wish(kv_bytes=GIB), None).fits is True


def test_a_gpu_whose_node_is_not_known() -> None:
    h = host(100, 100, gpus=(gpu(0, None), gpu(1, 1)))
    wish = Wish(tp=2, kv_bytes=2 * GIB)
    made = budget_of(h, wish)
    assert [node.kv_bytes for node in made.nodes] == [None, None]
    told = judge(made, wish, None)
    assert (told.fits, told.reason) == (None, "the node of GPU0 is not known")


def test_too_much_for_a_limit_is_too_much_wherever_the_gpus_are() -> None:
    h = host(100, 100, gpus=(gpu(0, None), gpu(1, None)))
    wish = Wish(tp=2, kv_bytes=40 * GIB)
    made = budget_of(h, wish, limits=(room("memory.max", 30),))
    told = judge(made, wish, None)
    assert told.fits is False
    assert (told.shortages[0].where, told.shortages[0].missing_bytes) == ("all nodes", 10 * GIB)


def test_a_gpu_near_several_nodes_and_the_only_node() -> None:
    both = Gpu(index=0, numa_nodes=(0, 1))
    (rank,) = place_ranks(host(1, 1), [("GPU0", both)], Wish())
    assert (rank.node, rank.reason) == (None, "GPU0 is near several nodes (0, 1)")
    (rank,) = place_ranks(host(1), [("GPU0", Gpu(index=0))], Wish())
    assert rank.node == 0


def test_more_ranks_than_gpus_are_refused() -> None:
    with pytest.raises(UsageError, match="4 ranks, but 2 GPUs"):
        budget_of(host(1, 1), Wish(tp=2, dp=2))
    with pytest.raises(UsageError, match="at most"):
        place_ranks(host(1), [], Wish(tp=4096, pp=4096))


def test_64_gib_on_four_gpus_are_16_a_rank() -> None:
    h = host(100, 100, gpus=(gpu(0, 0), gpu(1, 0), gpu(2, 1), gpu(3, 1)))
    made = budget_of(h, Wish(tp=4, kv_bytes=64 * GIB))
    assert {rank.kv_bytes for rank in made.ranks} == {16 * GIB}
    assert [node.kv_bytes for node in made.nodes] == [32 * GIB, 32 * GIB]


def test_a_pool_beyond_dev_shm_does_not_fit() -> None:
    wish = Wish(kv_bytes=60 * GIB)
    made = budget_of(host(100), wish)
    told = judge(made, wish, room("/dev/shm", 50))
    assert (told.fits, told.shortages[0].where) == (False, "/dev/shm")
    assert judge(made, wish, room("/dev/shm", None)).fits is None
    assert largest_weights(made, wish, room("/dev/shm", 50)) is None


def test_no_plan_is_no_answer() -> None:
    assert judge(budget_of(host(100), Wish()), Wish(), None).fits is None


class TestLimits:
    def test_the_cache_of_a_group_counts_and_its_shared_memory_does_not(self) -> None:
        full = group(max=100, charged=100, active_file=30, inactive_file=50)
        assert [limit.bytes for limit in group_limits((full,))] == [80 * GIB]
        assert [limit.bytes for limit in group_limits((group(max=100, charged=80),), GIB)] == [19 * GIB]

    def test_kubelet_keeps_its_threshold_of_what_is_free_or_inactive(self) -> None:
        node = NumaNode(id=0, memory_bytes=GIB, memory=NodeMemory(inactive_file_bytes=5 * GIB))
        h = Host(numa_nodes=(node,), memory=HostMemory(free_bytes=20 * GIB, kubelet_eviction_bytes=GIB))
        assert [limit.bytes for limit in total_limits(h, 2 * GIB)] == [22 * GIB]
        assert [limit.bytes for limit in total_limits(h, 0, eviction_bytes=10 * GIB)] == [15 * GIB]
        lost = msgspec.structs.replace(h, memory=HostMemory(kubelet_eviction_bytes=GIB))
        assert [limit.bytes for limit in total_limits(lost, 0)] == [None]

    def test_strict_overcommit(self) -> None:
        memory = HostMemory(commit_limit_bytes=10 * GIB, committed_bytes=4 * GIB)
        h = Host(memory=memory, settings={"vm.overcommit_memory": "2"})
        assert [limit.bytes for limit in total_limits(h, GIB)] == [5 * GIB]
        assert total_limits(msgspec.structs.replace(h, settings={"vm.overcommit_memory": "0"}), 0) == ()
        assert [limit.bytes for limit in total_limits(msgspec.structs.replace(h, memory=HostMemory()), 0)] == [None]

    def test_dev_shm_and_sglangs_own_reserve(self) -> None:
        assert shm_limit(Host(memory=shm(10, 4))).bytes == 4 * GIB
        assert shm_limit(Host()).reason == "no file system at /dev/shm is known"
        assert sglang_limit(Host(memory=HostMemory(available_bytes=30 * GIB))).bytes == 20 * GIB
        assert sglang_limit(Host()).bytes is None

    def test_the_tightest(self) -> None:
        assert tightest(()) is None
        assert tightest((room("a", 3), room("b", 2))) == room("b", 2)
        assert tightest((room("a", 3), room("b", None))) is None


GIBS = st.integers(0, 500)
SIZES = st.integers(0, 600 * GIB)


@given(st.integers(0, 1 << 60), st.lists(st.integers(0, 1 << 40), max_size=20))
def test_shares_add_up_to_the_byte(total: int, weights: list[int]) -> None:
    parts = split(total, weights)
    assert sum(parts) == (total if weights else 0)
    assert all(part >= 0 for part in parts)
    if any(weights):
        assert all(part == 0 for part, weight in zip(parts, weights, strict=True) if weight == 0)


@given(SIZES, st.integers(1, 4), st.integers(1, 3), st.integers(1, 2))
def test_the_ranks_and_the_nodes_add_up_to_the_plan(kv: int, tp: int, pp: int, dp: int) -> None:
    cards = tuple(gpu(i, i % 2) for i in range(tp * pp * dp))
    wish = Wish(tp=tp, pp=pp, dp=dp, kv_bytes=kv, weights_bytes=7)
    made = budget_of(host(100, 100, gpus=cards), wish)
    assert sum(rank.kv_bytes for rank in made.ranks) == kv * dp
    assert sum((node.kv_bytes or 0) + (node.weights_bytes or 0) for node in made.nodes) == wish.total_bytes


@given(GIBS, GIBS, GIBS, GIBS, st.floats(0, 100), SIZES)
def test_never_beyond_any_single_limit(a: int, b: int, limit: int, other: int, percent: float, reserve: int) -> None:
    keep = Keep(cache_percent=percent, reserve_bytes=reserve)
    h = host(a, b)
    made = budget_of(h, Wish(tp=2), keep=keep, limits=(room("x", limit), room("y", other)))
    assert made.pinnable_bytes is not None
    assert made.pinnable_bytes <= min(limit, other) * GIB
    together = 0
    for node, facts in zip(made.nodes, h.numa_nodes, strict=True):
        assert node.pinnable_bytes is not None
        together += node.own_bytes or 0
        assert 0 <= node.pinnable_bytes <= min(limit, other) * GIB
        assert node.pinnable_bytes <= max(0, (node_available(facts).available_bytes or 0) - reserve)
    assert made.pinnable_bytes <= together


@given(GIBS, GIBS, SIZES, SIZES, SIZES)
def test_more_reserve_growth_or_cache_never_gives_more(a: int, b: int, reserve: int, growth: int, more: int) -> None:
    def pinnable(reserve: int, growth: int, cache: int) -> int:
        grown = Growth(rank_bytes=growth, shared_bytes=0, source="x")
        keep = Keep(cache_percent=0, cache_bytes=cache, reserve_bytes=reserve)
        return budget_of(host(a, b), Wish(tp=2), grown, keep).pinnable_bytes or 0

    base = pinnable(reserve, growth, 0)
    assert pinnable(reserve + more, growth, 0) <= base
    assert pinnable(reserve, growth + more, 0) <= base
    assert pinnable(reserve, growth, more) <= base


@given(GIBS, GIBS, st.integers(0, 50 * GIB), SIZES, GIBS, GIBS, st.integers(1, 2))
def test_the_largest_that_fits_does_and_a_page_more_does_not(
    a: int, b: int, weights: int, kv: int, limit: int, shm_gib: int, dp: int
) -> None:
    cards = tuple(gpu(i, 0 if i < 3 else 1) for i in range(4))
    h, limits, shm = host(a, b, gpus=cards), (room("x", limit),), room("/dev/shm", shm_gib)
    wish = Wish(tp=4 // dp, dp=dp, weights_bytes=weights, kv_bytes=kv)
    made = budget_of(h, wish, limits=limits)

    def fits(changed: Wish) -> bool | None:
        return judge(budget_of(h, changed, limits=limits), changed, shm).fits

    most = largest_kv(made, wish, shm)
    assert most is not None
    if most:
        assert fits(msgspec.structs.replace(wish, kv_bytes=most)) is True
        assert fits(msgspec.structs.replace(wish, kv_bytes=most + 8)) is False
    each = largest_weights(made, wish, shm)
    if each:
        assert fits(msgspec.structs.replace(wish, weights_bytes=each)) is True
        assert fits(msgspec.structs.replace(wish, weights_bytes=each + 8)) is False
