"""A matrix in words: what will be run, how far it is, up to where each variant holds, what follows."""

import shlex
from typing import TYPE_CHECKING

from hostdoctor.measure.matrix.boundary import Row
from hostdoctor.measure.matrix.commands import clients, metrics_url, ready_url, requests_of
from hostdoctor.measure.matrix.grid import Series, all_series, open_cells, struck_cells, variant_of
from hostdoctor.measure.matrix.judge import NAMES, Judged, Tail
from hostdoctor.measure.matrix.model import Break, CellResult, MatrixDocument, Plan, SeriesResult
from hostdoctor.measure.matrix.order import Run, at_most, blocks
from hostdoctor.measure.trial_plan import command_line
from hostdoctor.outputs.style import Style
from hostdoctor.outputs.trial_text import around, duration
from hostdoctor.outputs.words import plural, printable

if TYPE_CHECKING:
    from hostdoctor.measure.matrix.run import Told

MARKS = {"holds": "+", "breaks": "×", "neither": "?", "failed": "!", "struck": "-", "inferred": "."}
LEGEND = "+ holds, × breaks, ? neither, ! failed, - cannot be, . follows from others, blank not measured"
_MOST_STRUCK = 8


def render_forecast(plan: Plan, folder: str) -> str:
    """Return how much will be run, one fact a line."""
    experiment = plan.experiment
    served = [series for series in all_series(experiment) if open_cells(experiment, series)]
    runs = at_most(experiment)
    what = f"at most {plural(runs, 'run')}, bisected" if plan.bisect else plural(runs, "run")
    struck = struck_cells(experiment)
    lines = [
        f"{what} of {len(served)} series, files in {folder}",
        f"a server for each series and repeat: {plural(len(served) * experiment.load.repeats, 'start')} at least",
        "time: known after the first run",
    ]
    lines += [f"{plural(len(struck), 'cell')} struck out beforehand"] if struck else []
    lines += [f"{slug}: {arm.words}" for slug, arm in plan.arms.items() if arm.words]
    return "\n".join([*lines, *(f"note: {note}" for note in plan.notes)])


def render_dry_run(plan: Plan, folder: str) -> str:
    """Return every command, servers and their cells in the order of the blocks."""
    lines = [printable(line) for line in render_forecast(plan, folder).splitlines()]
    if plan.bisect:
        lines.append("bisected: the order follows the results; these are all that there may be")
    series: tuple[Series, int] | None = None
    for run in blocks(plan.experiment):
        if series != (run.cell.series, run.repeat):
            lines += [*(["stop the server"] if series else []), "", *_server(plan, run)]
            series = (run.cell.series, run.repeat)
        lines += _cell_commands(plan, run, folder)
    lines += ["stop the server"] if series else []
    lines += _struck(plan)
    return "\n".join(lines) + "\n"


def _server(plan: Plan, run: Run) -> list[str]:
    arm = plan.arms[run.cell.series.slug]
    title = variant_of(plan.experiment, run.cell.series).title
    return [
        f"# repeat {run.repeat + 1}, {run.cell.series.label}{f' ({printable(title)})' if title else ''}",
        command_line((*around(arm), *arm.argv), arm.environment),
        f"until {ready_url(plan.experiment)} answers; signals from {metrics_url(plan.experiment)}",
    ]


def _cell_commands(plan: Plan, run: Run, folder: str) -> list[str]:
    cell = run.cell
    result = f"{folder}/runs/{cell.series.slug}/{cell.slug}/r{run.repeat}/result.json"
    words = clients(plan.experiment, run, result, plan.versions)
    bound = ("taskset", "-c", plan.client_cpus) if plan.client_cpus else ()
    lines = [f"# {cell.label}: {requests_of(plan.experiment, cell)} requests"]
    if words.beside:
        lines += [f"{shlex.join((*bound, *words.beside))} &", "# when the engine has read a prompt of it"]
    lines.append(shlex.join((*bound, *words.words)))
    return [*lines, "kill $!"] if words.beside else lines


def _struck(plan: Plan) -> list[str]:
    found = [f"# struck: {one.cell.label}: {printable(one.reason)}" for one in struck_cells(plan.experiment)]
    return ["", *found] if found else []


def render_step(told: "Told", *, bisect: bool) -> str:
    """Return one line of progress."""
    record = told.record
    how = "failed: " + printable(record.failure.reason) if record.failure is not None else duration(record.seconds)
    most = "at most " if bisect else ""
    rest = f", {most}{plural(told.left, 'run')} left, about {duration(told.seconds_left)}" if told.left else ""
    return f"[{told.done}] {record.cell.label}, repeat {record.repeat + 1}: {how}{rest}"


# --- the boundary ---


def render_matrix(document: MatrixDocument, style: Style, *, show_all: bool = False) -> str:
    """Return the decision first, then each series' table, what moved, the remedies in their order."""
    lines = []
    if document.complete is False:
        lines.append(style.paint(f"not complete: {plural(document.runs, 'run')} so far", "warning"))
    limits = {"TTFT": document.slo.ttft_p99_ms, "ITL": document.slo.itl_p99_ms}
    told = ", ".join(f"p99 {name} {limit:g} ms" for name, limit in limits.items() if limit is not None)
    model = f"{printable(document.model)}, " if document.model else ""
    lines.append(f"{model}answers of {document.output_tokens or '?'} tokens; SLO: {told}")
    for series in document.series:
        lines += ["", *_series(document, series, style)]
    lines += ["", f"({LEGEND})"]
    if document.remedies:
        lines += ["", "What to try where it does not hold, in this order:"]
        lines += [
            style.wrap(f"{n}. {printable(one.text, 600)}", "  ", "     ") for n, one in enumerate(document.remedies, 1)
        ]
    lines += [style.wrap(printable(text, 600), "  note: ", "        ") for text in document.warnings]
    if show_all:
        lines += ["", *(_full(cell) for cell in document.cells)]
    return "\n".join(lines) + "\n"


