"""A headless Chromium, the system's; without it these tests are skipped and say so."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.views import PAGES, chromium, lacking

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    if why := lacking():
        pytest.skip(why)
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Where a page is; it is made when it is first asked for."""
    folder = tmp_path_factory.mktemp("pages")

    def path_of(name: str) -> Path:
        path = folder / f"{name}.html"
        if not path.exists():
            path.write_text(PAGES[name](), encoding="utf-8")
        return path

    return path_of
