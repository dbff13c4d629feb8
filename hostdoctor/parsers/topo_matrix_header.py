"""The header of a ``nvidia-smi topo -m`` matrix: device labels, then affinity columns, found by their titles.

A terminal wraps it within a word and fuses titles that met its edge; pasting cuts its head or its tail off.
"""

import re
from collections.abc import Callable, Sequence
from itertools import islice

from hostdoctor.facts import Fact

MAX_DEVICES = 256
MAX_LINE = 8_000
MAX_PIECES = 6
MAX_PREFIX_LABELS = 3
TITLES = {"CPUAffinity": "cpus", "NUMAAffinity": "numa", "GPUNUMAID": "memory"}
LINK = r"NV\d{1,2}|SYS|NODE|PHB|PXB|PIX|SOC"
JUNK = "\ufffd`*\"'\\"

_GPU = re.compile(r"(?<![A-Za-z0-9_])GPU\d", re.ASCII)
_LABEL = r"(?:GPU|NIC)\d{1,4}|mlx\d_(?:bond_)?\d{1,4}"
# A label that the driver makes up may be fused to the next one; an RDMA device's own name (rocep4s0f0) may not.
_DEVICE = re.compile(rf"\s*((?:{_LABEL})(?=[\sGNCm]|$)|[a-z][\w.-]{{0,31}}\d(?=\s|$))", re.ASCII)
_TWO_LABELS = re.compile(r"GPU\d{1,4}[\s|]*(?:GPU|NIC|mlx)\d", re.ASCII)
_TITLE = re.compile(r"(?:CPU|NUMA) ?Affinity", re.ASCII)
_ROW = re.compile(rf"(?<!\S)({_LABEL})\s+((?:(?:{LINK}|X)+(?:\s+|$))+)", re.ASCII)
CELL = re.compile(rf"{LINK}|X", re.ASCII)


class Header(Fact, frozen=True, kw_only=True):
    """The columns. ``cut``: the affinity columns are not all known, because the line is cut off.

    ``wrapped_at``: the width at which a terminal wrapped it, and so may have wrapped rows; 0 where it did not.
    """

    labels: tuple[str, ...]
    columns: tuple[str, ...]
    cut: bool = False
    wrapped_at: int = 0

    @property
    def index(self) -> dict[str, int]:
        """Each label's place in the matrix."""
        return {label: i for i, label in enumerate(self.labels)}


def read_header(line: str) -> Header | None:
    """Return the header that a line is, whole or cut, whatever a log put before it."""
    if not _may_be_header(line):
        return None
    line = line.replace("|", " ").rstrip(JUNK + " \t")
    starts = (match.start() for match in islice(_GPU.finditer(line), MAX_PREFIX_LABELS))
    return next((header for start in starts if (header := _header_from(line, start))), None)


def unwrap_header(
    lines: Sequence[str], start: int, header: Header, is_row: Callable[[str, Header], object]
) -> tuple[Header, int]:
    """Return the header with the lines that a terminal wrapped it into, and the line behind it."""
    text, end = lines[start], start + 1
    while end < len(lines) and end - start < MAX_PIECES and "memory" not in header.columns:
        piece = lines[end]
        another = read_header(piece)
        repeats = another is not None and not header.index.keys().isdisjoint(another.labels)
        if repeats or not piece.strip() or is_row(piece, header):
            break
        text += piece
        longer = read_header(text)
        if longer is None or longer.columns[-1:] == ("unknown",) or not _grew(header, longer):
            break
        header, end = longer, end + 1
    width = max(map(len, lines[start:end])) if end > start + 1 else 0
    return Header(labels=header.labels, columns=header.columns, cut=header.cut, wrapped_at=width), end


def is_cut_name(text: str) -> bool:
    """Say whether a device's name stops before its number: ``mlx5_``, ``mlx5_bond_``."""
    return "mlx0_bond_".startswith(re.sub(r"\d", "0", text))


def is_row(line: str) -> bool:
    """Say whether a line is a row of links, under whatever header."""
    return "X" in line and len(line) <= MAX_LINE and _ROW.search(line) is not None


def header_from_rows(lines: Sequence[str], start: int) -> Header | None:
    """Return the header that a whole square of rows stands for, where theirs is cut off or has lost its head."""
    labels: dict[str, None] = {}
    count = 0
    for line in lines[start : start + MAX_DEVICES]:
        row = _ROW.search(line[:MAX_LINE])
        cells = CELL.findall(row[2]) if row else []
        if row is None or row[1] in labels or cells[len(labels) :][:1] != ["X"]:
            break
        count = count or len(cells)
        labels[row[1]] = None
    if count < 2 or len(labels) != count or not next(iter(labels)).startswith("GPU"):
        return None
    above = lines[start - 1][:MAX_LINE].rstrip(JUNK + " \t") if start else ""
    title = _TITLE.search(above)
    columns, rest = _columns("".join(above[title.start() :].split())) if title else ((), "")
    whole = bool(columns) and not rest
    return Header(labels=tuple(labels), columns=columns if whole else (), cut=not whole)


def _may_be_header(line: str) -> bool:
    """Sort out quickly what a long log is full of."""
    if "GPU" not in line or len(line) > MAX_LINE:
        return False
    return "ffin" in line or _TWO_LABELS.search(line) is not None


def _header_from(line: str, position: int) -> Header | None:
    labels: dict[str, None] = {}
    while len(labels) <= MAX_DEVICES and (match := _DEVICE.match(line, position)) and not is_cut_name(match[1]):
        if match[1] in labels:  # the rest of a longer label: NIC1 of NIC12
            return Header(labels=tuple(labels), columns=(), cut=True) if len(labels) > 1 else None
        labels[match[1]] = None
        position = match.end()
    columns, rest = _columns("".join(line[position:].split()))
    cut = bool(rest) and (is_cut_name(rest) or any(title.startswith(rest) for title in (*TITLES, "NIC")))
    if not labels or len(labels) > MAX_DEVICES or not (columns or (len(labels) > 1 and (cut or not rest))):
        return None
    if rest and not cut:
        columns = (*columns, "unknown")
    return Header(labels=tuple(labels), columns=columns, cut=cut)


def _columns(compact: str) -> tuple[tuple[str, ...], str]:
    """Return the known columns that a text without blanks begins with, and what is left of it."""
    found: list[str] = []
    while title := next((t for t in TITLES if compact.startswith(t) and TITLES[t] not in found), ""):
        found.append(TITLES[title])
        compact = compact[len(title) :]
    return tuple(found), compact


def _grew(header: Header, longer: Header) -> bool:
    return (longer.labels, longer.columns) != (header.labels, header.columns) or header.cut > longer.cut
