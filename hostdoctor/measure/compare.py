"""Runs of a workload from near and from far → :class:`Comparison`. Pure: whoever ran them, and wherever."""

import math
from collections.abc import Sequence

import msgspec

from hostdoctor.errors import HostdoctorError, UsageError
from hostdoctor.facts.runs import Latency, RunResult
from hostdoctor.measure.comparison import (
    Comparison,
    FailedRequests,
    Interval,
    Primary,
    Provenance,
    QuantileName,
    Quantiles,
    Row,
)
from hostdoctor.measure.paired import Paired, compare_pairs, holm
from hostdoctor.measure.quantiles import MIN_CLUSTERS, Quantile, estimate_quantile, sample_quantile, samples_needed
from hostdoctor.measure.verdicts import guard, judge, words
from hostdoctor.measure.workload import differences, remarks
from hostdoctor.parsers.run_values import MIN_QUANTILE_MS

METRICS = ("ttft", "tpot", "itl", "e2el")
SHARES: dict[QuantileName, float] = {"p50": 0.5, "p99": 0.99}
MARGIN = 0.10
TOO_SMALL = "N too small"
_TAIL = 0.9  # from here on bursts are counted, and a run with less than one sample beyond has no such quantile

Key = tuple[str, QuantileName]


class WorkloadError(HostdoctorError):
    """The runs are not repeats of one workload."""


class _Arm(msgspec.Struct):
    """One latency's quantile in one arm: of all samples, and of each run (None where it has none)."""

    whole: Quantile | None
    runs: list[float | None]
    samples: int | None
    smallest_run: int | None


def compare_runs(
    near: Sequence[RunResult],
    far: Sequence[RunResult],
    *,
    control: Sequence[RunResult] = (),
    primary: Key = ("itl", "p50"),
    margin: float = MARGIN,
    force: bool = False,
) -> Comparison:
    """Return the comparison of ``near[i]`` with ``far[i]``, each pair run one after the other.

    ``control[i]`` is a further near run of pair i. Raises UsageError where the counts differ, WorkloadError where the
    runs are of different workloads (with ``force`` that is a warning).
    """
    if len(near) != len(far) or len(control) > len(near):
        raise UsageError(
            f"{len(near)} near runs, {len(far)} far runs, {len(control)} control runs: in the order given they are the"
            " pairs, so as many near as far are needed, and no more controls"
        )
    arms = {"near": near, "far": far, "control": control}
    differing = differences(arms)
    if differing and not force:
        raise WorkloadError(f"not the same workload (--force compares anyway): {'; '.join(differing)}")
    rows = _judged(_rows(near, far, control), primary)
    names = [*METRICS, *sorted({name for name, _ in rows} - {*METRICS})]
    return Comparison(
        pairs=len(near),
        primary=_primary(rows, primary, margin),
        metrics={name: Quantiles(p50=rows[name, "p50"], p99=rows[name, "p99"]) for name in names},
        failed_requests=FailedRequests(near=_failed(near), far=_failed(far)),
        warnings=(*(f"not the same workload: {text}" for text in differing), *remarks(arms)),
        provenance=Provenance(near=_bare(near), far=_bare(far), control=_bare(control)),
    )


_Measured = tuple[_Arm, _Arm, list[tuple[float, float]], Paired | None]


def _rows(near: Sequence[RunResult], far: Sequence[RunResult], control: Sequence[RunResult]) -> dict[Key, _Measured]:
    names = dict.fromkeys([*METRICS, *(name for run in (*near, *far) for name in run.latencies)])
    return {(name, quantile): _measured(name, quantile, near, far, control) for name in names for quantile in SHARES}


def _measured(
    name: str,
    quantile: QuantileName,
    near: Sequence[RunResult],
    far: Sequence[RunResult],
    control: Sequence[RunResult],
) -> _Measured:
    one, other, again = (_arm(name, quantile, runs) for runs in (near, far, control))
    known = _both(one.runs, again.runs)
    repeated = compare_pairs([a for a, _ in known], [b for _, b in known]) if known else None
    return one, other, _both(one.runs, other.runs), repeated


def _both(one: Sequence[float | None], other: Sequence[float | None]) -> list[tuple[float, float]]:
    return [(a, b) for a, b in zip(one, other, strict=False) if a is not None and b is not None]


def _arm(name: str, quantile: QuantileName, runs: Sequence[RunResult]) -> _Arm:
    latencies = [run.latencies.get(name, Latency()) for run in runs]
    counts = [latency.count for latency in latencies if latency.count is not None]
    whole = None
    if runs and all(latency.samples_ms for latency in latencies):
        pooled = [x for latency in latencies for x in latency.samples_ms or ()]
        whole = estimate_quantile(pooled, SHARES[quantile])
    return _Arm(
        whole=whole,
        runs=[_of_run(latency, quantile) for latency in latencies],
        samples=sum(counts) if len(counts) == len(latencies) else None,
        smallest_run=min(counts, default=None),
    )


