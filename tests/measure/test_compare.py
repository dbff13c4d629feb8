"""Whole comparisons of runs whose truth is known."""

import math

import pytest
from msgspec.structs import replace

from hostdoctor.errors import UsageError
from hostdoctor.facts.runs import RunResult
from hostdoctor.measure.comparison import Comparison, Row, Verdict
from hostdoctor.measure.statistics import Paired, WorkloadError, compare_runs, guard, judge, share, words
from hostdoctor.outputs.comparison_text import render_comparison
from hostdoctor.outputs.style import Style
from tests.measure.runs import arm, run, told


def itl(comparison: Comparison) -> tuple[Row, Row]:
    rows = comparison.metrics["itl"]
    return rows.p50, rows.p99


def test_a_slower_far_node_is_found_at_the_median_and_at_p99() -> None:
    found = compare_runs(arm(seed=1), arm(1.2, seed=2))
    median, tail = itl(found)
    assert (median.verdict, tail.verdict) == ("near-faster", "near-faster")
    assert median.ratio == pytest.approx(1.2, abs=0.05)
    assert median.p_value is not None
    assert median.p_value <= 0.05
    assert median.near_ms == pytest.approx(10, abs=0.5)
    assert found.primary.words == words(median)
    assert found.primary.guard == "held"


def test_exchanged_arms_exchange_the_verdict() -> None:
    found = compare_runs(arm(1.2, seed=2), arm(seed=1))
    assert found.primary.verdict == "far-faster"
    assert found.primary.words.startswith("far is faster by ")
    assert found.primary.guard == "held"


def test_equal_nodes_show_no_difference_and_what_would_have_been_seen() -> None:
    found = compare_runs(arm(seed=1), arm(seed=2))
    assert found.primary.verdict == "no-measurable-difference"
    median = found.metrics["itl"].p50
    assert median.detectable_ratio is not None
    assert 1.01 < median.detectable_ratio < 1.10
    assert found.primary.words == f"no measurable difference (would have seen ≥ {share(median.detectable_ratio - 1)})"


@pytest.mark.parametrize("pairs", [1, 2, 5])
def test_fewer_than_six_pairs_are_insufficient(pairs: int) -> None:
    found = compare_runs(arm(runs=pairs, seed=1), arm(2, runs=pairs, seed=2))
    assert found.primary.verdict == "insufficient"
    assert found.primary.words == f"insufficient ({pairs} of 6 pairs)"
    assert found.metrics["itl"].p50.ratio == pytest.approx(2, rel=0.1)


def test_near_that_differs_from_near_disqualifies_the_host() -> None:
    found = compare_runs(arm(seed=1), arm(1.5, seed=2), control=arm(1.3, seed=3))
    assert found.primary.verdict == "unstable"
    assert found.primary.words == "host unstable (near against near differs)"
    assert found.primary.guard == "not-applicable"
    assert "differs: this host does not repeat itself" in render_comparison(found, Style())
    steady = compare_runs(arm(seed=1), arm(1.5, seed=2), control=arm(seed=4))
    low, high = steady.metrics["itl"].p50.control_ratio_ci or (0, 0)
    assert f"  control: near again/near [{low:.3f}–{high:.2f}], no difference\n" in render_comparison(steady, Style())
    assert "control: " not in render_comparison(compare_runs(arm(seed=1), arm(1.5, seed=2)), Style())
    assert steady.primary.verdict == "near-faster"
    assert steady.metrics["itl"].p50.control_ratio_ci is not None


def test_too_few_samples_for_a_p99_give_none() -> None:
    found = compare_runs(arm(samples=36, seed=1), arm(2, samples=36, seed=2))
    median, tail = itl(found)
    assert median.verdict == "near-faster"
    assert (tail.near_ms, tail.far_ms, tail.ratio, tail.p_value, tail.verdict) == (None,) * 4 + ("insufficient",)
    assert tail.reason == "N too small: near has 360 of 368 samples"
    assert found.primary.guard == "not-shown"


