"""``lspci`` as a list: bare, ``-n``, ``-nn``, ``-D``, ``-k``, ``-v`` to ``-vvv``, with hex dumps or without (pciutils).

A line ``01:00.0 3D controller [0302]: …`` begins a function; what stands below it, indented, belongs to it.
"""

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

from hostdoctor.errors import ParseError
from hostdoctor.facts import Gap, Link
from hostdoctor.parsers.bdf import canonical_bdf
from hostdoctor.parsers.lspci_buses import root_complex, upstream_from_buses
from hostdoctor.parsers.lspci_lines import (
    MAX_LINE,
    Header,
    break_widths,
    detail,
    ends_function,
    header,
    split_name,
    unprefixed,
)
from hostdoctor.parsers.lspci_records import LspciFunction, LspciListing
from hostdoctor.parsers.text import clean_lines, excerpt

__all__ = ["LspciFunction", "LspciListing", "parse_lspci", "root_complex", "upstream_from_buses"]

_LIMIT = 1 << 24  # characters; a host of 500 functions fills 10 MB with -vvvxxxx
_MAX_FUNCTIONS = 1 << 15
_MARKS = (" controller: ", " bridge: ", "controller [", "bridge [", "Class ")

_SPEED = re.compile(r"Speed\s*(?:unknown|([\d.]{1,4})\s*G[TtBb]/?\s*s)")
_WIDTH = re.compile(r"Width\s*x\s*(\d{1,3})(?!\d)")
_BUS = re.compile(r"primary=[0-9a-f]{2},\s*secondary=([0-9a-f]{2}),\s*subordinate=([0-9a-f]{2})")
_PORT = re.compile(
    r"\[[0-9a-f]+\]\s+Express\s+(?:\(v\d\)\s+)?((?:Root|Upstream|Downstream) Port|(?:Legacy |Root Complex Integrated )?"
    r"Endpoint|Root Complex Event Collector|PCI[\w/-]* (?:to )?PCI[\w/-]* Bridge|)"
)

_FLAGS = (
    ("numa_node", re.compile(r", NUMA node (\d{1,7})(?!\d)")),
    ("iommu_group", re.compile(r", IOMMU group (\d{1,7})(?!\d)")),
)
# Where a detail stands in pciutils' order.
_ORDER = {"Subsystem": 0, "Physical Slot": 0, "Control": 1, "Flags": 1, "NUMA node": 2, "IOMMU group": 2, "Bus": 3} | {
    "Capabilities": 4,
    "LnkCap": 4,
    "LnkSta": 4,
    "Link": 4,
    "Kernel driver in use": 5,
}

_SPEEDS_GTS = {"2.5": 2.5, "5": 5.0, "8": 8.0, "16": 16.0, "32": 32.0, "64": 64.0, "128": 128.0}
_WIDTHS_LANES = (1, 2, 4, 8, 12, 16, 32)
_LINK_FIELDS = ("width_lanes", "max_width_lanes", "speed_gts", "max_speed_gts")


class _Block(msgspec.Struct):
    """A function while its lines are read. ``closed``: what follows cannot be told to be its own."""

    bdf: str
    fields: dict[str, object]
    seen: set[str]
    conflicts: set[str]
    doubts: dict[str, str]
    rank: int = 0
    closed: bool = False


def parse_lspci(text: str, source: str = "lspci") -> LspciListing:
    """Return the functions that an lspci listing shows; a missing domain is 0000, as lspci leaves only that one out.

    A function that stands there twice is merged; where the two differ the fact is None and a gap. Details that
    stand below no function's own line are left out. Raises ParseError when no line shows a function.
    """
    lines = unprefixed(clean_lines(excerpt(text, _MARKS, _LIMIT)))
    if 5 * lines.count("") > 2 * len(lines):
        lines = [line for line in lines if line]
    blocks, stray = _read(lines)
    if not blocks:
        line = next((line for line in lines if line), "")
        raise ParseError(source, 0, line, "no line of lspci shows a PCI function")
    merged: dict[str, _Block] = {}
    for block in blocks:
        first = merged.setdefault(block.bdf, block)
        if first is not block:
            _merge(first, block)
    gaps = [gap for block in merged.values() for gap in _gaps(block, source)]
    if len(text) > _LIMIT or len(blocks) == _MAX_FUNCTIONS:
        gaps.append(Gap(fact="pci_devices", source=source, reason="the text is too long: only a part of it was read"))
    if stray:
        reason = f"a function is described whose own line is not shown: {stray[:80].strip()!r}"
        gaps.append(Gap(fact="pci_devices", source=source, reason=reason))
    return LspciListing(functions=tuple(_function(block) for block in merged.values()), gaps=tuple(gaps))


