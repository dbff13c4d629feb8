"""Files of the running kernel line by line: whole, or an error that says they are not."""

import os
import threading
from pathlib import Path

import pytest

from hostdoctor.errors import SourceError
from hostdoctor.sources import lines
from hostdoctor.sources.lines import open_lines
from hostdoctor.sources.live import LiveSource


def read(path: Path, timeout_s: float = 60) -> list[str]:
    opened = open_lines(str(path), timeout_s)
    assert opened is not None
    return list(opened)


def test_lines_of_any_number_and_across_reads(tmp_path: Path) -> None:
    written = [f"line {n} {'x' * (n % 300)}" for n in range(20000)]
    (tmp_path / "file").write_text("\n".join(written))
    assert read(tmp_path / "file") == written
    (tmp_path / "file").write_bytes(b"\xff\n\n")
    assert read(tmp_path / "file") == ["�", ""]
    (tmp_path / "file").write_bytes(b"")
    assert read(tmp_path / "file") == []


def test_what_cannot_be_opened_is_none(tmp_path: Path) -> None:
    assert open_lines(str(tmp_path / "none"), 60) is None
    assert open_lines("/proc/self/\0", 60) is None


def test_a_read_that_fails_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is a directory"):
        read(tmp_path)


def test_a_read_that_never_returns_costs_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    release, answer = threading.Event(), os.read
    monkeypatch.setattr(os, "read", lambda descriptor, size: release.wait() and answer(descriptor, size))
    with pytest.raises(SourceError, match="in time"):
        read(tmp_path / "file", 0.1)
    release.set()


@pytest.mark.parametrize(("limit", "text"), [("MAX_TOTAL_BYTES", "x\n" * 99), ("MAX_LINE_BYTES", "x" * 99)])
def test_more_than_can_be_read_is_an_error(
    limit: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, limit, 50)
    (tmp_path / "file").write_text(text)
    with pytest.raises(SourceError, match="longer than"):
        read(tmp_path / "file")


def test_a_reader_that_is_left_closes_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "QUEUED_CHUNKS", 1)
    (tmp_path / "file").write_text("line\n" * 1000000)
    before = set(threading.enumerate())
    opened = open_lines(str(tmp_path / "file"), 60)
    assert opened is not None
    assert next(opened) == "line"
    (reader,) = set(threading.enumerate()) - before
    del opened
    reader.join(60)
    assert not reader.is_alive()


def test_the_live_host_reads_its_own_process() -> None:
    opened = LiveSource(60).read_lines("/proc/self/status")
    assert opened is not None
    assert f"Pid:\t{os.getpid()}" in list(opened)
