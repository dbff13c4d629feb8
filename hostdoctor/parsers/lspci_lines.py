"""The lines of an lspci listing: the one that begins a function, the details below it, and undoing line wraps."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from hostdoctor.parsers.prefix import strip_common_prefix

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
_KEYWORD = re.compile(r"\s*[A-Z][\w /]{1,30}:(?:\s|$)")
_NEXT = re.compile(
    r"\s(?:Subsystem|DeviceName|Physical Slot|Control|Flags|Capabilities|Kernel driver in use|Kernel modules): "
)
_IDS = re.compile(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]")
_BARE_IDS = re.compile(r"(?:Device )?([0-9a-f]{4}):([0-9a-f]{4})(?!\S)")
_REVISION = re.compile(r"\s*\(rev ?[0-9a-f]{2}\)|\s*\[[0-9a-f]{4}(?::[0-9a-f]{0,3})?$")
_PROG_IF = re.compile(r"\s*\(prog-if ?([0-9a-f]{2})(?![0-9a-f])")
_GLUED_BRANCH = re.compile(r"[+\\]-[01][0-9a-f]\.[0-7](?:\s|-|$)")  # of a tree's next line
_SPLIT_TOKEN = re.compile(r"\[[0-9a-f]{4}:?[0-9a-f]{0,3}$|\([a-z-]{0,7}(?: [0-9a-f]?)?$")
_WIDTH_SEEN = re.compile(r"Width\s*x\s*\d")
_TERMINALS = (80, 132)
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
    """Split ``NVIDIA Corporation GH100 [10de:2330] (rev a1) (prog-if 00)``; a bare ``Device`` or a cut name is none."""
    text = _NEXT.split(text.strip(), maxsplit=1)[0]
    prog_if = _PROG_IF.search(text)
    if prog_if:
        text = text[: prog_if.start()]
    ids = next(reversed(list(_IDS.finditer(text))), None) or _BARE_IDS.match(text)
    if ids:
        text = text[: ids.start()]
    revision = _REVISION.search(text)
    name = " ".join(text[: revision.start() if revision else None].split())
    vendor_id, device_id = (known(part) for part in ids.groups()) if ids else (None, None)
    is_cut = name.count("[") > name.count("]") or _GLUED_BRANCH.search(name) is not None
    return Name(None if is_cut or name in {"", "Device"} else name, vendor_id, device_id, known(prog_if and prog_if[1]))


def known(digits: str | None) -> str | None:
    """Return hex digits, or None for the all-ones that an absent device answers with."""
    return None if digits in _ALL_ONES else digits


def unprefixed(lines: Sequence[str]) -> list[str]:
    """Return the lines without the quote marks or log prefix that stand before every one."""
    found = ((i, _HEADER.search(line, 0, MAX_LINE)) for i, line in enumerate(lines))
    return strip_common_prefix(lines, {i: match.start() for i, match in found if match})


def break_widths(lines: Sequence[str]) -> frozenset[int]:
    """Return the longest line's length, tabs expanded or not, where a terminal seems to have broken the lines there."""
    widths = set()
    for lengths in ([len(line) for line in lines], [len(line.expandtabs()) for line in lines]):
        width = max(lengths, default=0)
        long = sum(length > width - 8 for length in lengths)
        if width in _TERMINALS or (width > 78 and long > 1 and 10 * lengths.count(width) >= 7 * long):
            widths.add(width)
    return frozenset(widths)


def header(lines: Sequence[str], index: int, widths: frozenset[int]) -> Header | None:
    """Return the header that a line is, with the name's end from the next lines where a wrap moved it there."""
    found = _HEADER.search(lines[index], 0, MAX_LINE)
    if found is None:
        return None
    bdf, numeric, class_name, bracket, rest = found.groups()
    before = lines[index][: found.start()]
    if not (numeric or bracket or _CLASS.search(class_name)) and before.strip(" \t>|"):
        return None
    name = _unwrapped_name(rest or "", before, lines[index : index + 5], widths)
    return Header(bdf, numeric or bracket, class_name, name)


def detail(lines: Sequence[str], index: int) -> tuple[str, str] | None:
    """Return a detail's keyword and text (``LnkSta``, ``Speed 16GT/s, Width x16``), or None for any other line."""
    found = _DETAIL.search(lines[index], 0, MAX_LINE)
    if found is None:
        return None
    text, is_last = found[2], index + 1 == len(lines)
    if is_last:
        return (found[1], _without_cut_width(text)) if text else None
    if not found[1].startswith("Lnk"):
        return found[1], text
    return found[1], text + _moved(text, lines[index + 1])


def ends_function(line: str) -> bool:
    """Whether nothing after this line is the last header's own: a separator, a cut, a prompt, a masked header."""
    return bool(_BREAK.match(line) or _UNREADABLE.match(line) or _ELISION.match(line))


def _unwrapped_name(text: str, indent: str, lines: Sequence[str], widths: frozenset[int]) -> str:
    """Add the lines that go on with a name: indented as its own, and unlike anything that begins something else."""
    for before, line, after in zip(lines, lines[1:], [*lines[2:], ""], strict=False):
        more = line[len(indent) :]
        if not line.startswith(indent) or not more.strip() or more[0] == "\t" or more[:2] == "  " or _is_own(more):
            break
        unclosed = text.count("[") > text.count("]") or text.count("(") > text.count(")")
        tail = _IDS.search(more) or _REVISION.search(more) or _PROG_IF.search(more)
        at_margin = len(before) + 1 + len(more.split()[0]) > 70
        inside = after[len(indent) :][:1].isspace() or _DETAIL.search(after) or _HEADER.search(after, 0, MAX_LINE)
        if not (unclosed or (tail and len(before) >= 40) or (at_margin and inside)):
            break
        hard = len(before) in widths or len(before.expandtabs()) in widths or _SPLIT_TOKEN.search(text)
        text = text + ("" if hard else " ") + more[:MAX_LINE]
    return text


def _is_own(line: str) -> bool:
    """Whether a line cannot be the rest of a name."""
    if _HEX_ROW.match(line) or _BREAK.match(line) or _KEYWORD.match(line) or _DETAIL.search(line):
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
