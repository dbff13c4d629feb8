"""``python -m tests.browser PAGE``: open a page by itself; fail on any request, console message or error."""

import sys
from pathlib import Path

from tests.browser.views import chromium, opened


def main(path: Path) -> None:
    """Look for what a page of the demo has at least."""
    with chromium() as browser, opened(browser, path) as page:
        assert page.locator("svg.hd-map text").count() > 50
        assert page.locator("button.copy:visible").count() >= 3


if __name__ == "__main__":
    main(Path(sys.argv[1]))
