"""Threads move what they say, where they say."""

import ctypes
import os
import threading

import pytest

from hostdoctor.errors import MeasureError
from hostdoctor.measure import bandwidth
from hostdoctor.measure.bandwidth import OPERATIONS, Operation, clear, measure_rate
from hostdoctor.measure.placing import bound_buffer
from tests.measure.test_placing import NODE

SIZE = 20 << 20
CPUS = sorted(os.sched_getaffinity(0))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_thread_runs_on_its_cpu(operation: Operation) -> None:
    former, threads = os.sched_getaffinity(0), threading.active_count()
    with bound_buffer(NODE, SIZE) as buffer:
        rate = measure_rate(operation, buffer, CPUS, 0.02)
    assert rate.gbytes_per_s > 0
    assert list(rate.cpus_seen) == CPUS
    assert os.sched_getaffinity(0) == former
    assert threading.active_count() == threads


def test_all_of_the_memory_is_moved_once() -> None:
    for operation in OPERATIONS:
        moved = sum(size for _, size in bandwidth._calls(operation, 0, SIZE))
        assert moved == (SIZE // 2 if operation == "copy" else SIZE)


def test_copies_stay_within_the_buffer() -> None:
    with bound_buffer(NODE, SIZE) as buffer:
        ctypes.memset(buffer.address, 1, SIZE // 2)
        for call, _ in bandwidth._calls("copy", buffer.address, SIZE):
            call()
        assert ctypes.string_at(buffer.address, SIZE) == b"\1" * SIZE


def test_reading_looks_for_what_is_not_there() -> None:
    with bound_buffer(NODE, SIZE) as buffer:
        clear(buffer)
        assert [call() for call, _ in bandwidth._calls("read", buffer.address, SIZE)] == [None] * 3


def test_a_cpu_that_may_not_be_used_ends_all_threads() -> None:
    threads = threading.active_count()
    with bound_buffer(NODE, SIZE) as buffer, pytest.raises(MeasureError, match=r"cannot run on CPUs \[4095\]"):
        measure_rate("write", buffer, [*CPUS, 4095], 0.02)
    assert threading.active_count() == threads


def test_an_interrupt_waits_for_threads_that_use_the_memory() -> None:
    class Interrupted(threading.Thread):
        joined = 0

        def join(self, timeout: float | None = None) -> None:
            Interrupted.joined += 1
            if Interrupted.joined == 1:
                raise KeyboardInterrupt
            super().join(timeout)

    release = threading.Event()
    thread = Interrupted(target=release.wait)
    thread.start()
    threading.Timer(0.05, release.set).start()
    with pytest.raises(KeyboardInterrupt):
        bandwidth._join([thread])
    assert not thread.is_alive()


def test_threads_that_cannot_be_had_are_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    begun: list[threading.Thread] = []

    def limited(thread: threading.Thread) -> None:
        if begun:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        start(thread)

    with bound_buffer(NODE, SIZE) as buffer, monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", limited)
        with pytest.raises(MeasureError, match="2 threads for bandwidth: can't start new thread; --threads"):
            measure_rate("write", buffer, [CPUS[0], CPUS[0]], 0.02)
    assert not begun[0].is_alive()
