"""One boot for all experiments."""

import pytest

from tests.lab.boot import played
from tests.lab.results import Guest
from tests.support.cuda_double import build_cuda
from tests.support.nvml_double import compiler


@pytest.fixture(scope="session")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Guest:
    """Return what the guest left behind; skip where it cannot run."""
    out = tmp_path_factory.mktemp("experiments")
    if compiler() is not None:
        (out / "cuda").mkdir()
        build_cuda(out / "cuda")
    return played("experiments", out)
