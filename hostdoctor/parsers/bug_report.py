"""An ``nvidia-bug-report.log``: files and command outputs of a host, one after the other (nvidia-bug-report.sh).

Sections follow a line of underscores. A file is ``*** /path``, ``*** ls: …`` and its content (old versions: the bare
path and the content), or ``*** /path does not exist``; a command is its resolved command line alone on a line, a blank
line and its output. Everything else (logs, base64) is passed over.
"""

import re
from collections.abc import Iterable

import msgspec

from hostdoctor.parsers.text import clean_lines

MARKER = "Start of NVIDIA bug report log file"
MARKER_BYTES = 1 << 16  # at the beginning, within which the marker stands
MAX_LINE_BYTES = 4096
MAX_SECTION_BYTES = 16 << 20
MAX_TOTAL_BYTES = 48 << 20
MAX_OUTPUTS = 500  # commands; a report has some thirty
_NAME_BYTES = 300  # what Python keeps for a file's name
COMMANDS = ("lspci", "numactl", "nvidia-smi", "dmidecode", "lscpu", "nvme")

_PATHS = ("/proc/", "/sys/")
_UNREAD = ("/proc/iomem", "/proc/modules", "/proc/kallsyms", "/proc/asound/", "/sys/firmware/", "/proc/buddyinfo")
_RULE = b"____________________"
_FILE = re.compile(r"(?:\*\*\* )?(/(?:proc|sys|etc|var)/\S{1,250})(?: (does not exist|is not readable))?$")
_COMMAND = re.compile(r"((?:/\S{0,120}/)?([a-z][a-z-]{2,20})(?: [-\w:*\"=., /]{1,200})?)$")
_SKIPPED = re.compile(r"Skipping (.{3,80}?)(?: output)? \((.{0,120})\)|\W?(.{3,80}?)\W? was skipped\W*(.{0,120})")
_HEX_ROW = re.compile(rb"[0-9a-f]{2,3}: [0-9a-f]{2}[ \r]|[0-9a-f]{2,3}: [0-9a-f]{2}$")


class Section(msgspec.Struct, frozen=True):
    """A command's output. ``complete``: something came after it."""

    command: str
    program: str
    text: str
    complete: bool


class BugReport(msgspec.Struct):
    """What a report holds of what a map reads. ``missing`` says of files that are not there why.

    ``is_mixed``: several reports, of hosts by different names.
    """

    files: dict[str, str]
    missing: dict[str, str]
    outputs: list[Section]
    skipped: dict[str, str]
    uname: str | None = None
    flags: str | None = None
    is_mixed: bool = False


