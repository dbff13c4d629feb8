"""Which cell comes next: edges of monotone grids, and that an interrupted experiment goes on with the same runs."""

import random

import pytest
from msgspec.structs import replace

from hostdoctor.measure.matrix.experiment import Experiment, Prefix, Struck
from hostdoctor.measure.matrix.grid import Cell, all_series, cells_of, open_cells, slices, struck_cells
from hostdoctor.measure.matrix.judge import Judged
from hostdoctor.measure.matrix.order import blocks, next_run, seed_of
from hostdoctor.measure.matrix.search import View, around_edges, find_edges
from tests.support.queueing import experiment


def searched(edges: list[int], open_columns: list[int]) -> tuple[dict[int, int], int]:
    """Return the edges that are found in a grid with these ones, and how many cells that took."""
    known: dict[tuple[int, int], bool] = {}
    while True:
        found = find_edges(len(edges), open_columns, lambda row, column: known.get((row, column)))
        if found.wanted is None:
            return found.edges, len(known)
        assert found.wanted not in known
        row, column = found.wanted
        assert column < open_columns[row]
        known[row, column] = column < edges[row]


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 9), (6, 1), (4, 8), (5, 8), (12, 20)])
def test_the_edges_of_any_monotone_grid_are_found(rows: int, columns: int) -> None:
    source = random.Random(f"{rows}x{columns}")
    for _ in range(60):
        edges = sorted((source.randint(0, columns) for _ in range(rows)), reverse=True)
        found, cells = searched(edges, [columns] * rows)
        assert [found[row] for row in range(rows)] == edges
        assert cells <= max(rows + columns, rows * (columns + 1).bit_length())


def test_struck_cells_are_never_asked_for() -> None:
    found, _ = searched([3, 3, 0], [8, 4, 0])
    assert found == {0: 3, 1: 3, 2: 0}
    assert searched([0, 0], [0, 0]) == ({0: 0, 1: 0}, 0)


def test_around_an_edge_steps_widen_until_a_cell_is_sure() -> None:
    """Of sixteen columns the first three are sure to hold, the others are open with all of their repeats."""
    asked: list[int] = []

    def view(row: int, column: int) -> View:
        asked.append(column)
        return View(repeats=3, holds=column < 3, breaks=False)

    assert around_edges({0: 10}, [16], view, 3) == []
    assert asked == [9, 8, 6, 2, 10, 11, 13, 15]


def failing() -> Judged:
    return Judged(state="failed", is_in=False, repeats=1)


def rest(asked: Experiment, done: int, *, bisect: bool) -> list[tuple[Cell, int]]:
    """Return the runs after ``done`` ones, as a fresh process would choose them; every cell fails."""
    counts: dict[Cell, int] = {}
    verdicts: dict[Cell, Judged] = {}
    made = []
    while (run := next_run(asked, counts, verdicts, bisect=bisect)) is not None:
        counts[run.cell] = counts.get(run.cell, 0) + 1
        verdicts[run.cell] = failing()
        made.append((run.cell, run.repeat))
    return made[done:]


@pytest.mark.parametrize("bisect", [False, True])
def test_the_runs_are_the_same_however_often_it_is_asked(bisect: bool) -> None:
    asked = experiment(contexts=(2048, 8192), concurrency=(1, 4, 16), repeats=2)
    whole = rest(asked, 0, bisect=bisect)
    assert len(set(whole)) == len(whole)
    for done in range(0, len(whole), 3):
        assert rest(asked, done, bisect=bisect) == whole[done:]


def test_blocks_hold_every_cell_once_a_repeat_in_another_order() -> None:
    asked = experiment(contexts=(2048, 8192), concurrency=(1, 4, 16), repeats=3)
    runs = blocks(asked)
    each = len(runs) // 3
    first, second = ([run.cell for run in runs[n * each : (n + 1) * each]] for n in (0, 1))
    assert set(first) == set(second)
    assert first != second
    for cells in (first, second):  # one server after the other
        names = [cell.series.variant for cell in cells]
        assert names in (sorted(names), sorted(names, reverse=True))


def test_a_seed_is_shared_by_variants_and_by_nothing_else() -> None:
    asked = experiment(contexts=(2048, 8192), concurrency=(1, 4), repeats=2)
    seeds: dict[int, set[tuple[int, int, int]]] = {}
    for run in blocks(asked):
        place = (run.cell.context, run.cell.concurrency, run.repeat)
        seeds.setdefault(seed_of(asked, run), set()).add(place)
    assert len(seeds) == 2 * 2 * 2
    assert all(len(places) == 1 for places in seeds.values())


def test_rates_have_seeds_of_their_own() -> None:
    """A tier's files outlive the server of one rate: the next is not to find its prompts there."""
    asked = experiment(contexts=(2048,), concurrency=(1, 4), repeats=2)
    asked = replace(asked, grid=replace(asked.grid, request_rates=(1.0, 4.0)))
    by_rate: dict[str, set[int]] = {}
    for run in blocks(asked):
        by_rate.setdefault(run.cell.series.request_rate, set()).add(seed_of(asked, run))
    assert [len(seeds) for seeds in by_rate.values()] == [4, 4]
    assert not set.intersection(*by_rate.values())


def test_cells_know_their_cuts_and_what_is_struck() -> None:
    from msgspec.structs import replace

    asked = replace(
        experiment(("A",), contexts=(2048, 8192, 32768), concurrency=(1, 4)),
        prefix=Prefix(context=8192, concurrency=(4,)),
        struck=(Struck(variant="A", kv_cache_dtype="auto", context=8192, from_concurrency=4, reason="too much"),),
    )
    (series,) = all_series(asked)
    cuts = {(c.cut, c.context, c.concurrency): slices(asked, c) for c in cells_of(asked, series)}
    assert cuts["grid", 2048, 1] == ("single", "steady", "lengths")
    assert cuts["grid", 8192, 4] == ("grid",)
    assert cuts["grid", 32768, 4] == ("lengths",)
    out = [(one.cell.cut, one.cell.context, one.cell.concurrency) for one in struck_cells(asked)]
    assert out == [("grid", 8192, 4), ("grid", 32768, 4), ("prefix", 8192, 4)]
    assert len(open_cells(asked, series)) == 4
