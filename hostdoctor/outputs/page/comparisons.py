"""A comparison of near and far (``hostdoctor compare``) as it is shown."""

from collections.abc import Iterator, Sequence

from hostdoctor.measure.verdicts import share
from hostdoctor.outputs.page.against import TONES, band, words_of
from hostdoctor.outputs.page.charts import Series, pair_chart, tail_chart
from hostdoctor.outputs.page.documents import Comparison, Experiment, Row, Runs, Tail, TrialPlan
from hostdoctor.outputs.page.figures import figure, number
from hostdoctor.outputs.page.model import Chart, Measurement, Verdict
from hostdoctor.outputs.words import plural

METRICS = {
    "ttft": "Time to first token (TTFT)",
    "tpot": "Time per output token (TPOT)",
    "itl": "Inter-token latency (ITL)",
    "e2el": "End-to-end latency",
    "wall": "Wall time",
}
_SHARES = {"p50": 0.5, "p99": 0.01}


def of_comparison(told: Comparison, name: str) -> list[Measurement]:
    """Return a comparison, and before it that of near with the workload as it is launched today, where there is one."""
    shown = [_one(told, _title(told, name))]
    if told.production is not None:
        shown.insert(0, _one(told.production, f"{_title(told.production, name)}: as launched today"))
    return shown


def _title(told: Comparison, name: str) -> str:
    return f"A workload, {' against '.join(told.arms)} ({name})"


def _one(told: Comparison, title: str) -> Measurement:
    runs = told.told_runs()
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
    own = told if isinstance(told, Experiment) else Experiment(pairs=0, metrics={})
    begun = own.plan or TrialPlan()
    dates = [run.date for run in every if run.date]
    versions = {name: value for run in every for name, value in run.versions.items()} | own.versions
    parts = [
        f"{told.pairs} pairs of runs",
        *[f"model {model}" for model in dict.fromkeys(run.model for run in every if run.model)][:2],
        *list(dict.fromkeys(run.tool for run in every if run.tool))[:2],
        own.rate_per_s is not None and f"{number(own.rate_per_s)} requests a second",
        begun.hostname and f"on {begun.hostname}",
        begun.hostdoctor and f"hostdoctor {begun.hostdoctor}",
        *[f"{name} {value}" for name, value in list(versions.items())[:8]],
        begun.created and f"begun {begun.created}",
        not begun.created and dates and f"first run {dates[0]}",
    ]
    return ", ".join(part for part in parts if isinstance(part, str) and part)


def _is_told(row: Row) -> bool:
    """Whether any pair of runs tells a latency; of wall times, say, the others are not told."""
    return row.pairs != 0 or row.near_ms is not None or row.far_ms is not None


def _verdicts(told: Comparison) -> Iterator[Verdict]:
    for metric, rows in told.metrics.items():
        for quantile, row in rows.items():
            if not _is_told(row):
                continue
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
        tail = told.tails.get(metric, Tail())
        series = [
            Series(name=arm, points=points or tuple(_points(rows, side)))
            for arm, side, points in zip(told.arms, ("near", "far"), (tail.near, tail.far), strict=True)
        ]
        counts = rows.get("p99") or rows.get("p50")
        what = "all samples of each arm" if tail.near and tail.far else "p50 and p99 of each arm"
        if counts is not None and (drawn := tail_chart(name, "ms", series)):
            yield Chart(svg=drawn, caption=f"{name}: {what}, {_samples(counts)}.")
        ratios = {quantile: row.pair_ratios or _ratios(runs, metric, quantile) for quantile, row in rows.items()}
        dots = [pair_chart(quantile, ratios[quantile], band(row.ratio_ci), told.arms) for quantile, row in rows.items()]
        if any(dots):
            said = f"{plural(max(map(len, ratios.values())), 'pair')} of runs, each dot one"
            quantiles = " and ".join(quantile for quantile, told_ratios in ratios.items() if told_ratios)
            yield Chart(
                svg="".join(dots),
                caption=f"{name}, {quantiles}: {said}; the band is the 95 % interval of the mean ratio.",
            )


def _points(rows: dict[str, Row], side: str) -> Iterator[tuple[float, float]]:
    for quantile, row in rows.items():
        value = row.near_ms if side == "near" else row.far_ms
        if value is not None and quantile in _SHARES:
            yield value, _SHARES[quantile]


def _ratios(runs: Runs, metric: str, quantile: str) -> Sequence[float]:
    found = []
    for near, far in zip(runs.near, runs.far, strict=False):
        one, other = (
            run.latencies[metric].quantiles_ms.get(quantile) if metric in run.latencies else None for run in (near, far)
        )
        if one and other:
            found.append(other / one)
    return found


def _control(told: Comparison) -> Iterator[str]:
    """Yield how far near was from near again in the primary latency, where that was measured."""
    rows = {} if told.primary is None else told.metrics.get(told.primary.metric, {})
    row = rows.get(told.primary.quantile) if told.primary is not None else None
    low, high = (None, None) if row is None or row.control_ratio_ci is None else row.control_ratio_ci
    if low is not None and high is not None:
        differs = "no difference" if low <= 1 <= high else "they differ: this host does not repeat itself"
        near = told.arms[0]
        yield f"Control, {near} again against {near}: ratio {number(low)} to {number(high)} (95 %), {differs}."


def _notes(told: Comparison) -> Iterator[str]:
    if not told.complete:
        yield "The experiment was interrupted: this is what had been measured."
    if told.primary is not None and told.primary.guard not in (None, "not-applicable"):
        margin = "" if told.primary.margin is None else f" by more than {share(told.primary.margin)}"
        yield f"Guard (no worse at p99{margin}): {told.primary.guard}."
    yield from _control(told)
    failed = told.failed_requests
    if failed is not None and (failed.near or failed.far):
        near, far = ("not told" if n is None else str(n) for n in (failed.near, failed.far))
        yield f"Failed requests, left out of every latency: {near} {told.arms[0]}, {far} {told.arms[1]}."
    untold = [METRICS.get(name, name) for name, rows in told.metrics.items() if not any(map(_is_told, rows.values()))]
    if untold:
        yield f"Told by no pair of runs: {', '.join(untold)}."
    yield from (f"{arm}: {where}" for arm, where in told.placement.items())
    yield from told.warnings
