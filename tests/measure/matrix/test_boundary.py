"""The boundary of a server whose law is known: found by bisection, said where there is none, not said where unsure."""

import random

import pytest

from hostdoctor.facts.runs import RunResult
from hostdoctor.measure.matrix.boundary import Boundary, boundary
from hostdoctor.measure.matrix.experiment import Experiment, Slo
from hostdoctor.measure.matrix.grid import Cell, Series, all_series
from hostdoctor.measure.matrix.judge import Judged, judge
from hostdoctor.measure.matrix.order import at_most, next_run
from tests.support.queueing import Law, experiment

SEEDS = 100


class Ran:
    """An experiment on a simulated server, carried out."""

    def __init__(self, asked: Experiment, law: Law, seed: int, *, bisect: bool = True) -> None:
        self.asked, self.runs = asked, 0
        source = random.Random(seed)
        kept: dict[Cell, list[RunResult]] = {}
        verdicts: dict[Cell, Judged] = {}
        counts: dict[Cell, int] = {}
        while (run := next_run(asked, counts, verdicts, bisect=bisect)) is not None:
            assert counts.get(run.cell, 0) == run.repeat
            kept.setdefault(run.cell, []).append(law.run(source, run.cell))
            counts[run.cell] = len(kept[run.cell])
            verdicts[run.cell] = judge(kept[run.cell], asked.slo)
            self.runs += 1
        self.verdicts = verdicts

    @property
    def cells(self) -> int:
        return len(self.verdicts)

    def boundary(self, series: Series) -> Boundary:
        cells = {(c.context, c.concurrency): judged for c, judged in self.verdicts.items() if c.series == series}
        return boundary(self.asked.grid.contexts, self.asked.grid.concurrency, cells, {})


def true_edge(law: Law, asked: Experiment, variant: str, context: int) -> int:
    """Return how many of the columns hold in truth."""
    return sum(law.holds(variant, context, many, asked.slo) for many in asked.grid.concurrency)


def within_one_step(ran: Ran, law: Law) -> bool:
    columns = ran.asked.grid.concurrency
    for series in all_series(ran.asked):
        for row in ran.boundary(series).rows:
            found = 0 if row.holds_to is None else 1 + columns.index(row.holds_to)
            if abs(found - true_edge(law, ran.asked, series.variant, row.context)) > 1:
                return False
    return True


def planted(seed: int) -> Law:
    """Return a law of its own for each seed: where its boundary runs differs, and what offloading costs.

    Without load p99 is below half of the limit: what takes it out is the queue, not where the limit happens to be.
    """
    source = random.Random(f"law {seed}")
    return Law(
        capacity_tokens=source.uniform(60_000, 1_500_000),
        service_ms=source.uniform(10, 35),
        slots=source.uniform(15, 120),
        ttft_penalty={"C": source.uniform(1.1, 1.8)},
        itl_penalty={"C": source.uniform(1.0, 1.6)},
    )


def test_bisecting_finds_the_planted_boundary_with_two_fifths_of_the_cells() -> None:
    asked = experiment()
    right, shares = 0, []
    for seed in range(SEEDS):
        law = planted(seed)
        ran = Ran(asked, law, seed)
        right += within_one_step(ran, law)
        shares.append((3 * ran.cells / at_most(asked), ran.runs / at_most(asked)))
    assert right >= 95
    assert max(cells for cells, _ in shares) <= 0.4
    assert max(runs for _, runs in shares) <= 0.4


def test_a_whole_grid_finds_the_same() -> None:
    asked, law = experiment(), planted(3)
    whole = Ran(asked, law, 3, bisect=False)
    assert whole.runs == at_most(asked)
    assert within_one_step(whole, law)


def test_no_boundary_inside_the_grid_is_said() -> None:
    law = Law(capacity_tokens=1e9, slots=1e6)
    ran = Ran(experiment(), law, 1)
    for series in all_series(ran.asked):
        told = ran.boundary(series)
        assert told.state == "none-inside"
        assert {row.holds_to for row in told.rows} == {128}
        assert {row.breaks_at for row in told.rows} == {None}


def test_never_holds_is_said() -> None:
    law = Law(service_ms=200.0)
    assert not law.holds("A", 2048, 1, experiment().slo)
    ran = Ran(experiment(), law, 1)
    told = ran.boundary(all_series(ran.asked)[0])
    assert told.state == "never-holds"
    assert {row.holds_to for row in told.rows} == {None}
    assert {row.breaks_at for row in told.rows} == {1}


@pytest.mark.parametrize("seed", range(5))
def test_neither_is_said_where_repeats_disagree(seed: int) -> None:
    """The p99 of one cell lies on the limit and its repeats vary: no side of it is true."""
    law = Law(capacity_tokens=1e12, slots=1e9, run_effect=0.25)
    limit = law.ttft_p99_ms("A", 8192, 8)
    asked = experiment(("A",), contexts=(8192,), concurrency=(8,), slo=Slo(ttft_p99_ms=limit), repeats=8)
    ran = Ran(asked, law, seed)
    (judged,) = ran.verdicts.values()
    assert judged.state == "neither"
    assert "repeats disagree: p99 TTFT" in (judged.reason or "")
    told = ran.boundary(all_series(asked)[0])
    assert told.state == "not-told"
    assert told.rows[0].holds_to is None
    assert told.rows[0].breaks_at is None
    assert told.rows[0].neither == (8,)
