"""One boot for all tests of the guest."""

import sys

import pytest

from tests.lab.boot import boot
from tests.lab.kernel import Unavailable
from tests.lab.results import Guest
from tests.support.cuda_double import build_cuda
from tests.support.nvml_double import compiler


@pytest.fixture(scope="session")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Guest:
    """Return what the guest left behind; skip where it cannot run."""
    out = tmp_path_factory.mktemp("lab")
    if compiler() is not None:
        (out / "cuda").mkdir()
        build_cuda(out / "cuda")
    try:
        boot([sys.executable, "-m", "tests.lab.inside"], out)
    except Unavailable as reason:
        pytest.skip(f"no guest: {reason}")
    return Guest(out)
