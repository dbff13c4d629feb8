"""From what ``--from`` names to a source: a folder or archive that holds a root, or loose texts, told by content."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from hostdoctor.errors import SourceError, UsageError
from hostdoctor.sources.base import Source
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import DiskTree, decoded

MARKERS = (
    "sys/devices",
    "sys/bus",
    "sys/class",
    "proc/cpuinfo",
    "proc/meminfo",
    "proc/interrupts",
    "sos_commands",
    "hostdoctor/manifest.json",
)


def open_source(names: Sequence[str]) -> Source:
    """Return one source for everything that was named.

    Raises UsageError for what does not exist, SourceError for what cannot be read or holds nothing known.
    """
    sources = [_open(name) for name in names]
    hosts = {source.read("/proc/sys/kernel/hostname") for source in sources if isinstance(source, RootSource)}
    if len(hosts) > 1:
        raise UsageError("--from names roots of different hosts: look at one at a time")
    if len(sources) == 1:
        return sources[0]
    from hostdoctor.sources.combined import CombinedSource

    return CombinedSource(sources)


def _open(name: str) -> Source:
    if not name:
        raise UsageError("--from: an empty name")
    path, label = Path(name), decoded(name)
    mode = 0 if name == "-" else _mode(path)
    if stat.S_ISDIR(mode):
        return RootSource(DiskTree(str(_root_of(path))), label)
    if stat.S_ISREG(mode) and (report := _bug_report(path, label)) is not None:
        return report
    if stat.S_ISREG(mode) and _is_archive(path):
        from hostdoctor.sources.archive import read_archive

        return _known(RootSource(read_archive(path), label))
    from hostdoctor.sources.texts import TextSource, read_text_file

    text = read_text_file("-" if name == "-" else path)
    if name == "-" and "bug report log" in text[: 1 << 16]:
        return _bug_report_text(text) or TextSource(((label, text),))
    return TextSource(((label, text),))


def _bug_report(path: Path, label: str) -> Source | None:
    """Return the source of an NVIDIA bug report, None for any other file; a gzip is looked into."""
    from hostdoctor.sources.bug_report import is_bug_report, read_bug_report

    return read_bug_report(path, label) if is_bug_report(path) else None


def _bug_report_text(text: str) -> Source | None:
    import io

    from hostdoctor.sources.bug_report import holds_marker, source_of

    data = text.encode("utf-8", "replace")
    return source_of(io.BytesIO(data), "standard input") if holds_marker(data[: 1 << 16]) else None


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"{path}: no such file or directory") from None
    except (OSError, ValueError) as error:
        raise SourceError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def _root_of(folder: Path) -> Path:
    """Return the folder, or the only folder in it, that holds a root; raise SourceError when there is none."""
    if _is_root(folder):
        return folder
    try:
        roots = [entry for entry in sorted(folder.iterdir()) if not entry.is_symlink() and _is_root(entry)]
    except OSError as error:
        raise SourceError(f"{folder}: {error.strerror}") from error
    if len(roots) != 1:
        what = (
            "several hosts in one folder"
            if roots
            else "nothing known in this folder (sys/ and proc/ are missing or empty)"
        )
        raise SourceError(f"{folder}: {what}")
    return roots[0]


def _is_root(folder: Path) -> bool:
    """Tell whether a folder holds a root; one that may not be searched is none."""
    return any(os.path.exists(folder / marker) for marker in MARKERS)  # noqa: PTH110  no raising


def _known(source: RootSource) -> RootSource:
    if not any(source.listdir("/" + marker.partition("/")[0]) for marker in MARKERS):
        raise SourceError(f"{source.label}: nothing known in this archive (no sys/ or proc/)")
    return source


def _is_archive(path: Path) -> bool:
    from hostdoctor.sources.archive import is_archive

    try:
        with path.open("rb") as stream:
            return is_archive(stream.read(512))
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from error
