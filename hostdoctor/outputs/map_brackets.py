"""NVLink in the picture of a map: a bracket beside the GPUs of each group, its name above the nodes."""

from collections.abc import Iterator, Mapping, Sequence

from hostdoctor.outputs.map_nvlink import NvlinkGroup
from hostdoctor.outputs.map_parts import GAP, GUTTER, PAD, TEXT, TOP
from hostdoctor.outputs.svg import fit, label, tag, text_width, title

MAX_LANES = 4  # brackets beside each other; of further groups the text alone tells


def draw_groups(
    groups: Sequence[NvlinkGroup], of_gpus: Mapping[str, tuple[int, float, float]], total: float, width: float
) -> Iterator[str]:
    """Yield each NVLink group's name above the nodes and its bracket beside the GPUs."""
    taken: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for position, group in enumerate(groups):
        band = TOP + 22 * position
        text = fit(group.text, total - 2 * GAP - 60, TEXT)
        yield label(GAP + 26, band + 11, group.text, total - 2 * GAP - 60, TEXT, class_="nvlink-text strong")
        yield tag("line", x1=GAP, y1=band + 7, x2=GAP + 20, y2=band + 7, class_="nvlink")
        start = GAP + 34 + text_width(text, TEXT)
        by_column: dict[int, list[tuple[float, float]]] = {}
        for name in group.members:
            if name in of_gpus:
                column, *place = of_gpus[name]
                by_column.setdefault(column, []).append((place[0], place[1]))
        for column, places in by_column.items():
            middles = [middle for _, middle in places]
            from_y = band + 7 if len(by_column) > 1 else min(middles)
            lane = _free_lane(taken, column, from_y, max(middles))
            if lane is not None:
                x = (column + 1) * (width + GAP) - GUTTER + PAD + 6.0 * lane
                yield _bracket(x, from_y, max(middles), places)
                if len(by_column) > 1 and start < x:
                    yield tag("line", x1=start, y1=band + 7, x2=x, y2=band + 7, class_="nvlink")


def _bracket(x: float, from_y: float, to_y: float, places: list[tuple[float, float]]) -> str:
    ticks = "".join(f"M{right:g} {middle:g}H{x:g}" for right, middle in places)
    return tag("path", title("NVLink"), d=f"M{x:g} {from_y:g}V{to_y:g}{ticks}", class_="nvlink")


def _free_lane(
    taken: dict[tuple[int, int], list[tuple[float, float]]], column: int, from_y: float, to_y: float
) -> int | None:
    for lane in range(MAX_LANES):
        spans = taken.setdefault((column, lane), [])
        if all(to_y < start or from_y > end for start, end in spans):
            spans.append((from_y, to_y))
            return lane
    return None
