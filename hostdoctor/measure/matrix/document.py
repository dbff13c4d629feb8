"""From runs to the document: cells judged, a boundary for each series, what moved with it, what follows. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from hostdoctor.errors import MeasureError
from hostdoctor.facts.runs import RunResult
from hostdoctor.measure.matrix.boundary import boundary
from hostdoctor.measure.matrix.decide import Told, compared, decisions, remedies
from hostdoctor.measure.matrix.experiment import Experiment, Kind, Slo
from hostdoctor.measure.matrix.grid import (
    Cell,
    Series,
    StruckCell,
    all_series,
    open_cells,
    slices,
    struck_cells,
    variant_of,
)
from hostdoctor.measure.matrix.judge import Judged, failure, judge, settled
from hostdoctor.measure.matrix.model import (
    Break,
    CellResult,
    Failure,
    MatrixDocument,
    Plan,
    RunRecord,
    SeriesResult,
)
from hostdoctor.measure.matrix.moved import flat, means, moved
from hostdoctor.measure.workload import mixed, mixed_versions

Basis = Literal["samples", "runs", "one-run", "none"]


class Kept(NamedTuple):
    """One repeat of one cell: its result, or why it has none, and what was seen beside it."""

    cell: Cell
    run: RunResult | None = None
    signals: Mapping[str, float] = {}
    failure: Failure | None = None


class Shape(NamedTuple):
    """The axes and series of a matrix, planned or found."""

    series: tuple[Series, ...]
    contexts: tuple[int, ...]
    concurrency: tuple[int, ...]
    struck: tuple[StruckCell, ...] = ()
    experiment: Experiment | None = None


def shape_of(experiment: Experiment) -> Shape:
    """Return a planned matrix' axes."""
    grid = experiment.grid
    return Shape(
        all_series(experiment),
        tuple(sorted(grid.contexts)),
        tuple(sorted(grid.concurrency)),
        struck_cells(experiment),
        experiment,
    )


def shape_found(kept: Sequence[Kept]) -> Shape:
    """Return the axes of results that nobody planned together."""
    series = tuple(dict.fromkeys(one.cell.series for one in kept))
    grid = [one.cell for one in kept if one.cell.cut == "grid"]
    return Shape(
        tuple(sorted(series, key=lambda one: one.slug)),
        tuple(sorted({cell.context for cell in grid})),
        tuple(sorted({cell.concurrency for cell in grid})),
    )


def of_plan(plan: Plan, records: Sequence[RunRecord], results: Mapping[tuple[Cell, int], RunResult]) -> MatrixDocument:
    """Return the document of a matrix that was run here; raise MeasureError where nothing was."""
    experiment = plan.experiment
    kept = [
        Kept(
            record.cell,
            results.get((record.cell, record.repeat)),
            flat(record.signals) if record.signals is not None else {},
            record.failure,
        )
        for record in records
    ]
    made = make_document(experiment.slo, shape_of(experiment), kept, force=True)
    wanted = sum(len(open_cells(experiment, series)) for series in all_series(experiment)) * experiment.load.repeats
    return msgspec.structs.replace(
        made,
        hostname=plan.hostname,
        created=plan.created,
        model=experiment.model.name,
        bisect=plan.bisect,
        complete=None if plan.bisect else len(records) == wanted,
        versions=made.versions | plan.versions,
        warnings=(*plan.notes, *made.warnings),
    )


def make_document(slo: Slo, shape: Shape, kept: Sequence[Kept], *, force: bool = False) -> MatrixDocument:
    """Return the document; raise MeasureError for runs of different models, tokenizers, clients or answers' lengths."""
    runs = [one.run for one in kept if one.run is not None]
    if not kept:
        raise MeasureError("no run of the matrix has ended yet")
    different = mixed([run for run in runs if run.completed])
    if different and not force:
        raise MeasureError(f"not one matrix (--force compares anyway): {'; '.join(different)}")
    judged = _judged(slo, kept)
    told = [_told(shape, series, judged) for series in shape.series]
    base = _base(told)
    first = runs[0] if runs else None
    return MatrixDocument(
        name=shape.experiment.name if shape.experiment else None,
        model=first.model if first else None,
        tokenizer=first.tokenizer if first else None,
        output_tokens=shape.experiment.grid.output_tokens if shape.experiment else _output(runs),
        slo=slo,
        runs=len(kept),
        series=tuple(_series(shape, one, base, judged, kept) for one in told),
        cells=tuple(_cell(shape, cell, verdict, kept) for cell, verdict in judged.items()),
        struck=shape.struck,
        remedies=() if base is None else remedies(told, base, shape.concurrency),
        versions={name: value for run in runs for name, value in run.versions.items()},
        warnings=tuple(_warnings(different, runs)),
    )


def _warnings(different: Sequence[str], runs: Sequence[RunResult]) -> Iterable[str]:
    if different:
        yield f"not one matrix: {'; '.join(different)}"
    yield from (f"versions differ: {text}" for text in mixed_versions(runs))
    yield from dict.fromkeys(note for run in runs for note in run.notes)


