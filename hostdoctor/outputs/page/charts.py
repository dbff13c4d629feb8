"""Charts as small SVG: tails of latencies, ratios of pairs, a node's memory. Shapes and dashes differ too."""

import math
from collections.abc import Iterator, Sequence

from hostdoctor.facts import Fact
from hostdoctor.outputs.page.figures import number
from hostdoctor.outputs.svg import fit, label, tag, text_width, title, words

WIDTH, SMALL = 460.0, 11.0
LEFT, RIGHT, TOP = 62.0, 14.0, 34.0
ARMS = ("near", "far", "more")
MAX_PAIRS = 60
MOST_RATIO = 1e9
LEAST, MOST = 1e-9, 1e15  # of what is drawn as a time
LEAST_SPAN = 1.5  # of the largest latency to the smallest on an axis
TICKS = (1.0, 0.5, 0.1, 0.01, 0.001, 0.0001, 0.00001)
_SHARES = {1.0: "all", 0.5: "p50", 0.1: "p90", 0.01: "p99", 0.001: "p99.9", 0.0001: "p99.99", 0.00001: "p99.999"}

STYLE = """
.hd-chart{font-family:inherit;max-width:100%;height:auto}
.hd-chart text{fill:var(--hd-ink)}
.hd-chart .axis{stroke:var(--hd-wire);stroke-width:1;fill:none}
.hd-chart .grid{stroke:var(--hd-root-edge);stroke-width:.6;stroke-dasharray:2 3}
.hd-chart .band{fill:var(--hd-switch)}
.hd-chart .near{stroke:var(--hd-near);stroke-width:2;fill:none}
.hd-chart .far{stroke:var(--hd-far);stroke-width:2;fill:none;stroke-dasharray:6 3}
.hd-chart .more{stroke:var(--hd-nvme-edge);stroke-width:2;fill:none;stroke-dasharray:2 3}
.hd-chart .near-mark{fill:var(--hd-near)}
.hd-chart .far-mark{fill:var(--hd-far)}
.hd-chart .more-mark{fill:var(--hd-nvme-edge)}
.hd-chart .used{fill:var(--hd-node-edge)}
.hd-chart .growth{fill:var(--hd-wire);opacity:.6}
.hd-chart .cache{fill:var(--hd-nic-edge);opacity:.55}
.hd-chart .reserve{fill:var(--hd-nvme-edge);opacity:.55}
.hd-chart .weights{fill:var(--hd-near)}
.hd-chart .kv{fill:var(--hd-nvlink)}
.hd-chart .cell{stroke:var(--hd-root-edge);stroke-width:1;fill:var(--hd-bg)}
.hd-chart .heat-holds{fill:var(--hd-gpu)}
.hd-chart .heat-breaks{fill:var(--hd-nic)}
.hd-chart .heat-neither,.hd-chart .heat-failed{fill:var(--hd-nvme)}
.hd-chart .heat-struck{fill:var(--hd-switch)}
.hd-chart .bar-holds{fill:var(--hd-near)}
.hd-chart .bar-breaks{fill:var(--hd-far)}
.hd-chart .bar-neither{fill:var(--hd-nvme-edge)}
.hd-chart .free{fill:var(--hd-bg);stroke:var(--hd-node-edge)}
"""


INFERRED = "inferred-"
MOST_SHARE = 2.0


class Series(Fact, frozen=True, kw_only=True):
    """A latency's tail: (value, share of samples above it), values ascending."""

    name: str
    points: tuple[tuple[float, float], ...]


def tail_chart(what: str, unit: str, series: Sequence[Series]) -> str:
    """Return how the tails of latencies compare: values and shares above them, both on logarithmic scales.

    ``""`` where no series has two points. A small difference is not drawn across the whole width.
    """
    shown = [told for one in series if (told := _drawable(one)).points][: len(ARMS)]
    values = [value for one in shown for value, _ in one.points]
    shares = [share for one in shown for _, share in one.points]
    if len(set(values)) < 2 or all(len(one.points) < 2 for one in shown):
        return ""
    wider = math.sqrt(max(1.0, LEAST_SPAN * min(values) / max(values)))
    x_axis = _Log(min(values) / wider, max(values) * wider, LEFT, WIDTH - RIGHT)
    lowest = min(min(shares), 0.1)
    height = 240.0
    y_axis = _Log(lowest, 1.0, height - 46, TOP)
    parts = [*_shares(y_axis, lowest), *_ticks(x_axis, TOP, height - 46)]
    for arm, one in zip(ARMS, shown, strict=False):
        places = [(x_axis.at(value), y_axis.at(share)) for value, share in one.points]
        line = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(tag("path", title(one.name), d=line, class_=arm))
        if len(places) <= 12:
            parts += [_mark(arm, x, y) for x, y in places]
    parts += _legend([one.name for one in shown])
    parts.append(label(LEFT, height - 8, f"{what}, {unit} (log scale)", WIDTH - LEFT, SMALL))
    parts.append(label(2, TOP - 16, "quantile", LEFT - 4, SMALL))
    return _chart(f"{what}: share of samples above each latency", height, parts)


