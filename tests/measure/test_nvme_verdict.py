"""Verdicts on a drive read from near and far, from runs with a known truth."""

import random

from hostdoctor.measure.nvme_verdict import RunTimes, compare_runs_of

KINDS = ((16384, 1), (16384, 8))


def runs(repeats: int, far: float, *, far_node: int = 0, near_node: int = 1) -> list[RunTimes]:
    draw = random.Random(5)
    made = []
    for kind in KINDS:
        for repeat in range(repeats):
            both = [(near_node, True, 1.0), (far_node, False, far)]
            for node, near, times in both if repeat % 2 == 0 else reversed(both):
                p50, p99 = (round(base * times * draw.lognormvariate(0, 0.02)) for base in (70_000, 150_000))
                made.append(RunTimes(kind=kind, cpu_node=node, near=near, p50_ns=p50, p99_ns=p99))
    return made


def test_a_far_node_that_reads_slower_is_found() -> None:
    found = compare_runs_of(runs(10, 1.3))
    assert {(told.cpu_node, told.queue_depth, told.statistic) for told in found} == {
        (0, depth, statistic) for depth in (1, 8) for statistic in ("p50", "p99")
    }
    assert {told.result.verdict for told in found} == {"near-faster"}
    assert all(1.2 < (told.result.ratio or 0) < 1.4 for told in found)


def test_equal_nodes_differ_in_nothing() -> None:
    found = compare_runs_of(runs(10, 1.0))
    assert {told.result.verdict for told in found} == {"no-measurable-difference"}
    assert all(told.result.detectable_ratio for told in found)


def test_two_repeats_are_insufficient() -> None:
    found = compare_runs_of(runs(2, 1.3))
    assert {(told.result.verdict, told.result.pairs, told.result.pairs_needed) for told in found} == {
        ("insufficient", 2, 7)
    }


def test_a_kind_with_a_run_that_failed_is_left_out() -> None:
    made = runs(10, 1.3)
    made[3] = RunTimes(kind=KINDS[0], cpu_node=0, near=False)
    assert {told.queue_depth for told in compare_runs_of(made)} == {8}


def test_without_a_near_node_nothing_is_compared() -> None:
    made = [RunTimes(kind=KINDS[0], cpu_node=node, near=False, p50_ns=5, p99_ns=9) for node in (0, 1) * 10]
    assert compare_runs_of(made) == ()