def _series(document: MatrixDocument, series: SeriesResult, style: Style) -> list[str]:
    colour = {"found": "bold", "none-inside": "ok", "never-holds": "warning", "not-told": "unknown"}[series.state]
    title = f" ({printable(series.title)})" if series.title else ""
    lines = [style.paint(f"{printable(series.series.label)}{title}: {headline(series)}", colour)]
    lines += [style.wrap(printable(text, 600), "  ", "    ") for text in series.decisions]
    lines += _table(document, series)
    lines += [style.wrap(printable(_break(one), 600), "  ", "    ") for one in series.breaks]
    if series.basis == "one-run":
        lines.append("  no interval: one run of a cell, without its samples (--save-detailed, or more runs)")
    if series.basis == "runs":
        lines.append("  no samples in the files: intervals are the range of the runs' own p99")
    struck = [one for one in document.struck if one.cell.series == series.series]
    reasons = dict.fromkeys(printable(one.reason) for one in struck)
    lines += [style.wrap(f"cannot be: {reason}", "  ", "    ") for reason in list(reasons)[:_MOST_STRUCK]]
    return [*lines, *(f"  note: {printable(note)}" for note in series.notes)]


def headline(series: SeriesResult) -> str:
    """Return a series' boundary in one line."""
    if series.state == "none-inside":
        return "no boundary inside the grid, all of it holds"
    if series.state == "never-holds":
        return "never holds"
    if series.state == "not-told":
        return "not told"
    return "; ".join(_row(row) for row in series.rows)


def _row(row: Row) -> str:
    where = f"{row.context:,}"
    if row.holds_to is None:
        ends = (
            f"breaks at {row.breaks_at}" if row.breaks_at else "cannot be" if row.struck_from else "not shown to hold"
        )
        return f"{where}: {ends}"
    return f"{where}: holds to {row.holds_to}" + (f", breaks at {row.breaks_at}" if row.breaks_at else "")


def _table(document: MatrixDocument, series: SeriesResult) -> list[str]:
    """Return the grid with a mark for each cell, contexts down, concurrency across."""
    if not series.rows or not any(cell.cell.series == series.series for cell in document.cells):
        return []
    columns = concurrencies(document)
    width = max(len(f"{row.context:,}") for row in series.rows)
    each = max(len(str(many)) for many in columns)
    lines = [f"  {'':{width}}  " + " ".join(f"{many:>{each}}" for many in columns)]
    for row in series.rows:
        marks = " ".join(f"{MARKS.get(state_of(document, series, row, many), ' '):>{each}}" for many in columns)
        lines.append(f"  {f'{row.context:,}':>{width}}  {marks}".rstrip())
    return lines


def concurrencies(document: MatrixDocument) -> list[int]:
    """Return the columns of the grid."""
    cells = [*(one.cell for one in document.cells), *(one.cell for one in document.struck)]
    return sorted({cell.concurrency for cell in cells if cell.cut == "grid"})


def state_of(document: MatrixDocument, series: SeriesResult, row: Row, many: int) -> str:
    """Return a cell's state: measured, ``struck``, ``inferred``, or ``""`` where nothing is known."""
    measured = cell_of(document, series, row.context, many)
    if measured is not None:
        return measured.judged.state
    if row.struck_from is not None and many >= row.struck_from:
        return "struck"
    known = (row.holds_to or 0) >= many or (row.breaks_at is not None and many >= row.breaks_at)
    return "inferred" if known else ""


def cell_of(document: MatrixDocument, series: SeriesResult, context: int, many: int) -> CellResult | None:
    """Return the measured cell of the grid at a place."""
    place = (series.series, "grid", context, many)
    found = (
        one
        for one in document.cells
        if (one.cell.series, one.cell.cut, one.cell.context, one.cell.concurrency) == place
    )
    return next(found, None)


def _break(one: Break) -> str:
    where = f"{one.cell.context:,} × {one.cell.concurrency}"
    said = f"breaks at {where}: {one.reason or 'p99 beyond the limit'}"
    if not one.watched:
        return f"{said}; signals were not watched"
    if one.holds is None:
        return f"{said}; nothing holds that signals could be compared with"
    since = f"{one.holds.context:,} × {one.holds.concurrency}"
    if not one.moved:
        return f"{said}; no watched signal moved since {since}"
    return f"{said}; moved since {since}: {'; '.join(moved.words for moved in one.moved[:4])}"


def _full(cell: CellResult) -> str:
    failed = f": {printable(cell.failure.reason)}" if cell.failure is not None else ""
    return f"  {printable(cell.cell.label)}: {cell.judged.state}{failed or _figures(cell.judged)}"


def _figures(judged: Judged) -> str:
    return "".join(f", {tail_words(tail)}" for tail in judged.tails)


def tail_words(tail: Tail) -> str:
    """Return ``p99 TTFT 412 [380–455] ms``."""
    if tail.value_ms is None:
        return tail.reason or f"no p99 {NAMES[tail.metric]}"
    low, high = ("?" if end is None else f"{end:.4g}" for end in (tail.low_ms, tail.high_ms))
    interval = "" if tail.basis == "one-run" else f" [{low}–{high}]"
    return f"p99 {NAMES[tail.metric]} {tail.value_ms:.4g}{interval} ms"
