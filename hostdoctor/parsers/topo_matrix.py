"""``nvidia-smi topo -m`` (and ``-mp``): how GPUs and NICs reach each other, and the CPUs and NUMA nodes near each GPU.

Columns are found by their names; which there are depends on the driver. Unknown is None or ``()`` and leaves a gap.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from string import digits

from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact, Gap, GapKind, Path
from hostdoctor.parsers.text import clean_lines
from hostdoctor.parsers.topo_matrix_header import LINK, MAX_DEVICES, MAX_LINE, Header, is_cut_name, read_header
from hostdoctor.parsers.topo_matrix_rows import Row, Table, read_tables

MAX_TABLES = 32
MAX_NODE = 1023
_LEGEND_LINES = 60
_ROOM = 10  # the driver adds no item to a CPU list that is already this long

_LINK = re.compile(LINK, re.ASCII)
_ID_LIST = re.compile(r"\d{1,5}(?:-\d{1,5})?(?:,\d{1,5}(?:-\d{1,5})?)*", re.ASCII)
_LEGEND_ENTRY = re.compile(r"\b(NIC\d{1,4}):\s+([\w.-]+)", re.ASCII)
_OLD_KINDS = {"SOC": "SYS"}


class TopoGpu(Fact, frozen=True, kw_only=True):
    """A GPU's row. ``cpus`` and ``numa_nodes`` are near it; ``memory_numa_node`` is the node its own memory forms.

    ``cpus_cut``: the driver's column has no room for a long list; this one may go on, so it is no full set.
    """

    label: str
    index: int
    cpus: str | None = None
    cpus_cut: bool = False
    numa_nodes: tuple[int, ...] = ()
    memory_numa_node: int | None = None


class TopoNic(Fact, frozen=True, kw_only=True):
    """A NIC's column: the label in the matrix, and the RDMA device that the legend names (old drivers: the label)."""

    label: str
    name: str | None = None


class TopoMatrix(Fact, frozen=True, kw_only=True):
    """A matrix. ``paths`` has each pair once, first the device that comes first in the matrix."""

    gpus: tuple[TopoGpu, ...] = ()
    nics: tuple[TopoNic, ...] = ()
    paths: tuple[Path, ...] = ()
    gaps: tuple[Gap, ...] = ()


def parse_topo_matrix(text: str, source: str = "nvidia-smi topo -m") -> TopoMatrix:
    """Return the first complete matrix in a text, or the first of all where none is complete.

    Raises ParseError when there is none: no table, one of peer-to-peer states (``topo -p2p``), or no answer.
    """
    lines = clean_lines(text) if "GPU" in text else []
    partial: TopoMatrix | None = None
    refused: int | None = None
    for count, table in enumerate(read_tables(lines)):
        if count >= MAX_TABLES:
            break
        if not _is_link_matrix(table):
            refused = table.line if refused is None else refused
            continue
        complete = _is_complete(table)
        if complete or partial is None:
            partial = _Reading(table, _legend(lines, table.end), source).matrix()
        if complete:
            return partial
    if partial is None:
        raise _refusal(lines, refused, source)
    return partial


def _refusal(lines: Sequence[str], refused: int | None, source: str) -> ParseError:
    if refused is not None:
        return ParseError(source, refused + 1, lines[refused], "a table, but not of links")
    for i, line in enumerate(lines):
        if "Could not collect" in line and "GPU Topology" in "".join(lines[max(i - 2, 0) : i]):
            return ParseError(source, i + 1, line, "the topology was not collected")
    return ParseError(source, 0, "", "no nvidia-smi topo -m matrix")


def _is_link_matrix(table: Table) -> bool:
    """Tell links from peer-to-peer states: without affinity columns every cell has to be a known link."""
    rows = [row for row in table.rows.values() if row]
    if table.header.columns:
        return bool(rows)
    cells = [cell for row in rows for cell in row.cells]
    return len(table.header.labels) > 1 and bool(cells) and all(c == "X" or _LINK.fullmatch(c) for c in cells)


def _is_complete(table: Table) -> bool:
    count = len(table.header.labels)
    return len(table.rows) == count and all(row and len(row.cells) == count for row in table.rows.values())


