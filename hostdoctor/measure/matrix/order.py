"""Which run comes next: every cell in random blocks, or the most telling ones first. A function of what was run."""

import random
from collections.abc import Mapping, Sequence

from hostdoctor.facts import Fact
from hostdoctor.measure.matrix.boundary import implied
from hostdoctor.measure.matrix.experiment import Experiment
from hostdoctor.measure.matrix.grid import Cell, Series, all_series, cells_of, open_cells
from hostdoctor.measure.matrix.judge import Judged
from hostdoctor.measure.matrix.search import View, around_edges, find_edges


class Run(Fact, frozen=True, kw_only=True):
    """One repeat of one cell, from 0."""

    cell: Cell
    repeat: int


Counts = Mapping[Cell, int]
Verdicts = Mapping[Cell, Judged]


def seed_of(experiment: Experiment, run: Run) -> int:
    """Return a run's seed: its own for every cell, rate and repeat; variants share it, so their prompts are the same.

    Files of a tier on NVMe outlive their server: another rate with the same prompts would find them there.
    """
    cells = cells_of(experiment, run.cell.series)
    place = [(c.cut, c.context, c.concurrency) for c in cells].index(
        (run.cell.cut, run.cell.context, run.cell.concurrency)
    )
    rates = list(dict.fromkeys(series.request_rate for series in all_series(experiment)))
    block = rates.index(run.cell.series.request_rate) * experiment.load.repeats + run.repeat
    return 1_000_000 * experiment.load.seed + block * len(cells) + place + 1


def blocks(experiment: Experiment) -> tuple[Run, ...]:
    """Return every run of the whole grid: for each repeat all series in random order, in each its cells likewise."""
    found = []
    for repeat in range(experiment.load.repeats):
        for series in series_order(experiment, repeat):
            found += [Run(cell=cell, repeat=repeat) for cell in _shuffled(experiment, series, repeat)]
    return tuple(found)


def next_run(experiment: Experiment, counts: Counts, verdicts: Verdicts, *, bisect: bool) -> Run | None:
    """Return the next run; None where all are made.

    ``counts`` has how many repeats of each cell are kept, failed ones included, ``verdicts`` what they say together.
    """
    if not bisect:
        return next((run for run in blocks(experiment) if counts.get(run.cell, 0) <= run.repeat), None)
    wanted = [run for series in all_series(experiment) for run in _wanted(experiment, series, counts, verdicts)]
    if not wanted:
        return None
    repeat = min(run.repeat for run in wanted)
    for series in series_order(experiment, repeat):
        found = [run for run in wanted if run.cell.series == series and run.repeat == repeat]
        if found:
            return found[0]
    return None


def at_most(experiment: Experiment) -> int:
    """Return how many runs the whole grid has."""
    return sum(len(open_cells(experiment, series)) for series in all_series(experiment)) * experiment.load.repeats


def series_order(experiment: Experiment, repeat: int) -> list[Series]:
    """Return the series in the order of one repeat: another for each, the same each time it is asked."""
    found = list(all_series(experiment))
    random.Random(f"{experiment.load.seed}/{repeat}").shuffle(found)  # noqa: S311  an order, no secret
    return found


def _shuffled(experiment: Experiment, series: Series, repeat: int) -> list[Cell]:
    found = list(open_cells(experiment, series))
    random.Random(f"{experiment.load.seed}/{repeat}/{series.slug}").shuffle(found)  # noqa: S311
    return found


# --- the most telling ones ---


def _wanted(experiment: Experiment, series: Series, counts: Counts, verdicts: Verdicts) -> list[Run]:
    """Return the runs that a series' answer needs now: one more step of the bisection, or repeats at its edge."""
    cells = open_cells(experiment, series)
    grid = {(cell.context, cell.concurrency): cell for cell in cells if cell.cut == "grid"}
    rows, columns = sorted(experiment.grid.contexts), sorted(experiment.grid.concurrency)
    open_columns = [sum((context, many) in grid for many in columns) for context in rows]
    judged = {place: verdicts[cell] for place, cell in grid.items() if cell in verdicts}

    def side(row: int, column: int) -> bool | None:
        known = judged.get((rows[row], columns[column]))
        return None if known is None else known.is_in

    def view(row: int, column: int) -> View:
        place = (rows[row], columns[column])
        state = implied(judged, place)
        return View(repeats=counts.get(grid[place], 0), holds=state == "holds", breaks=state in ("breaks", "failed"))

    edges = find_edges(len(rows), open_columns, side)
    if edges.wanted is not None:
        row, column = edges.wanted
        return [Run(cell=grid[rows[row], columns[column]], repeat=0)]
    places = around_edges(edges.edges, open_columns, view, experiment.load.repeats)
    found = [grid[rows[row], columns[column]] for row, column in places]
    others = [cell for cell in cells if cell.cut != "grid"]
    random.Random(f"{experiment.load.seed}/{series.slug}").shuffle(found)  # noqa: S311
    due = [Run(cell=cell, repeat=counts.get(cell, 0)) for cell in (*found, *others)]
    return [run for run in due if run.repeat < experiment.load.repeats]


def runs_left(experiment: Experiment, counts: Counts, *, bisect: bool, done: Sequence[Cell]) -> int:
    """Return how many runs are left; of a bisection, at most: as if every series needed a step for each of its rows."""
    if not bisect:
        return sum(counts.get(run.cell, 0) <= run.repeat for run in blocks(experiment))
    columns = len(experiment.grid.concurrency)
    rows = len(experiment.grid.contexts)
    each = (rows + columns.bit_length()) * experiment.load.repeats
    others = sum(cell.cut != "grid" for series in all_series(experiment) for cell in open_cells(experiment, series))
    total = each * len(all_series(experiment)) + others * experiment.load.repeats
    return max(0, min(total, at_most(experiment)) - len(done))
