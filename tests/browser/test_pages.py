"""The report in a browser: silent, accessible, nothing on top of anything else, usable without JavaScript."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.browser.views import PAGES, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

SERIOUS = ("serious", "critical")
WIDTHS = (390, 768, 1440)
# axe is what costs; these have between them every part of a page. Another scheme changes colours alone.
BY_AXE = ("demo", "no-gpu", "sick", "unknown", "changes", "wide")
IN_BOTH_SCHEMES = ("demo", "unknown", "changes")

# Boxes of drawn texts, with what they may not leave: the innermost box around them, and their drawing.
BOXES = """
() => Array.from(document.querySelectorAll("svg.hd-map, svg.hd-chart")).map((svg, number) => {
  const frame = svg.viewBox.baseVal;
  const box = (element) => {
    const b = element.getBBox();
    return {x: b.x, y: b.y, r: b.x + b.width, b: b.y + b.height, text: element.textContent};
  };
  const boxes = "rect.gpu, rect.nic, rect.nvme, rect.switch, rect.root, rect.node";
  const rects = Array.from(svg.querySelectorAll(boxes)).map(box);
  const texts = Array.from(svg.querySelectorAll("text")).map((element) => {
    const title = element.querySelector("title");
    const shown = box(element);
    shown.text = title ? element.textContent.slice(title.textContent.length) : element.textContent;
    return shown;
  });
  return {number, width: frame.width, height: frame.height, texts, rects};
})
"""
SLACK = 1.0

# axe does not judge text drawn in SVG: its contrast against the box that it lies in is computed here.
CONTRAST = """
() => {
  const channel = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); };
  const light = (c) => {
    const [r, g, b] = c.match(/[0-9.]+/g).map(Number);
    return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  };
  const ratio = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const paper = getComputedStyle(document.body).backgroundColor;
  const worst = [];
  document.querySelectorAll("svg.hd-map, svg.hd-chart").forEach((svg) => {
    const rects = Array.from(svg.querySelectorAll("rect"));
    svg.querySelectorAll("text").forEach((text) => {
      const t = text.getBBox();
      const under = rects.filter((r) => {
        const b = r.getBBox();
        return t.x >= b.x && t.x < b.x + b.width && t.y + t.height / 2 >= b.y && t.y + t.height / 2 < b.y + b.height;
      }).pop();
      const fill = under ? getComputedStyle(under).fill : paper;
      worst.push([ratio(getComputedStyle(text).fill, fill), text.textContent, fill]);
    });
  });
  return worst.filter((one) => one[0] < 4.5);
}
"""


def overlaps(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return bool(a["x"] + SLACK < b["r"] and b["x"] + SLACK < a["r"] and a["y"] + 2.5 < b["b"] and b["y"] + 2.5 < a["b"])


def inside(point: tuple[float, float], rect: dict[str, Any]) -> bool:
    return bool(rect["x"] <= point[0] <= rect["r"] and rect["y"] <= point[1] <= rect["b"])


def home(text: dict[str, Any], rects: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the smallest box that holds the text's left middle."""
    middle = (text["x"] + 0.5, (text["y"] + text["b"]) / 2)
    holding = [rect for rect in rects if inside(middle, rect)]
    return min(holding, key=lambda r: (r["r"] - r["x"]) * (r["b"] - r["y"]), default=None)


class Visit(NamedTuple):
    """What one look at a page shows: each page is opened once, for all that is asked of it."""

    name: str
    drawings: list[dict[str, Any]]
    faint: dict[str, list[Any]]
    widths: dict[int, float]
    serious: list[str]


@pytest.fixture(scope="module", params=PAGES)
def visit(request: pytest.FixtureRequest, browser: "Browser", written: Callable[[str], Path]) -> Visit:
    with opened(browser, written(request.param)) as page:
        drawings, faint, widths = page.evaluate(BOXES), {"light": page.evaluate(CONTRAST)}, {}
        serious = violations(page) if request.param in BY_AXE else []
        page.emulate_media(color_scheme="dark")
        faint["dark"] = page.evaluate(CONTRAST)
        if request.param in IN_BOTH_SCHEMES:
            serious += violations(page, colours_alone=True)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            widths[width] = page.evaluate("document.documentElement.scrollWidth")
    return Visit(request.param, drawings, faint, widths, serious)


def violations(page: "Page", *, colours_alone: bool = False) -> list[str]:
    """Return what axe finds on a page with everything unfolded."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    options |= {"runOnly": ["color-contrast"]} if colours_alone else {}
    return [
        f"{one['id']}: {node['html'][:160]} {node['any'][0]['message'] if node['any'] else ''}"
        for one in axe.Axe().run(page, options=options).response["violations"]
        if one["impact"] in SERIOUS
        for node in one["nodes"]
    ]


def test_nothing_is_asked_for_and_nothing_goes_wrong(visit: Visit) -> None:
    """Opening it would have failed: see views."""
    assert visit.drawings or visit.name == "changes"


def test_labels_neither_overlap_nor_overflow(visit: Visit) -> None:
    assert [wrong for drawing in visit.drawings for wrong in (*strays(drawing), *collisions(drawing))] == []


def strays(drawing: dict[str, Any]) -> Iterator[str]:
    for text in drawing["texts"]:
        where = home(text, drawing["rects"])
        if text["r"] > drawing["width"] + SLACK or text["b"] > drawing["height"] or text["x"] < 0 or text["y"] < -2:
            yield f"leaves the drawing: {text}"
        if where is not None and text["r"] > where["r"] + SLACK:
            yield f"leaves its box: {text} {where}"


def collisions(drawing: dict[str, Any]) -> Iterator[str]:
    ordered = sorted(drawing["texts"], key=lambda text: text["y"])
    for at, one in enumerate(ordered):
        below = [other for other in ordered[at + 1 :] if other["y"] <= one["b"]]
        yield from (f"{one['text']!r} and {other['text']!r}" for other in below if overlaps(one, other))


def test_axe_finds_nothing_serious_in_either_scheme(visit: Visit) -> None:
    assert visit.serious == []


def test_the_text_of_drawings_has_contrast(visit: Visit) -> None:
    assert visit.faint == {"light": [], "dark": []}


def test_no_page_is_wider_than_its_window(visit: Visit) -> None:
    assert visit.name == "map" or [width for width, needed in visit.widths.items() if needed > width] == []
