"""Runs of a workload from near and from far → :class:`Comparison`. Pure: whoever ran them, and wherever."""

from collections.abc import Sequence

import msgspec

from hostdoctor.errors import HostdoctorError, UsageError
from hostdoctor.facts.runs import RunResult
from hostdoctor.measure.arms import SHARES, TOO_SMALL, Arm, both, lacking, read_arm
from hostdoctor.measure.comparison import (
    ARMS,
    Comparison,
    FailedRequests,
    Interval,
    Primary,
    Provenance,
    QuantileName,
    Quantiles,
    Row,
    Tails,
)
from hostdoctor.measure.paired import Paired, compare_pairs, holm
from hostdoctor.measure.quantiles import samples_needed
from hostdoctor.measure.verdicts import guard, judge, words
from hostdoctor.measure.workload import differences, remarks

METRICS = ("ttft", "tpot", "itl", "e2el")
MARGIN = 0.10

Key = tuple[str, QuantileName]


class WorkloadError(HostdoctorError):
    """The runs are not repeats of one workload."""


def compare_runs(
    near: Sequence[RunResult],
    far: Sequence[RunResult],
    *,
    control: Sequence[RunResult] = (),
    primary: Key = ("itl", "p50"),
    margin: float = MARGIN,
    force: bool = False,
    names: tuple[str, str] = ARMS,
) -> Comparison:
    """Return the comparison of ``near[i]`` with ``far[i]``, each pair run one after the other.

    ``control[i]`` is a further near run of pair i. Raises UsageError where the counts differ, WorkloadError where the
    runs are of different workloads (with ``force`` that is a warning). ``names`` are what words call near and far.
    """
    if len(near) != len(far) or len(control) > len(near):
        raise UsageError(
            f"{len(near)} near runs, {len(far)} far runs, {len(control)} control runs: in the order given they are the"
            " pairs, so as many near as far are needed, and no more controls"
        )
    arms = {names[0]: near, names[1]: far, "control": control}
    differing = differences(arms)
    if differing and not force:
        raise WorkloadError(f"not the same workload (--force compares anyway): {'; '.join(differing)}")
    measured = _measured(near, far, control, primary[0])
    rows = _judged(measured, primary, names)
    metrics = [*METRICS, *sorted({name for name, _ in rows} - {*METRICS})]
    return Comparison(
        arms=names,
        pairs=len(near),
        primary=_primary(rows, primary, margin, names),
        metrics={name: Quantiles(p50=rows[name, "p50"], p99=rows[name, "p99"]) for name in metrics},
        failed_requests=FailedRequests(near=_failed(near), far=_failed(far)),
        warnings=(*(f"not the same workload: {text}" for text in differing), *remarks(arms)),
        provenance=Provenance(near=_bare(near), far=_bare(far), control=_bare(control)),
        tails=_tails(measured),
    )


_Measured = tuple[Arm, Arm, Arm]


def _measured(
    near: Sequence[RunResult], far: Sequence[RunResult], control: Sequence[RunResult], primary: str
) -> dict[Key, _Measured]:
    told = [name for run in (*near, *far) for name in run.latencies] if near else [primary]
    names = dict.fromkeys([*METRICS, *told])
    found: dict[Key, _Measured] = {}
    for name in names:
        one, other, again = (read_arm(name, runs) for runs in (near, far, control))
        found |= {(name, quantile): (one[quantile], other[quantile], again[quantile]) for quantile in SHARES}
    return found


def _tails(measured: dict[Key, _Measured]) -> dict[str, Tails]:
    return {
        name: Tails(near=near.tail, far=far.tail)
        for (name, quantile), (near, far, _) in measured.items()
        if quantile == "p50" and near.tail and far.tail
    }


def _judged(measured: dict[Key, _Measured], primary: Key, names: tuple[str, str]) -> dict[Key, Row]:
    """Return the rows with their verdicts; the primary and its p99 (the guard) stand alone, Holm joins the others."""
    if primary not in measured:
        raise UsageError(f"no run has the latency {primary[0]!r}")
    alone = {primary, (primary[0], "p99")}
    lacks = {key: _lacking(near, far, SHARES[key[1]], names) for key, (near, far, _) in measured.items()}
    family = [key for key in measured if key not in alone and lacks[key] is None]
    paired = {
        key: _paired(near, far, lacks[key], len(family) if key in family else 1)
        for key, (near, far, _) in measured.items()
    }
    told = [key for key in family if paired[key].p_value is not None]
    adjusted = dict(zip(told, holm([paired[key].p_value or 1.0 for key in told]), strict=True))
    return {key: _row(measured[key], paired[key], adjusted.get(key), lacks[key], SHARES[key[1]]) for key in measured}


def _paired(near: Arm, far: Arm, lacks: str | None = None, tests: int = 1) -> Paired:
    pairs = both(near, far)
    paired = compare_pairs([a for a, _ in pairs], [b for _, b in pairs], tests=tests)
    if lacks is not None and lacks.startswith(TOO_SMALL):  # a ratio of what is no quantile
        return Paired(pairs=paired.pairs, pairs_needed=paired.pairs_needed)
    return paired


def _lacking(near: Arm, far: Arm, p: float, names: tuple[str, str]) -> str | None:
    if not both(near, far):
        return "no pair of runs tells it"
    return lacking(near, names[0], p) or lacking(far, names[1], p)


def _row(measured: _Measured, paired: Paired, adjusted: float | None, lacks: str | None, p: float) -> Row:
    near, far, again = measured
    control = _paired(near, again) if both(near, again) else None
    verdict, reason = judge(paired, paired.p_value if adjusted is None else adjusted, lacks, control)
    pooled = near.whole is not None and far.whole is not None
    values: list[tuple[float | None, Interval | None]] = [(None, None), (None, None)]
    if lacks is None or not lacks.startswith(TOO_SMALL):
        values = [_value(arm, pooled) for arm in (near, far)]
    (near_ms, near_ci_ms), (far_ms, far_ci_ms) = values
    return Row(
        near_ms=near_ms,
        far_ms=far_ms,
        near_ci_ms=near_ci_ms,
        far_ci_ms=far_ci_ms,
        ratio=paired.ratio,
        ratio_ci=paired.ratio_ci,
        p_value=paired.p_value,
        adjusted_p_value=adjusted,
        detectable_ratio=None if lacks else paired.detectable_ratio,
        verdict=verdict,
        reason=reason or None,
        pairs=paired.pairs,
        pair_ratios=() if paired.ratio is None else tuple(b / a for a, b in both(near, far)),
        near_samples=near.samples,
        far_samples=far.samples,
        samples_needed=samples_needed(p),
        basis=None if near_ms is None and far_ms is None else "pooled-samples" if pooled else "runs-own-quantiles",
        control_ratio_ci=control.ratio_ci if control is not None else None,
    )


def _value(arm: Arm, pooled: bool) -> tuple[float | None, Interval | None]:
    if pooled and arm.whole is not None:
        return arm.whole.value, (arm.whole.low, arm.whole.high)
    return arm.value(), None


def _primary(rows: dict[Key, Row], primary: Key, margin: float, names: tuple[str, str]) -> Primary:
    row, tail = rows[primary], rows[primary[0], "p99"]
    return Primary(
        metric=primary[0],
        quantile=primary[1],
        verdict=row.verdict,
        words=words(row, names),
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
