"""Which cell to measure next: the boundary of each context by bisection, then its neighbours until they are sure. Pure.

The grid is taken to be monotone: what holds for long contexts and many requests at once holds for fewer of both. Rows
are contexts, columns concurrencies, both ascending.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

Place = tuple[int, int]
Side = Callable[[int, int], "bool | None"]  # in, out, not measured yet


class Edges(NamedTuple):
    """For each row how many of its first columns are in; ``wanted`` is the cell to measure before that is known."""

    edges: dict[int, int]
    wanted: Place | None


def find_edges(rows: int, open_columns: list[int], side: Side) -> Edges:
    """Return the edge of every row, by bisecting the middle row and then those on both sides of it within its edge.

    ``open_columns`` has for each row how many of its columns are not struck.
    """
    edges: dict[int, int] = {}
    pending = [(0, rows, 0, max(open_columns, default=0))]
    while pending:
        first, end, low, high = pending.pop()
        if first >= end:
            continue
        row = (first + end) // 2
        edge, wanted = _edge(row, min(low, open_columns[row]), min(high, open_columns[row]), side)
        if wanted is not None:
            return Edges(edges, wanted)
        edges[row] = edge
        pending.append((row + 1, end, low, edge))
        pending.append((first, row, edge, high))
    return Edges(edges, None)


def _edge(row: int, low: int, high: int, side: Side) -> tuple[int, Place | None]:
    while low < high:
        middle = (low + high) // 2
        found = side(row, middle)
        if found is None:
            return low, (row, middle)
        low, high = (middle + 1, high) if found else (low, middle)
    return low, None


class View(NamedTuple):
    """What is known of a cell: how many repeats it has, and whether it is sure to hold or to break."""

    repeats: int
    holds: bool
    breaks: bool


def around_edges(
    edges: dict[int, int], open_columns: list[int], view: Callable[[int, int], View], repeats: int
) -> list[Place]:
    """Return the cells that need another repeat: from each edge inwards to one that holds, outwards to one that breaks.

    A cell with all of its repeats that is still neither is passed over; each step is twice as long as the one before.
    """
    found = []
    for row in sorted(edges):
        inwards = ((row, column) for column in _strides(edges[row] - 1, -1))
        outwards = ((row, column) for column in _strides(edges[row], open_columns[row]))
        for way, is_sure in ((inwards, "holds"), (outwards, "breaks")):
            wanted = _first_unsure(way, view, is_sure, repeats)
            if wanted is not None and wanted not in found:
                found.append(wanted)
    return found


def _strides(first: int, end: int) -> Iterator[int]:
    """Yield the columns from ``first`` on the way to ``end``, which is none: 1, 2, 4 … further; the last one always."""
    way = 1 if end > first else -1
    column, stride = first, 1
    while (end - column) * way > 0:
        yield column
        left = abs(end - column) - 1
        column += way * (min(stride, left) or 1)
        stride *= 2


def _first_unsure(way: Iterator[Place], view: Callable[[int, int], View], is_sure: str, repeats: int) -> Place | None:
    for place in way:
        known = view(*place)
        if known.repeats < repeats and (known.repeats or not getattr(known, is_sure)):
            return place
        if getattr(known, is_sure):
            return None
    return None
