"""The records of a comparison: near against far, each latency at its median and its p99. They are the JSON contract."""

from typing import Literal

import msgspec

from hostdoctor.facts import SCHEMA_VERSION, Fact
from hostdoctor.facts.runs import RunResult
from hostdoctor.measure.tails import Points

Verdict = Literal["near-faster", "far-faster", "no-measurable-difference", "insufficient", "unstable"]
QuantileName = Literal["p50", "p99"]
Guard = Literal["held", "broken", "not-shown", "not-applicable"]
Basis = Literal["pooled-samples", "runs-own-quantiles"]
ARMS = ("near", "far")
Interval = tuple[float | None, float | None]


class Row(Fact, frozen=True, kw_only=True):
    """One quantile of one latency. ``ratio`` is far/near: above 1 where near has the lower latency.

    ``near_ms`` and ``far_ms`` are the quantile of all samples of an arm with its 95 % interval (an end is None where
    the samples cannot bound it); where files hold no samples, the geometric mean of the runs' own quantiles without
    an interval (``basis``). None: too few samples (``samples_needed``), or not told. ``p_value`` is the exact sign-flip
    test's, ``adjusted_p_value`` after Holm among the secondary rows; ``control_ratio_ci`` is near against near.
    ``pair_ratios`` has far/near of each pair, in order. ``reason`` says why a verdict is ``insufficient`` or
    ``unstable``.
    """

    near_ms: float | None = None
    far_ms: float | None = None
    near_ci_ms: Interval | None = None
    far_ci_ms: Interval | None = None
    ratio: float | None = None
    ratio_ci: tuple[float, float] | None = None
    p_value: float | None = None
    adjusted_p_value: float | None = None
    detectable_ratio: float | None = None
    verdict: Verdict = "insufficient"
    reason: str | None = None
    pairs: int = 0
    pair_ratios: tuple[float, ...] = ()
    near_samples: int | None = None
    far_samples: int | None = None
    samples_needed: int
    basis: Basis | None = None
    control_ratio_ci: tuple[float, float] | None = None


class Quantiles(Fact, frozen=True, kw_only=True):
    """A latency's two rows."""

    p50: Row
    p99: Row


class Tails(Fact, frozen=True, kw_only=True):
    """How all samples of each arm are distributed: at most 60 of (milliseconds, share of samples at or above it)."""

    near: Points
    far: Points


class Primary(Fact, frozen=True, kw_only=True):
    """The one declared comparison, its verdict in words, and whether the arm that it favours is no worse at p99.

    ``guard``: ``held`` where the 95 % interval of the ratio of p99s excludes that this arm is worse by more than
    ``margin`` (a share), ``broken`` where it excludes that it is not, ``not-shown`` between.
    """

    metric: str
    quantile: QuantileName
    verdict: Verdict
    words: str
    guard: Guard
    margin: float


class FailedRequests(Fact, frozen=True, kw_only=True):
    """Requests that failed, dropped from every latency; None where a run does not tell."""

    near: int | None = None
    far: int | None = None


class Provenance(Fact, frozen=True, kw_only=True):
    """The runs as their files tell them, without their samples, in the order of the pairs."""

    near: tuple[RunResult, ...]
    far: tuple[RunResult, ...]
    control: tuple[RunResult, ...] = ()


class Comparison(Fact, frozen=True, kw_only=True):
    """Near against far over ``pairs`` pairs; ``metrics`` by ``ttft``, ``tpot``, ``itl``, ``e2el`` (and ``wall``).

    ``tails`` has those latencies of which every run's file holds the samples.

    ``arms`` are what the two are called where words are made: a comparison with today's launch says ``current``.
    """

    schema_version: str = SCHEMA_VERSION
    arms: tuple[str, str] = ARMS
    pairs: int
    primary: Primary
    metrics: dict[str, Quantiles]
    failed_requests: FailedRequests
    warnings: tuple[str, ...] = ()
    provenance: Provenance
    tails: dict[str, Tails] = msgspec.field(default_factory=dict)
