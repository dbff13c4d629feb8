"""The cells of one row of an ``nvme list`` table, by column where the row keeps to them, else by their looks."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_NODE = re.compile(r"/dev/(?:nvme|ng)\d+(?:c\d+)?n\d+")
_NSID = re.compile(r"0x[0-9a-fA-F]{1,8}|\d{1,10}")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)?")
_TRANSPORTS = frozenset({"pcie", "tcp", "rdma", "fc", "loop"})
_BRACKETS = {"{": "}", "<": ">", "[": "]", "(": ")"}
_FIRMWARE_CHARS = 8
_WORDS = 64

COLUMN_COUNTS = {"flat": (7, 8), "controllers": (8, 10, 11)}
_FLAT = "node serial model nsid usage format firmware"
_FLAT_GENERIC = "node generic serial model nsid usage format firmware"
_FLAT_VERSION = "node serial model version nsid usage format firmware"
_CONTROLLER = "device serial model firmware transport address subsystem namespaces"
_CONTROLLER_2 = "device cntlid serial model firmware transport address slot subsystem namespaces"
_CONTROLLER_3 = "device owner cntlid serial model firmware transport address slot subsystem namespaces"
# The widths that nvme-cli's versions have printed, for rows that came without their rule or do not keep to it.
_LAYOUTS = {
    "flat": (
        (_FLAT, (16, 20, 40, 9, 26, 16, 8)),
        (_FLAT, (21, 20, 40, 9, 26, 16, 8)),
        (_FLAT_GENERIC, (21, 21, 20, 40, 9, 26, 16, 8)),
        (_FLAT_GENERIC, (21, 21, 20, 40, 10, 26, 16, 8)),
    ),
    "controllers": (
        (_CONTROLLER, (8, 20, 40, 8, 6, 14, 12, 16)),
        (_CONTROLLER_2, (8, 6, 20, 40, 8, 6, 14, 6, 12, 16)),
        (_CONTROLLER_2, (16, 6, 20, 40, 8, 6, 14, 6, 12, 16)),
        (_CONTROLLER_3, (16, 12, 6, 20, 40, 8, 6, 14, 6, 12, 16)),
    ),
}


class Cells(NamedTuple):
    """The cells that matter, ``""`` where there is none; ``doubt`` says why the model is missing."""

    serial: str = ""
    model: str = ""
    firmware: str = ""
    transport: str = ""
    address: str = ""
    namespaces: str = ""
    doubt: str = ""


def cells_by_column(kind: str, header: str, text: str, spans: Sequence[tuple[int, int]]) -> Cells | None:
    """Return the cells of a row that keeps to the rule's columns or to a known layout's; None for one that does not."""
    names = _names(kind, header, len(spans))
    starts = [start for start, _ in spans]
    for columns, at in [(names, starts), *_known_layouts(kind)]:
        cells = _cut(text, columns, at)
        if cells and _is_plausible(kind, cells):
            cells["firmware"] = cells["firmware"][:_FIRMWARE_CHARS] if kind == "flat" else cells["firmware"]
            return Cells(**{name: cells[name] for name in Cells._fields if name in cells})
    return None


def flat_cells(text: str, header: str) -> Cells | None:
    """Return the cells of a plain row whose blanks were lost, found from the usage's ``/`` and the format's ``+``."""
    words = text.split(None, _WORDS)
    slash = next((i for i in range(3, len(words) - 1) if words[i] == "/" and _is_usage(words, i)), 0)
    plus = next((i for i in range(len(words) - 1, slash, -1) if words[i] == "+"), 0)
    first = 2 if len(words) > 1 and words[1].startswith("/dev/ng") else 1
    if not slash or not plus or not _NSID.fullmatch(words[slash - 3]):
        return None
    between = words[first : slash - 3]
    between = between[:-1] if "Version" in header.split() else between
    return _with_serial(between)._replace(firmware="".join(words[plus + 3 : plus + 4]).strip("\"'`,;"))


def controller_cells(text: str, header: str) -> Cells | None:
    """Return the cells of a controller's row whose blanks were lost, found from its transport."""
    words = text.split(None, _WORDS)
    port = next((i for i in range(3, len(words)) if words[i] in _TRANSPORTS), 0)
    if not port:
        return None
    first = 1 + sum(name in header.split() for name in ("Orchestrator", "Cntlid"))
    end = next((i for i in range(port + 1, len(words)) if words[i].startswith("nvme-subsys")), len(words))
    address = words[port + 1] if port + 1 < end else ""
    cells = _with_serial(words[first : port - 1])._replace(firmware=words[port - 1], transport=words[port])
    return cells._replace(address=address, namespaces=" ".join(words[end + 1 :]))


def _names(kind: str, header: str, count: int) -> Sequence[str]:
    if kind == "flat":
        eight = _FLAT_VERSION if "Version" in header.split() else _FLAT_GENERIC
        return {7: _FLAT.split(), 8: eight.split()}.get(count, ())
    return {8: _CONTROLLER.split(), 10: _CONTROLLER_2.split(), 11: _CONTROLLER_3.split()}.get(count, ())


def _known_layouts(kind: str) -> Iterator[tuple[Sequence[str], Sequence[int]]]:
    for names, widths in _LAYOUTS.get(kind, ()):
        yield names.split(), [sum(widths[:i]) + i for i in range(len(widths))]


def _cut(text: str, names: Sequence[str], starts: Sequence[int]) -> dict[str, str] | None:
    if "\t" in text:
        cells = [cell.strip() for cell in re.split(r"\s*\t\s*", text[: _WORDS * 16].strip())]
        return dict(zip(names, cells, strict=True)) if len(cells) == len(names) else None
    if not names or len(text) <= starts[-1] or any(text[start - 1] != " " for start in starts[1:]):
        return None
    ends = [*starts[1:], len(text)]
    return {name: text[a:b].strip() for name, a, b in zip(names, starts, ends, strict=True)}


def _is_plausible(kind: str, cells: dict[str, str]) -> bool:
    # A row out of step shows it in the cells whose form is known.
    if "  " in cells["serial"] or "  " in cells["model"]:
        return False
    if kind == "flat":
        usage, node = cells["usage"].split(), _NODE.fullmatch(cells["node"])
        if not cells.get("generic", "/dev/ng").startswith("/dev/ng"):
            return False
        return bool(node and _NSID.fullmatch(cells["nsid"]) and "/" in usage and "+" in cells["format"])
    return (
        cells["transport"] in _TRANSPORTS
        and cells["subsystem"].startswith("nvme-subsys")
        and " " not in cells["device"]
    )


def _is_usage(words: Sequence[str], slash: int) -> bool:
    return bool(_NUMBER.fullmatch(words[slash - 2]) and _NUMBER.fullmatch(words[slash + 1]))


def _with_serial(words: Sequence[str]) -> Cells:
    """Split a serial number from the model behind it; both may be missing, and either may hold blanks."""
    count = _serial_words(words)
    if not count:
        return Cells(doubt="it cannot be told from the serial number")
    return Cells(serial=" ".join(words[:count]), model=" ".join(words[count:]))


def _serial_words(words: Sequence[str]) -> int:
    first = words[0] if words else ""
    closing = _BRACKETS.get(first[:1])
    if closing:
        return next((i for i, word in enumerate(words, 1) if word.endswith(closing)), 0)
    is_mask = len(first) > 1 and not first.strip("xX*#._-")
    is_number = any(c.isdigit() for c in first) and not first.endswith(":")
    return 1 if is_mask or is_number else 0
