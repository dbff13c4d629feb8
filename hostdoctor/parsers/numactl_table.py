"""The distance table of ``numactl --hardware``: a header of node ids, and a row of distances for each node."""

import re

MAX_NODE = 1023  # CONFIG_NODES_SHIFT is at most 10
LOCAL_DISTANCE = 10  # ACPI: a node's distance to itself, and the least there is
MAX_DISTANCE = 255  # ACPI: unreachable

_BEGIN = re.compile(r"(?:^|\s)(?:node(?=\s+\d)|\d{1,4}:(?=\s|$))")
_NUMBER = re.compile(r"\d{1,4}")
_ELISION_CHARACTERS = frozenset(".…⋮·:[]<>(){}-~*|> \t")


def is_elision(text: str) -> bool:
    """Tell whether a text only says that something was left out: ``...``, ``[…]``, ``<snip>``."""
    short = text.strip()[:40]
    if "snip" in short.lower():
        return True
    return any(mark in short for mark in ".…⋮") and all(character in _ELISION_CHARACTERS for character in short)


class DistanceTable:
    """The table while its lines come in, wrapped or not. None stands for numbers that were left out."""

    def __init__(self) -> None:
        self.rows: dict[int, list[int | None]] = {}
        self._header: list[int | None] = []
        self._current: list[int | None] | None = None

    def feed(self, line: str) -> bool:
        """Take a line; return False where it is none of the table's, which then has ended."""
        if is_elision(line):
            self._current = None
            return True
        begin = _BEGIN.search(line)
        if begin is None:
            return self._continue(line.split())
        for token in line[begin.start() :].split():
            if not self._token(token):
                break
        return True

    def end_in_line(self) -> None:
        """Take notice that the text ends inside a line: of any row but the last, a digit may be missing."""
        if self._current is not None and self._current is not self._header and len(self.rows) < len(self._header):
            self._current.append(None)

    def distances(self, listed: frozenset[int] | None) -> dict[int, dict[str, int]]:
        """Return each row that can be trusted, by its node; ``listed`` are the nodes said to be available."""
        columns = self.columns(listed)
        return {
            node: {str(column): value for column, value in zip(columns, row, strict=True) if value is not None}
            for node, row in self.rows.items()
            if _is_sound(node, row, columns)
        }

    def columns(self, listed: frozenset[int] | None) -> list[int]:
        """Return the node of each column; where the header is lost or elided, what else must stand there."""
        header = [node for node in self._header if node is not None]
        if header and len(header) == len(self._header):
            return header
        if listed:
            return sorted(listed)
        return list(self.rows) if all(len(row) == len(self.rows) for row in self.rows.values()) else []

    def _continue(self, tokens: list[str]) -> bool:
        """Take the rest of a wrapped header or row: numbers alone, where there are columns left for them."""
        if (
            self._current is None
            or self._is_full()
            or not all(_NUMBER.fullmatch(token) or is_elision(token) for token in tokens)
        ):
            return False
        return all(self._token(token) for token in tokens)

    def _token(self, token: str) -> bool:
        if token == "node":  # noqa: S105 - a word of the table
            return self._begin_header()
        if token.endswith(":") and _NUMBER.fullmatch(token[:-1]):
            return self._begin_row(int(token[:-1]))
        if self._current is None or not (is_elision(token) or _NUMBER.fullmatch(token)):
            return False
        if is_elision(token) and self._is_full():
            self._current = None
            return True
        self._current.append(None if is_elision(token) else int(token))
        return True

    def _is_full(self) -> bool:
        columns = len(self._header) if self._header and self._current is not self._header else MAX_NODE + 1
        return self._current is not None and len(self._current) >= columns

    def _begin_header(self) -> bool:
        if self._header or self.rows:
            return False
        self._current = self._header
        return True

    def _begin_row(self, node: int) -> bool:
        if node in self.rows or node > MAX_NODE:
            return False
        self._current = self.rows[node] = []
        return True


def _is_sound(node: int, row: list[int | None], columns: list[int]) -> bool:
    """Tell whether a row is whole and its own node stands where its column says."""
    if len(row) != len(columns) or node not in columns or len(set(columns)) != len(columns):
        return False
    if any(value is None or not LOCAL_DISTANCE <= value <= MAX_DISTANCE for value in row):
        return False
    return row[columns.index(node)] == LOCAL_DISTANCE
