"""Results of experiments as text."""

from collections.abc import Callable, Sequence

from hostdoctor.measure.against_near import AgainstNear
from hostdoctor.measure.comparison import Row
from hostdoctor.measure.documents import (
    Bandwidth,
    CacheHits,
    DiskMeans,
    MemoryCell,
    MemoryDocument,
    NvmeDocument,
    NvmeRun,
    WatchDocument,
)
from hostdoctor.measure.verdicts import words
from hostdoctor.outputs.style import Style
from hostdoctor.outputs.words import gib, plural, printable

MIB = 1 << 20


def render_memory(document: MemoryDocument, style: Style) -> str:
    """Return what was measured of memory."""
    lines = [_memory_head(document), *_buffers(document)]
    lines += _latencies(document)
    for operation in ("read", "write", "copy"):
        lines += _rates(document, operation)
    lines += [f"not measured: CPUs of node {cell.cpu_node}, memory of node {cell.memory_node}: {cell.skipped}"
              for cell in document.cells if cell.skipped]  # fmt: skip
    lines += [f"note: {note}" for note in document.notes]
    return "\n".join(style.wrap(printable(line), "", "  ") if len(line) > 300 else line for line in lines) + "\n"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines, the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows if i < len(row)) for i in range(max(map(len, rows)))]
    return ["  ".join(cell.ljust(width) if not i else cell.rjust(width)
                      for i, (cell, width) in enumerate(zip(row, widths, strict=False))).rstrip()
            for row in rows]  # fmt: skip


def _memory_head(document: MemoryDocument) -> str:
    cpus, memory = _cpu_nodes(document), _memory_nodes(document)
    name = printable(document.circumstances.hostname or "this host")
    return f"{name}: CPUs of {plural(len(cpus), 'node')}, memory of {plural(len(memory), 'node')}"


def _buffers(document: MemoryDocument) -> list[str]:
    """Say how much memory was measured, what kind of pages, and where they were."""
    size = document.size_bytes
    lines = [f"{_size(size)} a node, a line every {document.stride_bytes} bytes touched in random order"]
    if document.l3_bytes:
        lines[0] += f"; last cache {document.l3_bytes // MIB} MiB"
    for buffer in document.buffers:
        huge = "huge pages not told" if buffer.huge_bytes is None else f"{buffer.huge_bytes / size:.0%} in huge pages"
        where = buffer.placement_after or buffer.placement_before
        if where is not None:
            share = f"{where.share_on(buffer.node):.0%} of {where.asked} pages asked about are there ({where.source})"
            lines.append(f"memory of node {buffer.node}: {share}, {huge}")
    return lines


def _size(size_bytes: int) -> str:
    return gib(size_bytes) if size_bytes >= 1 << 30 else f"{size_bytes // MIB} MiB"


def _latencies(document: MemoryDocument) -> list[str]:
    clock = document.clock
    floor = f"clock: {clock.reading_ns:.0f} ns a reading, {clock.call_ns:.0f} ns a call"
    if document.method == "native":
        loads = next((cell.latency.loads_per_batch for cell in document.cells if cell.latency), 0)
        head = f"Latency of a dependent load, ns: p50 (p99) of means of {loads} loads"
        return [head, *_matrix(document, _latency), *_verdicts(document, "latency"), floor]
    overhead = document.interpreter_overhead_ns or 0.0
    lines = [
        "Latency of a dependent load: difference to the near memory, ns (median over visits)",
        *_matrix(document, _difference),
        f"interpreted: {overhead:.0f} ns of each load are the interpreter's, so only differences are told "
        "(--native-chase measures latency)",
    ]
    return [*lines, floor]


def _latency(cell: MemoryCell) -> str:
    told = cell.latency
    return f"{told.p50_of_batch_means_ns:.1f} ({told.p99_of_batch_means_ns:.1f})" if told else "-"


def _difference(cell: MemoryCell) -> str:
    if cell.latency_difference is None:
        return "near" if cell.cpu_node == cell.memory_node and not cell.skipped else "-"
    return f"{cell.latency_difference.p50_ns:+.1f}"


def _verdicts(document: MemoryDocument, statistic: str) -> list[str]:
    """Say what the visits tell of near and far."""
    found = [told for told in document.comparisons if told.statistic == statistic]
    return [f"from node {told.cpu_node}, memory of node {told.memory_node}: {_verdict(told.result)}" for told in found]


def _verdict(told: AgainstNear) -> str:
    row = Row(
        verdict=told.verdict,
        ratio=told.ratio,
        detectable_ratio=told.detectable_ratio,
        reason=told.reason,
        samples_needed=told.pairs_needed,
    )
    if told.ratio is None or told.ratio_ci is None:
        return words(row)
    low, high = told.ratio_ci
    return f"{told.ratio:.2f} times the near time [{low:.2f}-{high:.2f}], {words(row)}"


def _rates(document: MemoryDocument, operation: str) -> list[str]:
    def rate(cell: MemoryCell) -> str:
        told: Bandwidth | None = getattr(cell, operation)
        return f"{told.p50_gbytes_per_s:.1f}" if told else "-"

    if not any(getattr(cell, operation) for cell in document.cells):
        return []
    head = f"Bandwidth of {operation}, GB/s, one thread a core (median over visits)"
    return [head, *_matrix(document, rate), *_verdicts(document, operation)]


