"""Dependent loads: each load's address is what the load before it returned, so that their latencies add up.

The chain is one random cycle through all lines (Sattolo's algorithm): no prefetcher can guess it, no part is skipped.
"""

import ctypes
import importlib
import importlib.util
import os
import random
import time
from array import array
from typing import Any, Protocol

from hostdoctor.errors import MeasureError
from hostdoctor.measure import kernel
from hostdoctor.measure.placing import PAGE_BYTES, Buffer

STRIDE_BYTES = 256
WORD_BYTES = 8
# Loop: load through the first argument, count the second down, return where the chain has led.
MACHINE_CODE = {
    "x86_64": bytes.fromhex("488b3f 48ffce 75f8 4889f8 c3"),
    "aarch64": b"".join(word.to_bytes(4, "little") for word in (0xF9400000, 0xF1000421, 0x54FFFFC1, 0xD65F03C0)),
}
SMALL_LINES = 16  # a chain that stays in the first cache
OVERHEAD_LOADS, OVERHEAD_BATCHES = 20_000, 15


class Chase(Protocol):
    """A walk along one chain."""

    def batch(self, loads: int) -> int:
        """Follow the chain this far, from where the last batch ended; return how long it took, in ns."""


class NativeCode:
    """The loop in machine code: a page written, then made executable and no longer writable (W^X)."""

    def __init__(self) -> None:
        """Map the code; raise MeasureError for other processors and where the system forbids it."""
        code = MACHINE_CODE.get(os.uname().machine)
        if code is None:
            raise MeasureError(f"--native-chase: no machine code for {os.uname().machine}")
        address = kernel.map_memory(PAGE_BYTES)
        kernel.protect(address, PAGE_BYTES, kernel.PROT_READ | kernel.PROT_WRITE)
        ctypes.memmove(address, code, len(code))
        try:
            kernel.protect(address, PAGE_BYTES, kernel.PROT_READ | kernel.PROT_EXEC)
        except MeasureError as refused:
            raise MeasureError(f"--native-chase: {refused}; without it differences are measured") from None
        # The page stays mapped to the end of the process: a function may outlive this object.
        self.function: Any = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)(address)


class NativeChase:
    """A walk in machine code over addresses."""

    def __init__(self, code: NativeCode, start: int) -> None:
        self._follow = code.function
        self._at = start

    def batch(self, loads: int) -> int:
        """Follow the chain; return the time in ns."""
        follow, at = self._follow, self._at
        began = time.perf_counter_ns()
        at = follow(at, loads)
        ended = time.perf_counter_ns()
        self._at = at
        return ended - began


class InterpretedChase:
    """A walk by the interpreter over indices: what it adds to each load is much, and the same for all memory."""

    def __init__(self, words: "memoryview[int]") -> None:
        self._words = words
        self._at = 0

    def batch(self, loads: int) -> int:
        """Follow the chain; return the time in ns."""
        words, at = self._words, self._at
        began = time.perf_counter_ns()
        for _ in range(loads):
            at = words[at]
        ended = time.perf_counter_ns()
        self._at = at
        return ended - began


def shuffling_s(lines: int) -> float:
    """Return about how long :func:`random_cycle` takes, in seconds."""
    return lines * (0.1e-6 if has_numpy() else 1.5e-6)


def has_numpy() -> bool:
    """Tell whether numpy is there, which shuffles long chains quickly."""
    return importlib.util.find_spec("numpy") is not None


def random_cycle(lines: int, seed: int) -> "array[int]":
    """Return for each line the one that follows it: one cycle through all of them, each equally likely."""
    if has_numpy():
        numpy: Any = importlib.import_module("numpy")
        order = numpy.random.default_rng(seed).permutation(lines)
        after = numpy.empty(lines, dtype=numpy.uint32)
        after[order] = numpy.roll(order, -1)
        return array("I", after.tobytes())
    after = array("I", range(lines))
    draw = random.Random(seed).random  # noqa: S311  nothing secret
    for last in range(lines - 1, 0, -1):
        other = int(draw() * last)
        after[last], after[other] = after[other], after[last]
    return after


def write_chain(buffer: Buffer, cycle: "array[int]", *, addresses: bool) -> "memoryview[int]":
    """Write a cycle into memory, a line every STRIDE_BYTES; return the memory as words.

    Each line's first word names the next line: its address, or its index among the words.
    """
    whole = (ctypes.c_ubyte * (len(cycle) * STRIDE_BYTES)).from_address(buffer.address)
    words = memoryview(whole).cast("B").cast("Q")
    base, unit = (buffer.address, STRIDE_BYTES) if addresses else (0, STRIDE_BYTES // WORD_BYTES)
    words[:: STRIDE_BYTES // WORD_BYTES] = memoryview(_scaled(cycle, base, unit))
    return words


def _scaled(cycle: "array[int]", base: int, unit: int) -> "array[int]":
    if has_numpy():
        numpy: Any = importlib.import_module("numpy")
        scaled = numpy.frombuffer(cycle, dtype=numpy.uint32).astype(numpy.uint64) * numpy.uint64(unit)
        return array("Q", (scaled + numpy.uint64(base)).tobytes())
    return array("Q", (base + line * unit for line in cycle))


def chase_over(buffer: Buffer, cycle: "array[int]", code: NativeCode | None) -> Chase:
    """Write a cycle into a buffer and return a walk along it; without machine code the interpreter walks."""
    words = write_chain(buffer, cycle, addresses=code is not None)
    return InterpretedChase(words) if code is None else NativeChase(code, buffer.address)


def interpreter_overhead_ns() -> float:
    """Return what the interpreter takes a load when memory takes almost nothing: the median, in ns."""
    words = array("Q", [0] * (SMALL_LINES * WORD_BYTES))
    for line, after in enumerate(random_cycle(SMALL_LINES, seed=1)):
        words[line * WORD_BYTES] = after * WORD_BYTES
    chase = InterpretedChase(memoryview(words))
    times = sorted(chase.batch(OVERHEAD_LOADS) for _ in range(OVERHEAD_BATCHES))
    return times[OVERHEAD_BATCHES // 2] / OVERHEAD_LOADS
