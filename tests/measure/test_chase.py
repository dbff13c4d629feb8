"""The chain is one cycle through all lines, and both walks follow it."""

import ctypes
import os
from array import array
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostdoctor.errors import MeasureError
from hostdoctor.measure import chase, kernel
from hostdoctor.measure.chase import (
    MACHINE_CODE,
    STRIDE_BYTES,
    NativeChase,
    NativeCode,
    chase_over,
    has_numpy,
    interpreter_overhead_ns,
    random_cycle,
    write_chain,
)
from hostdoctor.measure.placing import bound_buffer
from tests.measure.test_placing import NODE

LINES = 4096
SIZE = LINES * STRIDE_BYTES
needs_code = pytest.mark.skipif(os.uname().machine not in MACHINE_CODE, reason="no machine code for this processor")


def is_one_cycle(after: "array[int]") -> bool:
    line, seen = 0, set()
    while line not in seen:
        seen.add(line)
        line = after[line]
    return line == 0 and len(seen) == len(after)


@given(st.integers(1, 300), st.integers(0, 1 << 32))
@settings(max_examples=50)
def test_a_chain_is_one_cycle_through_all_lines(lines: int, seed: int) -> None:
    after = random_cycle(lines, seed)
    assert len(after) == lines
    assert is_one_cycle(after)


@pytest.mark.parametrize(
    "numpy", [False, pytest.param(True, marks=pytest.mark.skipif(not has_numpy(), reason="no numpy"))]
)
def test_a_chain_has_no_stride_that_a_prefetcher_could_learn(numpy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chase, "has_numpy", lambda: numpy)
    after = random_cycle(LINES, seed=1)
    assert is_one_cycle(after)
    steps = [following - line for line, following in enumerate(after)]
    assert max(steps.count(step) for step in set(steps)) < 10
    assert random_cycle(LINES, seed=1) == after != random_cycle(LINES, seed=2)


@needs_code
def test_machine_code_follows_the_chain() -> None:
    cycle = random_cycle(LINES, seed=3)
    code = NativeCode()
    with bound_buffer(NODE, SIZE) as buffer:
        words = write_chain(buffer, cycle, addresses=True)
        for loads in (1, 2, 3, LINES):
            assert code.function(buffer.address, loads) == buffer.address + walked(cycle, loads) * STRIDE_BYTES
        assert code.function(buffer.address, LINES) == buffer.address
        assert words[0] == buffer.address + cycle[0] * STRIDE_BYTES
        walk = NativeChase(code, buffer.address)
        assert walk.batch(5) > 0
        assert walk._at == buffer.address + walked(cycle, 5) * STRIDE_BYTES
        walk.batch(LINES - 5)
        assert walk._at == buffer.address


def test_the_interpreter_follows_the_same_chain() -> None:
    cycle = random_cycle(LINES, seed=4)
    with bound_buffer(NODE, SIZE) as buffer:
        walk = chase_over(buffer, cycle, None)
        assert isinstance(walk, chase.InterpretedChase)
        assert walk.batch(7) > 0
        assert walk._at * 8 == walked(cycle, 7) * STRIDE_BYTES
        del walk


@needs_code
def test_code_is_executable_and_no_longer_writable() -> None:
    address = ctypes.cast(NativeCode().function, ctypes.c_void_p).value
    assert address is not None
    rows = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    assert next(row.split()[1] for row in rows if row.startswith(f"{address:x}-")) == "r-xp"


def test_where_code_may_not_be_made_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(address: int, size_bytes: int, protection: int) -> None:
        if protection & kernel.PROT_EXEC:
            raise MeasureError("mprotect: permission denied")

    monkeypatch.setattr(kernel, "protect", refuse)
    monkeypatch.setattr(ctypes, "memmove", lambda *_: None)
    with pytest.raises(MeasureError, match="--native-chase: mprotect: permission denied; without it differences"):
        NativeCode()


def test_other_processors_have_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chase, "MACHINE_CODE", {})
    with pytest.raises(MeasureError, match="no machine code for"):
        NativeCode()


def test_the_interpreters_share_is_told() -> None:
    assert interpreter_overhead_ns() > 0


def walked(cycle: "array[int]", loads: int) -> int:
    line = 0
    for _ in range(loads):
        line = cycle[line]
    return line
