"""Reading ``numactl --hardware`` line by line into outputs; what the values mean is decided in ``numactl``."""

import re
from collections.abc import Collection
from itertools import pairwise, takewhile

from hostdoctor.errors import ParseError
from hostdoctor.parsers.cpulist import canonical_cpulist, count_cpulist, parse_cpulist
from hostdoctor.parsers.numactl_doubts import note_doubts
from hostdoctor.parsers.numactl_table import MAX_NODE, DistanceTable, is_elision
from hostdoctor.parsers.prefix import strip_common_prefix
from hostdoctor.parsers.text import clean_lines

_ANCHOR = re.compile(
    r"\bavailable:\s*(?P<count>\d{1,7})\s+nodes?\b(?:\s*\((?P<listed>[\d,\s-]*)\))?"
    r"|\bnode\s+(?P<node>\d{1,4})\s+(?P<what>cpus|size|free)\s*:"
    r"|\b(?P<table>node distances)\s*:"
    r"|(?P<none>No NUMA (?:support )?available on this system)"
)
_ITEM = re.compile(r"\d{1,7}(?:-\d{1,7})?")
_COUNT = re.compile(r"\((\d{1,7})\)")
_TABLE_LINES = 300
# A list was not wrapped after a line as short as this: numbers that follow belong to something else.
_WRAP_COLUMNS = 40
_NUMBER_COLUMNS = 5


class CpuText:
    """A node's CPU list while its lines come in; ``doubt`` says why it cannot be trusted."""

    def __init__(self, text: str, columns: int) -> None:
        self.doubt: str | None = None
        self.is_glued = False
        self._lines: list[list[str]] = []
        self._count: int | None = None
        self._columns = self._last_columns = columns
        self._is_open = True
        self._is_interrupted = False
        self._is_followed = False
        self._read(text)

    def go_on(self, line: str) -> None:
        """Take a line that follows: more of a wrapped list, or something else."""
        if self._is_open and self._columns >= _WRAP_COLUMNS and _is_list(line):
            self._read(line)
            self._columns, self._last_columns = max(self._columns, len(line)), len(line)
            return
        self._is_open = False
        self._is_interrupted |= is_elision(line) or any(character.isdigit() for character in line)

    def close(self, *, is_followed: bool) -> None:
        """End the list; ``is_followed`` tells that its output goes on, so that what stood between is part of it."""
        self._is_followed = is_followed
        if is_followed and self._is_interrupted:
            self.doubt = self.doubt or "the list is interrupted"
        elif not is_followed and len(self._lines) > 1:
            self.doubt = self.doubt or self._doubt_of_last_line()

    def cpus(self, source: str) -> str:
        """Return the list as the kernel spells it; raises ParseError where it cannot be trusted."""
        listed = ",".join(token for line in self._lines for token in line)
        if self.doubt:
            raise ParseError(source, 0, listed, self.doubt)
        try:
            cpus = canonical_cpulist(listed, source)
        except ParseError:
            if not self._is_followed:
                raise
            cpus = canonical_cpulist(self._with_numbers_rejoined(), source)
        if self._count not in {None, count_cpulist(cpus)}:
            raise ParseError(source, 0, listed, f"{self._count} CPUs counted, others listed")
        return cpus

    @property
    def width(self) -> int | None:
        """The length of the line that the list fills, None where it was wrapped."""
        return self._columns if len(self._lines) == 1 else None

    @property
    def size(self) -> int:
        """The number of items that the list has so far."""
        return sum(map(len, self._lines))

    def _doubt_of_last_line(self) -> str | None:
        """Say what is wrong with a wrapped list's end that nothing follows."""
        if len(self._lines[-1]) == 1:
            return "a number follows that may not belong to the list"
        return "the text ends inside the list" if self._last_columns + _NUMBER_COLUMNS >= self._columns else None

    def _with_numbers_rejoined(self) -> str:
        """Return the list without the breaks that a terminal put inside numbers, which then do not ascend."""
        joined: list[str] = []
        for line in self._lines:
            before, last, first = joined[-2:-1], joined[-1:], line[:1]
            if not _ascends(before + last) or not _ascends(last + first):
                joined[-1:] = [last[0] + first[0]]
                line = line[1:]
            joined += line
        return ",".join(joined)

    def _read(self, text: str) -> None:
        tokens = text.replace(",", " ").split()
        items = list(takewhile(_ITEM.fullmatch, tokens))
        self._lines.append(items)
        if len(items) < len(tokens):
            self._note(tokens[len(items)])

    def _note(self, token: str) -> None:
        """Take what stands behind the list: a count (``--cpu-compress``) or somebody's remark."""
        self._is_open = False
        count = _COUNT.fullmatch(token)
        if count:
            self._count = int(count.group(1))
        elif token[:2] == "MB" or is_elision(token) or any(character.isdigit() for character in token):
            self.doubt = f"the list ends in {token[:20]!r}"


