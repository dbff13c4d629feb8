"""A matrix of offload variants as it is shown: a heat map for each series, the boundary, what follows."""

from hostdoctor.measure.matrix.boundary import Row
from hostdoctor.measure.matrix.model import CellResult, MatrixDocument, SeriesResult
from hostdoctor.outputs.matrix_text import MARKS, cell_of, concurrencies, headline, state_of, tail_words
from hostdoctor.outputs.page.charts import Heat, heat_map
from hostdoctor.outputs.page.figures import figure, plain
from hostdoctor.outputs.page.model import Chart, Figure, Measurement, Table
from hostdoctor.outputs.words import plural

LEGEND = (
    "+ holds, × breaks, ? neither, ! failed, - cannot be, . follows from others; the figure and the bar are p99 over"
    " its limit, of the latency that is nearest to it"
)
MAX_NOTES = 60


def of_matrix(document: MatrixDocument, name: str) -> list[Measurement]:
    """Return one card: what follows, a heat map for each series, the cells in figures."""
    first = next((one for one in document.series if one.decisions), None)
    return [
        Measurement(
            title=f"Offload variants × context × concurrency ({name})",
            made=_made(document),
            headline=f"{first.series.label}: {first.decisions[0]}" if first is not None else "",
            charts=tuple(chart for one in document.series if (chart := _chart(document, one)) is not None),
            tables=(_boundaries(document), *((_cells(document),) if document.cells else ())),
            notes=tuple(_notes(document))[:MAX_NOTES],
            section="matrix",
        )
    ]


def _made(document: MatrixDocument) -> str:
    limits = {"TTFT": document.slo.ttft_p99_ms, "ITL": document.slo.itl_p99_ms}
    parts = [f"SLO: p99 {name} {limit:g} ms" for name, limit in limits.items() if limit is not None]
    parts += [f"model {document.model}"] if document.model else []
    parts += [f"answers of {document.output_tokens} tokens"] if document.output_tokens else []
    parts += [plural(document.runs, "run")]
    parts += [f"{name} {version}" for name, version in list(document.versions.items())[:6]]
    parts += [f"on {document.hostname}"] if document.hostname else []
    parts += [f"begun {document.created}"] if document.created else []
    return ", ".join(parts)


def _chart(document: MatrixDocument, series: SeriesResult) -> Chart | None:
    columns = concurrencies(document)
    cells = {
        (row, column): heat
        for row, told in enumerate(series.rows)
        for column, many in enumerate(columns)
        if (heat := _heat(document, series, told, many)) is not None
    }
    if not cells:
        return None
    svg = heat_map(
        f"{series.series.label}: which cells hold the SLO",
        [f"{row.context:,}" for row in series.rows],
        [str(many) for many in columns],
        cells,
        across="requests at once",
        down="tokens",
    )
    measured = sum(one.cell.series == series.series for one in document.cells)
    title = f" ({series.title})" if series.title else ""
    return Chart(
        svg=svg, caption=f"{series.series.label}{title}: {headline(series)}. {plural(measured, 'cell')} measured."
    )


def _heat(document: MatrixDocument, series: SeriesResult, row: Row, many: int) -> Heat | None:
    state = state_of(document, series, row, many)
    if not state:
        return None
    measured = cell_of(document, series, row.context, many)
    where = f"{row.context:,} tokens × {many}"
    if measured is None:
        kind = "struck" if state == "struck" else "inferred-holds" if (row.holds_to or 0) >= many else "inferred-breaks"
        said = "cannot be" if state == "struck" else "follows from other cells"
        return Heat(state=kind, text=MARKS[state], tip=f"{where}: {said}")
    share = _share(measured)
    text = MARKS[state] + ("" if share is None else f" {share:.2g}")
    told = "; ".join(map(tail_words, measured.judged.tails)) or measured.judged.reason or ""
    return Heat(state=state, text=text, tip=f"{where}: {state}, {told}", share=share)


def _share(cell: CellResult) -> float | None:
    told = [tail.value_ms / tail.limit_ms for tail in cell.judged.tails if tail.value_ms is not None]
    return max(told, default=None)


def _boundaries(document: MatrixDocument) -> Table:
    contexts = sorted({row.context for one in document.series for row in one.rows})
    rows = tuple((plain(one.series.label), *(_end(one, context) for context in contexts)) for one in document.series)
    columns = ("Variant", *(f"{context:,} tokens" for context in contexts))
    return Table(caption="Requests at once up to which the SLO holds", columns=columns, rows=rows)


def _end(series: SeriesResult, context: int) -> Figure:
    row = next((row for row in series.rows if row.context == context), None)
    if row is None or row.holds_to is None:
        broken = row is not None and row.breaks_at is not None
        return plain("breaks" if broken else "cannot be" if row is not None and row.struck_from else "not shown")
    text = f"{row.holds_to}" + (f" (breaks at {row.breaks_at})" if row.breaks_at else "")
    return Figure(text=text, value=row.holds_to)


def _cells(document: MatrixDocument) -> Table:
    rows = tuple(_cell(cell) for cell in document.cells)
    columns = ("Cell", "State", "p99 TTFT", "p99 ITL", "Repeats", "Why")
    return Table(caption="Every cell that was measured", columns=columns, rows=rows)


def _cell(cell: CellResult) -> tuple[Figure, ...]:
    tails = {tail.metric: tail for tail in cell.judged.tails}
    figures = [
        figure(tail.value_ms, "ms", (tail.low_ms, tail.high_ms)) if (tail := tails.get(name)) else plain("not judged")
        for name in ("ttft", "itl")
    ]
    return (
        plain(cell.cell.label),
        plain(cell.judged.state),
        *figures,
        plain(cell.judged.repeats),
        plain(cell.judged.reason or ""),
    )


def _notes(document: MatrixDocument) -> list[str]:
    found = [f"In the heat maps: {LEGEND}."]
    found += [f"{one.series.label}: {text}" for one in document.series for text in one.decisions]
    for one in document.series:
        for told in one.breaks:
            moved = "; ".join(m.words for m in told.moved) or (
                "no watched signal moved" if told.watched else "not watched"
            )
            found.append(f"{told.cell.label} breaks ({told.reason or 'p99 beyond the limit'}): {moved}")
    found += [f"To try, {n}: {one.text}" for n, one in enumerate(document.remedies, 1)]
    reasons = dict.fromkeys(f"{one.cell.series.label} cannot be: {one.reason}" for one in document.struck)
    return [*found, *list(reasons)[:12], *document.warnings]
