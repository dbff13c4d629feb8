"""Quantiles, their intervals, and pairs: against closed forms, textbook values and scipy."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.measure.quantiles import burst_factor, count_clusters, exact_ranks
from hostdoctor.measure.statistics import (
    compare_pairs,
    detectable_ratio,
    estimate_quantile,
    holm,
    pairs_needed,
    sample_quantile,
    samples_needed,
    sign_flip_p,
    t_cdf,
    t_quantile,
)

LATENCIES = st.floats(min_value=1e-3, max_value=1e5)
PAIRS = st.lists(st.tuples(LATENCIES, LATENCIES), min_size=2, max_size=12)


@pytest.mark.parametrize(
    ("p", "df", "t"),
    [
        (0.975, 1, 12.706),
        (0.975, 5, 2.571),
        (0.975, 9, 2.262),
        (0.975, 19, 2.093),
        (0.8, 9, 0.883),
        (0.975, 120, 1.980),
    ],
)
def test_student_s_t_is_the_table_s(p: float, df: int, t: float) -> None:
    assert t_quantile(p, df) == pytest.approx(t, abs=5e-4)
    assert t_quantile(1 - p, df) == pytest.approx(-t, abs=5e-4)
    assert t_cdf(t, df) == pytest.approx(p, abs=2e-4)


@pytest.mark.parametrize(("p", "needed"), [(0.5, 6), (0.99, 368), (0.999, 3688)])
def test_a_two_sided_bound_needs_so_many_samples(p: float, needed: int) -> None:
    assert samples_needed(p) == needed
    assert exact_ranks(needed, p)[1] == needed
    assert exact_ranks(needed - 1, p)[1] > needed - 1  # no upper bound
    few = estimate_quantile([1.0] * (needed - 1), p)
    assert (few.value, few.low, few.high, few.state) == (None, None, None, "too-few-samples")


def test_the_median_of_ten_lies_between_the_second_and_the_ninth() -> None:
    assert exact_ranks(10, 0.5) == (2, 9)  # P(B ≤ 1) = 11/1024, P(B ≤ 2) = 56/1024


@pytest.mark.parametrize("count", [6, 17, 368, 369, 1000, 3688, 40_000])
@pytest.mark.parametrize("p", [0.5, 0.9, 0.99, 0.999])
def test_ranks_are_scipy_s(count: int, p: float) -> None:
    stats = pytest.importorskip("scipy.stats")
    interval = stats.quantile_test(range(1, count + 1), q=0, p=p).confidence_interval(0.95)
    low, high = exact_ranks(count, p)
    assert (low or math.nan) == pytest.approx(interval.low, nan_ok=True)
    assert (high if high <= count else math.nan) == pytest.approx(interval.high, nan_ok=True)


@given(st.lists(LATENCIES, min_size=1, max_size=50), st.sampled_from([0.25, 0.5, 0.9, 0.99]))
def test_a_sample_quantile_is_numpy_s(samples: list[float], p: float) -> None:
    numpy = pytest.importorskip("numpy")
    assert sample_quantile(sorted(samples), p) == pytest.approx(float(numpy.percentile(samples, 100 * p)))


@pytest.mark.parametrize("df", [1, 2, 3, 8, 19, 60])
def test_student_s_t_is_scipy_s(df: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    for t in (-7.0, -0.3, 0.0, 1.5, 12.0):
        assert t_cdf(t, df) == pytest.approx(float(stats.t.cdf(t, df)), abs=1e-12)


@given(st.lists(LATENCIES, min_size=6, max_size=400), st.sampled_from([0.5, 0.9]))
def test_the_interval_contains_the_sample_quantile(samples: list[float], p: float) -> None:
    found = estimate_quantile(samples, p)
    if found.value is not None:
        assert found.low is None or found.low <= found.value
        assert found.high is None or found.value <= found.high


@given(st.lists(st.integers(1, 1000), min_size=30, max_size=200), st.sampled_from([0.5, 2.0, 1024.0]))
def test_a_quantile_scales_with_its_unit(samples: list[int], scale: float) -> None:
    one, other = estimate_quantile(samples, 0.5), estimate_quantile([x * scale for x in samples], 0.5)
    assert one.value is not None
    assert other.value == one.value * scale
    assert (other.burst_factor, other.clusters) == (one.burst_factor, one.clusters)


def test_bursts_widen_the_interval_and_the_same_samples_shuffled_do_not() -> None:
    source = random.Random(4)
    samples = [source.lognormvariate(0, 0.1) * (3 if i % 2000 < 40 else 1) for i in range(20_000)]
    bursts = estimate_quantile(samples, 0.99)
    shuffled = estimate_quantile(source.sample(samples, len(samples)), 0.99)
    assert bursts.value == shuffled.value
    assert bursts.clusters == 10
    assert bursts.burst_factor is not None
    assert shuffled.burst_factor is not None
    assert bursts.burst_factor > 5 * shuffled.burst_factor
    assert shuffled.clusters is not None
    assert shuffled.clusters > 100


def test_bursts_widen_by_the_stated_ranks() -> None:
    source = random.Random(4)
    samples = [source.lognormvariate(0, 0.1) * (3 if i % 1000 < 8 else 1) for i in range(40_000)]
    samples[500:600] = [3 * x for x in samples[500:600]]
    found, ordered = estimate_quantile(samples, 0.99), sorted(samples)
    assert found.burst_factor is not None
    assert found.burst_factor > 2
    half = 2.0930 * math.sqrt(40_000 * 0.99 * 0.01 * found.burst_factor)
    assert found.low == ordered[math.floor(39_600 - half) - 1]
    assert found.high == ordered[math.ceil(39_600 + half) + 1 - 1]


def test_the_upper_end_may_be_the_largest_sample() -> None:
    samples = [float(i) for i in range(364)]
    for position, large in ((10, 1e3), (100, 1e4), (200, 1e5), (300, 1e6)):
        samples.insert(position, large)
    found = estimate_quantile(samples, 0.99)
    assert (found.samples, found.burst_factor, found.high) == (368, 1.0, 1e6)


def test_few_separate_bursts_are_too_few_for_a_p99() -> None:
    samples = [1.0 + i / 1e6 for i in range(10_000)]
    samples[3000:3150] = [5.0 + i for i in range(150)]
    assert estimate_quantile(samples, 0.99).state == "too-few-clusters"


def test_clusters_end_where_the_gap_is_wide() -> None:
    assert count_clusters([9, 1, 9, 1, 1, 1, 9, 9, 1, 1, 1], 5, gap=2) == 2
    assert count_clusters([9, 1, 9, 1, 1, 1, 9, 9, 1, 1, 1], 5, gap=1) == 3
    assert count_clusters([1, 2, 3], 5, gap=1) == 0


def test_evenly_spread_samples_have_no_burst_factor() -> None:
    assert burst_factor([float(i % 100) for i in range(4000)], 0.99, 98.5) == 1.0


@pytest.mark.parametrize("count", [1, 2, 3, 7, 11])
def test_the_sign_flip_test_counts_every_assignment(count: int) -> None:
    source = random.Random(count)
    differences = [source.gauss(0.4, 1) for _ in range(count)]
    signs = itertools.product((1, -1), repeat=count)
    as_far = sum(
        abs(sum(s * d for s, d in zip(flip, differences, strict=True))) >= abs(sum(differences)) - 1e-12
        for flip in signs
    )
    assert sign_flip_p(differences) == as_far / 2**count


def test_six_pairs_that_agree_are_the_fewest_that_tell() -> None:
    assert sign_flip_p([0.1, 0.2, 0.1, 0.3, 0.1]) == 2 / 32
    assert sign_flip_p([0.1, 0.2, 0.1, 0.3, 0.1, 0.2]) == 2 / 64
    assert pairs_needed() == 6
    assert [pairs_needed(tests) for tests in (2, 6, 7)] == [7, 8, 9]


def test_many_pairs_are_met_in_the_middle_and_more_are_student_s() -> None:
    source = random.Random(9)
    differences = [source.gauss(0.3, 1) for _ in range(32)]
    exact, student = sign_flip_p(differences), sign_flip_p([*differences, 0.3])
    assert exact == pytest.approx(student, rel=0.5)
    assert sign_flip_p([0.0] * 50) == 1.0
    assert sign_flip_p([0.2] * 50) == 2.0**-49


@given(PAIRS)
def test_exchanging_near_and_far_inverts_the_ratio(pairs: list[tuple[float, float]]) -> None:
    near, far = [a for a, _ in pairs], [b for _, b in pairs]
    one, other = compare_pairs(near, far), compare_pairs(far, near)
    assert one.ratio is not None
    assert one.ratio_ci is not None
    assert other.ratio_ci is not None
    assert other.ratio == pytest.approx(1 / one.ratio)
    assert other.ratio_ci[0] == pytest.approx(1 / one.ratio_ci[1], rel=1e-6)
    assert other.p_value == one.p_value


@given(PAIRS, st.sampled_from([0.125, 2.0, 4096.0]))
def test_a_ratio_has_no_unit(pairs: list[tuple[float, float]], scale: float) -> None:
    near, far = [a for a, _ in pairs], [b for _, b in pairs]
    one = compare_pairs(near, far)
    other = compare_pairs([scale * x for x in near], [scale * x for x in far])
    assert other.ratio == pytest.approx(one.ratio)
    assert other.p_value == pytest.approx(one.p_value)


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=14))
def test_a_p_value_is_a_probability(differences: list[float]) -> None:
    assert 2.0 ** -len(differences) <= sign_flip_p(differences) <= 1


def test_the_interval_and_the_detectable_ratio_follow_from_the_spread() -> None:
    logs = [0.10, 0.12, 0.08, 0.11, 0.09, 0.13, 0.07, 0.10, 0.12, 0.08]
    found = compare_pairs([1.0] * 10, [math.exp(x) for x in logs])
    error = 0.02 / math.sqrt(10)  # the sample's standard deviation is 0.02
    assert found.ratio == pytest.approx(math.exp(0.10))
    assert found.ratio_ci == pytest.approx((math.exp(0.1 - 2.2622 * error), math.exp(0.1 + 2.2622 * error)), rel=1e-4)
    assert found.detectable_ratio == pytest.approx(math.exp((2.2622 + 0.8834) * error), rel=1e-4)


def test_six_pairs_see_what_turns_all_six_signs() -> None:
    logs = [0.10, 0.12, 0.08, 0.13, 0.07, 0.10]
    spread = 0.0228035  # the sample's standard deviation
    all_equal = 1.7932  # Φ(1.7932)^6 = 0.8
    found = compare_pairs([1.0] * 6, [math.exp(x) for x in logs])
    assert found.detectable_ratio == pytest.approx(math.exp(all_equal * spread), rel=1e-4)


def test_what_an_experiment_could_see_is_known_beforehand() -> None:
    assert detectable_ratio(0.07, 10) == pytest.approx(1.072, abs=0.001)  # runs that vary by 5 %
    assert detectable_ratio(0.07, 5) is None
    assert detectable_ratio(0.07, 6, tests=6) is None
    fewer, more = detectable_ratio(0.07, 8, tests=6), detectable_ratio(0.07, 20, tests=6)
    assert fewer is not None
    assert more is not None
    assert more < fewer
    alone = detectable_ratio(0.07, 20)
    assert alone is not None
    assert alone < more


def test_pairs_that_do_not_vary_say_nothing_of_what_they_could_have_seen() -> None:
    found = compare_pairs([7.0] * 8, [7.0] * 8)
    assert (found.ratio, found.ratio_ci, found.p_value, found.detectable_ratio) == (1.0, (1.0, 1.0), 1.0, None)


def test_one_pair_has_a_ratio_and_nothing_else() -> None:
    found = compare_pairs([2.0], [3.0])
    assert found.ratio == pytest.approx(1.5)
    assert (found.ratio_ci, found.p_value, found.detectable_ratio) == (None, None, None)
    assert compare_pairs([], []).ratio is None


def test_holm_multiplies_the_smallest_most_and_never_steps_back() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]