def _spliced(table: Table) -> frozenset[str]:
    """Return the rows that contradict another where rows are missing: the end of one may follow another's begin."""
    labels = table.header.labels
    if len(table.rows) == len(labels):
        return frozenset()
    cells = [row.cells if row else () for row in (table.rows.get(label) for label in labels)]
    pairs = ((i, j) for i, j in combinations(range(len(labels)), 2) if len(cells[i]) > j and len(cells[j]) > i)
    return frozenset(label for i, j in pairs if cells[i][j] != cells[j][i] for label in (labels[i], labels[j]))


def _legend(lines: Sequence[str], start: int) -> dict[str, set[str]]:
    """Return the names that the NIC legend behind a table gives each label (several where it contradicts itself)."""
    names: dict[str, set[str]] = {}
    heading, foreign, last = False, 0, ""
    for i in range(start, min(len(lines), start + _LEGEND_LINES + 2 * MAX_DEVICES)):
        line = lines[i]
        entries = _LEGEND_ENTRY.findall(line[:MAX_LINE]) if heading else []
        for label, name in entries:
            if not is_cut_name(name) and (i < len(lines) - 1 or _follows(name, last)):
                names.setdefault(label, set()).add(name)
                last = name
        heading = heading or "NIC Legend" in line
        foreign = 0 if entries else foreign + bool(line.strip())
        if (names and foreign > 1) or (not heading and foreign > _LEGEND_LINES) or read_header(line):
            break
    return names


def _follows(name: str, last: str) -> bool:
    """Doubt the last name of a text that ends without a line's end: behind mlx5_9, mlx5_1 is the head of mlx5_10."""
    stem, number = name.rstrip(digits), name[len(name.rstrip(digits)) :]
    before = last[len(stem) :] if last.startswith(stem) else ""
    return number != "" and (not before.isdigit() or int(number[:9]) > int(before[:9]))


class _Cell(Fact, frozen=True, kw_only=True):
    """An affinity cell's text, ``""`` when it tells nothing, and then why."""

    text: str = ""
    reason: str = ""
    kind: GapKind = "not-told"


