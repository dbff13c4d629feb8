"""Folders of whole hosts, written once a session."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.hostbuilder import build_files, load_host, write_tree


@pytest.fixture(scope="session")
def root_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Return a function from a host's name to the folder that holds its root."""
    written: dict[str, Path] = {}

    def folder(name: str) -> str:
        if name not in written:
            written[name] = tmp_path_factory.mktemp(name)
            write_tree(build_files(load_host(name)), written[name])
        return str(written[name])

    return folder
