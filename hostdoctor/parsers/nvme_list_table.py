"""The tables of ``nvme list`` and ``nvme list --verbose``: columns by the dashed rule, else by their looks.

A model may hold blanks and a serial number may too, so the place of a cell is trusted only where all columns of the
row agree with the rule; where blanks were lost, the model begins after what can only be a serial number.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hostdoctor.parsers.nvme_list_cells import COLUMN_COUNTS, Cells, cells_by_column, controller_cells, flat_cells
from hostdoctor.parsers.nvme_list_rows import (
    Row,
    controller_name,
    namespace_and_controller,
    told,
    transport_and_bdf,
)
from hostdoctor.parsers.prefix import strip_common_prefix
from hostdoctor.parsers.text import clean_lines

_TEXT_CHARS = 1 << 24
_LINE_CHARS = 4096
_MAX_LINES = 200_000
_MAX_ROWS = 10_000
_MODEL_CHARS = 40  # of the specification's Identify data
_FRAGMENTS = 8
_RULE = re.compile(r"[ \t]*-{3,}[- \t]*")
_FLAT_ROW = re.compile(r"(?<![\w/])/dev/(?:nvme|ng)\d+(?:c\d+)?n\d+\s")
_VERBOSE_ROW = re.compile(r"\s*(?:/dev/)?nvme\d+(?:(?:c\d+)?n\d+)?\s")
_KNOWN_START = re.compile(
    r"/dev/nvme\d+n\d+\s|-{12,}|(?:Node|Device|Subsystem)\s{2,}|(?:Node|Device)\s+(?:Generic|SN)\s"
)


class Tables(NamedTuple):
    """The rows of all tables in a text; ``has_header`` even when a table is empty; what rows could not tell."""

    rows: list[Row]
    has_header: bool
    doubts: dict[str, str]


class _Section(NamedTuple):
    kind: str
    header: str
    rules: list[str]
    rows: list[list[str]]


def find_tables(text: str) -> Tables:
    """Return what the tables in a text list; no rows and no header where there is none."""
    if "nvme" not in text and "Node" not in text:
        return Tables([], has_header=False, doubts={})
    lines = [line[:_LINE_CHARS] for line in clean_lines(text[:_TEXT_CHARS])[:_MAX_LINES]]
    starts = {i: match.start() for i, line in enumerate(lines) if (match := _KNOWN_START.search(line, 0, 512))}
    rows: list[Row] = []
    doubts: dict[str, str] = {}
    sections = _sections(strip_common_prefix(lines, starts) if starts else lines)
    if sum(len(section.rows) for section in sections) >= _MAX_ROWS:
        doubts["nvme"] = "too long, the end was not read"
    for section in sections:
        for fragments in section.rows:
            rows += _READERS[section.kind](section, fragments, doubts)
    return Tables(rows, any(section.header for section in sections), doubts)


def _sections(lines: Sequence[str]) -> list[_Section]:
    sections = [_Section("flat", "", [], [])]
    is_open, room = False, _MAX_ROWS
    for line in lines:
        section = sections[-1]
        kind = _header_kind(line)
        if kind:
            sections.append(_Section(kind, line, [], []))
        elif _RULE.fullmatch(line) or (section.rules and not section.rows and line and not line.strip(" \t-")):
            section.rules.append(line)
        elif room and (row := _row_start(line, section)):
            section.rows.append([row])
            room -= 1
        elif is_open and line.strip() and section.rows and len(section.rows[-1]) < _FRAGMENTS:
            section.rows[-1].append(line)
        is_open = bool(line.strip()) and not kind
    return sections


def _header_kind(line: str) -> str:
    names = line.split()[:16]
    if "Node" in names[:1] and not {"Model", "SN", "Generic"}.isdisjoint(names):
        return "flat"
    if "Device" in names[:1] and ("MN" in names or "TxPort" in names):
        return "controllers"
    if "Device" in names[:1] and "NSID" in names:
        return "namespaces"
    return "subsystems" if names[:2] == ["Subsystem", "Subsystem-NQN"] else ""


def _row_start(line: str, section: _Section) -> str:
    if "/dev/n" not in line and "nvme" not in line:
        return ""
    match = _FLAT_ROW.search(line + " ") if section.kind == "flat" else _VERBOSE_ROW.match(line + " ")
    return line[match.start() :].lstrip() if match else ""


def _cells(section: _Section, fragments: list[str]) -> Cells | None:
    widths = _wrap_widths(section)
    texts = [_unwrapped(fragments, width) for width in widths] if len(section.rules) > 1 else fragments[:1]
    for width, text in zip(widths, texts, strict=False):
        cells = cells_by_column(section.kind, section.header, text, _spans(section, width))
        if cells is not None:
            return cells
    grammar = flat_cells if section.kind == "flat" else controller_cells
    cells = grammar(texts[-1], section.header) if texts else None
    if cells is None and len(fragments) > 1:
        cells = grammar(" ".join(fragments), section.header)
        cells = cells and Cells(transport=cells.transport, address=cells.address, doubt="the row is wrapped")
    return cells


def _wrap_widths(section: _Section) -> tuple[int, ...]:
    """Return the widths at which a terminal may have wrapped the table: a wrap at a blank leaves the blank out."""
    if len(section.rules) < 2:
        return (0,)
    width = max(map(len, section.rules[:-1]))
    return tuple(w for w in (width, width + 1) if len(_spans(section, w)) in COLUMN_COUNTS.get(section.kind, ()))


def _spans(section: _Section, width: int) -> list[tuple[int, int]]:
    rule = _unwrapped(section.rules[:_FRAGMENTS], width).strip()
    return [match.span() for match in re.finditer("-+", rule)]


def _unwrapped(fragments: Sequence[str], width: int) -> str:
    return "".join(text.ljust(width) if len(text) <= width else text + " " for text in fragments)


def _read_flat(section: _Section, fragments: list[str], doubts: dict[str, str]) -> Iterator[Row]:
    node = fragments[0].split(None, 1)[0]
    namespace, controller = namespace_and_controller(node.replace("/dev/ng", "/dev/nvme"))
    cells = _cells(section, fragments)
    if cells is None and _is_cut(fragments[0], node, _spans(section, 0)):
        cells = Cells(doubt="the row is cut off")
    if namespace is None or cells is None:
        doubts.update({"nvme": "a row is not understood"} if section.header else {})
        return
    namespaces = () if node.startswith("/dev/ng") else (namespace,)
    yield _described(cells, controller, doubts)._replace(namespaces=namespaces, is_derived=True, is_flat=True)


def _is_cut(text: str, node: str, spans: Sequence[tuple[int, int]]) -> bool:
    # What follows the name stands in the second column, so that this is a row and no sentence.
    second = spans[1][0] if len(spans) > 1 else 0
    return bool(second) and not text[len(node) : second].strip() and text[second : second + 1] not in ("", " ")


def _read_controller(section: _Section, fragments: list[str], doubts: dict[str, str]) -> Iterator[Row]:
    name = controller_name(fragments[0].split(None, 1)[0])
    cells = _cells(section, fragments)
    if name is None or cells is None:
        doubts["nvme"] = "a row is not understood"
        return
    found = (namespace_and_controller(x)[0] for x in cells.namespaces.replace(",", " ").split()[:4096])
    namespaces = tuple(dict.fromkeys(x for x in found if x))
    transport, bdf = transport_and_bdf(cells.transport, cells.address)
    yield _described(cells, name, doubts)._replace(namespaces=namespaces, transport=transport, bdf=bdf)


def _read_namespace(section: _Section, fragments: list[str], doubts: dict[str, str]) -> Iterator[Row]:
    del section, doubts
    words = " ".join(fragments).replace(",", " ").split()
    namespace, _ = namespace_and_controller(words[0])
    plus = next((i for i in range(len(words) - 1, 0, -1) if words[i] == "+"), len(words))
    for word in words[plus + 3 :] if namespace else ():
        if name := controller_name(word):
            yield Row(controller=name, namespaces=(namespace,) if namespace else ())


def _read_nothing(section: _Section, fragments: list[str], doubts: dict[str, str]) -> Iterator[Row]:
    del section, fragments, doubts
    return iter(())


def _described(cells: Cells, controller: str | None, doubts: dict[str, str]) -> Row:
    model = told(cells.model) if len(cells.model.strip()) <= _MODEL_CHARS else None
    if model is None:
        doubts[f"nvme[{controller}].model"] = cells.doubt or "not told"
    return Row(
        controller=controller,
        model=model,
        firmware=None if " " in cells.firmware.strip() else told(cells.firmware),
        serial=told(cells.serial),
    )


_READERS = {
    "flat": _read_flat,
    "controllers": _read_controller,
    "namespaces": _read_namespace,
    "subsystems": _read_nothing,
}