def _drawable(told: Series) -> Series:
    """Return the points that have a place on both axes."""
    return Series(name=told.name, points=tuple((x, y) for x, y in told.points if LEAST < x < MOST and 0 < y <= 1))


def pair_chart(
    what: str,
    ratios: Sequence[float],
    interval: tuple[float, float] | None,
    arms: tuple[str, str] = ("near", "far"),
) -> str:
    """Return the ratio far/near of each pair as a dot, the mean ratio's interval as a band; ``""`` without pairs.

    ``arms`` are what near and far are called.
    """
    one, other = arms
    known = [min(MOST_RATIO, max(1 / MOST_RATIO, ratio)) for ratio in ratios if ratio > 0][:MAX_PAIRS]
    if not known:
        return ""
    if interval is not None and not (1 / MOST_RATIO < interval[0] <= interval[1] < MOST_RATIO):
        interval = None
    most = max(1.02, *(max(ratio, 1 / ratio) for ratio in (*known, *(interval or ()))))
    axis = _Log(1 / most**1.15, most**1.15, LEFT, WIDTH - RIGHT)
    step = 12.0 if len(known) <= 20 else 6.0
    bottom = TOP + step * len(known) + 4
    parts = list(_ratio_ticks(axis, most, bottom))
    if interval is not None:
        low, high = axis.at(interval[0]), axis.at(interval[1])
        tip = title(f"95 % interval of the ratio: {interval[0]:.3g} to {interval[1]:.3g}")
        parts.append(tag("rect", tip, x=low, y=TOP, width=max(high - low, 1.0), height=bottom - TOP, class_="band"))
    parts.append(tag("line", x1=axis.at(1), y1=TOP, x2=axis.at(1), y2=bottom, class_="axis"))
    for place, ratio in enumerate(known):
        arm = "near" if ratio > 1 else "far"
        parts.append(_mark(arm, axis.at(ratio), TOP + step * (place + 0.5) + 2, f"pair {place + 1}: {ratio:.4g}"))
    parts.append(label(LEFT, TOP - 18, f"{other} is faster", axis.at(1) - LEFT - 8, SMALL))
    near = fit(f"{one} is faster", WIDTH - RIGHT - axis.at(1) - 8, SMALL)
    parts.append(label(WIDTH - RIGHT - text_width(near, SMALL), TOP - 18, near, WIDTH, SMALL))
    parts.append(label(2, TOP + 10, "pair 1", LEFT - 6, SMALL))
    parts.append(
        label(LEFT, bottom + 32, f"{what}: ratio of each pair, {other}/{one} (log scale)", WIDTH - LEFT, SMALL)
    )
    return _chart(f"{what}: ratio of each pair", bottom + 42, parts)


def memory_bar(node: int, total: int, parts: Sequence[tuple[str, str, int]]) -> str:
    """Return a node's memory as a bar of (class, name, bytes); what is left is free, what is too much is cut off."""
    width, drawn, end = WIDTH * 1.5, [], 0.0
    for kind, name, size in parts:
        start, end = end, min(width, end + width * size / total)
        if end > start:
            tip = title(f"{name}: {size:,} bytes")
            drawn.append(tag("rect", tip, x=start, y=2, width=max(end - start, 1.0), height=18, class_=kind))
    frame = tag("rect", title("free"), x=0.5, y=2, width=width - 1, height=18, class_="free")
    return _chart(f"Memory of node {node}", 22, [frame, *drawn], width=width, stretched=True)


class Heat(Fact, frozen=True, kw_only=True):
    """A cell of a heat map: its state (a class of the style), a mark or figure in it, and what its tooltip says.

    ``share`` is its p99 over its limit: a bar below the figure, full at twice the limit.
    """

    state: str
    text: str
    tip: str
    share: float | None = None


def heat_map(
    what: str, rows: Sequence[str], columns: Sequence[str], cells: dict[tuple[int, int], Heat], across: str, down: str
) -> str:
    """Return a grid with a coloured cell for each place, by row and column; what has none is left empty."""
    if not rows or not columns:
        return ""
    left = max(text_width(name, SMALL) for name in (*rows, down)) + 10
    width, height = max(38.0, min(72.0, (WIDTH - left) / len(columns))), 24.0
    top, parts = 22.0, []
    parts.append(label(2, 14, down, left - 4, SMALL))
    for place, name in enumerate(columns):
        parts.append(label(left + width * place + 4, 14, name, width - 4, SMALL))
    for row, name in enumerate(rows):
        parts.append(label(2, top + height * row + 15, name, left - 4, SMALL))
        parts += [
            _heat(cells.get((row, c)), left + width * c, top + height * row, width, height) for c in range(len(columns))
        ]
    bottom = top + height * len(rows)
    parts.append(label(left, bottom + 16, across, width * len(columns), SMALL))
    return _chart(what, bottom + 24, parts, width=left + width * len(columns) + 2)


