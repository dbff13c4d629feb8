"""A comparison of near and far (``hostdoctor compare``) as it is shown."""

from collections.abc import Iterator

from hostdoctor.outputs.page.charts import Series, pair_chart, tail_chart
from hostdoctor.outputs.page.documents import Comparison, Row, Runs
from hostdoctor.outputs.page.figures import figure, number, percent
from hostdoctor.outputs.page.model import Chart, Measurement, Tone, Verdict

METRICS = {
    "ttft": "Time to first token (TTFT)",
    "tpot": "Time per output token (TPOT)",
    "itl": "Inter-token latency (ITL)",
    "e2el": "End-to-end latency",
    "wall": "Wall time",
}
TONES: dict[str, Tone] = {
    "near-faster": "near",
    "far-faster": "far",
    "no-measurable-difference": "same",
}
_SHARES = {"p50": 0.5, "p99": 0.01}


def of_comparison(told: Comparison, title: str) -> list[Measurement]:
    """Return a comparison, and before it that of near with the workload as it is launched today, where there is one."""
    shown = [_one(told, title)]
    if told.production is not None:
        shown.insert(0, _one(told.production, f"{title}: as launched today"))
    return shown


def words_of(row: Row, arms: tuple[str, str]) -> str:
    """Return a row's verdict in words; no difference is said as plainly as one."""
    near, far = arms
    if row.verdict in ("near-faster", "far-faster") and row.ratio:
        arm, ratio = (near, row.ratio) if row.verdict == "near-faster" else (far, 1 / row.ratio)
        return f"{arm} is faster by {percent(ratio - 1)}"
    if row.verdict == "no-measurable-difference":
        seen = "" if row.detectable_ratio is None else f" (would have seen ≥ {percent(row.detectable_ratio - 1)})"
        return f"no measurable difference{seen}"
    if row.verdict == "unstable":
        return f"host unstable ({near} against {near} differs)"
    return f"{row.verdict}{f' ({row.reason})' if row.reason else ''}"


def _one(told: Comparison, title: str) -> Measurement:
    runs = told.runs()
    primary = told.primary
    headline = ""
    if primary is not None:
        headline = f"{METRICS.get(primary.metric, primary.metric)}, {primary.quantile}: {primary.words}"
    return Measurement(
        title=title,
        made=_made(told, runs),
        headline=headline,
        tone=TONES.get(primary.verdict, "unknown") if primary else "plain",
        arms=told.arms,
        verdicts=tuple(_verdicts(told)),
        charts=tuple(_charts(told, runs)),
        notes=tuple(_notes(told)),
    )


def _made(told: Comparison, runs: Runs) -> str:
    every = (*runs.near, *runs.far)
    parts = [f"{told.pairs} pairs of runs"]
    parts += [f"model {model}" for model in dict.fromkeys(run.model for run in every if run.model)][:2]
    parts += list(dict.fromkeys(run.tool for run in every if run.tool))[:2]
    versions = {name: value for run in every for name, value in run.versions.items()}
    parts += [f"{name} {value}" for name, value in list(versions.items())[:6]]
    dates = [run.date for run in every if run.date]
    parts += [f"first run {dates[0]}"] if dates else []
    return ", ".join(parts)


def _verdicts(told: Comparison) -> Iterator[Verdict]:
    for metric, rows in told.metrics.items():
        for quantile, row in rows.items():
            yield Verdict(
                what=f"{METRICS.get(metric, metric)}, {quantile}",
                near=figure(row.near_ms, "ms", row.near_ci_ms),
                far=figure(row.far_ms, "ms", row.far_ci_ms),
                ratio=figure(row.ratio, "", row.ratio_ci),
                tone=TONES.get(row.verdict, "unknown"),
                words=words_of(row, told.arms),
                samples=_samples(row),
            )


def _samples(row: Row) -> str:
    near, far = ("?" if n is None else f"{n:,}" for n in (row.near_samples, row.far_samples))
    p_value = row.p_value if row.adjusted_p_value is None else row.adjusted_p_value
    told = "" if p_value is None else f", p = {number(p_value)}"
    pairs = "" if row.pairs is None else f"{row.pairs} pairs; "
    return f"{pairs}{near} / {far} samples{told}"


def _charts(told: Comparison, runs: Runs) -> Iterator[Chart]:
    for metric, rows in told.metrics.items():
        name = METRICS.get(metric, metric)
        series = [
            Series(name=arm, points=tuple(_points(rows, side)))
            for arm, side in zip(told.arms, ("near", "far"), strict=True)
        ]
        counts = rows.get("p99") or rows.get("p50")
        if counts is not None and (tail := tail_chart(name, "ms", series)):
            yield Chart(svg=tail, caption=f"{name}: quantiles of all samples of each arm, {_samples(counts)}.")
        drawn = {quantile: _pairs(runs, metric, quantile, row) for quantile, row in rows.items()}
        if any(drawn.values()):
            counts_words = (
                f"{len(runs.near)} pairs of runs, each dot one; the band is the 95 % interval of the mean ratio"
            )
            yield Chart(svg="".join(drawn.values()), caption=f"{name}, {' and '.join(drawn)}: {counts_words}.")


def _pairs(runs: Runs, metric: str, quantile: str, row: Row) -> str:
    interval = row.ratio_ci
    band = (interval[0], interval[1]) if interval and interval[0] and interval[1] else None
    return pair_chart(quantile, _ratios(runs, metric, quantile), band)


def _points(rows: dict[str, Row], side: str) -> Iterator[tuple[float, float]]:
    for quantile, row in rows.items():
        value = row.near_ms if side == "near" else row.far_ms
        if value is not None and quantile in _SHARES:
            yield value, _SHARES[quantile]


def _ratios(runs: Runs, metric: str, quantile: str) -> list[float]:
    found = []
    for near, far in zip(runs.near, runs.far, strict=False):
        one, other = (
            run.latencies[metric].quantiles_ms.get(quantile) if metric in run.latencies else None for run in (near, far)
        )
        if one and other:
            found.append(other / one)
    return found


def _notes(told: Comparison) -> Iterator[str]:
    if not told.complete:
        yield "The experiment was interrupted: this is what had been measured."
    if told.primary is not None and told.primary.guard not in (None, "not-applicable"):
        margin = "" if told.primary.margin is None else f" by more than {percent(told.primary.margin)}"
        yield f"Guard (no worse at p99{margin}): {told.primary.guard}."
    failed = told.failed_requests
    if failed is not None and (failed.near or failed.far):
        near, far = ("not told" if n is None else str(n) for n in (failed.near, failed.far))
        yield f"Failed requests, left out of every latency: {near} {told.arms[0]}, {far} {told.arms[1]}."
    yield from (f"{arm}: {where}" for arm, where in told.placement.items())
    yield from told.warnings
