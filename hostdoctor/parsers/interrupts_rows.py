"""Rows of ``/proc/interrupts`` and ``lsirq``, put together again where a paste has wrapped, quoted or prefixed them."""

import re
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import NamedTuple

from hostdoctor.parsers.text import clean_lines

# A number of its own after the name may be the name's end, which a wrap cut off.
QUEUE = re.compile(r"(?<![\w-])(nvme\d{1,5})q(\d{1,5})(?![\w-]|\s+\d+\s*(?:,|$))")
_QUEUE_END = re.compile(r"\d{1,4}(?:,|$)")
_ROW = re.compile(r"(?<![\w.])(\d{1,7}):[ \t]+(?=(?:\d+|\.{3}|…)(?:\s|$))")
_QUOTE = re.compile(r"(?:> ?)+")
_NAMED_ROW = re.compile(r"\W*[A-Za-z]\w*:")
_HEADER = re.compile(r"(?<!\w)CPU\d{1,7}(?:\s+CPU\d{1,7})*(?!\w)")
_LOST_ESCAPE = re.compile(r"\[\d{1,3}[;m]")
_ELLIPSES = ("...", "…")
_TRIGGERS = ("-edge", "-level", "-fasteoi", "-percpu")
_COLUMN = 11  # the kernel prints each count in ten columns and a blank
_PREFIX_CHARS = 256  # a log prefix is shorter; bounds the search in rows of thousands of CPUs
_LINE_CHARS = 1 << 18  # 8192 CPUs take 90,000
_NAME_CHARS = 4096
_FRAGMENTS = 256
MAX_LINES = 200_000


