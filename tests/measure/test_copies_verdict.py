"""What pairs of runs of copies come to."""

import random
from typing import Any

import pytest

from hostdoctor.measure.copies_model import Cell, Comparison, Result, Role, Setting
from hostdoctor.measure.copies_verdict import Run, results_of

CELLS = (
    Cell(role="near", cpu_node=0, memory_node=0),
    Cell(role="far", cpu_node=1, memory_node=1),
    Cell(role="near-again", cpu_node=0, memory_node=0),
)
BASE_NS = 10_000


def setting(**changes: Any) -> Setting:
    given: dict[str, Any] = {
        "load": "idle",
        "memory": "pinned",
        "direction": "to-gpu",
        "size_bytes": 16 << 10,
        "loop": "closed",
    }
    return Setting(**(given | changes))


def runs(factor: float = 1.0, pairs: int = 10, copies: int = 200, tail: float = 1.0, seed: int = 1) -> list[Run]:
    """Return runs of copies that take ``factor`` times 10 µs, by ±2 %, and the slowest 2 % ``tail`` times that."""
    draw = random.Random(seed)
    return [
        Run(
            ns=tuple(
                int(BASE_NS * factor * draw.uniform(0.98, 1.02) * (tail if draw.random() < 0.02 else 1))
                for _ in range(copies)
            )
        )
        for _ in range(pairs)
    ]


def judged(far: list[Run], again: list[Run] | None = None, **changes: Any) -> Result:
    measured = {setting(**changes): {"near": runs(seed=1), "far": far, "near-again": again or runs(seed=3)}}
    (result,) = results_of(CELLS, measured, {})  # type: ignore[arg-type]
    return result


def against(result: Result, cell: Role, statistic: str) -> Comparison:
    return next(c for c in result.comparisons if (c.cell, c.statistic) == (cell, statistic))


def test_far_copies_that_take_longer_are_found_with_an_interval() -> None:
    told = against(judged(runs(1.3, seed=2)), "far", "p50")
    assert told.verdict == "near-faster"
    assert told.words.startswith("near is faster by 30 % (")
    assert told.paired.ratio_ci is not None
    assert told.paired.ratio_ci[0] < 1.3 < told.paired.ratio_ci[1]


def test_a_faster_far_node_is_told_as_such() -> None:
    told = against(judged(runs(0.5, seed=2)), "far", "p50")
    assert told.verdict == "far-faster"
    assert told.words.startswith("far is faster by 100 % (")


def test_no_difference_is_told_with_what_would_have_been_seen() -> None:
    told = against(judged(runs(seed=2)), "far", "p50")
    assert told.verdict == "no-measurable-difference"
    assert told.words.startswith("no measurable difference (would have seen ≥ ")


def test_a_tail_is_found_where_medians_are_the_same() -> None:
    result = judged(runs(tail=3.0, seed=2))
    assert against(result, "far", "p50").verdict == "no-measurable-difference"
    assert against(result, "far", "p99").verdict == "near-faster"


def test_near_that_differs_from_itself_makes_the_host_unstable() -> None:
    result = judged(runs(1.3, seed=2), again=runs(1.2, seed=3))
    assert against(result, "far", "p50").verdict == "unstable"
    assert against(result, "far", "p50").words == "host unstable (near against near differs)"


def test_few_pairs_are_insufficient() -> None:
    result = judged(runs(1.3, pairs=4, seed=2))
    assert against(result, "far", "p50").verdict == "insufficient"
    assert against(result, "far", "p50").words == "insufficient (4 of 6 pairs)"


def test_few_copies_in_a_run_have_no_p99() -> None:
    short = [Run(ns=run.ns[:50]) for run in runs(2.0, seed=2)]
    result = judged(short)
    assert against(result, "far", "p50").verdict == "near-faster"
    assert against(result, "far", "p99").words == "insufficient (a run has 50 copies, p99 needs 100)"


def test_many_settings_share_the_error() -> None:
    measured = {
        setting(size_bytes=4096 * (i + 1)): {"near": runs(seed=i), "far": runs(seed=1000 + i)} for i in range(40)
    }
    results = results_of(CELLS, measured, {})  # type: ignore[arg-type]
    p50 = [against(result, "far", "p50") for result in results]
    assert {told.paired.pairs_needed for told in p50} == {11}
    assert {told.verdict for told in p50} == {"insufficient"}  # ten pairs cannot tell forty settings apart


def test_large_copies_are_compared_by_their_mean_time() -> None:
    result = judged(runs(1.3, copies=2, seed=2), loop="bandwidth", size_bytes=1 << 20)
    assert [(c.cell, c.statistic) for c in result.comparisons] == [("far", "mean"), ("near-again", "mean")]
    assert against(result, "far", "mean").verdict == "near-faster"
    near = next(arm for arm in result.arms if arm.cell.role == "near")
    assert near.bandwidth_gbs[0] == pytest.approx((1 << 20) / BASE_NS, rel=0.02)
    assert near.p50_us is None


def test_quantiles_are_those_of_every_copy_and_p999_wants_many() -> None:
    arm = judged(runs(seed=2)).arms[0]
    assert (arm.runs, arm.copies) == (10, 2000)
    assert arm.p50_us is not None
    assert arm.p50_us.value == pytest.approx(10, rel=0.02)
    assert arm.p999_us is not None
    assert (arm.p999_us.value, arm.p999_us.state) == (None, "too-few-samples")


def test_an_interrupted_round_counts_only_whole_pairs() -> None:
    result = judged(runs(1.3, pairs=9, seed=2))
    assert against(result, "far", "p50").paired.pairs == 9


def test_an_open_loop_tells_its_schedule_and_its_late_starts() -> None:
    late = [Run(ns=run.ns, late=50) for run in runs(seed=2)]
    key = setting(loop="open")
    (result,) = results_of(CELLS, {key: {"near": runs(), "far": late}}, {key: 20_000})
    assert result.interval_us == 20
    assert [arm.late_share for arm in result.arms] == [0, 0.25]


def test_nothing_measured_is_nothing_told() -> None:
    assert results_of(CELLS, {}, {}) == ()
    (result,) = results_of(CELLS, {setting(): {"near": runs()}}, {})
    assert (len(result.arms), result.comparisons) == (1, ())
