"""Servers and clients of an experiment: started, waited for, watched to their end, their results kept."""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from hostdoctor.errors import HostdoctorError, MeasureError, OutputError
from hostdoctor.facts.runs import RunResult
from hostdoctor.measure.trial_files import read_runs
from hostdoctor.placement.applying import Step
from hostdoctor.placement.becoming import bound_argv
from hostdoctor.sources.children import Child
from hostdoctor.sources.readiness import answers

START_S = 60.0  # for a command to be under way: this interpreter starts before it
READY_POLL_S, READY_ANSWER_S = 0.5, 5.0
TICK_S = 1.0
_LITTLE_ROOM_BYTES = 1 << 20
_SAID = 100  # of last words: what follows them must still fit in the line


@contextmanager
def started(
    name: str, step: Step, argv: Sequence[str], environment: Mapping[str, str], log: Path, left: list[int]
) -> Iterator[Child]:
    """Give a command that is under way; whatever happens, it and all that it started are ended afterwards.

    The PIDs of what would not end are added to ``left``.
    """
    child = Child(bound_argv(step, tuple(argv)), log=log, environment=environment)
    try:
        deadline = time.monotonic() + START_S
        while child.started_at is None and child.refused is None and time.monotonic() < deadline:
            if child.wait(0.01):
                break
        if child.started_at is None:
            raise MeasureError(f"{name} could not be started: {child.refused or ending(child)}")
        yield child
    finally:
        left += child.stop()


def until_end(
    child: Child, name: str, timeout_s: float, tick: Callable[[], None], server: Child | None, option: str = "--timeout"
) -> None:
    """Wait for the end of a command; raise MeasureError where it fails, hangs, or its server goes."""
    deadline = time.monotonic() + timeout_s
    while not child.wait(min(TICK_S, max(0.0, deadline - time.monotonic()))):
        if server is not None:
            want_alive(server)
        if time.monotonic() >= deadline:
            raise MeasureError(f"{name} did not end within {timeout_s:g} s ({option}){said(child)}")
        tick()
    if child.ended is None or child.ended.status != 0:
        _want_room(child)
        raise MeasureError(f"{name} failed: {ending(child)}")


class Seen(NamedTuple):
    """A result file at one time: what changes when it is written, and how many runs it held."""

    stamp: tuple[int, int, int] | None
    runs: int = 0


def seen(path: Path) -> Seen:
    """Return a result file as it is before a run, which may append to it."""
    stamp = _stamp(path)
    try:
        return Seen(stamp, len(read_runs(path, path.name)) if stamp is not None else 0)
    except HostdoctorError:
        return Seen(stamp)


def kept_result(raw: Path, kept: Path, before: Seen) -> tuple[RunResult, int]:
    """Have the raw result in the run's folder; return what it tells of this run, and as which of its runs."""
    if _stamp(raw) in (None, before.stamp):
        _want_room_at(kept)
        raise MeasureError(f"no result: the client wrote no {raw} ({{result}} or --result names it)")
    try:
        runs = read_runs(raw, str(raw))
    except HostdoctorError as error:
        _want_room_at(kept)
        raise MeasureError(f"no result: {error}") from None
    new = len(runs) - before.runs if len(runs) > before.runs else len(runs)  # appended, or written anew
    if new != 1:
        raise MeasureError(f"{raw} holds {new} new results: each run needs one")
    try:
        if raw != kept:
            shutil.copyfile(raw, kept)
    except OSError as error:
        raise OutputError(f"{kept}: not written: {(error.strerror or str(error)).lower()}") from error
    return runs[-1], len(runs) - 1


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return what tells one state of a file from another; None where there is no file."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def wait_ready(server: Child, url: str, timeout_s: float, beat: Callable[[], None] = lambda: None) -> None:
    """Wait until a server answers; raise MeasureError where it ends before, or does not in time."""
    deadline = time.monotonic() + timeout_s
    while not answers(url, READY_ANSWER_S):
        beat()
        if server.wait(READY_POLL_S):
            _want_room(server)
            raise MeasureError(f"the server ended before it was ready: {ending(server)}")
        if time.monotonic() > deadline:
            raise MeasureError(f"the server was not ready within {timeout_s:g} s ({url}){said(server)}")


def want_alive(server: Child) -> None:
    """Raise MeasureError where a server has ended."""
    if server.wait(0.0):
        _want_room(server)
        raise MeasureError(f"the server ended during the run: {ending(server)}")


def run_seconds(child: Child) -> float:
    """Return how long a command that has ended ran."""
    assert child.ended is not None
    assert child.started_at is not None
    return child.ended.at - child.started_at


def ending(child: Child) -> str:
    """Return how a command ended, with its last words."""
    return (child.ended.words if child.ended is not None else "no word of it") + said(child)


def said(child: Child) -> str:
    """Return the last words of a command's output, to be put after what went wrong."""
    words = child.last_words()
    return f"; its last words: {words[:_SAID]}" if words else ""


def now() -> str:
    """Return the time of day, UTC, ISO 8601."""
    import datetime

    return datetime.datetime.now(tz=datetime.timezone.utc).isoformat(timespec="seconds")


def _want_room(child: Child) -> None:
    _want_room_at(child.log)


def _want_room_at(path: Path) -> None:
    """Raise OutputError where a full disk is why: what failed says so in its own words, or not at all."""
    try:
        told = os.statvfs(path.parent)
    except OSError:
        return
    if told.f_bavail * told.f_frsize < _LITTLE_ROOM_BYTES:
        raise OutputError(f"{path.parent}: no space left on device")