def _heat(cell: Heat | None, x: float, y: float, width: float, height: float) -> str:
    frame = tag("rect", x=x, y=y, width=width, height=height, class_="cell")
    if cell is None:
        return frame
    state = cell.state.removeprefix(INFERRED)
    faint = 0.5 if cell.state.startswith(INFERRED) else None
    colour = tag(
        "rect", title(cell.tip), x=x, y=y, width=width, height=height, fill_opacity=faint, class_=f"heat-{state}"
    )
    length = 0.0 if cell.share is None else (width - 2) * min(1.0, cell.share / MOST_SHARE)
    bar = tag("rect", x=x + 1, y=y + height - 4, width=length, height=3.0, class_=f"bar-{state}") if length else ""
    return frame + colour + bar + label(x + 4, y + 14, cell.text, width - 6, SMALL, pointer_events="none")


class _Log:
    """A logarithmic axis from ``low`` to ``high`` on the way from ``start`` to ``end``."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high = math.log(low), math.log(max(high, low * 1.0001))
        self.start, self.end = start, end

    def at(self, value: float) -> float:
        share = (math.log(value) - self.low) / (self.high - self.low)
        return self.start + (self.end - self.start) * min(1.0, max(0.0, share))


def _chart(name: str, height: float, parts: Sequence[str], width: float = WIDTH, *, stretched: bool = False) -> str:
    return tag(
        "svg",
        tag("title", words(name)),
        *parts,
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        preserveAspectRatio="none" if stretched else None,
        role="img",
        aria_label=name,
        class_="hd-chart",
    )


def _shares(axis: _Log, lowest: float) -> Iterator[str]:
    for share in TICKS:
        if share >= max(lowest, TICKS[-1]) * 0.999:
            y = axis.at(share)
            yield tag("line", x1=LEFT, y1=y, x2=WIDTH - RIGHT, y2=y, class_="grid")
            yield label(2, y + 4, _SHARES[share], LEFT - 6, SMALL)


def _ticks(axis: _Log, top: float, bottom: float) -> Iterator[str]:
    yield tag("path", d=f"M{LEFT:g} {top:g}V{bottom:g}H{WIDTH - RIGHT:g}", class_="axis")
    free_from = 0.0
    for value in _round_values(math.exp(axis.low), math.exp(axis.high)):
        x, text = axis.at(value), number(value)
        start = min(x - text_width(text, SMALL) / 2, WIDTH - text_width(text, SMALL) - 1)
        yield tag("line", x1=x, y1=bottom, x2=x, y2=bottom + 4, class_="axis")
        if start > free_from:
            yield label(start, bottom + 17, text, 90, SMALL)
            free_from = start + text_width(text, SMALL) + 6


def _round_values(low: float, high: float) -> list[float]:
    """Return round values in a range: 1, 2, 5 times ten where it is wide, else equal steps of such a size."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [f * 10.0**d for d in decades for f in (1, 2, 5) if low <= f * 10.0**d <= high]
    if len(values) > 2:
        return values
    raw = (high - low) / 4
    size = 10.0 ** math.floor(math.log10(raw))
    step = next((f * size for f in (1, 2, 5) if f * size >= raw), 10 * size)
    first = math.ceil(low / step)
    return [n * step for n in range(first, first + 12) if n * step <= high] or [low, high]


def _ratio_ticks(axis: _Log, most: float, bottom: float) -> Iterator[str]:
    yield tag("line", x1=LEFT, y1=bottom, x2=WIDTH - RIGHT, y2=bottom, class_="axis")
    for ratio in (1 / most, 1.0, most):
        x, text = axis.at(ratio), f"{ratio:.3g}"
        yield tag("line", x1=x, y1=bottom, x2=x, y2=bottom + 4, class_="axis")
        yield label(x - text_width(text, SMALL) / 2, bottom + 17, text, 80, SMALL)


def _legend(names: Sequence[str]) -> Iterator[str]:
    x = LEFT
    for arm, name in zip(ARMS, names, strict=False):
        yield tag("line", x1=x, y1=10, x2=x + 24, y2=10, class_=arm)
        yield _mark(arm, x + 12, 10)
        yield label(x + 30, 14, name, 110, SMALL)
        x += 36 + min(text_width(name, SMALL), 110.0) + 8


def _mark(arm: str, x: float, y: float, tip: str = "") -> str:
    """Return an arm's shape: a disc for near, a square for far, a diamond for others."""
    inside = (title(tip),) if tip else ()
    if arm == "near":
        return tag("circle", *inside, cx=x, cy=y, r=3.6, class_="near-mark")
    if arm == "far":
        return tag("rect", *inside, x=x - 3.2, y=y - 3.2, width=6.4, height=6.4, class_="far-mark")
    return tag("path", *inside, d=f"M{x:g} {y - 4:g}l4 4-4 4-4-4Z", class_="more-mark")
