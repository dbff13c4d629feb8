"""From a recording to the files of a capture: the host's own by their paths, commands as a sosreport names them."""

import posixpath
import re

import msgspec

from hostdoctor.facts import Fact
from hostdoctor.sources.base import NvmlOutput, Output, TextKind
from hostdoctor.sources.manifest import (
    COMMANDS_FOLDER,
    COMMANDS_PATH,
    MANIFEST_PATH,
    NVML_PATH,
    CapturedOutput,
    Manifest,
)
from hostdoctor.sources.recording import RecordingSource

ENVIRONMENT_PATH = "/proc/self/environ"


class Snapshot(Fact, frozen=True, kw_only=True):
    """A capture before it is written: texts and links (absolute targets) by absolute path, and folders to keep."""

    files: dict[str, str]
    links: dict[str, str]
    folders: frozenset[str]
    outputs: tuple[CapturedOutput, ...]
    nvml: NvmlOutput
    manifest: Manifest
    binaries: dict[str, bytes] = msgspec.field(default_factory=dict)


def snapshot(recording: RecordingSource, version: str, captured_at: str) -> Snapshot:
    """Return everything that was asked of a source, as the files of a capture."""
    files = dict(recording.files)
    if recording.variables:
        files[ENVIRONMENT_PATH] = "".join(f"{name}={value}\0" for name, value in sorted(recording.variables.items()))
    outputs = []
    for command, given in recording.outputs.items():
        for number, output in enumerate(given):
            path = _output_path(command.label, number)
            if output.text is not None:
                files[path] = output.text
            outputs.append(_captured(output, path, command.kind, command.argv))
    manifest = Manifest(
        hostdoctor=version,
        captured_at=captured_at,
        errors=dict(sorted(recording.errors.items())),
        probes=dict(sorted(recording.probes.items())),
        spaces=dict(sorted(recording.spaces.items())),
    )
    return Snapshot(
        files=files,
        binaries=dict(recording.binaries),
        links=dict(recording.links),
        folders=frozenset(recording.folders),
        outputs=tuple(outputs),
        nvml=recording.nvml(),
        manifest=manifest,
    )


def members(snapshot: Snapshot) -> dict[str, bytes | str | None]:
    """Return an archive's members by name, in order: a file's content, a link's text, None for an empty folder."""
    found: dict[str, bytes | str | None] = {
        path: text.encode(errors="surrogateescape") for path, text in snapshot.files.items()
    }
    found |= snapshot.binaries
    found |= {MANIFEST_PATH: _json(snapshot.manifest), COMMANDS_PATH: _json(snapshot.outputs)}
    found[NVML_PATH] = _json(snapshot.nvml)
    found |= {path: _relative(path, target) for path, target in snapshot.links.items()}
    parents = {path.rpartition("/")[0] for path in (*found, *snapshot.folders)}
    for folder in snapshot.folders - parents:
        found.setdefault(folder, None)
    return {path.lstrip("/"): found[path] for path in sorted(found) if path != "/"}


def _captured(output: Output, path: str, kind: TextKind, argv: tuple[str, ...]) -> CapturedOutput:
    if output.text is None:
        return CapturedOutput(kind=kind, argv=argv, source=output.source, reason=output.reason, gap=output.kind)
    return CapturedOutput(kind=kind, argv=argv, source=output.source, file=path)


def _output_path(command: str, number: int) -> str:
    """Return where a command's output lies: odd characters as ``_``, later ones of the same command numbered."""
    name = re.sub(r"[^\w.-]+", "_", command, flags=re.ASCII)
    return f"{COMMANDS_FOLDER}/{name}" + (f".{number}" if number else "")


def _relative(path: str, target: str) -> str:
    """Return a link's text as the kernel writes it: it ends in the target's own name, also for a folder above."""
    folder, _, name = target.rpartition("/")
    return posixpath.normpath(f"{posixpath.relpath(folder or '/', posixpath.dirname(path))}/{name or '.'}")


def _json(document: Fact | tuple[CapturedOutput, ...]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"
