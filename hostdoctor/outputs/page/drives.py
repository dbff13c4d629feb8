"""Drives (``hostdoctor measure nvme``) as they are shown: reads from near and far, and signals without load."""

from collections.abc import Iterator

import msgspec

from hostdoctor.outputs.page.charts import Series, tail_chart
from hostdoctor.outputs.page.documents import DiskMeans, Nvme, NvmeRun, Watch
from hostdoctor.outputs.page.figures import block, early, figure, made, node_id, number, plain
from hostdoctor.outputs.page.model import Chart, Figure, Measurement, Table

NS_PER_US = 1000.0


def of_reads(told: Nvme, name: str) -> Measurement:
    """Return the reads of a drive as they are shown; ``name`` is the file's."""
    groups: dict[tuple[int, int], list[NvmeRun]] = {}
    for run in told.runs:
        groups.setdefault((run.block_bytes, run.queue_depth), []).append(run)
    charts = [chart for (size, depth), runs in groups.items() for chart in _nvme_charts(size, depth, runs)]
    return Measurement(
        title=f"Reads of {told.drive or told.path or 'a drive'} ({name})",
        made=f"{made(told.circumstances)}; drive on node {node_id(told.drive_node)}; {told.fio or 'fio'}",
        headline="fio's own figures, read from near and far CPUs; not judged",
        tables=tuple(_nvme_table(size, depth, runs) for (size, depth), runs in groups.items()),
        charts=tuple(charts),
        notes=(
            *early(told.stopped),
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


def of_watch(told: Watch, name: str) -> Measurement:
    """Return what drives and caches did while they were watched; ``name`` is the file's."""
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
    when = f"{made(told.circumstances)}; watched for {number(told.seconds)} s"
    return Measurement(
        title=f"Drives and caches at work ({name})", made=when, tables=tuple(tables), notes=told.notes, is_signal=True
    )


def _means(told: DiskMeans) -> tuple[Figure, Figure, Figure]:
    return figure(told.r_await_ms, "ms"), figure(told.w_await_ms, "ms"), figure(told.queue_depth, "")
