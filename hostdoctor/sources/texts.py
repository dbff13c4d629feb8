"""Loose texts as a source: outputs that somebody saved or pasted, told apart by content."""

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from hostdoctor.errors import SourceError, UsageError
from hostdoctor.facts import GapKind, Sample
from hostdoctor.sources.base import Command, NvmlOutput, Output, Space, TextKind
from hostdoctor.sources.recognise import Section, recognise

MAX_BYTES = 64 << 20
_SAMPLE_BYTES = 1 << 16
_STANDARD_INPUT = "standard input"
_TEXT_CONTROLS = b"\0\a\b\t\n\v\f\r\x1b"
_CONTROLS = bytes(set(range(32)) - set(_TEXT_CONTROLS))
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
# What a text is evidence of, however it was asked for.
_NAMES: dict[TextKind, str] = {
    "topo-matrix": "nvidia-smi topo -m",
    "numactl": "numactl --hardware",
    "lspci": "lspci",
    "nvidia-smi-q": "nvidia-smi -q",
    "lspci-tree": "lspci -tv",
    "lscpu": "lscpu",
    "interrupts": "/proc/interrupts",
    "nvme-list": "nvme list",
    "collect-env": "environment report",
    "hwloc-xml": "lstopo XML",
    "nccl-xml": "NCCL topology XML",
}


class TextSource:
    """Everything known in texts, given as (label, text) pairs; it has outputs of commands and no files."""

    is_live = False

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        """Recognise the texts; raise SourceError when nothing is known in one of them."""
        self._outputs: dict[TextKind, list[Output]] = {}
        labels = []
        for given, text in texts:
            label = _STANDARD_INPUT if given == "-" else given
            labels.append(label)
            self._add(label, recognise(text))
        self.label = ", ".join(labels)

    def read(self, path: str) -> str | None:
        """Return None: texts hold no files."""

    def read_bytes(self, path: str) -> bytes | None:
        """Return None: texts hold no files."""

    def read_lines(self, path: str) -> Iterator[str] | None:
        """Return None: nothing runs here."""

    def why_unreadable(self, path: str) -> tuple[GapKind, str]:  # noqa: ARG002  whatever the path
        """Say that the texts do not tell."""
        return "missing", "not in the given text"

    def listdir(self, path: str) -> tuple[str, ...]:  # noqa: ARG002  whatever the path
        """Return ``()``."""
        return ()

    def readlink(self, path: str) -> str | None:
        """Return None."""

    def statvfs(self, path: str) -> Space | None:
        """Return None: texts hold no file systems."""

    def run(self, command: Command) -> tuple[Output, ...]:
        """Return every output of the command's kind, in the order of the texts."""
        return tuple(self._outputs.get(command.kind, ()))

    def prefetch(self, commands: Iterable[Command]) -> None:
        """Do nothing: everything is there already."""

    def environ(self, name: str) -> str | None:
        """Return None: texts do not tell the caller's variables."""

    def nvml(self) -> NvmlOutput:
        """Return that nobody was asked."""
        return NvmlOutput(reason="not in the given text")

    def nvml_sample(self, seconds: float) -> Sample | None:
        """Return None: this is not now."""

    def probe(self, question: str) -> str | None:
        """Return None: nothing can be tried."""

    def _add(self, label: str, sections: tuple[Section, ...]) -> None:
        if not sections:
            known = ", ".join(_NAMES.values())
            raise SourceError(f"{label}: nothing known in this text (looked for {known})")
        kinds = [section.kind for section in sections]
        for section in sections:
            source = f"{_NAMES[section.kind]} in {label}"
            if kinds.count(section.kind) > 1:
                source += f", line {section.first_line}"
            self._outputs.setdefault(section.kind, []).append(Output(source=source, text=section.text))


def read_text_file(path: "Path | Literal['-']") -> str:
    """Return the text of a regular file, or of standard input for ``-``, in UTF-8, UTF-16 or Latin-1.

    Raises UsageError when there is no such file, SourceError when it cannot be read, is not a regular file, is larger
    than MAX_BYTES, or is not text.
    """
    label = _STANDARD_INPUT if path == "-" else str(path)
    try:
        data = _read_standard_input() if isinstance(path, str) else _read(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"{label}: no such file") from error
    except (OSError, ValueError) as error:
        raise SourceError(f"{label}: {getattr(error, 'strerror', None) or error}") from error
    if not data.strip():
        raise SourceError(f"{label}: empty (did the command that made it fail?)")
    if len(data) > MAX_BYTES:
        raise SourceError(f"{label}: more than {MAX_BYTES >> 20} MiB")
    encoding = _encoding(data[:_SAMPLE_BYTES])
    if encoding is None:
        packed = " (archives and packed reports are read from files: name the file)" if path == "-" else ""
        raise SourceError(f"{label}: not a text{packed}")
    return _decode(data, encoding)


def _read_standard_input() -> bytes:
    if sys.stdin is None:
        raise SourceError(f"{_STANDARD_INPUT}: closed")
    return sys.stdin.buffer.read(MAX_BYTES + 1)


def _read(path: Path) -> bytes:
    _refuse_unless_regular(path, path.stat())
    # What was a file a moment ago may be a FIFO now: opening that must not wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream:  # noqa: PTH123  a descriptor
        _refuse_unless_regular(path, os.fstat(descriptor))
        return stream.read(MAX_BYTES + 1)


def _refuse_unless_regular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise SourceError(f"{path}: not a regular file (name standard input as -)")


def _encoding(sample: bytes) -> str | None:
    """Return how a text is encoded, by its beginning; None when it is not text."""
    for bom, encoding in _BOMS:
        if sample.startswith(bom):
            return encoding
    wide = len(sample) >= 4 and sample.count(0) * 5 > len(sample) * 2
    if wide and not sample[::2].count(0):
        return "utf-16-le"
    if wide and not sample[1::2].count(0):
        return "utf-16-be"
    odd = len(sample) - len(sample.translate(None, _CONTROLS))
    return None if odd * 50 > len(sample) or sample.count(0) * 10 > len(sample) else "utf-8"


def _decode(data: bytes, encoding: str) -> str:
    text = data.decode(encoding, "replace")
    if encoding != "utf-8":
        return text
    bad = text.count("\ufffd")
    foreign = len(data.translate(None, bytes(range(128)))) if bad else 0
    # A few damaged characters are damage; where most are, it was never UTF-8.
    return data.decode("latin-1") if bad * 2 > foreign else text
