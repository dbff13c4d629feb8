"""The report in use: copy buttons, keyboard, no JavaScript, paper."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.views import opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

Written = Callable[[str], Path]


def test_copy_buttons_copy_what_is_shown(browser: "Browser", written: Written) -> None:
    with opened(browser, written("demo"), permissions=["clipboard-read", "clipboard-write"]) as page:
        button = page.locator("#wrappers button.copy").first
        assert button.get_attribute("aria-label") == "Copy: command line for All GPUs"
        button.click()
        page.wait_for_function("document.querySelector('#wrappers [role=status]').textContent === 'Copied'")
        shown = page.locator("#wrappers code").nth(3).text_content()
        assert page.evaluate("navigator.clipboard.readText()") == shown == "numactl --membind=0 vllm"


def test_buttons_select_where_there_is_no_clipboard(browser: "Browser", written: Written) -> None:
    with opened(browser, written("demo")) as page:
        page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
        page.locator("#wrappers button.copy").first.click()
        assert page.evaluate("getSelection().toString()") == "numactl --membind=0 vllm"


def test_without_javascript_everything_is_there_but_the_buttons(browser: "Browser", written: Written) -> None:
    with opened(browser, written("demo"), java_script_enabled=False) as page:
        assert page.locator("button.copy:visible").count() == 0
        assert page.locator("section:visible").count() >= 10
        assert page.locator("text=What to do first").is_visible()
        page.locator("summary").first.click()
        assert page.locator("details[open]").count() == 1


def test_the_keyboard_reaches_the_verdict_first(browser: "Browser", written: Written) -> None:
    with opened(browser, written("demo")) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the verdict"
        box = page.locator("a.skip").bounding_box()
        assert box is not None
        assert box["x"] >= 0
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"


def test_it_prints_on_a4(browser: "Browser", written: Written) -> None:
    with opened(browser, written("demo"), color_scheme="dark") as page:
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 688, "height": 1000})  # A4 less its margins, in CSS pixels
        assert page.evaluate("document.documentElement.scrollWidth") <= 688
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.locator("button.copy:visible").count() == page.locator("nav:visible").count() == 0
        assert page.pdf(format="A4", prefer_css_page_size=True).startswith(b"%PDF")
