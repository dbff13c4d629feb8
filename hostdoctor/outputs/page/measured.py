"""Measured documents as they are shown: verdicts, tables, drawings."""

from collections.abc import Callable

import msgspec

from hostdoctor.outputs.page.comparisons import of_comparison
from hostdoctor.outputs.page.copies import of_copies
from hostdoctor.outputs.page.documents import (
    Bandwidth,
    Comparison,
    Copies,
    Document,
    Memory,
    MemoryCell,
    Nvme,
)
from hostdoctor.outputs.page.drives import of_reads, of_watch
from hostdoctor.outputs.page.figures import early, figure, made, plain
from hostdoctor.outputs.page.model import Figure, Measurement, Table

Show = Callable[[MemoryCell], Figure]
MAX_CHARTS, MAX_TABLES, MAX_ROWS = 24, 48, 100


def measurements(document: Document, name: str) -> list[Measurement]:
    """Return what a document is shown as, cut where it is endless; ``name`` is its file's."""
    return [_cut(told) for told in _all(document, name)]


def _all(document: Document, name: str) -> list[Measurement]:
    if isinstance(document, Comparison):
        return of_comparison(document, f"A workload from near and from far ({name})")
    if isinstance(document, Copies):
        return [of_copies(document, name)]
    if isinstance(document, Nvme):
        return [of_reads(document, name)]
    return [_memory(document, name) if isinstance(document, Memory) else of_watch(document, name)]


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
        made=f"{made(told.circumstances)}; {method}",
        tables=tuple(tables),
        notes=(*early(told.stopped), *told.notes, *skipped),
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
