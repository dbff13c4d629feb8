"""What the runs of one arm say of one latency: its quantile over all samples, and in each run."""

import math
from collections.abc import Sequence

from hostdoctor.facts import Fact
from hostdoctor.facts.runs import Latency, RunResult
from hostdoctor.measure.comparison import QuantileName
from hostdoctor.measure.quantiles import MIN_CLUSTERS, Quantile, estimate_quantile, sample_quantile, samples_needed
from hostdoctor.measure.tails import Points, tail_of
from hostdoctor.parsers.run_values import MIN_QUANTILE_MS

SHARES: dict[QuantileName, float] = {"p50": 0.5, "p99": 0.99}
TOO_SMALL = "N too small"
_TAIL = 0.9  # from here on bursts are counted, and a run with less than one sample beyond has no such quantile


class Arm(Fact, frozen=True, kw_only=True):
    """One quantile of one latency in one arm.

    ``whole`` is that of all samples, None where a run keeps none; ``runs`` has each run's own, None where it has none.
    ``samples`` counts them over all runs and ``smallest_run`` in the shortest, None where a file does not tell.
    ``tail`` is how all samples are distributed.
    """

    whole: Quantile | None
    runs: tuple[float | None, ...]
    samples: int | None
    smallest_run: int | None
    tail: Points = ()

    def value(self) -> float | None:
        """Return the geometric mean of the runs' own quantiles."""
        known = [value for value in self.runs if value is not None]
        return math.exp(math.fsum(map(math.log, known)) / len(known)) if known else None


def read_arm(name: str, runs: Sequence[RunResult]) -> dict[QuantileName, Arm]:
    """Return both quantiles of the latency of that name; each list of samples is sorted once."""
    latencies = [run.latencies.get(name, Latency()) for run in runs]
    counts = [latency.count for latency in latencies if latency.count is not None]
    ordered = [sorted(latency.samples_ms or ()) for latency in latencies]
    pooled = [x for latency in latencies for x in latency.samples_ms or ()] if ordered and all(ordered) else []
    pooled_ordered = sorted(x for run in ordered for x in run) if pooled else []
    tail = tail_of(pooled_ordered)
    return {
        quantile: Arm(
            whole=estimate_quantile(pooled, p, pooled_ordered) if pooled else None,
            runs=tuple(_of_run(latency, own, quantile) for latency, own in zip(latencies, ordered, strict=True)),
            samples=sum(counts) if len(counts) == len(latencies) else None,
            smallest_run=min(counts, default=None),
            tail=tail,
        )
        for quantile, p in SHARES.items()
    }


def _of_run(latency: Latency, ordered: Sequence[float], quantile: QuantileName) -> float | None:
    if not ordered:
        return latency.quantiles_ms.get(quantile)
    value = sample_quantile(ordered, SHARES[quantile])
    return value if value >= MIN_QUANTILE_MS else None


def both(one: Arm, other: Arm) -> list[tuple[float, float]]:
    """Return the pairs of which both runs tell the quantile."""
    return [(a, b) for a, b in zip(one.runs, other.runs, strict=False) if a is not None and b is not None]


def lacking(arm: Arm, name: str, p: float) -> str | None:
    """Return what an arm's samples lack for this quantile, None where nothing is known to."""
    needed, in_run = samples_needed(p), round(1 / (1 - p))
    if arm.samples is not None and arm.samples < needed:
        return f"{TOO_SMALL}: {name} has {arm.samples} of {needed} samples"
    if p < _TAIL:
        return None
    if arm.smallest_run is not None and arm.smallest_run < in_run:
        return f"{TOO_SMALL}: a run of {name} has {arm.smallest_run} of {in_run} samples"
    if arm.whole is not None and arm.whole.state == "too-few-clusters":
        return f"{name} has {arm.whole.clusters} of {MIN_CLUSTERS} separate bursts above it"
    return None
