"""The pages that are looked at, and how one is opened: nothing may be asked for or complained about on the way."""

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hostdoctor.diagnosis import Report
from hostdoctor.diagnosis.changes import compare_reports
from hostdoctor.facts import Host
from hostdoctor.outputs.page.changes import render_changes
from hostdoctor.outputs.page.html import render_page
from hostdoctor.outputs.topo_svg import render_topo_svg
from tests.hosts.test_verdicts import report_on
from tests.outputs.pages import ABOUT, DOCUMENTS, judged, page_of, shown
from tests.outputs.pictures import crowded, ten_on_one_node, unknown
from tests.support.poison import poisoned

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def _page(report: Report, *, measured: bool = False) -> str:
    told = tuple(one for made in DOCUMENTS for one in shown(made())) if measured else ()
    return render_page(page_of(report, measurements=told))


def _alone(host: Host) -> str:
    return f"<!DOCTYPE html><html lang='en'><title>map</title><body>{render_topo_svg(host)}</body></html>"


def _changes() -> str:
    old = report_on("demo")
    system = msgspec.structs.replace(old.host.system, hostname="demo2", kernel="6.8.0-60-generic")
    new = judged(msgspec.structs.replace(old.host, system=system, gpus=old.host.gpus[:-1], nvme=old.host.nvme[1:]))
    return render_changes(compare_reports(old, new), ("old", "new"), ABOUT)


NAMES = ("chromium", "chromium-browser", "google-chrome")
PAGES: dict[str, Callable[[], str]] = {
    "demo": lambda: _page(report_on("demo"), measured=True),
    "gb200": lambda: _page(report_on("gb200-tray")),
    "no-gpu": lambda: _page(report_on("no-gpu-2n")),
    "sick": lambda: _page(report_on("sick-2n")),
    "unknown": lambda: _page(judged(unknown())),
    "nothing": lambda: _page(judged(Host())),
    "ten": lambda: _page(judged(ten_on_one_node())),
    "crowded": lambda: _page(judged(crowded())),
    "sixteen": lambda: _page(judged(crowded(16, 10, 64))),
    "changes": _changes,
    "long": lambda: _page(poisoned(report_on("demo"), "long" * 300), measured=True),
    "wide": lambda: _page(poisoned(report_on("demo"), "漢字😀")),
    "map": lambda: _alone(report_on("demo").host),
}


def lacking() -> str | None:
    """Return what a browser needs that is not installed."""
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed"
    return None if any(map(shutil.which, NAMES)) else "no Chromium is installed"


@contextmanager
def chromium() -> "Iterator[Browser]":
    """Give the system's Chromium."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, NAMES)))
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@contextmanager
def opened(browser: "Browser", path: Path, **options: Any) -> "Iterator[Page]":
    """Open a page; fail on any request, console message or error."""
    context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
    page = context.new_page()
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    try:
        page.goto(path.as_uri())
        yield page
        assert asked == [path.as_uri()]
        assert said == []
    finally:
        context.close()
