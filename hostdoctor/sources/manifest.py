"""What a capture says of itself, in its folder ``hostdoctor/``: how it was made, which command gave which text."""

from typing import TypeVar

import msgspec

from hostdoctor.errors import SourceError
from hostdoctor.facts import Fact, GapKind
from hostdoctor.sources.base import Space, TextKind
from hostdoctor.sources.tree import Tree

FORMAT = "1"
MANIFEST_PATH = "/hostdoctor/manifest.json"
COMMANDS_PATH = "/hostdoctor/commands.json"
NVML_PATH = "/hostdoctor/nvml.json"
COMMANDS_FOLDER = "/sos_commands/hostdoctor"

Document = TypeVar("Document")


class Manifest(Fact, frozen=True, kw_only=True):
    """How a capture was made.

    ``errors`` maps a path to why it could not be read, ``probes`` a harmless trial to how it went, ``spaces`` a path to
    the room of its file system; ``redacted`` counts what was replaced.
    """

    schema_version: str = FORMAT
    hostdoctor: str = ""
    captured_at: str = ""
    redacted: dict[str, int] | None = None
    errors: dict[str, tuple[GapKind, str]] = msgspec.field(default_factory=dict)
    probes: dict[str, str] = msgspec.field(default_factory=dict)
    spaces: dict[str, Space] = msgspec.field(default_factory=dict)


class CapturedOutput(Fact, frozen=True, kw_only=True):
    """One output of a command: in which file it lies, or why there is none; ``source`` is what it was called."""

    kind: TextKind
    argv: tuple[str, ...]
    source: str
    file: str | None = None
    reason: str | None = None
    gap: GapKind = "missing"


def read_manifest(tree: Tree, label: str) -> Manifest | None:
    """Return a capture's manifest, None where there is none; raise SourceError for a later format than this one."""
    manifest = _read(tree, MANIFEST_PATH, Manifest)
    if manifest is not None and manifest.schema_version != FORMAT:
        shown = manifest.schema_version[:20]
        raise SourceError(f"{label}: a capture of format {shown!r}: this hostdoctor reads format {FORMAT}")
    return manifest


def read_outputs(tree: Tree) -> tuple[CapturedOutput, ...]:
    """Return what a capture holds of command outputs, ``()`` where it says nothing."""
    return _read(tree, COMMANDS_PATH, tuple[CapturedOutput, ...]) or ()


def _read(tree: Tree, path: str, type_: type[Document]) -> Document | None:
    """Return a document; one that is not understood says nothing."""
    text = tree.read(path)
    try:
        return None if text is None else msgspec.json.decode(text, type=type_)
    except (msgspec.DecodeError, RecursionError):
        return None