class Row(NamedTuple):
    """An interrupt's row. ``counts`` are kept for NVMe queues alone; ``width`` is how many there were.

    ``cpus`` is the header above it. ``elided``: a person left columns out. ``is_total``: one count over all CPUs.
    """

    irq: int
    chip: str | None
    name: str
    known_form: bool
    counts: Sequence[str] = ()
    width: int = 0
    cpus: tuple[int, ...] = ()
    elided: bool = False
    is_total: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether every count stands under a CPU of the header."""
        return bool(self.cpus) and self.width == len(self.cpus) and not self.elided


def split_lines(text: str) -> list[str]:
    """Return at most MAX_LINES lines, cleaned where needed: cleaning 20 MB costs more than reading them."""
    touched = not text.isascii() or any(c in text for c in "\x1b\r\0") or _LOST_ESCAPE.search(text)
    return clean_lines(text)[:MAX_LINES] if touched else text.split("\n", MAX_LINES)[:MAX_LINES]


class Table:
    """What the lines gave so far. A header or row that is not whole waits in ``_pending`` for the rest of its line."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.cpus: tuple[int, ...] = ()
        self.rows: list[Row] = []
        self.is_recognised = False
        self.has_conflicting_headers = False
        self._pending: list[str] = []
        self._is_wrapped = False
        self._wrap_column = 0
        self._last_row_line = ""
        self._lsirq_name_column = 0
        self._layout = (0, 0)
        for line in lines:
            if len(line) > self._wrap_column:
                self._wrap_column = len(line)
            if not self._feed_regular(line):
                self._feed(line[:_LINE_CHARS])
        self._flush()

    def _feed_regular(self, line: str) -> bool:
        # A row in the very columns that the header announced needs no splitting, which takes long with 512 CPUs.
        colon, end = self._layout
        if not end or len(line) <= end or line[colon : colon + 1] != ":" or line[end] != " ":
            return False
        label = line[:colon].strip()
        if not (label.isascii() and label.isdecimal() and line[end - 1].isdecimal()):
            return False
        chip, name, known_form = _chip_and_name(line[end : end + _NAME_CHARS].split())
        if _is_open(name):
            return False
        self._flush()
        counts = line[colon + 1 : end].split() if "nvme" in name else ()
        width = len(counts) if counts else len(self.cpus)
        self._add(Row(int(label), chip, name, known_form, counts, width, self.cpus), line)
        return True

    def _feed(self, line: str) -> None:
        if line[:1] == ">":
            line = _QUOTE.sub("", line, count=1)
        if self._lsirq_name_column and self._feed_lsirq(line):
            return
        match = _ROW.search(line, 0, _PREFIX_CHARS)
        if match is not None:
            self._flush()
            self._feed_row(line[match.start() :])
        elif cpus := _header(line):
            self._feed_header(line, cpus)
        elif not line.strip(" \t>`") or _NAMED_ROW.match(line, 0, _PREFIX_CHARS):
            self._flush()
        elif self._pending and len(self._pending) < _FRAGMENTS:
            self._pending.append(line)
        elif _QUEUE_END.match(line) and 0 < len(self._last_row_line) == self._wrap_column:
            self.rows.pop()
            self._pending = [self._last_row_line, line]
        else:
            self._lsirq_name_column = _lsirq_name_column(line) or self._lsirq_name_column

    def _feed_row(self, line: str) -> None:
        row = _row(line, self.cpus)
        if self._is_wrapped or _is_open(row.name) or row.width < len(self.cpus):
            self._pending = [line]
        else:
            self._add(row, line)

    def _feed_header(self, line: str, cpus: Sequence[int]) -> None:
        before = _header(self._pending[-1]) if self._pending else ()
        if before and cpus[0] > before[0]:
            self._pending.append(line)
            return
        self._flush()
        self._pending = [line]

    def _feed_lsirq(self, line: str) -> bool:
        cells = line.split(None, self._lsirq_name_column)
        if len(cells) <= self._lsirq_name_column or not _is_number(cells[0]):
            return False
        chip, name, known_form = _chip_and_name(cells[-1][:_NAME_CHARS].split())
        self._add(Row(int(cells[0]), chip, name, known_form, cells[1:2], is_total=True))
        return True

    def _flush(self) -> None:
        if not self._pending:
            return
        fragments, self._pending = self._pending, []
        if _ROW.match(fragments[0].lstrip()):
            self._add(_best_row(fragments, self.cpus, self._wrap_column, joined_first=self._is_wrapped))
        else:
            self._set_header(fragments)

    def _set_header(self, fragments: list[str]) -> None:
        line = fragments[0].rstrip()
        # A terminal's wrap may cut a word, so that the next line starts inside it.
        joined = reduce(lambda left, right: left + " " * right.startswith("CPU") + right, fragments)
        cpus = next((c for c in (_header(joined), _header(line)) if _ascends(c)), ())
        self._is_wrapped = len(cpus) > len(_header(line))
        self.has_conflicting_headers |= bool(self.cpus) and self.cpus != cpus
        self.cpus = cpus
        first = line.index("CPU")
        is_regular = len(line) == first + _COLUMN * (len(cpus) - 1) + len(f"CPU{max(cpus, default=0)}") and first > 8
        self._layout = (first - 8, first - 7 + _COLUMN * len(cpus)) if is_regular else (0, 0)

    def _add(self, row: Row, line: str = "") -> None:
        has_known_form = row.known_form or bool(QUEUE.search(row.name))
        # A hexadecimal dump looks like rows, too.
        if has_known_form or row.is_total or row.is_whole:
            self._last_row_line = line
            self.rows.append(row)
            self.is_recognised |= has_known_form


