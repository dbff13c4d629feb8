"""Pairs of short runs, one from near and one from far: their ratio, its interval, and an exact test.

A pair's two runs follow each other, so what both share (drift, a warm cache, the hour) cancels in their ratio.
"""

import bisect
import math
import statistics
from collections.abc import Sequence

from hostdoctor.facts import Fact
from hostdoctor.measure.student import t_cdf, t_quantile

SIGNIFICANCE = 0.05
POWER = 0.80
MIN_PAIRS = 6  # with five, even five equal signs have p = 0.0625
MAX_EXACT_PAIRS = 32  # beyond it the p value is Student's
_TIE = 1e-9  # sums that differ by less are equal: rounding must not decide a tie
_MAX_EXPONENT = 700.0


class Paired(Fact, frozen=True, kw_only=True):
    """What K pairs say of one statistic: ``ratio`` is far/near, above 1 where near has the lower latency.

    ``ratio_ci`` is a 95 % interval by Student's t. ``p_value`` is the exact sign-flip test's. ``detectable_ratio`` is
    the smallest ratio that so many pairs, varying so much, would have told from 1 four times in five; below
    ``pairs_needed`` they cannot tell any. None: too few pairs, or pairs that do not vary at all.
    """

    pairs: int
    pairs_needed: int = MIN_PAIRS
    ratio: float | None = None
    ratio_ci: tuple[float, float] | None = None
    p_value: float | None = None
    detectable_ratio: float | None = None


def compare_pairs(near: Sequence[float], far: Sequence[float], *, tests: int = 1) -> Paired:
    """Return what pairs of positive values say, ``near[i]`` and ``far[i]`` being one pair.

    ``tests`` is how many comparisons share the 5 % error: it raises the pairs needed and the detectable ratio.
    """
    logs = [math.log(b) - math.log(a) for a, b in zip(near, far, strict=True)]
    count, needed = len(logs), pairs_needed(tests)
    if not count:
        return Paired(pairs=0, pairs_needed=needed)
    mean = math.fsum(logs) / count
    if count == 1:
        return Paired(pairs=1, pairs_needed=needed, ratio=_exp(mean))
    spread = statistics.stdev(logs)
    half = t_quantile(0.975, count - 1) * spread / math.sqrt(count)
    return Paired(
        pairs=count,
        pairs_needed=needed,
        ratio=_exp(mean),
        ratio_ci=(_exp(mean - half), _exp(mean + half)),
        p_value=sign_flip_p(logs),
        detectable_ratio=detectable_ratio(spread, count, tests=tests) if spread > _TIE else None,
    )


def detectable_ratio(spread: float, pairs: int, *, tests: int = 1) -> float | None:
    """Return the smallest ratio that so many pairs find four times in five; None where they cannot find any.

    ``spread`` is the standard deviation of the logarithms of the pairs' ratios (0.07 where each run varies by 5 %), so
    that this also tells beforehand what an experiment could see.
    """
    if pairs < pairs_needed(tests):
        return None
    by_t = t_quantile(1 - SIGNIFICANCE / (2 * tests), pairs - 1) + t_quantile(POWER, pairs - 1)
    if math.ldexp(4.0 * tests, -pairs) <= SIGNIFICANCE:
        return _exp(spread * by_t / math.sqrt(pairs))
    # so few pairs that the test needs all of them to agree in sign
    return _exp(spread * max(by_t / math.sqrt(pairs), statistics.NormalDist().inv_cdf(POWER ** (1 / pairs))))


def pairs_needed(tests: int = 1) -> int:
    """Return how many pairs the sign-flip test needs to be able to reach 5 % among so many tests (Holm's first)."""
    return max(MIN_PAIRS, math.ceil(math.log2(2 * tests / SIGNIFICANCE)))


def sign_flip_p(differences: Sequence[float]) -> float:
    """Return the two-sided p value: the share of the 2^K sign assignments whose sum is as far from 0 or farther.

    Exact up to 32 differences (both halves' sums are met in the middle: 2^(K/2) steps), Student's t beyond.
    """
    count, total = len(differences), abs(math.fsum(differences))
    if count > MAX_EXACT_PAIRS:
        return _student_p(differences)
    limit = total - _TIE * max(1e-300, math.fsum(abs(d) for d in differences))
    if limit <= 0:
        return 1.0
    left, right = _sums(differences[: count // 2]), sorted(_sums(differences[count // 2 :]))
    # the assignments are symmetric: the lower tail is as large as the upper
    upper = sum(len(right) - bisect.bisect_left(right, limit - x) for x in left)
    return min(1.0, math.ldexp(2.0 * upper, -count))


def _sums(differences: Sequence[float]) -> list[float]:
    sums = [0.0]
    for difference in differences:
        sums = [x + difference for x in sums] + [x - difference for x in sums]
    return sums


def _student_p(differences: Sequence[float]) -> float:
    count = len(differences)
    error = statistics.stdev(differences) / math.sqrt(count)
    mean = abs(math.fsum(differences) / count)
    if mean == 0:
        return 1.0
    smallest = math.ldexp(1.0, 1 - count)
    return max(2 * t_cdf(-mean / error, count - 1), smallest) if error else smallest


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values adjusted by Holm's step-down procedure, in the order given."""
    adjusted, worst = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = worst
    return adjusted


def _exp(logarithm: float) -> float:
    return math.exp(max(-_MAX_EXPONENT, min(_MAX_EXPONENT, logarithm)))
