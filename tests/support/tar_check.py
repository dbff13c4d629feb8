"""Unpacking what hostdoctor wrote with Python's own reader, which knows nothing of it."""

import tarfile
from pathlib import Path


def extract(archive: Path, target: Path) -> Path:
    """Unpack an archive under a folder and return that folder."""
    with tarfile.open(archive, "r:gz") as opened:
        opened.extractall(target, filter="tar")
    return target
