"""From judged cells to the boundary of each series: how far it holds, where it breaks, where neither can be said. Pure.

Between measured cells the grid is taken to be monotone, and what is only inferred is said to be.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from hostdoctor.facts import Fact
from hostdoctor.measure.matrix.judge import Judged, State

Place = tuple[int, int]  # context, concurrency
Verdict = Literal["found", "none-inside", "never-holds", "not-told"]


class Row(Fact, frozen=True, kw_only=True):
    """One context: the largest concurrency that holds, the smallest that breaks, those between that are neither.

    ``struck_from`` is the smallest concurrency that cannot be. ``inferred`` names which of the two ends follow from
    longer or shorter contexts and were not measured themselves. None: there is none.
    """

    context: int
    holds_to: int | None = None
    breaks_at: int | None = None
    neither: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()
    struck_from: int | None = None
    inferred: tuple[Literal["holds_to", "breaks_at"], ...] = ()


class Boundary(Fact, frozen=True, kw_only=True):
    """One series' boundary.

    ``found``: some cells hold and some do not; ``none-inside``: all that can be hold; ``never-holds``: not even the
    smallest; ``not-told``: what was measured does not say.
    """

    state: Verdict
    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()


def implied(cells: Mapping[Place, Judged], place: Place) -> State | None:
    """Return a cell's state: its own where it was measured, else what harder or easier cells say.

    A cell that too few samples leave open is decided by others too, one whose repeats disagree is not. None where
    nothing is known.
    """
    own = cells.get(place)
    if own is not None and (own.state != "neither" or own.repeats_disagree):
        return own.state
    context, many = place
    holds = any(judged.state == "holds" and c >= context and m >= many for (c, m), judged in cells.items())
    breaks = any(judged.state == "breaks" and c <= context and m <= many for (c, m), judged in cells.items())
    if holds == breaks:
        return None if own is None else own.state
    return "holds" if holds else "breaks"


def boundary(
    contexts: Sequence[int],
    concurrency: Sequence[int],
    cells: Mapping[Place, Judged],
    struck_from: Mapping[int, int],
) -> Boundary:
    """Return the boundary; ``struck_from`` has for a context the smallest concurrency that cannot be."""
    columns = sorted(concurrency)
    rows = tuple(_row(context, columns, cells, struck_from.get(context)) for context in sorted(contexts))
    return Boundary(state=_state(rows, columns), rows=rows, notes=_notes(cells))


def _row(context: int, columns: Sequence[int], cells: Mapping[Place, Judged], struck: int | None) -> Row:
    open_ = [many for many in columns if struck is None or many < struck]
    states = {many: implied(cells, (context, many)) for many in open_}
    holds: int | None = None
    for many in open_:
        if states[many] != "holds":
            break
        holds = many
    breaks = next((many for many in open_ if states[many] == "breaks" and many > (holds or 0)), None)
    between = [m for m in open_ if m > (holds or 0) and (breaks is None or m < breaks)]
    ends: tuple[tuple[Literal["holds_to", "breaks_at"], int | None], ...] = (
        ("holds_to", holds),
        ("breaks_at", breaks),
    )
    return Row(
        context=context,
        holds_to=holds,
        breaks_at=breaks,
        neither=tuple(m for m in between if states[m] == "neither"),
        failed=tuple(m for m in open_ if states[m] == "failed"),
        struck_from=struck,
        inferred=tuple(name for name, many in ends if many is not None and not _measured(cells, (context, many))),
    )


def _measured(cells: Mapping[Place, Judged], place: Place) -> bool:
    own = cells.get(place)
    return own is not None and own.state in ("holds", "breaks")


def _state(rows: Sequence[Row], columns: Sequence[int]) -> Verdict:
    open_ = [row for row in rows if row.struck_from is None or row.struck_from > columns[0]]
    if not open_:
        return "not-told"
    if all(row.holds_to == _last(row, columns) for row in open_):
        return "none-inside"
    if any(row.holds_to is not None for row in open_):
        return "found"
    return "never-holds" if open_[0].breaks_at == columns[0] else "not-told"


def _last(row: Row, columns: Sequence[int]) -> int:
    return max(many for many in columns if row.struck_from is None or many < row.struck_from)


def _notes(cells: Mapping[Place, Judged]) -> tuple[str, ...]:
    """Return where the measured cells contradict that harder ones are slower."""
    broken = sorted(place for place, judged in cells.items() if judged.state == "breaks")
    found = []
    for (context, many), judged in sorted(cells.items()):
        easier = next(((c, m) for c, m in broken if c <= context and m <= many), None)
        if judged.state == "holds" and easier is not None:
            found.append(
                f"{context:,} × {many} holds although {easier[0]:,} × {easier[1]} breaks: what varies is not load"
            )
    return tuple(found[:3])
