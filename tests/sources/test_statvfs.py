"""The room of a file system: told by the live host alone, and never waited for."""

import os
import threading
import time

import pytest

from hostdoctor.sources.base import Space
from hostdoctor.sources.combined import CombinedSource
from hostdoctor.sources.live import LiveSource
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import MemoryTree


def test_the_live_host_tells_it() -> None:
    told = LiveSource(20).statvfs("/")
    assert told is not None
    assert 0 <= told.available_bytes <= told.free_bytes <= told.size_bytes


def test_what_is_not_there_has_none() -> None:
    assert LiveSource(20).statvfs("/nowhere/at/all") is None


def test_a_server_that_never_answers_costs_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def hang(path: str) -> None:
        over.wait(30)
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "statvfs", hang)
    began = time.monotonic()
    assert LiveSource(0.5).statvfs("/") is None
    assert time.monotonic() - began < 10
    over.set()


def test_captures_do_not_tell_and_the_first_that_tells_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    silent, telling = (RootSource(MemoryTree({}, {}), name) for name in "ab")
    assert CombinedSource([silent, telling]).statvfs("/") is None
    space = Space(size_bytes=3, free_bytes=2, available_bytes=1)
    monkeypatch.setattr(telling, "statvfs", lambda path: space)
    assert CombinedSource([silent, telling]).statvfs("/") == space