class Reader:
    """Takes a report line by line, so that a large one is never in memory whole."""

    def __init__(self, prefix: bytes = b"") -> None:
        """``prefix`` stands before every line: a quote mark, an indentation."""
        self._prefix = prefix
        self._report = BugReport({}, {}, [], {})
        self._lines: list[bytes] = []
        self._size = self._total = 0
        self._file: str | None = None
        self._command: tuple[str, str] | None = None
        self._fresh = self._blank = self._overflows = False
        self._in_commands = False
        self._head = True
        self._skipping = ""

    def feed(self, lines: Iterable[bytes]) -> None:
        """Take lines, without their line ends."""
        prefix, cut = self._prefix, len(self._prefix)
        for raw in lines:
            line = raw[cut:] if cut and raw.startswith(prefix) else raw
            if line.startswith(_RULE) and not line.strip(b"_\r "):
                self._close(complete=True)
                self._fresh, self._in_commands = True, False
            elif self._fresh:
                self._open(line)
            elif self._file is not None or self._in_commands:
                self._continue(line)
            elif self._head or self._skipping:
                self._note(line)

    def report(self) -> BugReport:
        """Return what was read: of the last section no line that may be cut, and of a file no part."""
        del self._lines[-1:]
        if self._file is not None:
            self._report.missing.setdefault(self._file, "the report ends within it")
            self._file = None
        self._close(complete=False)
        return self._report

    def _open(self, line: bytes) -> None:
        """Take the first line of a section that is not blank."""
        text = line[:MAX_LINE_BYTES].decode("utf-8", "replace").rstrip()
        if not text:
            return
        self._fresh = False
        if MARKER in text:
            self._head = True
        elif (found := _FILE.match(text)) is not None:
            self._head = False
            self._open_file(found[1], found[2])
        elif not self._open_command(text):
            self._note(line)

    def _open_file(self, path: str, reason: str | None) -> None:
        path = path.replace("/./", "/")
        self._total += len(path) + _NAME_BYTES
        if self._total > MAX_TOTAL_BYTES:
            return
        if reason is not None:
            self._report.missing.setdefault(path, reason)
        elif path.startswith(_PATHS) and not path.startswith(_UNREAD) and path not in self._report.files:
            self._file = path

    def _open_command(self, text: str) -> bool:
        found = _COMMAND.match(text)
        if found is None or found[2] not in COMMANDS:
            return False
        self._head = False
        self._close(complete=True)
        self._command = (found[1], found[2])
        self._in_commands = True
        self._blank = False
        return True

    def _continue(self, line: bytes) -> None:
        """Take a line of content; in a series of commands a command line after a blank line begins the next output."""
        if self._file is not None:
            if not self._lines and line.startswith(b"*** ls: "):
                return
        elif self._blank and line[:1] in b"/lnd" and self._open_command(line[:400].decode("utf-8", "replace").rstrip()):
            return
        self._blank = not line.strip()
        if line.rstrip() == b"```" or (self._command and _HEX_ROW.match(line)):
            return
        self._size += len(line) + 60  # with what Python keeps for it
        if self._size <= MAX_SECTION_BYTES and self._total + self._size <= MAX_TOTAL_BYTES:
            self._lines.append(line)
        else:
            self._overflows = True

    def _close(self, complete: bool) -> None:
        """Keep what was collected."""
        if self._file is not None or self._command is not None:
            text = _text(self._lines)
            if self._file is not None and self._overflows:
                self._report.missing.setdefault(self._file, "too large")
            elif self._file is not None:
                self._report.files.setdefault(self._file, text)
            elif self._command is not None and len(self._report.outputs) < MAX_OUTPUTS:
                self._report.outputs.append(Section(*self._command, text, complete and not self._overflows))
            self._total += self._size
        self._lines, self._size = [], 0
        self._file = self._command = None
        self._overflows = False

    def _note(self, line: bytes) -> None:
        """Take what the head says of the report, and what says that something was left out."""
        text = line[:400].decode("utf-8", "replace").strip()
        if text.startswith("uname: "):
            self._note_uname(text[7:])
        elif text.startswith("command line flags:"):
            self._report.flags = text[19:].strip()
        elif text.startswith("Skipping: "):
            self._skipping = text[10:]
        elif self._skipping:
            self._report.skipped.setdefault(self._skipping, text)
            self._skipping = ""
        elif "kipp" in text and (found := _SKIPPED.match(text)) is not None:
            self._report.skipped.setdefault(found[1] or found[3], found[2] or found[4] or "")

    def _note_uname(self, uname: str) -> None:
        """Take ``Linux gpu7 6.8.0 …``; another report may follow, of the same host or of another."""
        first = self._report.uname
        self._report.is_mixed |= first is not None and first.split()[1:2] != uname.split()[1:2]
        self._report.uname = uname


def _text(lines: list[bytes]) -> str:
    """Return the content without the blank line that the script puts after it."""
    while lines and not lines[-1].strip():
        lines.pop()
    text = b"\n".join(lines).decode("utf-8", "replace")
    return "\n".join(clean_lines(text)) + "\n" if "\r" in text or "\x1b" in text else text + "\n"


def line_prefix(head: bytes) -> bytes | None:
    """Return what stands before the marker on its line, None where there is no marker in a report's first bytes."""
    at = head.find(MARKER.encode())
    if at < 0:
        return None
    before = head[head.rfind(b"\n", 0, at) + 1 : at]
    return before if len(before) <= 80 else b""