class Output:
    """One output: what it says of each node, by the node's id; values are the texts behind the colons."""

    def __init__(self) -> None:
        self.count: int | None = None
        self.listed: frozenset[int] | None = None
        self.cpus: dict[int, CpuText] = {}
        self.memory: dict[int, str] = {}
        self.free: dict[int, str] = {}
        self.table: DistanceTable | None = None
        self.is_elided = False

    @property
    def printed(self) -> set[int]:
        """Ids of the nodes that have a line of their own."""
        return {*self.cpus, *self.memory, *self.free}

    def has(self, node: int, what: str) -> bool:
        """Tell whether a node's ``cpus``, ``size`` or ``free`` line is there already."""
        lines: dict[str, Collection[int]] = {"cpus": self.cpus, "size": self.memory, "free": self.free}
        return node in lines[what]

    @property
    def is_empty(self) -> bool:
        return self.count is None and not self.printed and self.table is None


class Reader:
    """Goes through the lines and opens a new output wherever one begins again."""

    def __init__(self, text: str) -> None:
        self.outputs = [Output()]
        self.says_no_numa = False
        self._glued_lines = 0
        self._list: CpuText | None = None
        self._table: DistanceTable | None = None
        lines = _relevant(clean_lines(text))
        for line in lines:
            self._line(line)
        self._end(is_cut=bool(lines and lines[-1].strip()))
        for output in self.outputs:
            note_doubts(output.cpus, {*output.memory, *output.free}, are_lines_whole=self._glued_lines == 1)

    @property
    def _output(self) -> Output:
        return self.outputs[-1]

    def _line(self, line: str) -> None:
        anchors = list(_ANCHOR.finditer(line))
        if not anchors:
            self._loose(line)
            return
        head = line[: anchors[0].start()]
        if self._list and _is_list(head):
            self._list.go_on(head)
        ends = [anchor.start() for anchor in anchors[1:]] + [len(line)]
        for anchor, end in zip(anchors, ends, strict=True):
            self._anchor(anchor, line[anchor.end() : end], end)
            if self._list and end < len(line):
                self._list.is_glued = True
        self._glued_lines += len(anchors) > 1

    def _loose(self, line: str) -> None:
        if not line.strip():
            return
        if is_elision(line):
            self._output.is_elided |= not self._output.is_empty
        if self._list:
            self._list.go_on(line)
        elif self._table and not self._table.feed(line):
            self._table = None

    def _anchor(self, anchor: "re.Match[str]", rest: str, columns: int) -> None:
        if anchor["none"]:
            self.says_no_numa = True
        elif anchor["count"]:
            self._available(int(anchor["count"]), anchor["listed"])
        elif anchor["table"]:
            self._begin_table(rest)
        elif int(anchor["node"]) <= MAX_NODE:
            self._node(int(anchor["node"]), anchor["what"], rest, columns)

    def _available(self, count: int, listed: str | None) -> None:
        self._close(is_followed=False)
        if not self._output.is_empty:
            self.outputs.append(Output())
        self._output.count = count
        ids = _node_ids(listed)
        self._output.listed = ids if ids is not None and len(ids) == count else None

    def _begin_table(self, rest: str) -> None:
        self._close(is_followed=True)
        if self._output.table is not None:
            return
        self._table = self._output.table = DistanceTable()
        if rest.strip():
            self._table.feed(rest)

    def _node(self, node: int, what: str, rest: str, columns: int) -> None:
        is_new = self._output.has(node, what) or self._output.table is not None
        self._close(is_followed=not is_new)
        if is_new:
            self.outputs.append(Output())
        if what == "cpus":
            self._list = self._output.cpus[node] = CpuText(rest, columns)
        elif what == "size":
            self._output.memory[node] = rest
        else:
            self._output.free[node] = rest

    def _close(self, *, is_followed: bool) -> None:
        if self._list:
            self._list.close(is_followed=is_followed)
        self._list = self._table = None

    def _end(self, *, is_cut: bool) -> None:
        """End the text; one that stops inside a line may have lost the end of a number."""
        if self._list and (self._output.memory or (is_cut and not self._is_as_long_as_others(self._list))):
            self._list.doubt = self._list.doubt or "the text ends inside the list"
        if is_cut and self._table:
            self._table.end_in_line()
        self._close(is_followed=False)

    def _is_as_long_as_others(self, last: CpuText) -> bool:
        """Tell whether all nodes have as many CPUs as the last: then its list is whole, as far as one can tell."""
        sizes = {cpus.size for cpus in self._output.cpus.values()}
        return len(self._output.cpus) > 1 and sizes == {last.size}


def _relevant(lines: list[str]) -> list[str]:
    """Return the lines from the first that is surely numactl's on, without a prefix that they share."""
    columns = {i: anchor.start() for i, line in enumerate(lines) if (anchor := _ANCHOR.search(line))}
    if not columns:
        return []
    first, last = min(columns), max(columns)
    here = {index - first: column for index, column in columns.items()}
    return strip_common_prefix(lines[first : last + _TABLE_LINES], here)


def _is_list(text: str) -> bool:
    return bool(text.strip()) and all(map(_ITEM.fullmatch, text.replace(",", " ").split()))


def _ascends(items: list[str]) -> bool:
    firsts = [int(item.partition("-")[0]) for item in items]
    return all(a < b for a, b in pairwise(firsts))


def _node_ids(listed: str | None) -> frozenset[int] | None:
    try:
        ids = parse_cpulist(listed or "")
    except ParseError:
        return None
    return ids if ids and max(ids) <= MAX_NODE else None
