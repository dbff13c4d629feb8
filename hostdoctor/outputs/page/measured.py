"""Measured documents as they are shown: verdicts, tables, drawings."""

from collections.abc import Callable, Iterator

import msgspec

from hostdoctor.outputs.page.charts import Series, pair_chart, tail_chart
from hostdoctor.outputs.page.comparisons import TONES, of_comparison
from hostdoctor.outputs.page.documents import (
    Bandwidth,
    Comparison,
    Copies,
    CopyArm,
    CopyResult,
    DiskMeans,
    Document,
    Memory,
    MemoryCell,
    Nvme,
    NvmeRun,
    Quantile,
    Watch,
)
from hostdoctor.outputs.page.figures import block, figure, number, of_quantile, plain
from hostdoctor.outputs.page.model import Chart, Figure, Measurement, Table, Verdict

Show = Callable[[MemoryCell], Figure]
MAX_CHARTS, MAX_TABLES, MAX_ROWS = 24, 48, 100
ARROWS = {"to-gpu": "host to GPU", "from-gpu": "GPU to host"}
LOOPS = {"closed": "one after another", "open": "on a schedule", "bandwidth": "large"}
CELLS = {"far-memory": "far memory", "far-cpu": "far CPUs", "far": "far CPUs and memory", "near-again": "near again"}
NS_PER_US = 1000.0


def measurements(document: Document, name: str) -> list[Measurement]:
    """Return what a document is shown as, cut where it is endless; ``name`` is its file's."""
    return [_cut(told) for told in _all(document, name)]


def _all(document: Document, name: str) -> list[Measurement]:
    if isinstance(document, Comparison):
        return of_comparison(document, f"A workload from near and from far ({name})")
    if isinstance(document, Copies):
        return [_copies(document, name)]
    if isinstance(document, Nvme):
        return [_nvme(document, name)]
    return [_memory(document, name) if isinstance(document, Memory) else _watch(document, name)]


def _cut(told: Measurement) -> Measurement:
    lists = {"verdicts": MAX_ROWS, "tables": MAX_TABLES, "charts": MAX_CHARTS, "notes": MAX_ROWS}
    left = {name: len(getattr(told, name)) - most for name, most in lists.items()}
    words = [f"{count} more {name} are in the document" for name, count in left.items() if count > 0]
    tables = tuple(msgspec.structs.replace(one, rows=one.rows[:MAX_ROWS]) for one in told.tables[:MAX_TABLES])
    words += [f"{one.caption}: the first {MAX_ROWS} of {len(one.rows)} rows" for one in told.tables if _is_long(one)]
    return msgspec.structs.replace(
        told,
        verdicts=told.verdicts[:MAX_ROWS],
        tables=tables,
        charts=told.charts[:MAX_CHARTS],
        notes=(*told.notes[:MAX_ROWS], *words[:MAX_ROWS]),
    )


def _is_long(table: Table) -> bool:
    return len(table.rows) > MAX_ROWS


def _made(document: Copies | Nvme | Memory | Watch) -> str:
    told = document.circumstances
    parts = [told.at, told.hostname and f"on {told.hostname}", told.hostdoctor and f"hostdoctor {told.hostdoctor}"]
    parts.append(f"ended early by {told.interrupted}" if told.interrupted else None)
    return ", ".join(part for part in parts if part)


def _copies(told: Copies, name: str) -> Measurement:
    gpu = "GPU" if told.gpu.index is None else f"GPU{told.gpu.index}"
    nodes = f"near node {_id(told.gpu.near_node)}, far node {_id(told.gpu.far_node)}"
    versions = f"driver {told.nvidia_driver or 'not told'}, CUDA {told.cuda_version or 'not told'}"
    verdicts = tuple(verdict for result in told.results for verdict in _copy_verdicts(result))
    whole = [verdict for verdict in verdicts if CELLS["far"] in verdict.what] or list(verdicts)
    slower, same = (sum(verdict.tone == tone for verdict in whole) for tone in ("near", "same"))
    headline = f"far node against near: near faster in {slower} of {len(whole)} kinds of copy, no difference in {same}"
    charts = [chart for result in told.results for chart in _copy_charts(result)]
    return Measurement(
        title=f"Copies between host and {gpu} ({name})",
        made=f"{_made(told)}; {nodes}; {versions}",
        headline=headline if whole else "",
        tone="near" if slower else "same" if whole and same == len(whole) else "unknown",
        verdicts=verdicts,
        tables=tuple(_copy_table(result) for result in told.results),
        charts=tuple(charts),
        notes=(*([f"Ended early: {told.stopped}"] if told.stopped else []), *told.notes),
    )


