"""Copies between host and GPU (``hostdoctor measure copy``) as they are shown."""

from collections.abc import Iterator

from hostdoctor.outputs.page.charts import Series, pair_chart, tail_chart
from hostdoctor.outputs.page.comparisons import TONES
from hostdoctor.outputs.page.documents import Copies, CopyArm, CopyResult, Quantile
from hostdoctor.outputs.page.figures import block, early, figure, made, node_id, of_quantile, plain
from hostdoctor.outputs.page.model import Chart, Figure, Measurement, Table, Verdict

ARROWS = {"to-gpu": "host to GPU", "from-gpu": "GPU to host"}
LOOPS = {"closed": "one after another", "open": "on a schedule", "bandwidth": "large"}
CELLS = {"far-memory": "far memory", "far-cpu": "far CPUs", "far": "far CPUs and memory", "near-again": "near again"}


def of_copies(told: Copies, name: str) -> Measurement:
    """Return the copies as they are shown; ``name`` is the file's."""
    gpu = "GPU" if told.gpu.index is None else f"GPU{told.gpu.index}"
    nodes = f"near node {node_id(told.gpu.near_node)}, far node {node_id(told.gpu.far_node)}"
    versions = f"driver {told.nvidia_driver or 'not told'}, CUDA {told.cuda_version or 'not told'}"
    verdicts = tuple(verdict for result in told.results for verdict in _copy_verdicts(result))
    whole = [verdict for verdict in verdicts if CELLS["far"] in verdict.what] or list(verdicts)
    slower, same = (sum(verdict.tone == tone for verdict in whole) for tone in ("near", "same"))
    headline = f"far node against near: near faster in {slower} of {len(whole)} kinds of copy, no difference in {same}"
    charts = [chart for result in told.results for chart in _copy_charts(result)]
    return Measurement(
        title=f"Copies between host and {gpu} ({name})",
        made=f"{made(told.circumstances)}; {nodes}; {versions}",
        headline=headline if whole else "",
        tone="near" if slower else "same" if whole and same == len(whole) else "unknown",
        verdicts=verdicts,
        tables=tuple(_copy_table(result) for result in told.results),
        charts=tuple(charts),
        notes=(*early(told.stopped), *told.notes),
    )


def _setting(result: CopyResult) -> str:
    told = result.setting
    load = "" if told.load == "idle" else ", beside other load"
    loop = LOOPS.get(told.loop, told.loop)
    return f"{block(told.size_bytes)} {ARROWS.get(told.direction, told.direction)}, {told.memory}, {loop}{load}"


def _copy_verdicts(result: CopyResult) -> Iterator[Verdict]:
    arms = {arm.cell.role: arm for arm in result.arms}
    for told in result.comparisons:
        near, far = (_statistic(arms.get(role), told.statistic) for role in ("near", told.cell))
        yield Verdict(
            what=f"{_setting(result)}: {told.statistic}, {CELLS.get(told.cell, told.cell)}",
            near=near,
            far=far,
            ratio=figure(told.paired.ratio, "", told.paired.ratio_ci),
            tone=TONES.get(told.verdict, "unknown"),
            words=told.words,
            samples=f"{told.paired.pairs} pairs",
        )


def _statistic(arm: CopyArm | None, statistic: str) -> Figure:
    if arm is None:
        return plain("n/a")
    if statistic == "mean":
        rates = sorted(arm.bandwidth_gbs)
        return figure(rates[len(rates) // 2] if rates else None, "GB/s")
    return of_quantile(arm.p50_us if statistic == "p50" else arm.p99_us, "µs")


def _copy_table(result: CopyResult) -> Table:
    rows: tuple[tuple[Figure, ...], ...]
    if result.setting.loop == "bandwidth":
        rows = tuple((*_cell(arm), *_rates(arm.bandwidth_gbs), plain(arm.runs)) for arm in result.arms)
        columns = ("Cell", "CPU node", "Memory node", "Least", "Median", "Most", "Runs")
    else:
        rows = tuple(
            (
                *_cell(arm),
                *(of_quantile(q, "µs") for q in (arm.p50_us, arm.p99_us, arm.p999_us)),
                plain(f"{arm.copies:,}"),
            )
            for arm in result.arms
        )
        columns = ("Cell", "CPU node", "Memory node", "p50", "p99", "p99.9", "Copies")
    return Table(caption=_setting(result), columns=columns, rows=rows)


def _cell(arm: CopyArm) -> tuple[Figure, Figure, Figure]:
    return plain(CELLS.get(arm.cell.role, arm.cell.role)), plain(arm.cell.cpu_node), plain(arm.cell.memory_node)


def _rates(gbs: tuple[float, ...]) -> tuple[Figure, Figure, Figure]:
    rates = sorted(gbs)
    least, median, most = (rates[0], rates[len(rates) // 2], rates[-1]) if rates else (None, None, None)
    return figure(least, "GB/s"), figure(median, "GB/s"), figure(most, "GB/s")


def _copy_charts(result: CopyResult) -> Iterator[Chart]:
    arms = {arm.cell.role: arm for arm in result.arms}
    near, far = arms.get("near"), arms.get("far")
    if near is None or far is None:
        return
    what = _setting(result)
    series = [Series(name=name, points=tuple(_tail(arm))) for name, arm in (("near", near), ("far", far))]
    if drawn := tail_chart("Time of a copy", "µs", series):
        yield Chart(svg=drawn, caption=f"{what}: {near.copies:,} near and {far.copies:,} far copies.")
    runs = (("p50", near.run_p50_us, far.run_p50_us), ("p99", near.run_p99_us, far.run_p99_us))
    drawn = "".join(_pairs(result, statistic, one, other) for statistic, one, other in runs)
    if drawn:
        yield Chart(svg=drawn, caption=f"{what}: {len(near.run_p50_us)} pairs of runs, each dot one.")


def _pairs(result: CopyResult, statistic: str, near: tuple[float, ...], far: tuple[float, ...]) -> str:
    ratios = [b / a for a, b in zip(near, far, strict=False) if a > 0 and b > 0]
    told = (one.paired.ratio_ci for one in result.comparisons if (one.cell, one.statistic) == ("far", statistic))
    interval = next(told, None)
    band = (interval[0], interval[1]) if interval and interval[0] and interval[1] else None
    return pair_chart(f"{statistic} of a run", ratios, band)


def _tail(arm: CopyArm) -> Iterator[tuple[float, float]]:
    quantiles: tuple[tuple[Quantile | None, float], ...] = ((arm.p50_us, 0.5), (arm.p99_us, 0.01), (arm.p999_us, 0.001))
    for quantile, share in quantiles:
        if quantile is not None and quantile.value is not None:
            yield quantile.value, share
