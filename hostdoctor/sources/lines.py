"""Reading a file of the running kernel line by line: of any length, before a deadline, whatever holds the reader up."""

import os
import queue
import threading
import time
from collections.abc import Iterator

from hostdoctor.errors import SourceError

CHUNK_BYTES = 1 << 16
MAX_LINE_BYTES = 1 << 20
MAX_TOTAL_BYTES = 1 << 30
QUEUED_CHUNKS = 16


def open_lines(path: str, timeout_s: float) -> Iterator[str] | None:
    """Return an iterator over a file's lines, or None when it cannot be opened.

    The iterator raises SourceError when reading fails, takes longer than ``timeout_s``, or finds more than 1 GiB: what
    came before is then a part only. A thread reads: another process' locks can hold up a read for ever.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    return _lines(_Reader(descriptor), path, time.monotonic() + timeout_s)


class _Reader(threading.Thread):
    """Reads to the end, or until nobody takes what it reads; closes the file."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(daemon=True)
        self.chunks: queue.Queue[bytes | OSError] = queue.Queue(QUEUED_CHUNKS)
        self.abandoned = threading.Event()
        self._descriptor = descriptor
        self.start()

    def run(self) -> None:
        try:
            while self._put(data := self._read()) and isinstance(data, bytes) and data:
                pass
        finally:
            os.close(self._descriptor)

    def _read(self) -> bytes | OSError:
        try:
            return os.read(self._descriptor, CHUNK_BYTES)
        except OSError as error:
            return error

    def _put(self, data: bytes | OSError) -> bool:
        while not self.abandoned.is_set():
            try:
                self.chunks.put(data, timeout=0.5)
            except queue.Full:
                continue
            return True
        return False


def _lines(reader: _Reader, path: str, deadline: float) -> Iterator[str]:
    rest, total = b"", 0
    try:
        while data := _take(reader, path, deadline):
            total += len(data)
            *whole, rest = (rest + data).split(b"\n")
            if total > MAX_TOTAL_BYTES or len(rest) > MAX_LINE_BYTES:
                raise SourceError(f"{path}: longer than hostdoctor reads")
            yield from (line.decode("utf-8", "replace") for line in whole)
        if rest:
            yield rest.decode("utf-8", "replace")
    finally:
        reader.abandoned.set()


def _take(reader: _Reader, path: str, deadline: float) -> bytes:
    try:
        data = reader.chunks.get(timeout=max(0.0, deadline - time.monotonic()))
    except queue.Empty:
        raise SourceError(f"{path}: could not be read in time") from None
    if isinstance(data, OSError):
        raise SourceError(f"{path}: {(data.strerror or str(data)).lower()}")
    return data
