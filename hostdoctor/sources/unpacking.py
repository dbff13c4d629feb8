"""Reading a compressed file as a stream of bounded memory: gzip, bzip2, xz or none, also several one after another."""

import bz2
import io
import lzma
import zlib
from pathlib import Path
from typing import Protocol

from hostdoctor.errors import SourceError

CHUNK_BYTES = 1 << 16
OUTPUT_BYTES = 1 << 18
MAX_UNPACKED_BYTES = 2 << 30
# What unpacks to far more than any text does is a bomb; small files may be as repetitive as they like.
MAX_RATIO = 250
RATIO_FROM_BYTES = 64 << 20
FREE_STREAMS, MIN_STREAM_BYTES = 64, 512  # streams may follow one another, but not in crumbs
XZ_MEMORY_BYTES = 80 << 20  # xz -9 needs 65 MiB

GZIP, BZIP2, XZ, ZSTD = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"


class CutShortError(SourceError):
    """A file that ends too early; what came before that is good, as it is not where a file is damaged."""


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = ...) -> bytes: ...


class _Gunzip:
    """zlib's decompressor behind the interface that bz2's and lzma's have."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(31)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int = 0) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


class Unpacking:
    """The bytes of a file, decompressed when they are asked for. Use as a context manager.

    Every method raises CutShortError for what is cut short, and SourceError for what is damaged, unpacks to more than
    2 GiB or, from 64 MiB on, to more than 250 times its size, or is made of a great many small pieces.
    """

    def __init__(self, path: Path, piece_bytes: int = OUTPUT_BYTES) -> None:
        """``piece_bytes`` are unpacked at a time; so many are lost before the place where it is cut."""
        self._piece_bytes = piece_bytes
        try:
            self._file = io.FileIO(path)
        except OSError as error:
            raise SourceError(f"{path}: {error.strerror}") from error
        self.label = str(path)
        self._size = self._file.seek(0, io.SEEK_END)
        self._file.seek(0)
        self._buffer = b""
        self._at = 0
        self._unpacked = 0
        self._streams = 1
        head = self._file.read(6)
        self._file.seek(0)
        self._magic = next((m for m in (GZIP, BZIP2, XZ) if head.startswith(m)), b"")
        self._inner = self._new() if self._magic else None
        if head.startswith(ZSTD):
            self._file.close()
            raise SourceError(f"{path}: compressed with zstd: unpack it first (zstd -d)")

    def __enter__(self) -> "Unpacking":
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._file.close()

    def read(self, size: int) -> bytes:
        """Return this many bytes, fewer only at the end."""
        end = self._at + size
        if end <= len(self._buffer):
            data = self._buffer[self._at : end]
            self._at = end
            return data
        parts = [self._buffer[self._at :]]
        missing = size - len(parts[0])
        self._buffer, self._at = b"", 0
        while missing > 0 and (more := self._more()):
            parts.append(more[:missing])
            if len(more) > missing:
                self._buffer, self._at = more, missing
            missing -= len(parts[-1])
        return b"".join(parts)

    def piece(self) -> bytes:
        """Return some bytes, b"" at the end."""
        data, self._buffer, self._at = self._buffer[self._at :], b"", 0
        return data or self._more()

    def skip(self, size: int) -> None:
        """Leave out this many bytes; raise SourceError when there are fewer."""
        here = min(size, len(self._buffer) - self._at)
        self._at += here
        size -= here
        if size and self._inner is None:
            self._unpacked += size
            if self._file.seek(size, io.SEEK_CUR) > self._size:
                raise self.cut_short()
            return
        while size > 0:
            skipped = len(self.read(min(size, OUTPUT_BYTES)))
            if not skipped:
                raise self.cut_short()
            size -= skipped

    def finish(self) -> None:
        """Read on to the end, keeping nothing: what checks a compressed file as a whole stands behind its content."""
        self._buffer, self._at = b"", 0
        while self._inner is not None and self._more():
            pass

    def cut_short(self) -> CutShortError:
        """Return the error for an archive that ends too early."""
        return CutShortError(f"{self.label}: unreadable archive: cut short")

    def room(self) -> int:
        """Return how many more bytes may be unpacked."""
        return MAX_UNPACKED_BYTES - self._unpacked

    def _new(self) -> _Decompressor:
        if self._magic == GZIP:
            return _Gunzip()
        return bz2.BZ2Decompressor() if self._magic == BZIP2 else lzma.LZMADecompressor(memlimit=XZ_MEMORY_BYTES)

    def _next(self) -> _Decompressor:
        self._streams += 1
        if self._streams > FREE_STREAMS + self._unpacked // MIN_STREAM_BYTES:
            raise SourceError(f"{self.label}: refused: compressed in too many pieces")
        return self._new()

    def _more(self) -> bytes:
        """Return the next bytes, b"" at the end."""
        try:
            data = self._decompressed() if self._inner is not None else self._file.read(OUTPUT_BYTES)
        except EOFError as error:
            raise self.cut_short() from error
        except (OSError, zlib.error, lzma.LZMAError) as error:
            raise SourceError(f"{self.label}: unreadable archive: {error}") from error
        self._unpacked += len(data)
        packed = self._file.tell()
        if self._unpacked > RATIO_FROM_BYTES and self._unpacked > MAX_RATIO * packed:
            raise SourceError(f"{self.label}: refused: unpacks to more than {MAX_RATIO} times its size")
        if self._unpacked > MAX_UNPACKED_BYTES:
            raise SourceError(f"{self.label}: refused: unpacks to more than {MAX_UNPACKED_BYTES >> 30} GiB")
        return data

    def _decompressed(self) -> bytes:
        """Return decompressed bytes, b"" at the end; what follows the end and is not compressed too is ignored."""
        assert self._inner is not None
        waiting = self._inner.decompress(b"", self._piece_bytes) if not self._inner.eof else b""
        while not waiting:
            if self._inner.eof:
                rest = self._inner.unused_data.lstrip(b"\0")
                rest += self._file.read(CHUNK_BYTES) if len(rest) < len(self._magic) else b""
                if not rest.startswith(self._magic):
                    return b""
                self._inner = self._next()
                waiting = self._inner.decompress(rest, self._piece_bytes)
                continue
            data = self._file.read(CHUNK_BYTES)
            if not data:
                raise EOFError
            waiting = self._inner.decompress(data, self._piece_bytes)
        return waiting
