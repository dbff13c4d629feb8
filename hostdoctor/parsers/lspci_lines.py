"""The lines of an lspci listing: the one that begins a function, the details below it, and undoing line wraps."""

import re
from collections.abc import Sequence
from typing import NamedTuple

MAX_LINE = 2000  # characters of a line that are read

_HEADER = re.compile(
    r"(?<![\w.:])((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7])\s+"
    r"(?:(?:Class )?([0-9a-f]{4})|([0-9A-Z][^:\[\]]{1,80}?)(?:\s\[([0-9a-f]{4})\])?):(?:\s+(.*)|$)"
)
_CLASS = re.compile(
    r"(?:controller|bridge|device|memory|peripheral|interface|accelerators?|co-?processor|processor|station|class|timer"
    r"|instrumentation|module|management|synchronizer|counters|card|bus|channel|cxl|infiniband|1394\))$",
    re.IGNORECASE,
)
_UNREADABLE = re.compile(r"(?![A-Z]\w+:)\S{5,20}\s+[0-9A-Z][^:\[\]]{2,40}(?:controller|bridge)(?: \[[0-9a-f]{4}\])?: ")
_DETAIL = re.compile(
    r"(?<![\w.])(LnkCap|LnkSta|Link|NUMA node|IOMMU group|Physical Slot|Kernel driver in use|Capabilities|Bus|Control"
    r"|Flags|Subsystem):\s*(.*)"
)
_BREAK = re.compile(r"--+$|```|[^\n]{0,200}[$#%>]\s{1,4}(?:sudo\s+)?(?:/\S{0,40}/)?lspci\b")
_ELISION = re.compile(r"[<\[({*.]*\s*(?:\.\.|…|snip|cut\b|skip|omitted|elided|truncated|removed)", re.IGNORECASE)
_HEX_ROW = re.compile(r"[0-9a-f]{2,3}: [0-9a-f]{2}\b")
_IDS = re.compile(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]")
_BARE_IDS = re.compile(r"(?:Device )?([0-9a-f]{4}):([0-9a-f]{4})(?!\S)")
_REVISION = re.compile(r"\s*\(rev [0-9a-f]{2}\)|\s*\[[0-9a-f]{4}(?::[0-9a-f]{0,3})?$")
_PROG_IF = re.compile(r"\s*\(prog-if ([0-9a-f]{2})(?![0-9a-f])")
_SPLIT_TOKEN = re.compile(r"\[[0-9a-f]{4}:?[0-9a-f]{0,3}$|\((?:rev|prog-if) [0-9a-f]?$")
_WIDTH_SEEN = re.compile(r"Width\s*x\s*\d")
_TERMINAL = 79  # columns; mailers break earlier
_ALL_ONES = {"ff", "ffff"}  # what reads of a device that fell off the bus give


class Header(NamedTuple):
    """The line that begins a function. ``class_code`` has four digits, six where the prog-if is known too."""

    bdf: str
    class_code: str | None
    class_name: str | None
    rest: str


class Name(NamedTuple):
    """A device's name without what lspci puts behind it, and what that was."""

    name: str | None
    vendor_id: str | None = None
    device_id: str | None = None
    prog_if: str | None = None


def split_name(text: str) -> Name:
    """Split ``NVIDIA Corporation GH100 [10de:2330] (rev a1) (prog-if 00)``; a bare ``Device`` is no name."""
    text = text.strip()
    prog_if = _PROG_IF.search(text)
    if prog_if:
        text = text[: prog_if.start()]
    ids = next(reversed(list(_IDS.finditer(text))), None) or _BARE_IDS.match(text)
    if ids:
        text = text[: ids.start()]
    revision = _REVISION.search(text)
    name = " ".join(text[: revision.start() if revision else None].split())
    vendor_id, device_id = (known(part) for part in ids.groups()) if ids else (None, None)
    return Name(name if name not in {"", "Device"} else None, vendor_id, device_id, known(prog_if and prog_if[1]))


def known(digits: str | None) -> str | None:
    """Return hex digits, or None for the all-ones that an absent device answers with."""
    return None if digits in _ALL_ONES else digits


def header(lines: Sequence[str], index: int, width: int) -> Header | None:
    """Return the header that a line is, with the name's end from the next lines where a wrap moved it there.

    ``width`` is the longest line's: a terminal breaks there, within words.
    """
    found = _HEADER.search(lines[index], 0, MAX_LINE)
    if found is None:
        return None
    bdf, numeric, class_name, bracket, rest = found.groups()
    sure = numeric or bracket or _CLASS.search(class_name)
    if not sure and lines[index][: found.start()].strip(" \t>|"):
        return None
    return Header(bdf, known(numeric or bracket), class_name, _unwrapped_name(rest or "", lines, index, width))


def detail(lines: Sequence[str], index: int) -> tuple[str, str] | None:
    """Return a detail's keyword and text (``LnkSta``, ``Speed 16GT/s, Width x16``), or None for any other line."""
    found = _DETAIL.search(lines[index], 0, MAX_LINE)
    if found is None:
        return None
    text = found[2]
    if not found[1].startswith("Lnk"):
        return found[1], text
    if index + 1 == len(lines):
        return found[1], _without_cut_width(text)
    return found[1], text + _moved(text, lines[index + 1])


def ends_function(line: str) -> bool:
    """Whether nothing after this line is the last header's own: a separator, a cut, a prompt, a masked header."""
    return bool(_BREAK.match(line) or _UNREADABLE.match(line) or _ELISION.match(line))


def _unwrapped_name(text: str, lines: Sequence[str], index: int, width: int) -> str:
    for at in range(index, min(index + 3, len(lines) - 1)):
        before, after = lines[at], lines[at + 1]
        if not after or after[0] == "\t" or after[:2] == "  " or _is_own(after.strip()):
            break
        unclosed = text.count("[") > text.count("]") or text.count("(") > text.count(")")
        at_margin = len(before) + 1 + len(after.split()[0]) > 70
        tail = _IDS.search(after) or _REVISION.search(after) or _PROG_IF.search(after)
        between = at + 2 < len(lines) and _HEADER.search(lines[at + 2], 0, MAX_LINE)
        if not (unclosed or (tail and len(before) >= 40) or (between and at_margin)):
            break
        hard = len(before) == width >= _TERMINAL or _SPLIT_TOKEN.search(text)
        text = text + ("" if hard else " ") + after[:MAX_LINE]
    return text


def _is_own(line: str) -> bool:
    """Whether a line without indentation cannot be the rest of the one before."""
    if _HEX_ROW.match(line) or _BREAK.match(line) or _DETAIL.match(line):
        return True
    return _HEADER.search(line, 0, MAX_LINE) is not None


def _moved(text: str, after: str) -> str:
    """Return what of a link's line a wrap moved to the next one."""
    if not after or _HEX_ROW.match(after) or _HEADER.search(after, 0, MAX_LINE):
        return ""
    cut_number = text[-1:].isdigit() and after[0].isdigit()
    return after.strip()[:MAX_LINE] if cut_number or not _WIDTH_SEEN.search(text) else ""


def _without_cut_width(text: str) -> str:
    """Drop a width at the very end of a text: a tail cut off behind ``x1`` may have been ``x16``."""
    return text[:-1] if text.endswith(("x1", "x3")) else text