class _Reading:
    """Turns one table into facts, collecting gaps on the way."""

    def __init__(self, table: Table, legend: dict[str, set[str]], source: str) -> None:
        self._header: Header = table.header
        self._rows: dict[str, Row | None] = table.rows
        self._spliced = _spliced(table)
        self._legend = legend
        self._source = source
        self._gaps: list[Gap] = []

    def matrix(self) -> TopoMatrix:
        labels = self._header.labels
        gpus = [label for label in labels if label.startswith("GPU")]
        nics = [label for label in labels if not label.startswith("GPU")]
        if self._header.cut:
            self._gap("nics", "header cut off", "missing")
        return TopoMatrix(
            gpus=tuple(self._gpu(f"gpus[{i}]", label) for i, label in enumerate(gpus)),
            nics=tuple(self._nic(f"nics[{i}]", label) for i, label in enumerate(nics)),
            paths=tuple(self._paths()),
            gaps=tuple(self._gaps),
        )

    def _gap(self, fact: str, reason: str, kind: GapKind = "not-told") -> None:
        self._gaps.append(Gap(fact=fact, source=self._source, reason=reason, kind=kind))

    def _row_problem(self, fact: str, label: str) -> str | None:
        """Return what is wrong with a row as a whole, and note it."""
        row = self._rows.get(label)
        if label in self._spliced:
            self._gap(fact, "another row contradicts it, and rows are missing", "unreadable")
            return "row contradicted by another"
        if row and len(row.cells) == len(self._header.labels):
            return None
        unreadable = row is None and label in self._rows
        reason = "row does not fit the header" if unreadable else "row cut off" if row else "row missing"
        self._gap(fact, reason, "unreadable" if unreadable else "missing")
        return reason

    def _gpu(self, fact: str, label: str) -> TopoGpu:
        problem = self._row_problem(fact, label)
        cpus, cpus_cut = self._cpus(f"{fact}.cpus", self._cell(label, "cpus", problem))
        return TopoGpu(
            label=label,
            index=int(label[3:]),
            cpus=cpus,
            cpus_cut=cpus_cut,
            numa_nodes=self._nodes(f"{fact}.numa_node", self._cell(label, "numa", problem)),
            memory_numa_node=self._memory(f"{fact}.memory_numa_node", self._cell(label, "memory", problem)),
        )

    def _cell(self, label: str, column: str, problem: str | None) -> _Cell:
        row = self._rows.get(label)
        if problem or row is None:
            return _Cell(reason=problem or "row missing", kind="missing")
        if self._header.cut:
            return _Cell(reason="header cut off", kind="missing")
        if column not in self._header.columns:
            return _Cell(reason="no such column")
        if row.affinity is None:
            return _Cell(reason="cells missing or cut off", kind="unreadable")
        text = row.affinity[column]
        return _Cell(text=text) if text[:1].isdigit() else _Cell(reason=text or "blank")

    def _cell_gap(self, fact: str, cell: _Cell) -> None:
        if cell.text:
            self._gap(fact, f"not understood: {cell.text[:40]}", "unreadable")
        else:
            self._gap(fact, cell.reason, cell.kind)

    def _cpus(self, fact: str, cell: _Cell) -> tuple[str | None, bool]:
        spans = _spans(cell.text)
        if not spans:
            self._cell_gap(fact, cell)
            return None, False
        cut = cell.text.count(",") >= 2 and len(cell.text) >= _ROOM
        if cut:
            self._gap(fact, "cut off by the driver")
        return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans), cut

    def _nodes(self, fact: str, cell: _Cell) -> tuple[int, ...]:
        spans = _spans(cell.text)
        if not spans or spans[-1][1] > MAX_NODE:
            self._cell_gap(fact, cell)
            return ()
        return tuple(node for a, b in spans for node in range(a, b + 1))

    def _memory(self, fact: str, cell: _Cell) -> int | None:
        spans = _spans(cell.text)
        if len(spans) == 1 and spans[0][0] == spans[0][1] <= MAX_NODE:
            return spans[0][0]
        if cell.text or cell.kind == "unreadable":
            self._cell_gap(fact, cell)
        return None

    def _nic(self, fact: str, label: str) -> TopoNic:
        self._row_problem(fact, label)
        if not label.startswith("NIC"):
            return TopoNic(label=label, name=label)
        names = self._legend.get(label, set())
        if len(names) != 1:
            reason = "the legend gives it several names" if names else "not in a NIC legend"
            self._gap(f"{fact}.name", reason, "unreadable" if names else "missing")
            return TopoNic(label=label)
        return TopoNic(label=label, name=next(iter(names)))

    def _paths(self) -> Iterator[Path]:
        """Yield a path for each pair that at least one of its two rows tells and neither contradicts."""
        labels = self._header.labels
        rows = [self._rows.get(label) for label in labels]
        cells = [tuple(_OLD_KINDS.get(cell, cell) for cell in row.cells) if row else () for row in rows]
        for i, j in combinations(range(len(labels)), 2):
            told = (*cells[i][j : j + 1], *cells[j][i : i + 1])
            if len(told) == 1 and (labels[i] if cells[i][j : j + 1] else labels[j]) in self._spliced:
                self._gap(f"paths[{labels[i]},{labels[j]}]", "told by a contradicted row alone", "unreadable")
            elif told and set(told) == {told[0]} and _LINK.fullmatch(told[0]):
                yield Path(a=labels[i], b=labels[j], kind=told[0])
            elif told:
                what = "/".join(cell[:20] for cell in told)
                self._gap(f"paths[{labels[i]},{labels[j]}]", f"the two rows say {what}", "unreadable")


def _spans(text: str) -> list[tuple[int, int]]:
    """Return a CPU or node list's runs, adjacent ones merged; ``[]`` when it is none, or does not ascend."""
    if not _ID_LIST.fullmatch(text):
        return []
    merged: list[tuple[int, int]] = []
    for item in text.split(","):
        first, _, last = item.partition("-")
        a, b = int(first), int(last or first)
        if b < a or (merged and a <= merged[-1][1]):
            return []
        if merged and a == merged[-1][1] + 1:
            a = merged.pop()[0]
        merged.append((a, b))
    return merged
