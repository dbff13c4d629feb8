"""Memory of nodes (``hostdoctor measure memory``) as it is shown."""

from collections.abc import Callable

from hostdoctor.outputs.page.against import band, summed, verdict_of
from hostdoctor.outputs.page.charts import pair_chart
from hostdoctor.outputs.page.documents import Bandwidth, Memory, MemoryCell, MemoryComparison
from hostdoctor.outputs.page.figures import early, figure, made, plain
from hostdoctor.outputs.page.model import Chart, Figure, Measurement, Table, Verdict
from hostdoctor.outputs.words import plural

Show = Callable[[MemoryCell], Figure]


def of_memory(told: Memory, name: str) -> Measurement:
    """Return the matrix of nodes as it is shown; ``name`` is the file's."""
    tables = [_matrix(told, "Latency of a dependent load, median of batches", _latency)]
    tables += [_matrix(told, f"Bandwidth of {name}", show) for name, show in RATES.items() if _any(told, show)]
    skipped = [
        f"not measured: CPUs of node {c.cpu_node}, memory of node {c.memory_node}: {c.skipped}"
        for c in told.cells
        if c.skipped
    ]
    method = "latencies" if told.method == "native" else "interpreted: only differences to near memory are told"
    verdicts = tuple(_verdict(one, told) for one in told.comparisons)
    headline, tone = summed(verdicts, "comparisons")
    return Measurement(
        title=f"Memory of each node from the CPUs of each node ({name})",
        made=f"{made(told.circumstances)}; {method}",
        headline=headline,
        tone=tone,
        verdicts=verdicts,
        tables=tuple(tables),
        charts=tuple(chart for one in told.comparisons if (chart := _pairs(one, told)) is not None),
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


def _what(one: MemoryComparison) -> str:
    names = {
        "latency": "latency of a load",
        "read": "time of reads",
        "write": "time of writes",
        "copy": "time of copies",
    }
    return f"{names.get(one.statistic, one.statistic)}: CPUs of node {one.cpu_node}, memory of node {one.memory_node}"


def _verdict(one: MemoryComparison, told: Memory) -> Verdict:
    near, far = (_shown(cell, one.statistic) for cell in _both(one, told))
    return verdict_of(_what(one), near, far, one.result)


def _both(one: MemoryComparison, told: Memory) -> tuple[MemoryCell | None, MemoryCell | None]:
    cells = {(cell.cpu_node, cell.memory_node): cell for cell in told.cells}
    return cells.get((one.cpu_node, one.cpu_node)), cells.get((one.cpu_node, one.memory_node))


def _shown(cell: MemoryCell | None, statistic: str) -> Figure:
    if cell is None:
        return plain("n/a")
    return _latency(cell) if statistic == "latency" else _bandwidth(_rate(cell, statistic))


def _rate(cell: MemoryCell, statistic: str) -> Bandwidth | None:
    return {"read": cell.read, "write": cell.write, "copy": cell.copy}.get(statistic)


def _pairs(one: MemoryComparison, told: Memory) -> Chart | None:
    """Draw the ratio of each visit's times."""
    near, far = (_times(cell, one.statistic) for cell in _both(one, told))
    ratios = [b / a for a, b in zip(near, far, strict=False) if a > 0 and b > 0]
    drawn = pair_chart("a visit", ratios, band(one.result.ratio_ci))
    if not drawn:
        return None
    return Chart(svg=drawn, caption=f"{_what(one)}: {plural(len(ratios), 'pair')} of visits, each dot one.")


def _times(cell: MemoryCell | None, statistic: str) -> list[float]:
    """Return the time of each visit, in any unit: of bandwidth its reciprocal."""
    if cell is None:
        return []
    if statistic == "latency":
        return list(cell.latency.visits_p50_ns) if cell.latency else []
    rate = _rate(cell, statistic)
    return [1 / value for value in rate.visits_gbytes_per_s if value > 0] if rate else []
