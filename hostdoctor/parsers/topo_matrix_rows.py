"""The rows of a ``nvidia-smi topo -m`` matrix as printed: path cells, and what the affinity columns say.

The driver writes one tab after each cell and two after the NUMA column; ``N/A`` there has one more before it.
Pasting expands the tabs, folds blanks, wraps lines at the edge of a terminal, and fuses cells that met that edge.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import combinations, islice, pairwise, product
from typing import NamedTuple

from hostdoctor.facts import Fact
from hostdoctor.parsers.topo_matrix_header import (
    CELL,
    JUNK,
    LINK,
    MAX_LINE,
    MAX_PIECES,
    MAX_PREFIX_LABELS,
    Header,
    header_from_rows,
    is_row,
    read_header,
    unwrap_header,
)

MAX_TRIES = 5_000
MAX_FOREIGN_LINES = 3

_CELLS = re.compile(rf"(?:{LINK}|X)+", re.ASCII)
_CELLS_THEN_CPUS = re.compile(rf"((?:{LINK}|X)*(?:SYS|NODE|PHB|PXB|PIX|SOC|X))(\d[\d,-]*)", re.ASCII)
_AFFINITY = re.compile(r"N/A|[\d,-]+", re.ASCII)
_TOKEN = re.compile(r"\S+")
_CONTINUATION = re.compile(r"[ABCDEHINOPSVXY/0-9,\t -]+", re.ASCII)


class Row(Fact, frozen=True, kw_only=True):
    """A device's row: cells from the first column on, and what its affinity columns say.

    ``affinity`` has ``""`` for a blank; it is None when cells are missing and nothing tells which.
    ``whole``: every column is filled.
    """

    cells: tuple[str, ...]
    affinity: dict[str, str] | None
    whole: bool


class Table(Fact, frozen=True, kw_only=True):
    """A header and the rows found under it by label (None: unreadable); ``end`` is the line behind the last."""

    header: Header
    rows: dict[str, Row | None]
    line: int
    end: int


class _Found(NamedTuple):
    """A row as found: its place, its text from the label on, one piece for each line, and how far each line goes."""

    place: int
    pieces: list[str]
    widths: list[int]


def read_tables(lines: Sequence[str]) -> Iterator[Table]:
    """Yield every table that has at least one row, in order."""
    behind, tried = 0, 0
    for i, line in enumerate(lines):
        if i < behind or "GPU" not in line or tried > MAX_TRIES:
            continue
        header = read_header(line)
        if header is None and not is_row(line):
            continue
        tried += 1
        table = _table_under(lines, i, header) if header else _table_without_header(lines, i, i)
        if table and table.rows:
            behind = table.end
            yield table


def _table_under(lines: Sequence[str], i: int, header: Header) -> Table:
    header, start = unwrap_header(lines, i, header, _row_start)
    table = _table(lines, i, start, header)
    readable = any(table.rows.values()) or not table.rows
    return table if readable else _table_without_header(lines, i, start) or table


def _table_without_header(lines: Sequence[str], line: int, start: int) -> Table | None:
    header = header_from_rows(lines, start)
    return _table(lines, line, start, header) if header else None


def _table(lines: Sequence[str], line: int, start: int, header: Header) -> Table:
    found, end = _find_rows(lines, start, header)
    doubtful = _cropped(found, len(lines[line]), header) if start == line + 1 else set()
    if len(found) < len(header.labels) and not any(map(str.strip, lines[end : end + MAX_LINE])):
        doubtful.add(next(reversed(found), ""))  # where a text ends amid a table, it may end amid a word
    rows = {label: _row(row, header, label in doubtful) for label, row in found.items()}
    return Table(header=header, rows=rows, line=line, end=end)


def _cropped(found: dict[str, _Found], width: int, header: Header) -> set[str]:
    """Return the rows that reach farthest if that is no less far than the header: a page's edge may have cut both."""
    farthest = max((row.widths[0] for row in found.values()), default=0)
    tabs = any("\t" in row.pieces[0] for row in found.values())
    if "memory" in header.columns or tabs or farthest < width:
        return set()
    return {label for label, row in found.items() if row.widths[0] == farthest}


def _find_rows(lines: Sequence[str], start: int, header: Header) -> tuple[dict[str, _Found], int]:
    """Return what was found of each row, by label, and the line behind the last one."""
    found: dict[str, _Found] = {}
    current: _Found | None = None
    foreign, end = 0, start
    for i in range(start, len(lines)):
        line = lines[i]
        row = _row_start(line, header)
        if row and row[0] not in found:
            current = found[row[0]] = _Found(place=header.index[row[0]], pieces=[row[1]], widths=[len(line)])
        elif row is None and current and _continues(line, current, header):
            current.pieces.append(line)
            current.widths.append(len(line))
        else:
            foreign += any(map(str.isalnum, line[:MAX_LINE]))
            if row or foreign > MAX_FOREIGN_LINES or "Legend" in line or read_header(line):
                break
            continue
        foreign, end = 0, i + 1
    return found, end


def _row_start(line: str, header: Header) -> tuple[str, str] | None:
    """Return a row's label and its text from there on, whatever a log put before it."""
    if len(line) > MAX_LINE:
        return None
    index = header.index
    line = line.replace("|", " ")
    tokens = list(_TOKEN.finditer(line))
    labels = ((place, label) for place, token in enumerate(tokens[:-1]) if (label := token[0].lstrip(JUNK)) in index)
    for place, label in islice(labels, MAX_PREFIX_LABELS):
        at = place + 1 + index[label]
        first, diagonal = tokens[place + 1][0], tokens[at][0] if at < len(tokens) else ""
        if diagonal == "X" or _CELLS.fullmatch(first) or _CELLS_THEN_CPUS.fullmatch(first):
            return label, line[tokens[place].end() - len(label) :]
    return None


