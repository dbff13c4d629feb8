"""The parts of the picture of a map: a device's box, the link before it, marks; each a function of its place."""

from collections.abc import Iterable, Mapping

from hostdoctor.diagnosis.paths import Hop, spell
from hostdoctor.diagnosis.report import Severity
from hostdoctor.facts import Fact, Link
from hostdoctor.outputs.map_tree import UNNAMED, Leaf
from hostdoctor.outputs.svg import label, tag, text_width, title
from hostdoctor.outputs.words import link_words

TEXT, SMALL, HEAD = 11.5, 10.5, 14.0
GUTTER, GAP, PAD = 30.0, 16.0, 8.0
TOP = 58.0  # below the heading
LINK_WIDTH = 72.0  # room for a link's words above its line
HEIGHTS = {"gpu": 42.0, "nic": 28.0, "nvme": 28.0}
MOST_OF_ADDRESS = 0.45  # of a box
KINDS = {"gpu": "GPU", "nic": "network adapter", "nvme": "NVMe drive"}
_WEIGHTS = ((16, 7.0), (8, 4.5), (4, 3.0), (2, 2.0), (1, 1.4))
_ICONS = {"critical": "M5 0 10 5 5 10 0 5Z", "warning": "M5 0 10 10 0 10Z"}


class Wire(Fact, frozen=True, kw_only=True):
    """A link as it is drawn: what was negotiated, and the lanes that both ends have where those are more."""

    link: Link = Link()
    lost_of_lanes: int | None = None
    words: str | None = None  # instead of width and rate


class Mark(Fact, frozen=True, kw_only=True):
    """The worst that findings say of a device: severity, ids and what they are about."""

    severity: Severity
    ids: tuple[str, ...]


def wire_of(hops: Iterable[Hop], link: Link) -> Wire:
    """Return how to draw the last of these links: the narrow one, if there is one, comes first."""
    known = list(hops)
    narrow = [hop for hop in known if hop.is_narrow]
    if narrow:
        return Wire(link=narrow[0].end, lost_of_lanes=narrow[0].max_width_lanes)
    return Wire(link=known[-1].end if known and link == Link() else link)


def weight(width_lanes: int | None) -> float:
    """Return the line weight of a link, in user units; a thin one where the width is not known."""
    return next((thick for lanes, thick in _WEIGHTS if (width_lanes or 0) >= lanes), 1.4)


def draw_wire(wire: Wire, x: float, y: float, end_x: float) -> list[str]:
    """Return a link from ``x`` to ``end_x``: its weight is its width, its words are above, what it lost is below."""
    lanes, tip = wire.link.width_lanes, title(f"link: {wire.words or link_words(wire.link) or 'not known'}")
    kind = "wire" if lanes or wire.words else "wire untold"
    thick = weight(16 if wire.words else lanes)
    shown = wire.words or (spell(lanes, wire.link.speed_gts) if lanes else "x?")
    above = y - thick / 2 - 3
    parts = []
    if wire.lost_of_lanes:
        most = weight(wire.lost_of_lanes) + 3
        above = y - most / 2 - 3
        parts.append(tag("line", x1=x, y1=y, x2=end_x, y2=y, class_="lost", stroke_width=most))
        parts += [icon("critical", x + 4, y + 7), label(x + 17, y + 15, f"of x{wire.lost_of_lanes}", 50, SMALL)]
    parts.append(tag("line", tip, x1=x, y1=y, x2=end_x, y2=y, class_=kind, stroke_width=thick))
    parts.append(label(x + 4, above, shown, end_x - x - 6, SMALL))
    return parts


def draw_leaf(leaf: Leaf, mark: Mark | None, detail: str, x: float, y: float, width: float) -> list[str]:
    """Return a device's box. A GPU has a second line for its address and ``detail``."""
    height = HEIGHTS[leaf.kind]
    tip = title(f"{KINDS[leaf.kind]} {leaf.label}: {leaf.text}{f', {detail}' if detail else ''}")
    parts = [tag("rect", tip, x=x, y=y, width=width, height=height, rx=4, class_=leaf.kind)]
    base, right = y + 17.5, x + width - 7
    if mark is not None:
        right = draw_mark(mark, right, base, parts)
    if leaf.kind != "gpu" and not (mark and width < 260):
        room = min(text_width(leaf.address, SMALL), width * MOST_OF_ADDRESS)
        parts.append(label(right - room, base, leaf.address, room + 0.5, SMALL, class_="muted"))
        right -= room + 6
    name = label(x + 8, base, leaf.label, right - x - 8, TEXT, class_="strong")
    after = x + 8 + text_width(leaf.label, TEXT) + 7
    netdevs = leaf.note.strip() if leaf.kind == "nic" else ""
    model = "" if netdevs and leaf.model == UNNAMED else leaf.model
    parts += [name, label(after, base, f"{netdevs} {model}".strip(), right - after, TEXT)]
    if leaf.kind == "gpu":
        more = " · ".join(part for part in (leaf.address, leaf.note.strip(" ,"), detail) if part)
        parts.append(label(x + 8, y + 34, more, width - 15, SMALL, class_="muted"))
    return parts


def draw_mark(mark: Mark, right: float, base: float, parts: list[str]) -> float:
    """Add a finding's icon and id, ending at ``right``; return where the room before it ends."""
    text = mark.ids[0] if len(mark.ids) == 1 else f"{mark.ids[0]}+{len(mark.ids) - 1}"
    width = text_width(text, SMALL)
    parts.append(icon(mark.severity, right - width - 14, base - 9))
    parts.append(label(right - width, base, text, width + 1, SMALL, class_=f"strong {mark.severity}"))
    return right - width - 20


def icon(severity: Severity, x: float, y: float) -> str:
    """Return a severity's shape, ten units wide: a diamond for critical, a triangle for warning."""
    shape = _ICONS.get(severity, _ICONS["warning"])
    return tag("path", title(severity), d=shape, transform=f"translate({x:g} {y:g})", class_=severity)


def mark_of(leaf: Leaf, marks: Mapping[str, Mark]) -> Mark | None:
    """Return the mark on a device, found by any name that a finding may call it."""
    device = leaf.device
    names = [leaf.label, device.bdf, getattr(device, "label", None)]
    names += [] if leaf.kind == "gpu" else [device.name]
    return next((marks[name] for name in names if name and name in marks), None)