def out_of_order(rows: Sequence[Row]) -> frozenset[int]:
    """Return the places of rows whose number lost a digit or got one more: the kernel prints numbers in order.

    Only a row that stands out between two that are in order counts; where many do, the table was sorted otherwise.
    """
    found: set[int] = set()
    kept = [0]
    for i in range(1, len(rows)):
        if _stands_out(rows, kept[-2:], i):
            found.add(i)
        else:
            kept.append(i)
    return frozenset(found) if len(found) <= max(1, len(rows) // 16) else frozenset()


def _stands_out(rows: Sequence[Row], kept: Sequence[int], i: int) -> bool:
    irq, before = rows[i].irq, rows[kept[-1]].irq
    # Each header line makes a tuple of its own: rows below two of them are two tables, though of the same CPUs.
    if rows[i].is_total or any(row.cpus is not rows[i].cpus for row in (rows[kept[0]], *rows[i : i + 2])):
        return False
    if i + 1 == len(rows):
        return irq < rows[kept[0]].irq < before
    return before < rows[i + 1].irq and not before <= irq <= rows[i + 1].irq


def _is_open(name: str) -> bool:
    return not name or name.endswith(",")


def _is_number(cell: str) -> bool:
    return len(cell) <= 7 and cell.isascii() and cell.isdecimal()


def _header(line: str) -> tuple[int, ...]:
    match = _HEADER.search(line) if "CPU" in line else None
    if match is None or line[match.end() :].strip(" \t\\n'\",`|") not in ("", "C", "CP", "CPU"):
        return ()
    cpus = tuple(int(token[3:]) for token in match.group().split())
    before = line[: match.start()].rstrip()
    in_prose = len(cpus) == 1 and any(c.isalpha() for c in before)
    is_continuation = before[-1:].isdigit()
    return cpus if not (in_prose or is_continuation) and _ascends(cpus[:-1] or cpus) else ()


def _ascends(cpus: tuple[int, ...]) -> bool:
    return bool(cpus) and list(cpus) == sorted(set(cpus))


def _lsirq_name_column(line: str) -> int:
    cells = line.split(None, 8) if "TOTAL" in line else []
    return cells.index("NAME") if cells[:2] == ["IRQ", "TOTAL"] and "NAME" in cells else 0


def _row(line: str, cpus: tuple[int, ...]) -> Row:
    label, _, rest = line.partition(":")
    cells = rest.split()
    width = next((i for i, cell in enumerate(cells) if not (cell.isdecimal() or cell in _ELLIPSES)), len(cells))
    chip, name, known_form = _chip_and_name(cells[width:])
    elided = "..." in cells[:width] or "…" in cells[:width]
    counts = cells[:width] if "nvme" in name else ()
    return Row(int(label), chip, name, known_form, counts, width, cpus, elided)


def _best_row(fragments: list[str], cpus: tuple[int, ...], wrap_column: int, joined_first: bool) -> Row:
    # A wrap at a blank loses it, a wrap inside a word adds none: the number of columns says which it was.
    if len(fragments) == 1:
        return _row(fragments[0], cpus)
    hard = "".join(x if len(x) >= wrap_column else x + " " for x in fragments)
    texts = (" ".join(fragments), hard, "".join(fragments))
    joined_first = joined_first or _QUEUE_END.match(fragments[1]) is not None
    rows = [_row(text, cpus) for text in ((*texts, fragments[0]) if joined_first else (fragments[0], *texts))]
    best = max(rows, key=lambda row: (not _is_open(row.name), row.is_whole, bool(QUEUE.search(row.name))))
    return best if cpus else best._replace(elided=True)


def _chip_and_name(cells: Sequence[str]) -> tuple[str | None, str, bool]:
    """Return the chip, the handlers' names, and whether a trigger stands between them."""
    if not cells:
        return None, "", False
    if cells[0].endswith(_TRIGGERS):
        return cells[0].rpartition("-")[0], _name(cells[1:]), True
    for i, cell in enumerate(cells[1:5], 1):
        digits, dash, trigger = cell.partition("-")
        if digits.isdecimal() or (not digits and dash and trigger):
            has_trigger = (
                trigger.isalpha() or bool(dash and not digits) or cells[i + 1 : i + 2] in (["Edge"], ["Level"])
            )
            return " ".join(cells[:i]), _name(cells[i + 1 :]), has_trigger
    return cells[0], _name(cells[1:]), False


def _name(cells: Sequence[str]) -> str:
    name = " ".join(cells[1:] if cells and cells[0] in {"Edge", "Level"} else cells)
    queue = QUEUE.search(name) if "nvme" in name and "," not in name else None
    # A script's note may follow a queue's name; a string literal's end may follow any.
    return queue.group() if queue else name.strip("\"'`").removesuffix("\\n")