def test_a_run_of_fewer_than_a_hundred_has_no_p99_of_its_own() -> None:
    tail = itl(compare_runs(arm(samples=60, seed=1), arm(samples=60, seed=2)))[1]
    assert tail.reason == "N too small: a run of near has 60 of 100 samples"


def test_a_few_bursts_make_no_p99() -> None:
    def bursty(seed: int) -> list[RunResult]:
        runs = arm(seed=seed)
        samples = list(runs[0].latencies["itl"].samples_ms or ())
        samples[100:400] = [100 + x for x in samples[100:400]]
        return [run("bursts", samples), *runs[1:]]

    tail = itl(compare_runs(bursty(1), bursty(2)))[1]
    assert tail.verdict == "insufficient"
    assert tail.reason == "near has 1 of 10 separate bursts above it"
    assert tail.near_ms is not None


def test_quantiles_without_samples_give_a_ratio_and_no_interval_of_their_own() -> None:
    near = [told(f"n{i}", p50=10 + i / 10, p99=20 + i / 10) for i in range(8)]
    far = [told(f"f{i}", p50=13 + i / 9, p99=20.01 + i / 10 + (-1) ** i / 20) for i in range(8)]
    found = compare_runs(near, far)
    median, tail = itl(found)
    assert (median.verdict, median.basis, median.near_ci_ms) == ("near-faster", "runs-own-quantiles", None)
    assert median.near_ms == pytest.approx(10.35, abs=0.02)
    assert tail.verdict == "no-measurable-difference"
    assert found.metrics["ttft"].p50 == Row(samples_needed=6, reason="no pair of runs tells it")


def test_the_fastest_at_the_median_may_be_the_worse_at_p99() -> None:
    near = [told(f"n{i}", p50=10 + i / 10, p99=60 + i) for i in range(8)]
    far = [told(f"f{i}", p50=13 + i / 9, p99=20 + i / 3) for i in range(8)]
    found = compare_runs(near, far)
    assert (found.primary.verdict, found.primary.guard) == ("near-faster", "broken")
    assert compare_runs(far, near).primary.guard == "broken"


def test_secondary_latencies_share_their_error_and_need_more_pairs() -> None:
    def both(name: str, factor: float) -> RunResult:
        one = told(name, p50=10 * factor, p99=20 * factor)
        other = told(name, "ttft", p50=100 * factor, p99=300 * factor).latencies
        return replace(one, latencies=one.latencies | other)

    near = [both(f"n{i}", 1 + i / 100) for i in range(6)]
    far = [both(f"f{i}", 1.5 + i / 90) for i in range(6)]
    found = compare_runs(near, far)
    assert found.primary.verdict == "near-faster"
    assert found.metrics["itl"].p99.verdict == "near-faster"  # the guard is not one of many
    first = found.metrics["ttft"].p50
    assert (first.verdict, first.reason, first.p_value, first.adjusted_p_value) == (
        "insufficient", "6 of 7 pairs", 0.03125, 0.0625,
    )  # fmt: skip


def test_another_primary_may_be_declared() -> None:
    found = compare_runs(arm(seed=1), arm(1.2, seed=2), primary=("itl", "p99"))
    assert (found.primary.quantile, found.primary.verdict, found.primary.guard) == (
        "p99", "near-faster", "not-applicable",
    )  # fmt: skip


def test_an_arm_may_have_another_name() -> None:
    found = compare_runs(arm(seed=1), arm(1.2, seed=2), names=("near", "current"))
    assert found.arms == ("near", "current")
    assert compare_runs(arm(1.2, seed=2), arm(seed=1), names=("near", "current")).primary.words.startswith("current is")
    text = render_comparison(found, Style())
    assert "current ms [95 %]" in text
    assert "near is not worse than current by more than 10 %" in text


def paired(low: float, high: float) -> Paired:
    return Paired(pairs=10, ratio=(low * high) ** 0.5, ratio_ci=(low, high), p_value=0.03)