def _of_run(latency: Latency, quantile: QuantileName) -> float | None:
    if latency.samples_ms:
        value = sample_quantile(sorted(latency.samples_ms), SHARES[quantile])
        return value if value >= MIN_QUANTILE_MS else None
    return latency.quantiles_ms.get(quantile)


def _judged(measured: dict[Key, _Measured], primary: Key) -> dict[Key, Row]:
    """Return the rows with their verdicts; the primary and its p99 (the guard) stand alone, Holm joins the others."""
    if primary not in measured:
        raise UsageError(f"no run has the latency {primary[0]!r}")
    alone = {primary, (primary[0], "p99")}
    lacking = {key: _lacking(near, far, SHARES[key[1]], pairs) for key, (near, far, pairs, _) in measured.items()}
    family = [key for key in measured if key not in alone and lacking[key] is None]
    paired = {key: _paired(measured[key], lacking[key], len(family) if key in family else 1) for key in measured}
    told = [key for key in family if paired[key].p_value is not None]
    adjusted = dict(zip(told, holm([paired[key].p_value or 1.0 for key in told]), strict=True))
    return {key: _row(measured[key], paired[key], adjusted.get(key), lacking[key], SHARES[key[1]]) for key in measured}


def _paired(measured: _Measured, lacking: str | None, tests: int) -> Paired:
    pairs = measured[2]
    paired = compare_pairs([a for a, _ in pairs], [b for _, b in pairs], tests=tests)
    if lacking is not None and lacking.startswith(TOO_SMALL):  # a ratio of what is no quantile
        return Paired(pairs=paired.pairs, pairs_needed=paired.pairs_needed)
    return paired


def _lacking(near: _Arm, far: _Arm, p: float, pairs: Sequence[object]) -> str | None:
    """Return what the samples lack for this quantile, None where nothing is known to."""
    if not pairs:
        return "no pair of runs tells it"
    needed = samples_needed(p)
    for name, arm in (("near", near), ("far", far)):
        if arm.samples is not None and arm.samples < needed:
            return f"{TOO_SMALL}: {name} has {arm.samples} of {needed} samples"
        if p >= _TAIL and arm.smallest_run is not None and arm.smallest_run < round(1 / (1 - p)):
            return f"{TOO_SMALL}: a run of {name} has {arm.smallest_run} of {round(1 / (1 - p))} samples"
        if p >= _TAIL and arm.whole is not None and arm.whole.state == "too-few-clusters":
            return f"{name} has {arm.whole.clusters} of {MIN_CLUSTERS} separate bursts above it"
    return None


def _row(measured: _Measured, paired: Paired, adjusted: float | None, lacking: str | None, p: float) -> Row:
    near, far, _, control = measured
    verdict, reason = judge(paired, paired.p_value if adjusted is None else adjusted, lacking, control)
    pooled = near.whole is not None and far.whole is not None
    too_few = lacking is not None and lacking.startswith(TOO_SMALL)
    near_ms, far_ms = (None, None) if too_few else (_value(near, pooled), _value(far, pooled))
    return Row(
        near_ms=near_ms,
        far_ms=far_ms,
        near_ci_ms=None if near_ms is None else _interval(near, pooled),
        far_ci_ms=None if far_ms is None else _interval(far, pooled),
        ratio=paired.ratio,
        ratio_ci=paired.ratio_ci,
        p_value=paired.p_value,
        adjusted_p_value=adjusted,
        detectable_ratio=None if lacking else paired.detectable_ratio,
        verdict=verdict,
        reason=reason or None,
        pairs=paired.pairs,
        near_samples=near.samples,
        far_samples=far.samples,
        samples_needed=samples_needed(p),
        basis=None if near_ms is None and far_ms is None else "pooled-samples" if pooled else "runs-own-quantiles",
        control_ratio_ci=control.ratio_ci if control is not None else None,
    )


def _value(arm: _Arm, pooled: bool) -> float | None:
    if pooled and arm.whole is not None:
        return arm.whole.value
    known = [value for value in arm.runs if value is not None]
    return math.exp(math.fsum(map(math.log, known)) / len(known)) if known else None


def _interval(arm: _Arm, pooled: bool) -> Interval | None:
    return (arm.whole.low, arm.whole.high) if pooled and arm.whole is not None else None


def _primary(rows: dict[Key, Row], primary: Key, margin: float) -> Primary:
    row, tail = rows[primary], rows[primary[0], "p99"]
    return Primary(
        metric=primary[0],
        quantile=primary[1],
        verdict=row.verdict,
        words=words(row),
        guard="not-applicable" if primary[1] == "p99" else guard(row, tail, margin),
        margin=margin,
    )


def _failed(runs: Sequence[RunResult]) -> int | None:
    told = [run.failed for run in runs if run.failed is not None]
    return sum(told) if told and len(told) == len(runs) else None


def _bare(runs: Sequence[RunResult]) -> tuple[RunResult, ...]:
    return tuple(
        msgspec.structs.replace(
            run,
            latencies={
                name: msgspec.structs.replace(latency, samples_ms=None) for name, latency in run.latencies.items()
            },
        )
        for run in runs
    )
