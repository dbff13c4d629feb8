"""A quantile of a stream of latencies, and an interval for it that bursts do not fool.

The interval's ends are order statistics. Samples that come in bursts carry less than their number says, so the ranks
are widened by how much more the share above the quantile varies between batches than it would if samples were
independent.
"""

import itertools
import math
import statistics
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from hostdoctor.facts import Fact
from hostdoctor.measure.student import t_quantile

CONFIDENCE = 0.95
BATCHES = 20
MIN_CLUSTERS = 10  # separate bursts of samples above the quantile: fewer say little about the next one
_TAIL = (1 - CONFIDENCE) / 2
# Samples above the quantile that are no further apart than this share of their mean distance are one cluster.
_CLUSTER_GAP = 0.2

State = Literal["ok", "too-few-samples", "too-few-clusters"]


class Quantile(Fact, frozen=True, kw_only=True):
    """One quantile of one stream, in the stream's unit.

    ``low`` and ``high`` are a 95 % interval; None where N samples cannot bound that side. ``value`` is None below
    ``samples_needed``. ``burst_factor`` is the variance inflation that widened the interval (1: none); ``clusters``
    counts the separate runs of samples above the quantile.
    """

    p: float
    samples: int
    samples_needed: int
    value: float | None = None
    low: float | None = None
    high: float | None = None
    burst_factor: float | None = None
    clusters: int | None = None
    state: State = "too-few-samples"


def samples_needed(p: float) -> int:
    """Return the smallest N for which order statistics bound the quantile on both sides: 368 for p99, 6 for p50."""
    return math.ceil(math.log(_TAIL) / math.log(max(p, 1 - p)))


def sample_quantile(ordered: Sequence[float], p: float) -> float:
    """Return the quantile of samples in ascending order, between neighbours linearly, as numpy's percentile does."""
    position = (len(ordered) - 1) * p
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def estimate_quantile(
    samples: Sequence[float], p: float, ordered: Sequence[float] | None = None, *, chance_factor: float = 1.0
) -> Quantile:
    """Return the ``p`` quantile (0 < p < 1) of samples given in the order in which they were taken.

    ``ordered`` is the same in ascending order, where the caller has it. A burst factor up to ``chance_factor`` is taken
    for chance and widens nothing.
    """
    count, needed = len(samples), samples_needed(p)
    if count < needed:
        return Quantile(p=p, samples=count, samples_needed=needed)
    ordered = sorted(samples) if ordered is None else ordered
    value = sample_quantile(ordered, p)
    factor = burst_factor(samples, p, value)
    low, high = exact_ranks(count, p) if factor <= chance_factor else widened_ranks(count, p, factor)
    clusters = count_clusters(samples, value, max(1, round(_CLUSTER_GAP / (1 - p))))
    return Quantile(
        p=p,
        samples=count,
        samples_needed=needed,
        value=value,
        low=ordered[low - 1] if low >= 1 else None,
        high=ordered[high - 1] if high <= count else None,
        burst_factor=factor,
        clusters=clusters,
        state="ok" if clusters >= MIN_CLUSTERS or ordered[0] == ordered[-1] else "too-few-clusters",
    )


def burst_factor(samples: Sequence[float], p: float, quantile: float) -> float:
    """Return max(1, var(r)·m / (p(1−p))), r the share above the quantile in each of 20 batches of m samples."""
    size = len(samples) // BATCHES
    if size < 2:
        return 1.0
    starts = [i * len(samples) // BATCHES for i in range(BATCHES + 1)]
    shares = [
        sum(x > quantile for x in samples[start:end]) / (end - start) for start, end in itertools.pairwise(starts)
    ]
    return max(1.0, statistics.variance(shares) * size / (p * (1 - p)))


def count_clusters(samples: Sequence[float], quantile: float, gap: int) -> int:
    """Return how many runs of samples above the quantile there are, at least ``gap`` samples apart."""
    clusters, last = 0, -gap - 1
    for index, sample in enumerate(samples):
        if sample > quantile:
            clusters += index - last > gap
            last = index
    return clusters


@lru_cache(maxsize=256)
def exact_ranks(count: int, p: float) -> tuple[int, int]:
    """Return the 1-based ranks of the exact binomial interval; 0 or ``count`` + 1 where a side has no bound.

    The lower is the largest l with P(B ≤ l−1) ≤ 2.5 %, the upper the smallest u with P(B ≥ u) ≤ 2.5 %, B the number
    of independent samples below the true quantile.
    """
    return _largest_rank(count, p), count + 1 - _largest_rank(count, 1 - p)


def _largest_rank(count: int, p: float) -> int:
    """Return the largest l with P(Binomial(count, p) ≤ l−1) ≤ 2.5 %, 0 when there is none."""
    spread = math.sqrt(count * p * (1 - p))
    k = max(0, int(count * p - 12 * spread - 12))  # what lies below weighs less than a float shows
    total = _binomial(count, k, p)
    while total <= _TAIL:
        k += 1
        total += _binomial(count, k, p)
    return k


def _binomial(count: int, k: int, p: float) -> float:
    ways = math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
    return math.exp(ways + k * math.log(p) + (count - k) * math.log1p(-p))


def widened_ranks(count: int, p: float, factor: float) -> tuple[int, int]:
    """Return the ranks of the normal approximation, widened; beyond 0 or ``count`` where a side has no bound."""
    width = t_quantile(1 - _TAIL, BATCHES - 1) * math.sqrt(count * p * (1 - p) * factor)
    return math.floor(count * p - width), math.ceil(count * p + width) + 1


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return the smallest sample that at least this share (0 to 1) of the samples does not exceed; None without any."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