@pytest.mark.parametrize(
    ("low", "high", "p_value", "verdict"),
    [
        (1.02, 1.3, 0.03, "near-faster"),
        (0.7, 0.98, 0.03, "far-faster"),
        (1.02, 1.3, 0.06, "no-measurable-difference"),
        (0.99, 1.3, 0.03, "no-measurable-difference"),
    ],
)
def test_the_test_and_the_interval_must_both_say_so(low: float, high: float, p_value: float, verdict: str) -> None:
    assert judge(paired(low, high), p_value, None, None) == (verdict, "")


@pytest.mark.parametrize(
    ("verdict", "low", "high", "expected"),
    [
        ("near-faster", 0.95, 1.2, "held"),
        ("near-faster", 0.85, 1.2, "not-shown"),
        ("near-faster", 0.7, 0.85, "broken"),
        ("no-measurable-difference", 0.95, 1.2, "held"),
        ("far-faster", 0.7, 1.05, "held"),
        ("far-faster", 0.95, 1.2, "not-shown"),
        ("far-faster", 1.15, 1.3, "broken"),
        ("unstable", 0.95, 1.2, "not-applicable"),
    ],
)
def test_the_guard_watches_the_favoured_arm(verdict: Verdict, low: float, high: float, expected: str) -> None:
    tail = Row(ratio_ci=(low, high), verdict="no-measurable-difference", samples_needed=368)
    assert guard(Row(verdict=verdict, samples_needed=6), tail, 0.10) == expected


def test_a_secondary_difference_must_hold_among_the_others() -> None:
    differences = [-0.01, 0.1, 0.11, 0.12, 0.1, 0.09, 0.11]

    def both(name: str, factor: float) -> RunResult:
        other = told(name, "ttft", p50=100 * factor, p99=300 * factor).latencies
        return replace(told(name, p50=10 * factor, p99=20 * factor), latencies=other | told(name, p50=10.0).latencies)

    near = [both(f"n{i}", 1 + i / 100) for i in range(7)]
    far = [both(f"f{i}", (1 + i / 100) * math.exp(d)) for i, d in enumerate(differences)]
    first = compare_runs(near, far).metrics["ttft"].p50
    assert first.ratio_ci is not None
    assert first.ratio_ci[0] > 1
    assert (first.p_value, first.adjusted_p_value, first.verdict) == (4 / 128, 8 / 128, "no-measurable-difference")


def test_a_median_of_nothing_is_no_median() -> None:
    near = [run(f"n{i}", [0.0] * 60 + [9.0 + i]) for i in range(6)]
    far = [run(f"f{i}", [0.0] * 60 + [12.0 + i]) for i in range(6)]
    assert itl(compare_runs(near, far))[0].reason == "no pair of runs tells it"


def test_wall_time_of_a_command_is_a_latency_too() -> None:
    near = [run(f"n{i}", [1000.0 + i], metric="wall") for i in range(6)]
    far = [run(f"f{i}", [1300.0 + i], metric="wall") for i in range(6)]
    found = compare_runs(near, far, primary=("wall", "p50"))
    assert found.primary.verdict == "near-faster"
    assert found.metrics["wall"].p99.verdict == "insufficient"
    with pytest.raises(UsageError, match="no run has the latency 'wall'"):
        compare_runs(arm(seed=1), arm(seed=2), primary=("wall", "p50"))


