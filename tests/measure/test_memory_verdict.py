"""Verdicts on near and far memory from paired visits with a known truth."""

import random

import pytest

from hostdoctor.measure.against_near import AgainstNear
from hostdoctor.measure.memory import enough_rounds
from hostdoctor.measure.memory_plan import MemoryPlan, Pair
from hostdoctor.measure.memory_verdict import MemoryComparison, compare_memory


def visits(times: float, seed: int, rounds: int = 20, drift: float = 0.0) -> list[float]:
    draw = random.Random(seed)
    return [times * (1 + drift * i) * draw.lognormvariate(0, 0.03) for i in range(rounds)]


def only(found: tuple[MemoryComparison, ...]) -> AgainstNear:
    (comparison,) = found
    return comparison.result


def test_far_memory_that_is_slower_is_found() -> None:
    found = compare_memory(
        "latency",
        {(0, 0): visits(90, 1), (0, 1): visits(150, 2), (1, 0): visits(151, 3), (1, 1): visits(91, 4)},
    )
    assert [(told.cpu_node, told.memory_node, told.result.verdict) for told in found] == [
        (0, 1, "near-faster"),
        (1, 0, "near-faster"),
    ]
    for told in (comparison.result for comparison in found):
        assert told.ratio_ci is not None
        assert told.ratio_ci[0] < 150 / 90 * 1.02
        assert told.ratio_ci[1] > 150 / 90 * 0.98
        assert told.p_value is not None
        assert told.p_value < 0.001


def test_equal_memory_is_no_difference_and_says_what_it_would_have_seen() -> None:
    told = only(compare_memory("read", {(0, 0): visits(90, 1), (0, 1): visits(90, 2)}))
    assert told.verdict == "no-measurable-difference"
    assert told.detectable_ratio is not None
    assert 1 < told.detectable_ratio < 1.1


def test_drift_that_all_cells_share_does_not_count() -> None:
    near = visits(90, 1, drift=0.05)
    told = only(compare_memory("latency", {(0, 0): near, (0, 1): [time * 1.3 for time in near]}))
    assert told.ratio == pytest.approx(1.3)


def test_near_memory_that_differs_from_itself_gives_no_verdict() -> None:
    near = [90.0 if i % 2 else 120.0 for i in range(20)]
    told = only(compare_memory("latency", {(0, 0): near, (0, 1): visits(150, 2)}))
    assert (told.verdict, told.reason) == ("unstable", "near against near differs")


def test_few_visits_are_insufficient() -> None:
    told = only(compare_memory("latency", {(0, 0): visits(90, 1, 5), (0, 1): visits(150, 2, 4)}))
    assert (told.pairs, told.verdict, told.reason) == (4, "insufficient", "4 of 6 pairs")


def test_nothing_near_or_nothing_measured_is_nothing_compared() -> None:
    assert compare_memory("latency", {(0, 1): visits(150, 2), (1, 1): visits(90, 2)}) == ()
    assert compare_memory("latency", {(0, 0): [], (0, 1): []}) == ()
    assert compare_memory("latency", {(0, 0): visits(90, 1)}) == ()


@pytest.mark.parametrize(("nodes", "most", "rounds"), [(1, 20, 8), (2, 20, 8), (8, 20, 12), (8, 5, 5)])
def test_bandwidth_is_visited_as_often_as_a_verdict_takes(nodes: int, most: int, rounds: int) -> None:
    pairs = tuple(Pair(cpu_node=i, memory_node=j) for i in range(nodes) for j in range(nodes))
    assert enough_rounds(MemoryPlan(pairs=pairs, size_bytes=1, wanted_bytes=1), most) == rounds
