r"""The tree that ``lspci -t`` draws, with names (``-v``), ids (``-n``, ``-nn``) or neither (pciutils, ls-tree.c).

``+-`` is a child with siblings to come, ``\-`` the last one, ``|`` leads past it to the siblings, ``--`` an only
child. The bars in front of a branch therefore tell what it hangs off even where blanks were lost; its column and
the bridges' bus ranges confirm it, and what they contradict is left out.
"""

import re
from typing import NamedTuple

import msgspec

from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact, Gap
from hostdoctor.parsers.lspci_branches import START, STEP, Branch, branches
from hostdoctor.parsers.lspci_lines import split_name
from hostdoctor.parsers.text import clean_lines, excerpt

_LIMIT = 1 << 21  # characters; 10,000 functions fill one million
_MARKS = ("-[0000:", "-+-[", "-[00", "]-+-", "]---")
_OLD_ROOT = "[00]-"  # any other bus without a domain is the end of a line that lost its begin
_SHIFT = 4  # columns that a branch may stand to the right of its siblings, by a careless edit
_INDENT = 24  # a first label that stands deeper is a bus below a bridge that is not shown


class TreeFunction(Fact, frozen=True, kw_only=True):
    """A function in the tree. ``upstream`` runs from the root port to the parent, ``()`` on the root bus.

    ``root_complex`` is domain and root bus (``0000:15``). Bridges have no name: lspci prints their buses instead.
    """

    bdf: str
    name: str | None = None
    vendor_id: str | None = None
    device_id: str | None = None
    upstream: tuple[str, ...] = ()
    root_complex: str
    is_bridge: bool = False


class LspciTree(Fact, frozen=True, kw_only=True):
    """The functions whose place is certain, in the order of the text, and what was left out."""

    functions: tuple[TreeFunction, ...]
    gaps: tuple[Gap, ...] = ()


class _Bus(msgspec.Struct, eq=False):
    """A bus that devices hang off. ``void``: its place is not certain, so that nothing on it is kept."""

    domain: int = 0
    number: int = 0
    last: int = 0xFF
    upstream: tuple[str, ...] = ()
    root: str = ""
    void: bool = False
    bridge_missing: bool = False
    devfn: int = -1
    taken: list[tuple[int, int]] = []


class _Level(msgspec.Struct, eq=False):
    """A column of siblings: devices of ``bus``, or labels of the buses below ``bridge`` (None: of root buses)."""

    column: int
    open: bool
    bus: _Bus | None = None
    bridge: _Bus | None = None

    @property
    def is_top(self) -> bool:
        return self.bus is None and self.bridge is None


def parse_lspci_tree(text: str, source: str = "lspci -tv") -> LspciTree:
    """Return the functions of a tree; a root label without a domain (pciutils 2) is in domain 0000.

    Branches whose place cannot be told (a head or a middle that was cut off, bars and columns that contradict each
    other, a bus outside its bridge's range) are left out with a gap. Raises ParseError when no root bus is shown.
    """
    found = branches(clean_lines(excerpt(text, _MARKS, _LIMIT)))
    reader = _Reader(has_columns=any("  " in branch.text[: branch.text.find("-")] for branch in found))
    for branch in found:
        reader.read(branch)
    if reader.roots:
        return reader.result(source, len(text) > _LIMIT)
    if not found:
        raise ParseError(source, 0, text[:200].strip(), "no tree of lspci -t")
    raise ParseError(source, found[0].number, found[0].text, "the line of the root bus is cut off")


class _Begin(NamedTuple):
    """Where a branch begins: the columns of its bars and its own, how it is joined, and a bus label."""

    bars: list[int]
    column: int
    connector: str
    label: str
    end: int

    @property
    def is_label(self) -> bool:
        return bool(self.label)


def _begin(text: str) -> _Begin | None:
    start = START.match(text)
    if start is None:
        return None
    bars = [i for i, character in enumerate(start[1]) if character == "|"]
    return _Begin(bars, start.start(2), start[2], start[3] or "", start.end(2))


class _Reader:
    """Follows the branches line by line and keeps the functions whose place is certain."""

    def __init__(self, has_columns: bool) -> None:
        self.has_columns = has_columns
        self.functions: dict[str, TreeFunction] = {}
        self.roots: dict[int, set[int]] = {}
        self.levels: list[_Level] = []
        self.notes: dict[str, list[int]] = {}
        self.hidden: list[str] = []
        self.moved: set[str] = set()
        self.base = 0
        self.exact = True
        self.doubt = False
        self.number = 0

    def read(self, line: Branch) -> None:
        """Take in the next branch."""
        self.number = line.number
        start = _begin(line.text)
        if start is None:
            self._note("lines are left out of the text here")
            self.levels = [level for level in self.levels[:1] if level.is_top]
        elif start.is_label and self._is_new_tree(start):
            self._new_tree(start)
            self._walk(line.text, start.end, None)
        elif level := self._find(line):
            self._enter(level, line)
        else:
            self._note("it cannot be told what hangs off what here")
            self._forget(0 if line.bars else start.column)

    def result(self, source: str, is_part: bool) -> LspciTree:
        """Return what was read; functions beyond the next root bus of their domain do not belong to their root."""
        if is_part:
            self._note("the text is too long: only a part of it was read")
        if any(level.open for level in self.levels):
            self._note("the text ends before the last branch")
        kept = [f for f in self.functions.values() if f.bdf not in self.moved and self._within_root(f)]
        if len(kept) < len(self.functions):
            self._note("buses are shown below two different roots or bridges")
        gaps = [Gap(fact="pci_devices", source=source, reason=_reason(*note)) for note in self.notes.items()]
        for bdf in self.hidden:
            reason = f"a bridge between {self.functions[bdf].upstream[-1]} and its bus is not shown"
            gaps.append(Gap(fact=f"pci_devices[{bdf}].upstream", source=source, reason=reason))
        return LspciTree(functions=tuple(kept), gaps=tuple(gaps))

    def _within_root(self, function: TreeFunction) -> bool:
        domain, root = (int(part, 16) for part in function.root_complex.split(":"))
        bus = int(function.bdf[-7:-5], 16)
        return not any(root < other <= bus for other in self.roots[domain])

    def _note(self, reason: str) -> None:
        self.notes.setdefault(reason, []).append(self.number)

    def _is_new_tree(self, start: _Begin) -> bool:
        if start.bars or start.column > _INDENT + self.base:
            return False
        if start.connector == "-":
            is_root = ":" in start.label or start.label == _OLD_ROOT
            return is_root and (not self.levels or start.column <= self.base + 8)
        return start.connector == "-+-" or not self.roots

    def _new_tree(self, start: _Begin) -> None:
        self.base = start.column
        self.exact, self.doubt = True, False
        self.levels = []
        if start.connector in {"+-", "\\-"}:
            self._note("the text begins after the first root bus")
        if start.connector != "-":
            self.levels.append(_Level(start.column + len(start.connector) - 2, start.connector != "\\-"))

    def _find(self, line: Branch) -> _Level | None:
        """Return the level that a branch belongs to: by its bars and by its column, which must not disagree."""
        own, joined = _begin(line.text), _begin(line.bars + line.text)
        if own is None or joined is None:
            return None
        options = (joined, own) if len(own.bars) >= len(joined.bars) - len(own.bars) else (joined,)
        for start in options:
            by_column, by_bars = self._by_column(start), self._by_bars(start)
            self.exact = by_column is not None and (by_bars is by_column or (by_bars is None and not line.bars))
            if self.exact:
                return by_column
        by_bars = self._by_bars(joined)
        if by_bars is None or self.doubt or any(level.open for level in self._below_level(by_bars)):
            return None
        if line.bars or not self.has_columns:
            return by_bars
        too_deep = 0 <= by_bars.column < own.column - _SHIFT
        return None if too_deep or self._by_column(own) else by_bars

    def _enter(self, level: _Level, line: Branch) -> None:
        """Follow a branch from its level on; the columns below are worth nothing where blanks were lost before it."""
        if any(below.open for below in self._below_level(level)):
            self._note("the lines before this one are missing")
        del self.levels[self.levels.index(level) + 1 :]
        text = line.bars + line.text if self.exact else line.text
        start = _begin(text)
        if start is None:
            return
        level.open = start.connector == "+-"
        self.doubt = self.doubt and not level.is_top
        self._walk(text, start.end, level.bus or level.bridge)
        if not line.bars:
            level.column = start.column
        elif not self.exact:
            for below in self._below_level(level):
                below.column = -1

    def _below_level(self, level: _Level) -> list[_Level]:
        return self.levels[self.levels.index(level) + 1 :]

    def _by_bars(self, start: _Begin) -> _Level | None:
        opened = [level for level in self.levels if level.open]
        if len(start.bars) >= len(opened) or (opened[len(start.bars)].bus is None) != start.is_label:
            return None
        return opened[len(start.bars)]

    def _by_column(self, start: _Begin) -> _Level | None:
        passed: list[int] = []
        for level in self.levels if self.has_columns else ():
            if level.column == start.column and passed == start.bars and (level.bus is None) == start.is_label:
                return level
            if level.open:
                passed.append(level.column)
        return None

    def _forget(self, column: int) -> None:
        self.doubt = True
        self.levels = [level for level in self.levels if level.column < column or level.is_top]

    def _walk(self, text: str, position: int, bus: _Bus | None) -> None:
        """Follow one line: labels, bridges and the function at its end; each connector opens a level."""
        label = ""
        while step := STEP.match(text, position):
            connector, domain, label = step[1], step[2], step[3]
            if connector:
                self.levels.append(_Level(step.start(1), connector == "+-", None if label else bus, bus))
            position = step.end()
            if label:
                bus = self._label(int(domain, 16) if domain else None, int(label, 16), bus)
            elif bus is None or (bus := self._device(bus, step, text[position:])) is None:
                return
        if text[position:].partition(" ")[0] != ("-" if label else "--"):
            self._note("the line is cut short")

    def _label(self, domain: int | None, number: int, bridge: _Bus | None) -> _Bus:
        """Return the bus of a label: a root bus, or one below a bridge (not its own bus where a bridge is missing)."""
        if bridge is None:
            domain = domain or 0
            self.roots.setdefault(domain, set()).add(number)
            return _Bus(domain, number, root=f"{domain:04x}:{number:02x}")
        inside = domain in {None, bridge.domain} and bridge.number <= number <= bridge.last
        if bridge.void or not inside or not bridge.upstream:
            return _Bus(void=True)
        missing = bridge.bridge_missing or number != bridge.number
        return _Bus(bridge.domain, number, bridge.last, bridge.upstream, bridge.root, bridge_missing=missing)

    def _device(self, bus: _Bus, step: "re.Match[str]", rest: str) -> _Bus | None:
        """Keep a function; return the bus below it when it is a bridge."""
        device, function, first, last = step.group(4, 5, 6, 7)
        below = _Bus(void=True) if first else None
        if bus.void or not self._in_order(bus, int(device, 16) * 8 + int(function)):
            return below
        if first and int(first, 16):
            below = self._below(bus, int(first, 16), int(last or first, 16))
            if below.void:
                return below
        bdf = f"{bus.domain:04x}:{bus.number:02x}:{int(device, 16):02x}.{function}"
        below = below and msgspec.structs.replace(below, upstream=(*bus.upstream, bdf))
        if rest.startswith("-") and not first:
            self._note("the line is cut short")
        named = split_name("" if first or rest.startswith("-") else rest)
        kept = TreeFunction(
            bdf=bdf,
            name=named.name,
            vendor_id=named.vendor_id,
            device_id=named.device_id,
            upstream=bus.upstream,
            root_complex=bus.root,
            is_bridge=bool(first) or rest.startswith("-"),
        )
        self._keep(kept, bus.bridge_missing)
        return below

    def _in_order(self, bus: _Bus, devfn: int) -> bool:
        """Whether a device may come next: lspci lists a bus in ascending order, so a step back is another bus."""
        if devfn == bus.devfn:
            self._note("the function is shown twice")
            return False
        if devfn < bus.devfn:
            bus.void = True
            self._note("the devices run backwards: lines are missing before this one")
            return False
        bus.devfn = devfn
        return True

    def _below(self, bus: _Bus, first: int, last: int) -> _Bus:
        """Return a bridge's bus; void where its range does not lie in its parent's, or overlaps a sibling's."""
        fits = bus.number < first <= last <= bus.last
        if not fits or any(first <= end and begin <= last for begin, end in bus.taken):
            self._note("the bridge's buses lie outside its parent's")
            bus.void = bus.void or not self.exact
            return _Bus(void=True)
        bus.taken.append((first, last))
        return _Bus(bus.domain, first, last, (), bus.root, bridge_missing=bus.bridge_missing)

    def _keep(self, function: TreeFunction, bridge_missing: bool) -> None:
        before = self.functions.setdefault(function.bdf, function)
        if before is function:
            if bridge_missing:
                self.hidden.append(function.bdf)
        elif (before.upstream, before.root_complex) != (function.upstream, function.root_complex):
            self.moved.add(function.bdf)


def _reason(reason: str, numbers: list[int]) -> str:
    more = f" and {len(numbers) - 1} more" if len(numbers) > 1 else ""
    return f"line {numbers[0]}{more}: {reason}"
