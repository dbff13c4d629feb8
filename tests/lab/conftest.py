"""One boot for all tests of the guest that only look; another for those that experiment (experiments/)."""

import pytest

from tests.lab.boot import played
from tests.lab.results import Guest


@pytest.fixture(scope="session")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Guest:
    """Return what the guest left behind; skip where it cannot run."""
    return played("looks", tmp_path_factory.mktemp("lab"))
