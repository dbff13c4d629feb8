"""An ``nvidia-bug-report.log(.gz)`` as a source: read piece by piece, within limits, whatever the file claims to be."""

import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from pathlib import Path

from hostdoctor.errors import SourceError
from hostdoctor.facts import GapKind
from hostdoctor.parsers.bug_report import (
    MARKER_BYTES,
    MAX_LINE_BYTES,
    BugReport,
    Reader,
    Section,
    line_prefix,
)
from hostdoctor.sources.base import Command, NvmlOutput, Output, TextKind
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import MemoryTree
from hostdoctor.sources.unpacking import CutShortError, Unpacking

MAX_UNPACKED_BYTES = 256 << 20
_CHUNK_BYTES = 1 << 20
_PIECE_BYTES = 1 << 12  # unpacked at a time: a report that is cut gives what stands before the cut
_GZIP = b"\x1f\x8b"
_PCI = "/sys/bus"
_DRIVER_FAILS = re.compile(r".*(?:NVIDIA-SMI has failed|Failed to initialize NVML)[^\n]{0,200}")
_DMI = (
    ("sys_vendor", re.compile(r"\bManufacturer: *(.{1,80})")),
    ("product_name", re.compile(r"\bProduct Name: *(.{1,80})")),
)


class BugReportSource(RootSource):
    """Evidence from a bug report: some files of ``/proc`` and ``/sys``, and command outputs."""

    def __init__(self, report: BugReport, label: str, *, cut: bool = False) -> None:
        """Raise SourceError when the report holds nothing that is known; ``cut``: it ends before its end.

        Raises it too for reports of different hosts in one file.
        """
        if report.is_mixed:
            raise SourceError(f"{label}: bug reports of several hosts in one file")
        files = _head_files(report) | _dmi_files(report) | report.files
        super().__init__(MemoryTree({path: text.encode() for path, text in files.items()}, {}), label)
        self._report = report
        self._ends = "the report ends before it" if cut else "not in the report"
        self._given = {kind: tuple(self._outputs_of(kind)) for kind in _KINDS}
        if not report.files and not any(self._given.values()):
            raise SourceError(f"{label}: nothing known in this bug report (is it cut off?)")

    def why_unreadable(self, path: str) -> tuple[GapKind, str]:
        """Say why a file is not there, as the report does."""
        reason = self._report.missing.get(path)
        if reason is None:
            return "missing", "not in the bug report"
        return ("denied" if "readable" in reason else "missing"), reason

    def listdir(self, path: str) -> tuple[str, ...]:
        """Return a directory's names; of PCI functions the report has a few files of some, which is no list of them."""
        return () if path.startswith(_PCI) else super().listdir(path)

    def run(self, command: Command) -> tuple[Output, ...]:
        """Return the outputs of the command's kind, complete ones first; say why there is none of nvidia-smi."""
        given = self._given.get(command.kind, ())
        if given or command.kind != "nvidia-smi-q":
            return given
        return (Output(source=f"nvidia-smi --query in {self.label}", reason=self._why_no_query()),)

    def nvml(self) -> NvmlOutput:
        """Return that nobody asked, or that nvidia-smi could not reach the driver."""
        for section in self._report.outputs:
            if section.program == "nvidia-smi" and (found := _DRIVER_FAILS.search(section.text)):
                return NvmlOutput(state="error", reason=found[0].strip())
        return NvmlOutput(reason="not in a bug report")

    def _outputs_of(self, kind: TextKind) -> Iterator[Output]:
        sections = [s for s in self._report.outputs if s.text.strip() and _kind(s) == kind]
        sections.sort(key=lambda s: (not s.complete, kind == "lspci" and "vvv" not in s.command))
        for number, section in enumerate(sections):
            again = f" ({number + 1})" if section.command in {s.command for s in sections[:number]} else ""
            yield Output(source=f"{section.command}{again} in {self.label}", text=section.text)

    def _why_no_query(self) -> str:
        if "--safe-mode" in (self._report.flags or ""):
            return "made with --safe-mode, which leaves nvidia-smi out"
        skipped = (reason for what, reason in self._report.skipped.items() if what.startswith("nvidia-smi"))
        return next(skipped, "") or next((r for s in self._report.outputs if (r := _refusal(s))), self._ends)


def is_bug_report(path: Path) -> bool:
    """Tell from a file's beginning, unpacked where it is gzip, whether it is a bug report."""
    try:
        with path.open("rb") as stream:
            return holds_marker(stream.read(MARKER_BYTES))
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from error