def _continues(line: str, found: _Found, header: Header) -> bool:
    if not header.wrapped_at or len(found.pieces) >= MAX_PIECES or not _CONTINUATION.fullmatch(line[:MAX_LINE]):
        return False
    row = _row(found, header, doubtful=False)
    return row is None or not row.whole or found.widths[-1] >= header.wrapped_at


def _row(found: _Found, header: Header, doubtful: bool) -> Row | None:
    """Return the row, or None when its cells do not fit the header; its last word does not count when doubtful.

    Where a wrapped line's end and the next one's beginning may be one number or two, the reading that fills every
    column counts.
    """
    readings = [row for text in _joined(found.pieces) if (row := _read(text, found.place, header, doubtful))]
    readings = [row for row in readings if row.whole] or readings
    if not readings or any(row.cells != readings[0].cells for row in readings):
        return None
    if any(row.affinity != readings[0].affinity for row in readings):
        return Row(cells=readings[0].cells, affinity=None, whole=False)
    return readings[0]


def _joined(pieces: list[str]) -> Iterator[str]:
    """Yield the ways to put a wrapped line together: only between two digits may a blank have been lost."""
    options = [("", " ") if left[-1:].isdigit() and right[:1].isdigit() else ("",) for left, right in pairwise(pieces)]
    if options.count(("", " ")) > 2:
        return
    for seams in product(*options):
        yield pieces[0] + "".join(seam + piece for seam, piece in zip(seams, pieces[1:], strict=True))


def _read(text: str, index: int, header: Header, doubtful: bool) -> Row | None:
    count = len(header.labels)
    cells, tail = _cells(text.replace("N/A", " N/A ").split()[1:], count)
    selves = [i for i, cell in enumerate(cells) if cell == "X"]
    missing = len(cells) < count
    if len(cells) > count or (missing and tail) or (selves != [index] and (selves or len(cells) > index)):
        return None
    doubtful = doubtful and tail[-1:] != ["N/A"]
    if missing or (doubtful and not tail):
        return Row(cells=tuple(cells[:-1]), affinity=None, whole=False)
    if not header.labels[index].startswith("GPU"):
        return Row(cells=tuple(cells), affinity={}, whole=not tail)
    affinity = None if header.cut or doubtful else _affinity(text, tail, header)
    return Row(cells=tuple(cells), affinity=affinity, whole=not header.cut and len(tail) == len(header.columns))


def _cells(words: list[str], count: int) -> tuple[list[str], list[str]]:
    """Return the path cells and the words behind them; what was fused is taken apart."""
    cells: list[str] = []
    for i, word in enumerate(words):
        fused = _CELLS_THEN_CPUS.fullmatch(word)
        if len(cells) >= count or word == "N/A" or word[0].isdigit():
            return cells, words[i:]
        if fused:
            return cells + CELL.findall(fused[1]), [fused[2], *words[i + 1 :]]
        cells += CELL.findall(word) if _CELLS.fullmatch(word) else [word]
    return cells, []


def _affinity(text: str, tail: list[str], header: Header) -> dict[str, str] | None:
    """Return what each affinity column says, or None when words are missing and their places do not tell which."""
    columns = header.columns
    blank = dict.fromkeys(columns, "")
    if not all(map(_AFFINITY.fullmatch, tail)) or len(tail) > len(columns):
        return None
    places = [dict(zip(kept, tail, strict=True)) for kept in combinations(columns, len(tail))]
    printed = _printed_tail(text, len(header.labels))
    fits = [place for place in places if printed and _as_driver(place, columns, printed[1]) == printed[0]]
    # A header without all three columns may have been cropped: then the words' places have to fit, where they are kept.
    trusted = len(columns) == 3 or not (printed or "memory" in columns)
    if len(places) == 1 and (fits or trusted):
        return blank | places[0]
    # The driver leaves no blank at the end: a row without its last column has been cut, maybe within a number.
    if len(fits) == 1 and columns[-1] in fits[0]:
        return blank | fits[0]
    return dict.fromkeys(columns, "N/A or blank") if set(tail) == {"N/A"} else None


def _as_driver(place: dict[str, str], columns: tuple[str, ...], tab_width: int) -> str:
    """Return the affinity cells as the driver prints them, tabs expanded if they were."""
    text = ""
    for column in columns:
        word = place.get(column, "")
        text += ("\t" if (column, word) == ("numa", "N/A") else "") + word + ("\t\t" if column == "numa" else "\t")
    return (text.expandtabs(tab_width) if tab_width else text).rstrip()


def _printed_tail(text: str, count: int) -> tuple[str, int] | None:
    """Return the text behind the path cells and the width that its tabs were expanded to, 0 for real tabs."""
    fields = text.split("\t")
    if len(fields) > count and all(len(field.split()) == 1 for field in fields[: count + 1]):
        return "\t".join(field.strip() for field in fields[count + 1 :]).rstrip(), 0
    words = [" X " if word == "X" else word for word in text.split(None, count + 1)[: count + 1]]
    heads = {width: ("\t".join(words) + "\t").expandtabs(width) for width in (8, 4)}
    return next(((text[len(h) :].rstrip(), width) for width, h in heads.items() if text.startswith(h)), None)