def _id(node: int | None) -> str:
    return "not known" if node is None else str(node)


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


def _nvme(told: Nvme, name: str) -> Measurement:
    groups: dict[tuple[int, int], list[NvmeRun]] = {}
    for run in told.runs:
        groups.setdefault((run.block_bytes, run.queue_depth), []).append(run)
    charts = [chart for (size, depth), runs in groups.items() for chart in _nvme_charts(size, depth, runs)]
    return Measurement(
        title=f"Reads of {told.drive or told.path or 'a drive'} ({name})",
        made=f"{_made(told)}; drive on node {_id(told.drive_node)}; {told.fio or 'fio'}",
        headline="fio's own figures, read from near and far CPUs; not judged",
        tables=tuple(_nvme_table(size, depth, runs) for (size, depth), runs in groups.items()),
        charts=tuple(charts),
        notes=(
            *told.notes,
            *(f"not measured from node {run.cpu_node}: {run.failed}" for run in told.runs if run.failed),
        ),
    )


def _nvme_table(size: int, depth: int, runs: list[NvmeRun]) -> Table:
    rows = []
    for run in runs:
        if run.latency is not None:
            told, disk = run.latency, run.disk or DiskMeans()
            times = [figure(ns / NS_PER_US, "µs") for ns in (told.p50_ns, told.p99_ns, told.p999_ns)]
            seen = [figure(disk.r_await_ms, "ms"), figure(disk.queue_depth, "")]
            rows.append(
                (plain(f"{_side(run)}, CPUs of node {run.cpu_node}"), *times, plain(f"{told.samples:,}"), *seen)
            )
    columns = ("From", "p50", "p99", "p99.9", "Reads", "Disk's await", "Disk's queue depth")
    return Table(caption=f"Random reads of {block(size)}, queue depth {depth}", columns=columns, rows=tuple(rows))


def _side(run: NvmeRun) -> str:
    return {True: "near", False: "far", None: "node not known"}[run.near]


def _nvme_charts(size: int, depth: int, runs: list[NvmeRun]) -> Iterator[Chart]:
    series, counts = [], []
    for side in ("near", "far", "node not known"):
        mine = [run for run in runs if run.latency is not None and _side(run) == side]
        if mine:
            series.append(Series(name=side, points=tuple(_pooled(mine))))
            counts.append(f"{sum(run.latency.samples for run in mine if run.latency):,} {side} reads")
    if drawn := tail_chart(f"Read of {block(size)}, queue depth {depth}", "µs", series):
        yield Chart(svg=drawn, caption=f"Reads of {block(size)} at queue depth {depth}: {', '.join(counts)}.")


def _pooled(runs: list[NvmeRun]) -> Iterator[tuple[float, float]]:
    """Yield the tail of all runs' histograms; of the first run's quantiles where fio kept no histogram."""
    bins: dict[int, int] = {}
    for run in runs:
        for value, count in _histogram(run.raw).items():
            bins[value] = bins.get(value, 0) + count
    total, above = sum(bins.values()), sum(bins.values())
    if not total:
        first = runs[0].latency
        if first is not None:
            yield from ((first.p50_ns / 1000, 0.5), (first.p99_ns / 1000, 0.01), (first.p999_ns / 1000, 0.001))
        return
    last = 2.0
    for value in sorted(bins):
        share = above / total
        above -= bins[value]
        if value > 0 and share > 0 and share < last * 0.97:  # steps too small to see are left out
            yield value / NS_PER_US, share
            last = share


class _Clat(msgspec.Struct):
    bins: dict[str, int] = {}


