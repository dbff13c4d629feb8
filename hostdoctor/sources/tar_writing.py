"""Writing a capture: a tar.gz that is the same for the same content, put in place whole or not at all."""

import os
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from hostdoctor.sources.tar_reading import BLOCK
from hostdoctor.sources.whole_file import whole_file

_END = bytes(2 * BLOCK)
_PIECE_BYTES = 1 << 20
# What every header shares: no owner, no time; then magic, version, and no device.
_OWNER = b"%07o\0%07o\0" % (0, 0)
_TIME = b"%011o\0" % 0
_TAIL = b"ustar\00000" + bytes(64) + b"%07o\0%07o\0" % (0, 0)


def write_archive(path: Path, members: Mapping[str, bytes | str | None], *, force: bool) -> int:
    """Write a tar.gz, readable by its owner alone, and return its size in bytes.

    Raises UsageError when the file exists and ``force`` is not given, OutputError when it cannot be written; then
    nothing is left behind.
    """
    with whole_file(path, force=force) as stream:
        _write(stream, members)
        stream.flush()
        return stream.tell()


def _write(stream: IO[bytes], members: Mapping[str, bytes | str | None]) -> None:
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    pieces: list[bytes] = []
    size = 0
    for name, content in members.items():
        for piece in _member(name, content):
            pieces.append(piece)
            size += len(piece)
        if size > _PIECE_BYTES:
            stream.write(packer.compress(b"".join(pieces)))
            pieces, size = [], 0
    stream.write(packer.compress(b"".join((*pieces, _END))))
    stream.write(packer.flush())


def _member(name: str, content: bytes | str | None) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield _header(name, b"0", b"0000644\0", len(content), "")
        yield content
        yield bytes(-len(content) % BLOCK)
    elif content is None:
        yield _header(f"{name}/", b"5", b"0000755\0", 0, "")
    else:
        yield _header(name, b"2", b"0000777\0", 0, content)


def _header(name: str, kind: bytes, mode: bytes, size: int, target: str) -> bytes:
    """Return a ustar header; names that do not fit get Python's, with an extended one before it."""
    prefix, short = _split(os.fsencode(name))
    link = os.fsencode(target)
    if len(short) > 100 or len(prefix) > 155 or len(link) > 100:
        return _long_header(name, kind, mode, size, target)
    start = b"".join((short.ljust(100, b"\0"), mode, _OWNER, b"%011o\0" % size, _TIME))
    end = b"".join((kind, link.ljust(100, b"\0"), _TAIL, prefix.ljust(167, b"\0")))
    return b"".join((start, b"%06o\0 " % (sum(start) + 8 * 32 + sum(end)), end))


def _split(name: bytes) -> tuple[bytes, bytes]:
    """Split a name at a slash so that the first part fits 155 bytes and the second 100, where that can be."""
    if len(name) <= 100:
        return b"", name
    at = name.find(b"/", len(name) - 101, 156)
    return (name[:at], name[at + 1 :]) if at > 0 else (b"", name)


def _long_header(name: str, kind: bytes, mode: bytes, size: int, target: str) -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.size, member.linkname = kind, int(mode[:7], 8), size, target
    return member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
