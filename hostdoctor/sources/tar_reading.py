"""Reading a tar (POSIX ustar and pax, GNU) as a stream, refusing what no gathered host needs.

Python's own reader keeps every member in memory, reads extended headers of any size and reads links to links; this one
reads plain files, folders and symbolic links with names of a sane length, and nothing else.
"""

import re
from collections.abc import Iterator
from typing import Literal

from hostdoctor.errors import SourceError
from hostdoctor.facts import Fact
from hostdoctor.sources.unpacking import Unpacking

BLOCK = 512
MAX_MEMBERS = 200_000
MAX_EXTENSION_BYTES = 1 << 16
MAX_NAME_CHARACTERS = 1024
_ZEROS = bytes(BLOCK)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_PAX_RECORD = re.compile(rb"(\d{1,6}) ([^=\n]{1,256})=")
_REFUSED = {b"1": "a hard link", b"3": "a device", b"4": "a device", b"6": "a pipe", b"S": "a sparse file"}
_KINDS: "dict[bytes, Kind]" = {b"0": "file", b"\0": "file", b"7": "file", b"5": "folder", b"2": "link"}

Kind = Literal["file", "folder", "link"]


class Member(Fact, frozen=True, kw_only=True):
    """One member: its name as written; ``target`` is a link's text, ``size_bytes`` a file's length."""

    name: str
    kind: Kind
    size_bytes: int = 0
    target: str = ""


class TarReader:
    """The members in order; :meth:`data` gives the content of the one that was yielded last.

    Raises SourceError for what is no tar, is damaged or cut short (the end mark too must be there), holds more than
    200,000 members, or a member that is not a plain file, a folder or a symbolic link with a printable name.
    """

    def __init__(self, stream: Unpacking) -> None:
        self._stream = stream
        self._count = 0
        self._left = 0  # bytes of the current member that were not read, padding included

    def __iter__(self) -> Iterator[Member]:
        """Yield the members."""
        extension: dict[str, str] = {}
        while (header := self._header()) is not None:
            kind = header[156:157]
            if kind in b"xgLK":
                extension |= self._extension(header, kind)
                continue
            yield self._member(header, extension)
            extension = {}

    def data(self, member: Member) -> bytes:
        """Return the content of the member that was yielded last."""
        data = self._stream.read(member.size_bytes)
        if len(data) < member.size_bytes:
            raise self._stream.cut_short()
        self._left -= len(data)
        return data

    def _header(self) -> bytes | None:
        """Return the next header, None at the end mark."""
        self._stream.skip(self._left)
        self._left = 0
        header = self._stream.read(BLOCK)
        if header == _ZEROS:
            return None
        if len(header) < BLOCK and self._count:
            raise self._stream.cut_short()
        if len(header) < BLOCK or _octal(header[148:156]) != sum(header) - sum(header[148:156]) + 256:
            raise self._refused("damaged" if self._count else "holds no tar archive", "unreadable archive")
        self._count += 1
        if self._count > MAX_MEMBERS:
            raise self._refused(f"more than {MAX_MEMBERS} members")
        return header

    def _member(self, header: bytes, extension: dict[str, str]) -> Member:
        name = extension.get("path") or _header_name(header)
        target = extension.get("linkpath") or _text(header[157:257])
        type_ = header[156:157]
        shown = repr(name[:80])
        if len(name) > MAX_NAME_CHARACTERS or len(target) > MAX_NAME_CHARACTERS:
            raise self._refused(f"{shown}…: a name of more than {MAX_NAME_CHARACTERS} characters")
        if _CONTROLS.search(name) or _CONTROLS.search(target):
            raise self._refused(f"{shown}: control characters in a name")
        if type_ not in _KINDS or any(key.startswith("GNU.sparse") for key in extension):
            what = _REFUSED.get(type_, "a sparse file" if type_ in _KINDS else f"of the unknown type {type_!r}")
            raise self._refused(f"{shown} is {what}: neither a file, a folder nor a symbolic link")
        kind: Kind = "folder" if type_ == b"\0" and name.endswith("/") else _KINDS[type_]
        size = self._size(header, extension, shown) if kind == "file" else 0
        self._left = _padded(size)
        return Member(name=name, kind=kind, size_bytes=size, target=target)

    def _size(self, header: bytes, extension: dict[str, str], shown: str) -> int:
        told = extension.get("size")
        size = _octal(header[124:136]) if told is None else int(told) if re.fullmatch(r"[0-9]{1,18}", told) else None
        if size is None:
            raise self._refused(f"{shown}: damaged size", "unreadable archive")
        if size > self._stream.room():
            raise self._refused(f"{shown} unpacks to {size} bytes")
        return size

    def _extension(self, header: bytes, kind: bytes) -> dict[str, str]:
        """Return what an extended header says of the next member; a global one's words are not used."""
        size = _octal(header[124:136])
        if size is None or size > MAX_EXTENSION_BYTES:
            raise self._refused(f"an extended header of more than {MAX_EXTENSION_BYTES >> 10} KiB")
        data = self._stream.read(size)
        self._left = _padded(size) - len(data)
        if len(data) < size:
            raise self._stream.cut_short()
        if kind in b"LK":
            return {"path" if kind == b"L" else "linkpath": _text(data)}
        return dict(self._pax_records(data)) if kind == b"x" else {}

    def _pax_records(self, data: bytes) -> Iterator[tuple[str, str]]:
        """Yield the records of a pax header: ``LENGTH KEY=VALUE`` and a line end, each."""
        at = 0
        while at < len(data):
            match = _PAX_RECORD.match(data, at)
            length = int(match.group(1)) if match else 0
            if match is None or match.end() > at + length - 1 or data[at + length - 1 : at + length] != b"\n":
                raise self._refused("damaged extended header", "unreadable archive")
            value = data[match.end() : at + length - 1]
            yield match.group(2).decode("ascii", "replace"), value.decode("utf-8", "replace")
            at += length

    def _refused(self, reason: str, verdict: str = "refused") -> SourceError:
        return SourceError(f"{self._stream.label}: {verdict}: {reason}")


def _header_name(header: bytes) -> str:
    name = _text(header[:100])
    prefix = _text(header[345:500]) if header[257:263] == b"ustar\0" else ""
    return f"{prefix}/{name}" if prefix else name


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "replace")


def _octal(field: bytes) -> int | None:
    """Return a number field: octal digits, or GNU's binary form for large ones; None when it is neither."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    return int(digits or b"0", 8) if re.fullmatch(rb"[0-7]*", digits) else None


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK
