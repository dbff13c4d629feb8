"""The map as a picture: SVG whose boxes are what contains what, whose lines are links as thick as they are wide.

One file without any reference to another; text stays text; the layout depends on the host alone.
"""

from collections.abc import Iterable, Iterator

from hostdoctor.diagnosis.api import Ask
from hostdoctor.diagnosis.paths import Hop, Tree, is_c2c, physical_ports
from hostdoctor.diagnosis.report import SEVERITIES, Finding, Severity
from hostdoctor.diagnosis.subjects import brief
from hostdoctor.diagnosis.uplinks import Uplink, shared_uplinks
from hostdoctor.facts import Gpu, Host, Link
from hostdoctor.outputs.map_boxes import boxes_of
from hostdoctor.outputs.map_brackets import draw_groups
from hostdoctor.outputs.map_nvlink import NvlinkGroup, nvlink_groups
from hostdoctor.outputs.map_parts import (
    GAP,
    GUTTER,
    HEAD,
    HEIGHTS,
    LINK_WIDTH,
    PAD,
    SMALL,
    TEXT,
    TOP,
    Mark,
    Wire,
    draw_leaf,
    draw_wire,
    icon,
    mark_of,
    weight,
    wire_of,
)
from hostdoctor.outputs.map_style import MAP, PALETTE
from hostdoctor.outputs.map_tree import Branch, Leaf, leaves_of, root_branches
from hostdoctor.outputs.svg import label, tag, text_width, title, words
from hostdoctor.outputs.words import counts, host_words, plural, printable

COLUMN, ONE_COLUMN = 500.0, 640.0
DEEPER = 84.0  # what each further level of switches adds to a column


def render_topo_svg(
    host: Host, findings: Iterable[tuple[str, Finding]] = (), *, prefix: str = "hd-map", alone: bool = True
) -> str:
    """Return the picture as an SVG document; ``findings`` are pairs of a check's id and what it found.

    ``prefix`` starts the ids; ``alone``: with its own styles, as a file (a page has them once).
    """
    return _Picture(host, _marks(findings)).drawn(prefix, alone=alone)


def _marks(findings: Iterable[tuple[str, Finding]]) -> dict[str, Mark]:
    """Return the mark of each subject that a warning or worse names."""
    found: dict[str, list[tuple[str, Finding]]] = {}
    for check_id, finding in findings:
        if finding.severity != "info":
            for subject in finding.subject.split(", "):
                found.setdefault(subject, []).append((check_id, finding))
    return {
        subject: Mark(
            severity=max((finding.severity for _, finding in pairs), key=SEVERITIES.index),
            ids=tuple(dict.fromkeys(name for name, _ in sorted(pairs, key=lambda p: -SEVERITIES.index(p[1].severity)))),
        )
        for subject, pairs in found.items()
    }


class _Picture:
    """One drawing: what the host's devices need, and where its GPUs came to lie."""

    def __init__(self, host: Host, marks: dict[str, Mark]) -> None:
        self.host, self.marks, self.leaves = host, marks, leaves_of(host)
        self.links = {device.bdf: device.link for device in host.pci_devices}
        tree = Tree(host)
        self.hops: dict[str, Hop] = {
            hop.port_bdf: hop for leaf in self.leaves if not self._is_c2c(leaf) for hop in tree.hops(leaf.device)
        }
        if physical_ports(host, Ask()) is not None:  # a hypervisor's registers describe no lanes
            self.hops = {}
        shared = shared_uplinks(host) if self.hops else ()
        self.uplinks: dict[str, Uplink] = {uplink.port_bdf: uplink for uplink in shared}
        self.groups = nvlink_groups(host)
        self.detail = {name: _peers(group) for group in self.groups for name in group.members}
        self.places: dict[str, tuple[int, float, float]] = {}  # a GPU's column, right edge and middle
        self.column = 0

    def drawn(self, prefix: str, *, alone: bool) -> str:
        boxes = boxes_of(self.host, self.leaves)
        depth = max((_depth(root) for root in root_branches(self.leaves)), default=0)
        columns = 1 if len(boxes) < 2 else 2
        width = (ONE_COLUMN if columns == 1 else COLUMN) + DEEPER * max(0, depth - 1)
        total = columns * width + (columns + 1) * GAP
        top = [TOP + 22 * len(self.groups)] * columns
        parts: list[str] = []
        for heading, leaves in boxes:
            self.column = top.index(min(top))
            x = GAP + self.column * (width + GAP)
            drawn, bottom = self._box(heading, leaves, x, top[self.column], width)
            parts += drawn
            top[self.column] = bottom + GAP
        parts += draw_groups(self.groups, self.places, total, width)
        parts += _legend(GAP, max(top) + 8)
        return self._document(prefix, parts, total, max(top) + 56, alone=alone)

    def _document(self, prefix: str, parts: list[str], width: float, height: float, *, alone: bool) -> str:
        name = f"Map of {host_words(self.host)}"
        style = f"<style>{PALETTE}{MAP}</style>" if alone else ""
        head = [
            tag("title", words(name), id=f"{prefix}-title"),
            tag("desc", " ".join(words(part) for part in self._described()), id=f"{prefix}-desc"),
            style,
            tag("rect", x=0, y=0, width=width, height=height, class_="sheet"),
            label(GAP, 26, host_words(self.host), width - 2 * GAP, 17, class_="strong"),
            label(GAP, 44, self._subtitle(), width - 2 * GAP, TEXT, class_="muted"),
        ]
        return tag(
            "svg",
            *head,
            *parts,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width:g} {round(height):g}",
            width=width,
            height=round(height),
            role="img",
            aria_labelledby=f"{prefix}-title {prefix}-desc",
            class_="hd-map",
        )

    def _subtitle(self) -> str:
        system = self.host.system
        parts = [counts(self.host)]
        parts += [f"under {printable(system.virtualization)}"] if system.virtualization else []
        parts += [f"driver {printable(system.nvidia_driver)}"] if system.nvidia_driver else []
        return ", ".join(parts)

    def _described(self) -> list[str]:
        """Return what the picture says, for those who hear it."""
        where = [
            f"{heading[0]}: {', '.join(leaf.label for leaf in leaves) or 'no device'}."
            for heading, leaves in boxes_of(self.host, self.leaves)
        ]
        lost = [
            f"{hop.port_bdf} to {hop.end_bdf}: x{hop.width_lanes} of x{hop.max_width_lanes}."
            for hop in self.hops.values()
            if hop.is_narrow
        ]
        return [f"{self._subtitle()}.", *where, *(f"{group.text}." for group in self.groups), *lost]

    def _box(self, heading: list[str], leaves: list[Leaf], x: float, y: float, width: float) -> tuple[list[str], float]:
        room = width - 2 * PAD - GUTTER
        parts = [label(x + PAD + 4, y + 22, heading[0], room, HEAD, class_="strong")]
        bottom = y + 32
        for line in heading[1:]:
            parts.append(label(x + PAD + 4, bottom + 9, line, room, TEXT))
            bottom += 17
        bottom += 4
        for root in root_branches(leaves):
            drawn, bottom = self._root(root, x + PAD, bottom, width - PAD - GUTTER)
            parts += drawn
        loose = [leaf for leaf in leaves if leaf.root_complex is None]
        if loose:
            drawn, bottom = self._loose(loose, x + PAD, bottom, width - PAD - GUTTER)
            parts += drawn
        kind = "node" if not leaves or leaves[0].nodes else "node unknown"
        frame = tag("rect", title(heading[0]), x=x, y=y, width=width, height=bottom - y, rx=8, class_=kind)
        return [frame, *parts], bottom

    def _root(self, root: Branch, x: float, y: float, width: float) -> tuple[list[str], float]:
        parts, bottom = self._below(root, x, y + 24, width - PAD)
        parts.insert(0, label(x + 8, y + 16, f"root complex {root.address}", width - 16, SMALL, class_="muted"))
        frame = tag("rect", x=x, y=y, width=width, height=bottom - y, rx=6, class_="root")
        return [frame, *parts], bottom + PAD

    def _loose(self, leaves: list[Leaf], x: float, y: float, width: float) -> tuple[list[str], float]:
        parts = [label(x + 8, y + 16, "root complex not known", width - 16, SMALL, class_="muted")]
        bottom = y + 24
        for leaf in leaves:
            parts += self._leaf(leaf, x + PAD, bottom, width - 2 * PAD)
            bottom += HEIGHTS[leaf.kind] + 6
        frame = tag("rect", x=x, y=y, width=width, height=bottom - y + 2, rx=6, class_="root unknown")
        return [frame, *parts], bottom + 2 + PAD

    def _below(self, branch: Branch, x: float, y: float, width: float) -> tuple[list[str], float]:
        """Draw what hangs on a branch: a spine at the left, a link to each box."""
        spine, left, parts = x + 10, x + 10 + LINK_WIDTH, list[str]()
        last, bottom = y, y
        for hops, end, leaf in _children(branch):
            last = bottom + (HEIGHTS[leaf.kind] / 2 if leaf else 15)
            parts += draw_wire(self._wire(hops, leaf), spine, last, left)
            if leaf is not None:
                parts += self._leaf(leaf, left, bottom, x + width - left)
                bottom += HEIGHTS[leaf.kind] + 6
            else:
                drawn, bottom = self._bridge(hops, end, left, bottom, x + width - left)
                parts += drawn
        parts.append(tag("line", x1=spine, y1=y - 4, x2=spine, y2=last, class_="wire", stroke_width=2))
        return parts, bottom + 2

    def _bridge(self, hops: list[str], end: Branch, x: float, y: float, width: float) -> tuple[list[str], float]:
        what = f"switch {hops[-1]}" if len(hops) > 1 else f"port {hops[0]}"
        parts = [label(x + 8, y + 17, what, width - 14, SMALL, class_="muted")]
        top = y + 26
        shared = next((self.uplinks[bdf] for bdf in hops if bdf in self.uplinks), None)
        if shared is not None:
            text = f"{shared.ratio_text} shared by {brief(shared.sharers)}"
            parts += [icon("warning", x + 9, y + 24), label(x + 24, y + 33, text, width - 32, SMALL)]
            top += 15
        drawn, bottom = self._below(end, x, top, width - 6)
        tip = title(f"{' > '.join(hops)}: shared by {', '.join(end.labels())}")
        return [
            tag("rect", tip, x=x, y=y, width=width, height=bottom - y, rx=5, class_="switch"),
            *parts,
            *drawn,
        ], bottom + 6

    def _wire(self, hops: list[str], leaf: Leaf | None) -> Wire:
        if leaf is not None and self._is_c2c(leaf):
            return Wire(words="C2C")
        ports = hops if leaf is None else [*(hops or leaf.upstream[-1:])]
        link = leaf.link if leaf is not None else self.links.get(hops[0], Link())
        return wire_of((self.hops[port] for port in ports if port in self.hops), link)

    def _leaf(self, leaf: Leaf, x: float, y: float, width: float) -> list[str]:
        if leaf.kind == "gpu":
            self.places[leaf.label] = (self.column, x + width, y + HEIGHTS["gpu"] / 2)
        mark = mark_of(leaf, self.marks)
        return draw_leaf(leaf, mark, self.detail.get(leaf.label, ""), x, y, width)

    def _is_c2c(self, leaf: Leaf) -> bool:
        return isinstance(leaf.device, Gpu) and is_c2c(leaf.device)


def _legend(x: float, y: float) -> Iterator[str]:
    yield label(x, y + 12, "Links:", 60, SMALL, class_="muted")
    for position, lanes in enumerate((1, 4, 8, 16)):
        at = x + 48 + 56 * position
        yield tag("line", x1=at, y1=y + 8.5, x2=at + 22, y2=y + 8.5, class_="wire", stroke_width=weight(lanes))
        yield label(at + 27, y + 12, f"x{lanes}", 30, SMALL, class_="muted")
    at = x
    marks: tuple[tuple[Severity, str], ...] = (
        ("critical", "critical, or lanes lost"),
        ("warning", "warning, or sharers outrun the link"),
    )
    for severity, text in marks:
        yield icon(severity, at, y + 23)
        yield label(at + 15, y + 32, text, 260, SMALL, class_="muted")
        at += 40 + text_width(text, SMALL)


def _children(branch: Branch) -> Iterator[tuple[list[str], Branch, Leaf | None]]:
    """Yield what hangs on a branch: the bridges before it, the last of them, and the device where it is only one."""
    for leaf in branch.leaves:
        yield [], branch, leaf
    for child in branch.branches.values():
        hops, end = child.straight()
        yield hops, end, end.only_leaf()


def _depth(branch: Branch) -> int:
    """Return how many boxes of switches lie within each other at most."""
    below = 0
    for child in branch.branches.values():
        _, end = child.straight()
        below = max(below, 0 if end.only_leaf() else 1 + _depth(end))
    return below


def _peers(group: NvlinkGroup) -> str:
    others = len(group.members) - 1
    kinds = " or ".join(group.kinds) if len(group.kinds) < 3 else "NVLink"
    return f"{kinds} to {plural(others, 'GPU')}"
