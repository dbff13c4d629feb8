"""Options and fixtures for the whole suite."""

from pathlib import Path

import pytest

# One boot, one set of doubles, one build serves all tests of a folder: in a parallel run they stay on one worker.
TOGETHER = ("lab", "live", "packaging")
SPREAD = ("corpus", "parsers")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite expected.json beside each host; read the diff"
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """Say which tests a parallel run (pytest-xdist, ``--dist loadgroup``) must not tear apart."""
    root = Path(__file__).parent
    path = item.path.relative_to(root) if item.path.is_relative_to(root) else item.path
    if path.parts[0] not in SPREAD:
        item.add_marker(pytest.mark.xdist_group(str(path.parent if path.parts[0] in TOGETHER else path)))
