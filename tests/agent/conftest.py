"""What the tests of metrics and monitoring share."""

from pathlib import Path

import pytest

from tests.cli.conftest import root_of

__all__ = ["root_of"]


@pytest.fixture(scope="session")
def documentation() -> str:
    return (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text(encoding="utf-8")
