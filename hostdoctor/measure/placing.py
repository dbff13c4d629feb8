"""Memory on one NUMA node and threads on chosen CPUs, with proof of where they are."""

import ctypes
import os
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from hostdoctor.errors import MeasureError
from hostdoctor.facts import Fact
from hostdoctor.measure import kernel

PAGE_BYTES = os.sysconf("SC_PAGESIZE")
HUGE_BYTES = 2 << 20
MAX_ASKED_PAGES = 65_536
_TOUCH_BYTES = 64 << 20  # at a time, so that a signal need not wait for gigabytes
_NODE_PAGES = re.compile(r"\bN(\d+)=(\d+)")


class Placement(Fact, frozen=True, kw_only=True):
    """Where pages are: ``pages`` by node, ``asked`` of ``total`` pages (evenly spread when fewer), by which ``source``.

    ``elsewhere`` counts pages that have no node: never touched, swapped out.
    """

    pages: dict[int, int]
    elsewhere: int = 0
    asked: int
    total: int
    source: str

    def share_on(self, node: int) -> float:
        """Return which part of the pages asked about is on a node (0 to 1)."""
        return self.pages.get(node, 0) / self.asked if self.asked else 0.0


class Buffer:
    """Private memory bound to one node, touched. ``address`` is a multiple of 2 MiB. A context manager."""

    def __init__(self, node: int, size_bytes: int, base: int, mapped_bytes: int) -> None:
        self.node = node
        self.size_bytes = size_bytes
        self.address = base + HUGE_BYTES + -base % HUGE_BYTES
        self._base = base
        self._mapped_bytes = mapped_bytes

    def __enter__(self) -> "Buffer":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give the memory back; a second call does nothing."""
        if self._mapped_bytes:
            kernel.libc().munmap(self._base, self._mapped_bytes)
            self._mapped_bytes = 0

    def placement(self) -> Placement:
        """Return where the pages are now."""
        return placement_of(self.address, self.size_bytes)

    def huge_bytes(self) -> int | None:
        """Return how much of it lies in transparent huge pages (AnonHugePages in smaps), None when not told."""
        return _huge_bytes(self.address)


def bound_buffer(node: int, size_bytes: int, *, huge: bool = True) -> Buffer:
    """Return memory of a node: bound before it is touched, then touched; ``huge`` asks for huge pages.

    Raises MeasureError when that would take more than half of what the node has free, or is not permitted.
    """
    if size_bytes <= 0:
        raise MeasureError("a buffer needs a size")
    _want_room(node, size_bytes)
    rounded = -(-size_bytes // PAGE_BYTES) * PAGE_BYTES
    # Untouchable pages on both sides keep the kernel from merging it with its neighbours.
    mapped_bytes = rounded + 3 * HUGE_BYTES
    buffer = Buffer(node, size_bytes, kernel.map_memory(mapped_bytes), mapped_bytes)
    try:
        kernel.protect(buffer.address, rounded, kernel.PROT_READ | kernel.PROT_WRITE)
        kernel.mbind(buffer.address, rounded, node)
        advice = kernel.MADV_HUGEPAGE if huge else kernel.MADV_NOHUGEPAGE
        kernel.libc().madvise(buffer.address, rounded, advice)  # what was got is read afterwards
        for offset in range(0, rounded, _TOUCH_BYTES):
            kernel.libc().memset(buffer.address + offset, 0, min(_TOUCH_BYTES, rounded - offset))
    except BaseException:
        buffer.close()
        raise
    return buffer


def free_bytes(node: int) -> int | None:
    """Return a node's free memory (MemFree of nodeN/meminfo), None when the node has no such file."""
    return _free_bytes(_text(f"/sys/devices/system/node/node{node}/meminfo"))


def placement_of(address: int, size_bytes: int) -> Placement:
    """Return where the pages of a range of this process are, by move_pages, else by numa_maps.

    numa_maps tells of the whole mapping at that address. Raises MeasureError when neither can be asked.
    """
    first = address - address % PAGE_BYTES
    total = -(-(address + size_bytes - first) // PAGE_BYTES)
    step = max(1, -(-total // MAX_ASKED_PAGES))
    asked = range(first, first + total * PAGE_BYTES, step * PAGE_BYTES)
    try:
        nodes = kernel.page_nodes((ctypes.c_uint64 * len(asked))(*asked))
    except MeasureError as refused:
        return _in_numa_maps(_text("/proc/self/numa_maps"), first, str(refused))
    pages = {node: nodes.count(node) for node in sorted(set(nodes)) if node >= 0}
    elsewhere = sum(node < 0 for node in nodes)
    return Placement(pages=pages, elsewhere=elsewhere, asked=len(asked), total=total, source="move_pages")


@contextmanager
def pinned_thread(cpus: Iterable[int]) -> Iterator[frozenset[int]]:
    """Keep the calling thread on these CPUs within the block; gives those that the kernel granted.

    Raises MeasureError when none of them may be used.
    """
    wanted = set(cpus)
    former = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, wanted)
    except (OSError, ValueError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise MeasureError(
            f"cannot run on CPUs {sorted(wanted)}: {reason.lower()}; offline, or outside this process's cpuset"
        ) from None
    try:
        yield frozenset(os.sched_getaffinity(0))
    finally:
        with suppress(OSError):  # a cpuset that was narrowed meanwhile
            os.sched_setaffinity(0, former)


@contextmanager
def memory_from(node: int) -> Iterator[None]:
    """Within the block, let all that the calling thread touches first come from one node alone (MPOL_BIND).

    Raises MeasureError when not permitted.
    """
    mode, mask = kernel.get_mempolicy()
    kernel.set_mempolicy(kernel.MPOL_BIND, kernel.node_mask(node))
    try:
        yield
    finally:
        kernel.set_mempolicy(mode, mask)


def running_on() -> tuple[int, int | None]:
    """Return the calling thread's kernel id and the CPU that it is on (None when not told)."""
    return threading.get_native_id(), kernel.running_cpu()


def _want_room(node: int, size_bytes: int) -> None:
    """Refuse what could end in an out-of-memory kill: bound memory cannot spill to another node."""
    free = free_bytes(node)
    if free is None:
        raise MeasureError(f"node {node}: no such NUMA node")
    if size_bytes > free // 2:
        raise MeasureError(
            f"node {node}: {size_bytes >> 20} MiB is more than half of the {free >> 20} MiB that it has free"
        )


def _free_bytes(meminfo: str) -> int | None:
    found = re.search(r"MemFree: +(\d{1,16}) kB", meminfo)
    return int(found[1]) * 1024 if found else None


def _in_numa_maps(text: str, address: int, refused: str) -> Placement:
    for line in text.splitlines():
        start, _, rest = line.partition(" ")
        if start.lstrip("0") == f"{address:x}":
            pages = {int(node): int(count) for node, count in _NODE_PAGES.findall(rest)}
            total = sum(pages.values())
            return Placement(pages=pages, asked=total, total=total, source="numa_maps")
    raise MeasureError(f"{refused}; and /proc/self/numa_maps does not tell of it")


def _huge_bytes(address: int) -> int | None:
    """Read smaps up to the mapping that starts at an address."""
    inside = False
    for line in _text("/proc/self/smaps").splitlines():
        if line[:1] in "0123456789abcdef":
            inside = line.startswith((f"{address:x}-", f"{address:08x}-"))
        elif inside and line.startswith("AnonHugePages:"):
            return int(line.split()[1]) * 1024
    return None


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