def _matrix(document: MemoryDocument, show: Callable[[MemoryCell], str]) -> list[str]:
    cells = {(cell.cpu_node, cell.memory_node): cell for cell in document.cells}
    columns = _memory_nodes(document)
    rows = [["", *(f"memory {node}" for node in columns)]]
    rows += [
        [f"  CPUs of node {cpu_node}", *(show(cells[cpu_node, node]) for node in columns)]
        for cpu_node in _cpu_nodes(document)
    ]
    return table(rows)


def _cpu_nodes(document: MemoryDocument) -> list[int]:
    return sorted({cell.cpu_node for cell in document.cells})


def _memory_nodes(document: MemoryDocument) -> list[int]:
    return sorted({cell.memory_node for cell in document.cells})


# Fewer reads cannot bound the quantile at all: two-sided, 95 %.
LEAST_SAMPLES = {"p99_ns": 368, "p999_ns": 3688}
_KINDS = {True: "near", False: "far", None: "node"}


def render_nvme(document: NvmeDocument, style: Style) -> str:
    """Return what was measured of a drive: fio's own figures, and the block layer's means beside them."""
    at = "node not known" if document.drive_node is None else f"node {document.drive_node}"
    drive = f"{document.drive}, {at}" if document.drive else "drive not known"
    lines = [
        f"{printable(document.path)} ({printable(drive)}), {printable(document.fio or 'fio')}: random reads, direct"
    ]
    groups: dict[tuple[int, int, int], list[NvmeRun]] = {}
    for run in document.runs:
        groups.setdefault((run.block_bytes, run.queue_depth, run.cpu_node), []).append(run)
    rows = [["KiB", "depth", "CPUs", "p50 us", "p99 us", "p99.9 us", "r_await ms", "queue", "kIOPS"]]
    rows += [_nvme_row(size, depth, node, runs) for (size, depth, node), runs in sorted(groups.items())]
    lines += table(rows)
    lines += _nvme_verdicts(document)
    failed = {run.failed: run for run in document.runs if run.failed}
    lines += [
        style.wrap(f"failed from node {run.cpu_node}: {printable(why or '')}", "", "  ") for why, run in failed.items()
    ]
    lines += [style.wrap(f"note: {printable(note)}", "", "  ") for note in document.notes]
    lines.append("latency: fio's completion latency, each run's own; r_await and queue: the block layer's means")
    return "\n".join(lines) + "\n"


def _nvme_verdicts(document: NvmeDocument) -> list[str]:
    """Say what the repeats tell of near and far, or how many it would take."""
    needed = max((told.result.pairs_needed for told in document.comparisons), default=0)
    if all(told.result.pairs < told.result.pairs_needed for told in document.comparisons):
        return [f"no verdict on near and far from so few runs: --repeats {needed} or more"] if needed else []
    return [
        f"{told.block_bytes >> 10} KiB, depth {told.queue_depth}, {told.statistic}, from node {told.cpu_node}: "
        f"{_verdict(told.result)}"
        for told in document.comparisons
    ]


def render_watch(document: WatchDocument, style: Style) -> str:
    """Return what was seen without load."""
    lines = [f"{document.seconds:.1f} s without load of our own"]
    if document.disks:
        rows = [["disk", "r_await ms", "w_await ms", "queue"]]
        rows += [[disk.disk, *_means(disk.means)] for disk in document.disks]
        lines += table(rows)
        lines.append("-: too little I/O to tell (less than 100 ms of it in all)")
    lines += [_cache(cache) for cache in document.caches]
    if document.metrics_url and not document.caches:
        lines.append("no cache counters of vLLM at that address")
    lines += [style.wrap(f"note: {printable(note)}", "", "  ") for note in document.notes]
    return "\n".join(lines) + "\n"


def _nvme_row(size: int, depth: int, node: int, runs: Sequence[NvmeRun]) -> list[str]:
    where = f"{node} {_KINDS[runs[0].near]}" if runs[0].near is not None else str(node)
    quantiles = [" / ".join(_quantile_us(run, name) for run in runs) for name in ("p50_ns", "p99_ns", "p999_ns")]
    return [str(size >> 10), str(depth), where, *quantiles, *_all(runs, 0), *_all(runs, 2), _kiops(runs)]


def _quantile_us(run: NvmeRun, name: str) -> str:
    """Return fio's own figure, in us to the nanosecond."""
    if run.latency is None:
        return "-"
    if run.latency.samples < LEAST_SAMPLES.get(name, 0):
        return "n/a (N too small)"
    return f"{getattr(run.latency, name) / 1000:.3f}"


def _all(runs: Sequence[NvmeRun], which: int) -> list[str]:
    return [" / ".join(_means(run.disk)[which] for run in runs)]


def _kiops(runs: Sequence[NvmeRun]) -> str:
    told = [run.latency.iops if run.latency else None for run in runs]
    return " / ".join("-" if iops is None else f"{iops / 1000:.1f}" for iops in told)


def _means(means: DiskMeans | None) -> list[str]:
    told = (means.r_await_ms, means.w_await_ms, means.queue_depth) if means else (None, None, None)
    return ["-" if value is None else f"{value:.3f}" for value in told]


def _cache(cache: CacheHits) -> str:
    if cache.queries is None:
        return f"{cache.cache}: its counters went backwards or do not add up: was the engine restarted?"
    if cache.hit_percent is None:
        return f"{cache.cache}: nothing was looked up"
    return f"{cache.cache}: {cache.hit_percent:.1f} % of {cache.queries:.0f} tokens found"