def _judged(slo: Slo, kept: Sequence[Kept]) -> dict[Cell, Judged]:
    by_cell: dict[Cell, list[Kept]] = {}
    for one in kept:
        by_cell.setdefault(one.cell, []).append(one)
    found = {}
    for cell in sorted(by_cell, key=lambda cell: (cell.series.slug, cell.cut, cell.context, cell.concurrency)):
        repeats = by_cell[cell]
        failed = next((one.failure for one in repeats if one.failure is not None), None)
        runs = [settled(one.run, cell.concurrency) for one in repeats if one.run is not None]
        found[cell] = failure(failed.reason, len(repeats)) if failed is not None else judge(runs, slo)
    return found


def _told(shape: Shape, series: Series, judged: Mapping[Cell, Judged]) -> Told:
    own = {cell: verdict for cell, verdict in judged.items() if cell.series == series}
    grid = {(cell.context, cell.concurrency): verdict for cell, verdict in own.items() if cell.cut == "grid"}
    struck: dict[int, int] = {}
    for one in shape.struck:
        if one.cell.series == series and one.cell.cut == "grid":
            context = one.cell.context
            struck[context] = min(struck.get(context, one.cell.concurrency), one.cell.concurrency)
    kind: Kind = "other" if shape.experiment is None else variant_of(shape.experiment, series).kind
    others = {cell: verdict for cell, verdict in own.items() if cell.cut != "grid"}
    return Told(series, kind, boundary(shape.contexts, shape.concurrency, grid, struck), others)


def _base(told: Sequence[Told]) -> Told | None:
    """Return the series that the others are held against: all in VRAM, else the first."""
    in_vram = [one for one in told if one.kind == "vram"]
    return next(iter(in_vram or told), None)


def _series(
    shape: Shape, told: Told, base: Told | None, judged: Mapping[Cell, Judged], kept: Sequence[Kept]
) -> SeriesResult:
    variant = None if shape.experiment is None else variant_of(shape.experiment, told.series)
    struck = variant.struck if variant is not None else ""
    follows = decisions(told, shape.concurrency) if not struck else (f"Not run: {struck}.",)
    if base is not None and told is not base and not struck:
        follows = (*follows, *compared(told, base))
    return SeriesResult(
        series=told.series,
        title=variant.title if variant is not None else "",
        kind=told.kind,
        state=told.boundary.state,
        rows=told.boundary.rows,
        basis=_basis(told.series, judged),
        breaks=_breaks(told, judged, kept),
        decisions=follows,
        notes=told.boundary.notes,
    )


def _basis(series: Series, judged: Mapping[Cell, Judged]) -> Basis:
    """Return the weakest basis that any of the series' cells rests on."""
    seen = {tail.basis for cell, verdict in judged.items() if cell.series == series for tail in verdict.tails}
    order: tuple[Basis, ...] = ("one-run", "runs", "samples")
    return next((basis for basis in order if basis in seen), "none")


def _breaks(told: Told, judged: Mapping[Cell, Judged], kept: Sequence[Kept]) -> tuple[Break, ...]:
    """Return for each context the measured cell that breaks first, and what moved since the last that holds."""
    found = []
    for row in told.boundary.rows:
        if row.breaks_at is None or "breaks_at" in row.inferred:
            continue
        cell = Cell(series=told.series, context=row.context, concurrency=row.breaks_at)
        calm = _last_that_holds(told.series, row.context, row.breaks_at, judged)
        after = _signals(cell, kept)
        before = _signals(calm, kept) if calm is not None else {}
        found.append(
            Break(
                cell=cell,
                holds=calm,
                reason=judged[cell].reason,
                moved=moved(before, after),
                watched=bool(after) and (calm is None or bool(before)),
            )
        )
    return tuple(found)


def _last_that_holds(series: Series, context: int, many: int, judged: Mapping[Cell, Judged]) -> Cell | None:
    """Return the hardest measured cell that holds and asks no more than another one: of its own context if there is."""
    own = [
        cell
        for cell, verdict in judged.items()
        if cell.series == series and cell.cut == "grid" and verdict.state == "holds"
        if cell.context <= context and cell.concurrency <= many
    ]
    return max(own, key=lambda cell: (cell.context == context, cell.context * cell.concurrency), default=None)


def _signals(cell: Cell, kept: Sequence[Kept]) -> dict[str, float]:
    return means([one.signals for one in kept if one.cell == cell and one.signals])


def _cell(shape: Shape, cell: Cell, verdict: Judged, kept: Sequence[Kept]) -> CellResult:
    own = [one for one in kept if one.cell == cell]
    return CellResult(
        cell=cell,
        slices=slices(shape.experiment, cell) if shape.experiment is not None else (cell.cut,),
        judged=verdict,
        results=tuple(one.run.source for one in own if one.run is not None),
        signals=_signals(cell, kept),
        failure=next((one.failure for one in own if one.failure is not None), None),
    )


def _output(runs: Sequence[RunResult]) -> int | None:
    told = [run.output_tokens / run.completed for run in runs if run.output_tokens is not None and run.completed]
    return round(sum(told) / len(told)) if told else None
