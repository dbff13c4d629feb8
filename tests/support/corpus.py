"""Where the optional corpus of real outputs is; tests that read it are skipped where it is absent."""

import os
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("HOSTDOCTOR_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus")


def corpus(kind: str, name: str | None = None) -> Path:
    """Return a corpus folder, or one file in it; skip the test where it does not exist."""
    path = ROOT / kind / name if name else ROOT / kind
    if not path.exists():
        pytest.skip(f"no corpus: {kind}")
    return path


def corpus_text(kind: str, name: str) -> str:
    """Return a corpus file's text, undecodable bytes replaced, line ends kept."""
    return corpus(kind, name).read_bytes().decode("utf-8", "replace")


def corpus_names(kind: str) -> list[str]:
    """Return the names in a corpus folder, empty where there is none (for parametrize)."""
    folder = ROOT / kind
    return sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