def test_a_pair_that_lacks_a_latency_is_left_out_of_it_alone() -> None:
    near, far = arm(seed=1), arm(1.3, seed=2)
    near[3] = replace(near[3], latencies={})
    median = itl(compare_runs(near, far))[0]
    assert (median.pairs, median.verdict) == (9, "near-faster")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "b"}, "model a (1-0) but b (2-4)"),
        ({"request_rate": 8.0}, "request rate 4 (1-0) but 8 (2-4)"),
        ({"request_rate": "inf"}, "request rate 4 (1-0) but inf (2-4)"),
        ({"max_concurrency": 2.0}, "concurrency limit 8 (1-0) but 2 (2-4)"),
        ({"input_tokens": 512_000}, "mean input tokens 256 (1-0) but 512 (2-4)"),
        ({"versions": {"vllm_version": "0.33"}}, "vllm_version 0.32 (1-0) but 0.33 (2-4)"),
        ({"tool": "aiperf"}, "client vllm bench serve (1-0) but aiperf (2-4)"),
    ],
)
def test_another_workload_is_refused_by_what_differs(change: dict[str, object], said: str) -> None:
    same = {
        "model": "a", "request_rate": 4.0, "max_concurrency": 8.0, "input_tokens": 256_000,
        "versions": {"vllm_version": "0.32"},
    }  # fmt: skip
    near = [replace(x, **same) for x in arm(seed=1)]
    far = [replace(x, **same) for x in arm(seed=2)]
    assert compare_runs(near, far).warnings == ()
    far[4] = replace(far[4], **change)
    with pytest.raises(WorkloadError, match="not the same workload") as raised:
        compare_runs(near, far)
    assert said in str(raised.value)
    assert compare_runs(near, far, force=True).warnings[0] == f"not the same workload: {said}"


def test_lengths_that_differ_with_the_seed_are_the_same_workload() -> None:
    near = [replace(x, input_tokens=250_000 + 3000 * i) for i, x in enumerate(arm(seed=1))]
    assert compare_runs(near, arm(seed=2)).pairs == 10


@pytest.mark.parametrize(("near", "far", "control"), [(3, 2, 0), (2, 3, 0), (2, 2, 3)])
def test_runs_without_a_partner_are_refused(near: int, far: int, control: int) -> None:
    runs = arm(runs=3, seed=1)
    with pytest.raises(UsageError, match="in the order given they are the pairs"):
        compare_runs(runs[:near], runs[:far], control=runs[:control])


def test_failed_requests_are_counted_and_many_are_said() -> None:
    near, far = arm(seed=1), [replace(x, failed=20) for x in arm(seed=2)]
    found = compare_runs(near, far)
    assert (found.failed_requests.near, found.failed_requests.far) == (0, 200)
    assert found.warnings == ("200 of 10200 requests of far failed: its latencies are those of the others",)
    unknown = [replace(x, failed=None) for x in near]
    assert compare_runs(unknown, arm(seed=2)).failed_requests.near is None


def test_the_same_run_twice_and_the_same_seed_are_said() -> None:
    near = arm(seed=1)
    near[7] = replace(near[2], source="copy")
    assert compare_runs(near, arm(seed=2)).warnings == ("copy holds the same run as 1-2",)
    seeded = [replace(x, seed=0) for x in arm(seed=3)], [replace(x, seed=0) for x in arm(seed=4)]
    assert "same seed" in compare_runs(*seeded).warnings[0]


def test_many_copies_are_named_by_their_folders_and_counted() -> None:
    one = arm(seed=1)[0]
    copies = [replace(one, source=f"runs/00{i}-pair-{i}/result.json") for i in range(6)]
    assert compare_runs(copies, arm(seed=2)[:6]).warnings == (
        "001-pair-1/result.json holds the same run as 000-pair-0/result.json",
        "002-pair-2/result.json holds the same run as 000-pair-0/result.json",
        "003-pair-3/result.json holds the same run as 000-pair-0/result.json",
        "and 2 more hold the same run as another",
    )


def test_the_document_keeps_the_runs_without_their_samples() -> None:
    found = compare_runs(arm(seed=1), arm(seed=2))
    assert [x.source for x in found.provenance.near] == [f"1-{i}" for i in range(10)]
    assert all(x.latencies["itl"].samples_ms is None for x in found.provenance.far)


@pytest.mark.parametrize(("value", "text"), [(0.031, "3.1 %"), (0.12, "12 %"), (1.27, "127 %"), (0.0012, "0.12 %")])
def test_shares_keep_two_digits(value: float, text: str) -> None:
    assert share(value) == text
