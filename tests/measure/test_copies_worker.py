"""How copies are timed: one after another, and on a schedule that does not wait for slow ones."""

import os
import time
from itertools import islice
from typing import Any

import pytest

from hostdoctor.errors import MeasureError
from hostdoctor.measure import placing
from hostdoctor.measure.copies_worker import CONTEND_BYTES, Copier, closed_loop, counters, offsets, open_loop

PAGE = placing.PAGE_BYTES


def spin(ns: int) -> None:
    end = time.perf_counter_ns() + ns
    while time.perf_counter_ns() < end:
        pass


def test_copies_wander_through_the_buffer_by_whole_pages() -> None:
    assert list(islice(offsets(4 * PAGE, PAGE, 0), 5)) == [0, PAGE, 2 * PAGE, 3 * PAGE, 0]
    assert list(islice(offsets(4 * PAGE, PAGE + 1, 1), 3)) == [2 * PAGE, 0, 2 * PAGE]
    assert list(islice(offsets(4 * PAGE, 4 * PAGE, 7), 2)) == [0, 0]


def test_a_closed_loop_times_every_call() -> None:
    taken = closed_loop(lambda: spin(50_000), 20, 10**9, 1)
    assert len(taken) == 20
    assert min(taken) >= 50_000


def test_a_closed_loop_ends_when_its_time_is_over_but_not_before_the_least() -> None:
    assert len(closed_loop(lambda: spin(1_000_000), 1000, 2_000_000, 1)) < 1000
    assert len(closed_loop(lambda: spin(1_000_000), 1000, 0, 3)) == 3


def test_an_open_loop_counts_what_queues_behind_a_slow_call() -> None:
    calls = iter([20_000_000] + [0] * 9)
    taken, late = open_loop(lambda: spin(next(calls)), 10, 1_000_000, 10**9, 1)
    assert len(taken) == 10
    assert taken[0] >= 20_000_000
    assert all(taken[i] >= 20_000_000 - i * 1_000_000 for i in range(10))  # each was planned a millisecond later
    assert late >= 9


def test_an_open_loop_never_starts_early() -> None:
    began = time.perf_counter_ns()
    taken, _ = open_loop(lambda: None, 10, 1_000_000, 10**9, 1)
    assert time.perf_counter_ns() - began >= 10 * 1_000_000
    assert min(taken) >= 0


class Driver:
    """Takes every call, and keeps on which CPUs the calling thread may be."""

    def __init__(self) -> None:
        self.cpus: set[frozenset[int]] = set()

    def share(self, context: int) -> None:
        del context

    def call(self, *words: Any) -> None:
        del words
        self.cpus.add(frozenset(os.sched_getaffinity(0)))


def test_a_second_stream_leaves_the_copying_thread_its_cpu() -> None:
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        pytest.skip("one CPU here")
    copier = Copier()
    copier.cuda = driver = Driver()  # type: ignore[assignment]
    copier.noise_memory = (1, 2, 3)
    with placing.pinned_thread(usable[:1]):  # as the copying thread is
        assert copier.contend({"node": 0, "cpus": usable[1:]}) == {"bytes": CONTEND_BYTES}
        copier.rest({})
    assert driver.cpus == {frozenset(usable[1:])}
    assert copier.noise_begun == copier.noise_ended > 0


def test_a_second_stream_that_fails_before_its_first_copy_is_told_at_the_end() -> None:
    copier = Copier()
    copier.cuda = Driver()  # type: ignore[assignment]
    copier.noise_memory = (1, 2, 3)
    copier.contend({"node": 0, "cpus": [1 << 20]})
    with pytest.raises(MeasureError, match="the load beside the copies ended early: cannot run on CPUs"):
        copier.rest({})
    copier.contend({"node": 0, "cpus": sorted(os.sched_getaffinity(0))})
    assert copier.rest({}) == {}  # the failure is not told twice


def test_the_kernel_counts_pinned_memory_under_these_names() -> None:
    assert {"RssShmem", "VmPin", "VmLck"} <= counters().keys()
