"""Memory bandwidth by the C library's memchr (read), memset (write) and memcpy (copy), in pinned threads.

A call through ctypes lets other threads run. Each byte read, written or copied counts once: what the bus carries beside
it (reads before writes, write-backs) is not counted.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Literal

from hostdoctor.errors import MeasureError
from hostdoctor.facts import Fact
from hostdoctor.measure import kernel
from hostdoctor.measure.placing import Buffer, pinned_thread

Operation = Literal["read", "write", "copy"]
OPERATIONS: tuple[Operation, ...] = ("read", "write", "copy")
CHUNK_BYTES = 8 << 20
_ABSENT_BYTE = 0xA5  # what memchr looks for in vain
START_TIMEOUT_S = 30.0


class Rate(Fact, frozen=True, kw_only=True):
    """What all threads moved together, and the CPUs that they were seen on."""

    gbytes_per_s: float
    cpus_seen: tuple[int, ...]


class _Worker:
    """One thread's share of a buffer."""

    def __init__(self, operation: Operation, address: int, size_bytes: int) -> None:
        self._calls = _calls(operation, address, size_bytes)
        self.rate = 0.0
        self.cpus: set[int] = set()
        self.error: BaseException | None = None

    def run(self, cpu: int, start: threading.Barrier, seconds: float) -> None:
        try:
            with pinned_thread([cpu]):
                start.wait(START_TIMEOUT_S)
                self._see()
                self._work(seconds)
                self._see()
        except BaseException as error:  # noqa: BLE001  told to the thread that waits
            self.error = error
            start.abort()

    def _work(self, seconds: float) -> None:
        done, began = 0, time.perf_counter()
        until = began + seconds
        while True:
            for call, size in self._calls:
                call()
                done += size
                now = time.perf_counter()
                if now >= until:
                    self.rate = done / (now - began)
                    return

    def _see(self) -> None:
        cpu = kernel.running_cpu()
        if cpu is not None:
            self.cpus.add(cpu)


def measure_rate(operation: Operation, buffer: Buffer, cpus: Sequence[int], seconds: float) -> Rate:
    """Return what one thread on each of these CPUs moves together, each in its own part of the buffer.

    Raises MeasureError when a CPU may not be used, or so many threads may not be had.
    """
    share = buffer.size_bytes // len(cpus) // 128 * 128
    workers = [_Worker(operation, buffer.address + i * share, share) for i in range(len(cpus))]
    start = threading.Barrier(len(workers))
    pairs = zip(workers, cpus, strict=True)
    threads = [threading.Thread(target=worker.run, args=(cpu, start, seconds)) for worker, cpu in pairs]
    try:
        for thread in threads:
            thread.start()
    except RuntimeError as error:
        start.abort()
        _join([thread for thread in threads if thread.ident is not None])
        raise MeasureError(f"{len(cpus)} threads for bandwidth: {error}; --threads asks for fewer") from None
    _join(threads)
    _raise_first(workers)
    seen = sorted(set().union(*(worker.cpus for worker in workers)))
    return Rate(gbytes_per_s=sum(worker.rate for worker in workers) / 1e9, cpus_seen=tuple(seen))


def clear(buffer: Buffer) -> None:
    """Fill a buffer with zeros, which reading never finds."""
    for call, _ in _calls("write", buffer.address, buffer.size_bytes):
        call()


def _calls(operation: Operation, address: int, size_bytes: int) -> list[tuple[Callable[[], object], int]]:
    """Return the calls that go once through a part of memory, with the bytes that each moves."""
    libc = kernel.libc()
    half = size_bytes // 2
    whole = half if operation == "copy" else size_bytes
    chunks = [(address + offset, min(CHUNK_BYTES, whole - offset)) for offset in range(0, whole, CHUNK_BYTES)]
    functions: dict[str, Callable[[int, int], Callable[[], object]]] = {
        "read": lambda at, size: lambda: libc.memchr(at, _ABSENT_BYTE, size),
        "write": lambda at, size: lambda: libc.memset(at, 0, size),
        "copy": lambda at, size: lambda: libc.memcpy(at + half, at, size),
    }
    return [(functions[operation](at, size), size) for at, size in chunks]


def _join(threads: Sequence[threading.Thread]) -> None:
    """Wait for the threads even when interrupted: they use memory that is given back afterwards."""
    interruption: BaseException | None = None
    while any(thread.is_alive() for thread in threads):
        try:
            for thread in threads:
                thread.join()
        except (KeyboardInterrupt, SystemExit) as error:  # noqa: PERF203  nothing is done twice
            interruption = error
    if interruption is not None:
        raise interruption


def _raise_first(workers: Sequence[_Worker]) -> None:
    errors = [worker.error for worker in workers if worker.error is not None]
    for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        with contextlib.suppress(threading.BrokenBarrierError):
            raise error
        raise MeasureError("the threads could not start together") from None