def _read(lines: Sequence[str]) -> tuple[list[_Block], str]:
    """Return the blocks, in order, and the first line about a link or node that belongs to none."""
    blocks: list[_Block] = []
    block, stray = None, ""
    widths = break_widths(lines)
    for index, line in enumerate(lines):
        if len(blocks) == _MAX_FUNCTIONS:
            break
        if (found := header(lines, index, widths)) is not None:
            block = _open(found)
            blocks.append(block)
            continue
        if not line or ends_function(line):
            block = None
        told = detail(lines, index)
        if told and block and _is_next(block, *told):
            _HANDLERS[told[0]](block, told[1][:MAX_LINE])
        elif told and told[0] in {"LnkSta", "NUMA node"}:
            stray = stray or line
    return blocks, stray


def _open(found: Header) -> _Block:
    named = split_name(found.rest)
    fields = {
        "name": named.name,
        "vendor_id": named.vendor_id,
        "device_id": named.device_id,
        "class_code": found.class_code and found.class_code + (named.prog_if or ""),
        "class_name": found.class_name,
    }
    told: dict[str, object] = {key: value for key, value in fields.items() if value is not None}
    return _Block(canonical_bdf(found.bdf) or found.bdf, told, set(), set(), {})


def _is_next(block: _Block, keyword: str, text: str) -> bool:
    """Whether a detail can be the block's own: lspci prints them in one order, so a step back is another function."""
    if keyword not in {"Control", "Flags", "Bus"} or text.startswith(("I/O", "primary=")) or "devsel" in text:
        rank = _ORDER[keyword]
        block.closed = block.closed or rank < block.rank
        block.rank = rank
    return not block.closed


def _set(block: _Block, key: str, value: object) -> None:
    if value is not None and block.fields.setdefault(key, value) != value:
        block.conflicts.add(key)


def _once(block: _Block, what: str) -> bool:
    """Note a line that a function has once; a second one is another function's, whose own line is not there."""
    block.closed = what in block.seen
    block.seen.add(what)
    return not block.closed


def _maximum(block: _Block, text: str) -> None:
    # pciutils goes on with ``, ASPM`` here: an ``x1`` at the end may be the begin of ``x16``.
    _link(block, text.removesuffix("x1"), "max_")


def _current(block: _Block, text: str) -> None:
    _link(block, text, "")


def _old_link(block: _Block, text: str) -> None:
    """Read pciutils 2.2's ``Link: Supported Speed 2.5Gb/s, Width x16`` and ``Link: Speed 2.5Gb/s, Width x16``."""
    if text.startswith(("Supported Speed", "Speed")):
        _link(block, text, "max_" if text.startswith("Supported") else "")


def _link(block: _Block, text: str, prefix: str) -> None:
    speed, width = _SPEED.search(text), _WIDTH.search(text)
    speed_gts = _SPEEDS_GTS.get(speed[1] or "") if speed else None
    lanes = int(width[1]) if width and int(width[1]) in _WIDTHS_LANES else None
    _set(block, prefix + "speed_gts", speed_gts)
    _set(block, prefix + "width_lanes", lanes)
    if speed_gts is None:
        block.doubts.setdefault(prefix + "speed_gts", f"lspci shows {speed[0] if speed else 'no speed'}")
    if lanes is None:
        block.doubts.setdefault(prefix + "width_lanes", f"lspci shows {width[0] if width else 'no width'}")


def _numa(block: _Block, text: str) -> None:
    _set(block, "numa_node", _number(text))


def _group(block: _Block, text: str) -> None:
    _set(block, "iommu_group", _number(text))


def _number(text: str) -> int | None:
    digits = text.partition(" ")[0]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 8 else None


def _slot(block: _Block, text: str) -> None:
    _set(block, "physical_slot", text or None)


def _driver(block: _Block, text: str) -> None:
    _set(block, "driver", text.partition(" ")[0] or None)


def _capability(block: _Block, text: str) -> None:
    if not text or text.startswith("<acc") or "access denied" in text:
        _set(block, "denied", True)
    elif (port := _PORT.match(text)) and _once(block, "Express"):
        _set(block, "port_type", port[1] or None)


def _buses(block: _Block, text: str) -> None:
    if found := _BUS.match(text):
        _set(block, "secondary_bus", int(found[1], 16))
        _set(block, "subordinate_bus", int(found[2], 16))


def _control(block: _Block, text: str) -> None:
    if text.startswith("I/O"):
        _once(block, "Control")


def _flags(block: _Block, text: str) -> None:
    """Read what ``-v`` puts into one line: ``Flags: bus master, fast devsel, latency 0, IRQ 5, NUMA node 0``."""
    if "devsel" in text and _once(block, "Control"):
        for key, pattern in _FLAGS:
            if found := pattern.search(text):
                _set(block, key, int(found[1]))


def _subsystem(block: _Block, _text: str) -> None:
    _once(block, "Subsystem")


_HANDLERS: dict[str, Callable[[_Block, str], None]] = {
    "LnkCap": _maximum,
    "LnkSta": _current,
    "Link": _old_link,
    "NUMA node": _numa,
    "IOMMU group": _group,
    "Physical Slot": _slot,
    "Kernel driver in use": _driver,
    "Capabilities": _capability,
    "Bus": _buses,
    "Control": _control,
    "Flags": _flags,
    "Subsystem": _subsystem,
}


def _merge(first: _Block, again: _Block) -> None:
    """Add what a second block of the same function tells; a class with its prog-if is the fuller one."""
    for key, value in again.fields.items():
        before = first.fields.get(key)
        if key == "class_code" and str(value).startswith(str(before)):
            first.fields[key] = value
        elif key == "name" and before is not None:
            continue
        elif key != "class_code" or not str(before).startswith(str(value)):
            _set(first, key, value)
    first.conflicts |= again.conflicts
    first.doubts |= again.doubts


def _function(block: _Block) -> LspciFunction:
    fields = {key: value for key, value in block.fields.items() if key not in block.conflicts}
    link = Link(**{key: fields.pop(key) for key in _LINK_FIELDS if key in fields})  # type: ignore[arg-type]
    if link != Link():
        fields.pop("denied", None)
    return LspciFunction(bdf=block.bdf, link=link, **fields)  # type: ignore[arg-type]


def _gaps(block: _Block, source: str) -> Iterable[Gap]:
    where = f"pci_devices[{block.bdf}]"
    for key in sorted(block.conflicts):
        fact = f"{where}.link.{key}" if key in _LINK_FIELDS else f"{where}.{key}"
        yield Gap(fact=fact, source=source, reason="the text shows two different values")
    for key in _LINK_FIELDS:
        if key in block.doubts and key not in block.fields:
            yield Gap(fact=f"{where}.link.{key}", source=source, reason=block.doubts[key])
    if block.fields.get("denied") and not any(key in block.fields for key in _LINK_FIELDS):
        yield Gap(fact=f"{where}.link", source=source, reason="access denied: lspci ran without root", kind="denied")
    for key, unit in (("speed_gts", "GT/s"), ("width_lanes", " lanes")):
        now, most = block.fields.get(key), block.fields.get(f"max_{key}")
        if isinstance(now, float | int) and isinstance(most, float | int) and now > most:
            reason = f"doubtful: the link runs at {now:g}{unit}, above this maximum of {most:g}{unit}"
            yield Gap(fact=f"{where}.link.max_{key}", source=source, reason=reason)