def holds_marker(head: bytes) -> bool:
    """Tell whether these first bytes of a file are a bug report's."""
    if head.startswith(_GZIP):
        try:
            head = zlib.decompressobj(31).decompress(head, MARKER_BYTES)
        except zlib.error:
            return False
    return head[257:262] != b"ustar" and line_prefix(head) is not None


def read_bug_report(path: Path, label: str) -> BugReportSource:
    """Return a bug report's source.

    One that was cut off gives what it has. Raises SourceError for one that unpacks to more than 256 MiB, cannot be
    read, is damaged (nobody knows from where on), or holds nothing known.
    """
    with Unpacking(path, _PIECE_BYTES) as stream:
        return _source_of(_Pieces(stream.piece, label), label)


def source_of(stream: BytesIO, label: str) -> BugReportSource:
    """Return the source for a stream of a report's bytes."""
    return _source_of(_Pieces(lambda: stream.read(_CHUNK_BYTES), label), label)


def _source_of(pieces: "_Pieces", label: str) -> BugReportSource:
    chunks = iter(pieces)
    head = b""
    while len(head) < MARKER_BYTES and (piece := next(chunks, b"")):
        head += piece
    reader = Reader(line_prefix(head) or b"")
    for lines in _lines((head,), chunks):
        reader.feed(lines)
    return BugReportSource(reader.report(), label, cut=pieces.cut)


class _Pieces:
    """A stream in pieces; ``cut`` when it broke off."""

    def __init__(self, more: Callable[[], bytes], label: str) -> None:
        self._more = more
        self._label = label
        self.cut = False

    def __iter__(self) -> Iterator[bytes]:
        total = 0
        while piece := self._read():
            total += len(piece)
            if total > MAX_UNPACKED_BYTES:
                raise SourceError(f"{self._label}: refused: unpacks to more than {MAX_UNPACKED_BYTES >> 20} MiB")
            yield piece

    def _read(self) -> bytes:
        try:
            return self._more()
        except CutShortError:
            self.cut = True
            return b""


def _lines(*streams: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Return the lines of each piece; of a line without an end only the beginning is kept."""
    tail = b""
    for stream in streams:
        for piece in stream:
            lines = (tail + piece).split(b"\n")
            tail = lines.pop()[: 16 * MAX_LINE_BYTES]
            yield lines
    yield [tail]


_KINDS: tuple[TextKind, ...] = ("lspci-tree", "lspci", "numactl", "nvidia-smi-q", "lscpu", "nvme-list")


def _kind(section: Section) -> TextKind | None:
    """Return what a command's output is, None for one that no map reads."""
    words = section.command.split()[1:]
    if section.program == "lspci":
        return "lspci-tree" if any(w.startswith("-") and "t" in w for w in words) else "lspci"
    if section.program == "numactl":
        return "numactl" if words and words[0] in ("-H", "--hardware") else None
    if section.program == "nvidia-smi":
        return "nvidia-smi-q" if words in (["--query"], ["-q"]) and not _refusal(section) else None
    if section.program == "nvme":
        return "nvme-list" if words[:1] == ["list"] else None
    return "lscpu" if section.program == "lscpu" and not words else None


def _refusal(section: Section) -> str:
    """Return nvidia-smi's only words where it printed no more than an error."""
    if section.program != "nvidia-smi" or "Attached GPUs" in section.text or "Product Name" in section.text:
        return ""
    return section.text.strip().partition("\n")[0][:200]


def _head_files(report: BugReport) -> dict[str, str]:
    """Return what ``uname: Linux gpu7 6.8.0-60-generic #63 …`` at the beginning tells, as the kernel's files."""
    words = (report.uname or "").split()
    if len(words) < 4 or words[0] != "Linux" or not words[3].startswith("#"):
        return {}
    return {"/proc/sys/kernel/hostname": f"{words[1]}\n", "/proc/sys/kernel/osrelease": f"{words[2]}\n"}


def _dmi_files(report: BugReport) -> dict[str, str]:
    """Return maker and product, by which a hypervisor is known, from dmidecode's ``System Information``."""
    text = next((section.text for section in report.outputs if section.program == "dmidecode"), "")
    block = text.partition("System Information")[2].partition("\n\n")[0][:2000]
    found = ((name, pattern.search(block)) for name, pattern in _DMI)
    return {f"/sys/class/dmi/id/{name}": f"{match[1].strip()}\n" for name, match in found if match}
