"""What the live tests share: the NVML double, a folder of tools, a two-socket ``/sys`` in place of this machine's."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hostdoctor.sources.base import NvmlOutput
from hostdoctor.sources.nvml import nvml_output, start_nvml
from tests.support.hostbuilder import HostFiles, build_files, load_host, write_tree
from tests.support.live_run import unshare
from tests.support.nvml_double import build_library, compiler, describe, topology_of
from tests.support.tool_doubles import linked

HOST = "l40s-4"  # two sockets, four GPUs
REAL_TOOLS = ("numactl", "lspci", "lscpu")

Driver = Callable[..., dict[str, str]]
Reader = Callable[..., NvmlOutput]


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that holds the NVML double."""
    if compiler() is None:
        pytest.skip("no C compiler here (cc, gcc, clang): the NVML double cannot be built")
    folder = tmp_path_factory.mktemp("nvml")
    build_library(folder)
    return folder


@pytest.fixture(scope="session")
def built() -> HostFiles:
    """Return the described host that the doubles speak for."""
    return build_files(load_host(HOST))


@pytest.fixture(scope="session")
def fake_sys(built: HostFiles, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return that host's ``/sys``, to be mounted over this machine's."""
    if not unshare():
        pytest.skip("no mount namespace may be made here (unshare)")
    folder = tmp_path_factory.mktemp("host")
    write_tree(built, folder)
    return folder / "sys"


@pytest.fixture
def driver(nvml_library: Path, built: HostFiles, tmp_path: Path) -> Driver:
    """Return a function that makes the environment of a driver: ``driver(init={"return": 18})``."""

    def environment(**changes: Any) -> dict[str, str]:
        assert built.nvml is not None
        text = describe(built.nvml["document"], topology=topology_of(HOST), **changes)
        description = tmp_path / "nvml.txt"
        description.write_text(text, encoding="utf-8")
        return {"LD_LIBRARY_PATH": str(nvml_library), "NVML_DOUBLE": str(description)}

    return environment


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """Return a folder for PATH that holds the real tools and no nvidia-smi."""
    folder = tmp_path / "bin"
    folder.mkdir()
    linked(folder, *REAL_TOOLS)
    return folder


@pytest.fixture
def read(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """Return a function that reads a described driver as the live host does."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml_library))
    monkeypatch.setenv("NVML_DOUBLE", str(tmp_path / "nvml.txt"))

    def reader(document: dict[str, Any], *, timeout_s: float = 60, **changes: Any) -> NvmlOutput:
        (tmp_path / "nvml.txt").write_text(describe(document, **changes), encoding="utf-8")
        return nvml_output(start_nvml(timeout_s).wait())

    return reader