class _Reads(msgspec.Struct):
    clat_ns: _Clat = msgspec.field(default_factory=_Clat)


class _Job(msgspec.Struct):
    read: _Reads = msgspec.field(default_factory=_Reads)


class _Fio(msgspec.Struct):
    jobs: list[_Job] = []


def _histogram(raw: msgspec.Raw) -> dict[int, int]:
    try:
        told = msgspec.json.decode(raw, type=_Fio | None) or _Fio()
    except (msgspec.DecodeError, RecursionError):
        return {}
    return {int(ns): n for job in told.jobs for ns, n in job.read.clat_ns.bins.items() if ns.isdigit() and len(ns) < 19}


def _memory(told: Memory, name: str) -> Measurement:
    tables = [_matrix(told, "Latency of a dependent load, median of batches", _latency)]
    tables += [_matrix(told, f"Bandwidth of {name}", show) for name, show in RATES.items() if _any(told, show)]
    skipped = [
        f"not measured: CPUs of node {c.cpu_node}, memory of node {c.memory_node}: {c.skipped}"
        for c in told.cells
        if c.skipped
    ]
    method = "latencies" if told.method == "native" else "interpreted: only differences to near memory are told"
    return Measurement(
        title=f"Memory of each node from the CPUs of each node ({name})",
        made=f"{_made(told)}; {method}",
        tables=tuple(tables),
        notes=(*told.notes, *skipped),
    )


def _any(told: Memory, show: Show) -> bool:
    return any(show(cell).value is not None for cell in told.cells)


def _matrix(told: Memory, caption: str, show: Show) -> Table:
    cells = {(cell.cpu_node, cell.memory_node): cell for cell in told.cells}
    columns = sorted({cell.memory_node for cell in told.cells})
    rows = tuple(
        (plain(f"CPUs of node {cpu}"), *(show(cells[cpu, m]) if (cpu, m) in cells else plain("n/a") for m in columns))
        for cpu in sorted({cell.cpu_node for cell in told.cells})
    )
    return Table(caption=caption, columns=("", *(f"memory of node {node}" for node in columns)), rows=rows)


def _latency(cell: MemoryCell) -> Figure:
    if cell.latency is not None:
        return figure(cell.latency.p50_of_batch_means_ns, f"ns ({cell.latency.batches:,} batches)")
    if cell.latency_difference is not None:
        told = cell.latency_difference
        return Figure(text=f"{told.p50_ns:+.4g} ns ({told.batches:,} batches)", value=told.p50_ns)
    return plain("near" if cell.cpu_node == cell.memory_node and not cell.skipped else "n/a")


def _bandwidth(told: Bandwidth | None) -> Figure:
    return plain("n/a") if told is None else figure(told.p50_gbytes_per_s, "GB/s")


RATES: dict[str, Show] = {
    "reads": lambda cell: _bandwidth(cell.read),
    "writes": lambda cell: _bandwidth(cell.write),
    "copies": lambda cell: _bandwidth(cell.copy),
}


def _watch(told: Watch, name: str) -> Measurement:
    disks = tuple((plain(disk.disk), *_means(disk.means or DiskMeans())) for disk in told.disks)
    caches = tuple(
        (
            plain(cache.cache),
            figure(cache.hit_percent, "%"),
            figure(cache.hits, ""),
            figure(cache.queries, ""),
        )
        for cache in told.caches
    )
    tables = []
    if disks:
        columns = ("Disk", "Read latency", "Write latency", "Queue depth")
        tables.append(Table(caption="Device latency and queue depth", columns=columns, rows=disks))
    if caches:
        tables.append(Table(caption="Cache hits", columns=("Cache", "Hits", "Found", "Looked up"), rows=caches))
    made = f"{_made(told)}; watched for {number(told.seconds)} s"
    return Measurement(
        title=f"Drives and caches at work ({name})", made=made, tables=tuple(tables), notes=told.notes, is_signal=True
    )


def _means(told: DiskMeans) -> tuple[Figure, Figure, Figure]:
    return figure(told.r_await_ms, "ms"), figure(told.w_await_ms, "ms"), figure(told.queue_depth, "")
