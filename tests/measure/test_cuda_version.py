"""The CUDA version that a driver speaks, asked without starting it."""

from pathlib import Path

import pytest

from hostdoctor.measure.cuda_version import installed_cuda, version_words
from tests.support.cuda_double import build_cuda
from tests.support.nvml_double import compiler


@pytest.mark.parametrize(("number", "words"), [(12080, "12.8"), (13000, "13.0"), (11040, "11.4")])
def test_versions_as_people_say_them(number: int, words: str) -> None:
    assert version_words(number) == words


@pytest.mark.skipif(compiler() is None, reason="no C compiler")
def test_the_driver_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_cuda(tmp_path)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert installed_cuda(20.0) == "12.8"  # what the double says before it is initialised


def test_no_driver_is_no_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_bytes(b"")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert installed_cuda(20.0) is None
