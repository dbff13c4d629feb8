"""The report in a browser: silent, accessible, nothing on top of anything else, usable without JavaScript."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.views import PAGES, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

every_page = pytest.mark.parametrize("name", PAGES)
SERIOUS = ("serious", "critical")

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


def overlaps(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return bool(a["x"] + SLACK < b["r"] and b["x"] + SLACK < a["r"] and a["y"] + 2.5 < b["b"] and b["y"] + 2.5 < a["b"])


def inside(point: tuple[float, float], rect: dict[str, Any]) -> bool:
    return bool(rect["x"] <= point[0] <= rect["r"] and rect["y"] <= point[1] <= rect["b"])


def home(text: dict[str, Any], rects: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the smallest box that holds the text's left middle."""
    middle = (text["x"] + 0.5, (text["y"] + text["b"]) / 2)
    holding = [rect for rect in rects if inside(middle, rect)]
    return min(holding, key=lambda r: (r["r"] - r["x"]) * (r["b"] - r["y"]), default=None)


@every_page
def test_nothing_is_asked_for_and_nothing_goes_wrong(browser: "Browser", folder: Path, name: str) -> None:
    with opened(browser, folder / f"{name}.html") as page:
        page.wait_for_timeout(50)


@every_page
def test_labels_neither_overlap_nor_overflow(browser: "Browser", folder: Path, name: str) -> None:
    with opened(browser, folder / f"{name}.html") as page:
        drawings = page.evaluate(BOXES)
    assert drawings or name == "changes"
    assert [wrong for drawing in drawings for wrong in (*strays(drawing), *collisions(drawing))] == []


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


@every_page
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: "Browser", folder: Path, name: str, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    if name == "map":
        pytest.skip("a drawing alone is no page")
    with opened(browser, folder / f"{name}.html", color_scheme=scheme) as page:
        for details in page.query_selector_all("details"):
            details.evaluate("element => { element.open = true; }")
        found = axe.Axe().run(page).response["violations"]
    serious = [
        f"{one['id']}: {node['html'][:160]} {node['any'][0]['message'] if node['any'] else ''}"
        for one in found
        if one["impact"] in SERIOUS
        for node in one["nodes"]
    ]
    assert serious == []


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
  document.querySelectorAll("svg.hd-map").forEach((svg) => {
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


@pytest.mark.parametrize("name", ["demo", "gb200", "unknown", "crowded"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_text_of_the_map_has_contrast(browser: "Browser", folder: Path, name: str, scheme: str) -> None:
    with opened(browser, folder / f"{name}.html", color_scheme=scheme) as page:
        assert page.evaluate(CONTRAST) == []


@every_page
@pytest.mark.parametrize("width", [390, 768, 1440])
def test_no_page_is_wider_than_its_window(browser: "Browser", folder: Path, name: str, width: int) -> None:
    if name == "map":
        pytest.skip("a drawing alone has its own size")
    with opened(browser, folder / f"{name}.html", viewport={"width": width, "height": 800}) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_copy_buttons_copy_what_is_shown(browser: "Browser", folder: Path) -> None:
    with opened(browser, folder / "demo.html", permissions=["clipboard-read", "clipboard-write"]) as page:
        button = page.locator("#wrappers button.copy").first
        assert button.get_attribute("aria-label") == "Copy: command line for All GPUs"
        button.click()
        page.wait_for_function("document.querySelector('#wrappers [role=status]').textContent === 'Copied'")
        shown = page.locator("#wrappers code").nth(3).text_content()
        assert page.evaluate("navigator.clipboard.readText()") == shown == "numactl --membind=0 vllm"


def test_buttons_select_where_there_is_no_clipboard(browser: "Browser", folder: Path) -> None:
    with opened(browser, folder / "demo.html") as page:
        page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
        page.locator("#wrappers button.copy").first.click()
        assert page.evaluate("getSelection().toString()") == "numactl --membind=0 vllm"


def test_without_javascript_everything_is_there_but_the_buttons(browser: "Browser", folder: Path) -> None:
    with opened(browser, folder / "demo.html", java_script_enabled=False) as page:
        assert page.locator("button.copy:visible").count() == 0
        assert page.locator("section:visible").count() >= 10
        assert page.locator("text=What to do first").is_visible()
        page.locator("summary").first.click()
        assert page.locator("details[open]").count() == 1


def test_the_keyboard_reaches_the_verdict_first(browser: "Browser", folder: Path) -> None:
    with opened(browser, folder / "demo.html") as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the verdict"
        box = page.locator("a.skip").bounding_box()
        assert box is not None
        assert box["x"] >= 0
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"


def test_it_prints_on_a4(browser: "Browser", folder: Path) -> None:
    with opened(browser, folder / "demo.html", color_scheme="dark") as page:
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 688, "height": 1000})  # A4 less its margins, in CSS pixels
        assert page.evaluate("document.documentElement.scrollWidth") <= 688
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.locator("button.copy:visible").count() == page.locator("nav:visible").count() == 0
        assert page.pdf(format="A4", prefer_css_page_size=True).startswith(b"%PDF")
