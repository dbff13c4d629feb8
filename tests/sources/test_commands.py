"""External commands cost at most their deadline, and say in one line why they gave nothing."""

import os
import signal
import subprocess  # noqa: TID251  watched, not run
import sys
import tempfile
import time
from pathlib import Path

import pytest

from hostdoctor.sources import commands
from hostdoctor.sources.commands import Completed, Running


def run(argv: tuple[str, ...], timeout_s: float = 20) -> Completed:
    return Running(argv, time.monotonic() + timeout_s, os.environ).wait()


def python(code: str, timeout_s: float = 20) -> Completed:
    return run((sys.executable, "-c", code), timeout_s)


def test_output_is_given() -> None:
    assert run(("echo", "$(id) ; x")) == Completed(text="$(id) ; x\n")


def test_the_locale_is_c() -> None:
    assert python("import os; print(os.environ['LC_ALL'])").text == "C\n"


def test_a_missing_command_is_missing() -> None:
    assert run(("no-such-tool",)) == Completed(reason="no-such-tool: command not found", kind="missing")


def test_a_command_without_permission_is_denied(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    assert run((str(tmp_path / "tool"),)).kind == "denied"


def test_a_failing_command_quotes_its_first_line() -> None:
    done = python("import sys; sys.stderr.write('Driver/library version mismatch\\nmore'); sys.exit(18)")
    assert (done.reason, done.kind) == ("exit status 18: Driver/library version mismatch", "error")


def test_a_hanging_command_is_killed_at_the_deadline_and_keeps_what_it_said() -> None:
    began = time.monotonic()
    done = run(("sh", "-c", "echo partial; exec sleep 600"), timeout_s=1)
    assert (done.text, done.reason, done.kind) == ("partial\n", "did not answer in time", "timeout")
    assert time.monotonic() - began < 10


def test_a_grandchild_that_keeps_the_pipe_open_is_not_waited_for() -> None:
    done = run(("sh", "-c", "sleep 600 & echo $!"))
    assert done.reason is None
    os.kill(int(done.text), signal.SIGKILL)  # it still ran


def test_endless_output_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "MAX_OUTPUT_BYTES", 1 << 20)
    done = run(("yes",))
    assert done.kind == "error"
    assert "printed more than 1 MiB" in (done.reason or "")
    assert len(done.text) < 2 << 20


def test_commands_run_side_by_side(tmp_path: Path) -> None:
    waits = 'touch "$0/$1"; until [ "$(ls "$0" | wc -l)" = 8 ]; do sleep 0.05; done'  # for all the others
    waiting = (("sh", "-c", waits, str(tmp_path), str(number)) for number in range(8))
    running = [Running(command, time.monotonic() + 60, os.environ) for command in waiting]
    assert [r.wait().reason for r in running] == [None] * 8


def test_last_words_that_come_with_the_end_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that is silent, then prints and ends just when it is looked at: on a busy machine that happens."""
    poll = subprocess.Popen.poll

    def look(process: "subprocess.Popen[bytes]") -> int | None:
        if not told.exists():
            told.touch()
            while poll(process) is None:
                time.sleep(0.01)
        return poll(process)

    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told"
        monkeypatch.setattr(subprocess.Popen, "poll", look)
        waits = f"import os, time\nwhile not os.path.exists({str(told)!r}): time.sleep(0.01)\nprint('words')"
        assert python(waits) == Completed(text="words\n")


def test_a_command_that_dies_with_us_is_run_as_any_other() -> None:
    def run(*argv: str) -> Completed:
        return Running(argv, time.monotonic() + 20, os.environ, dies_with_us=True).wait()

    assert run("echo", "$(id) ; x") == Completed(text="$(id) ; x\n")
    assert run("no-such-tool") == Completed(reason="no-such-tool: command not found", kind="missing")
    failed = run(sys.executable, "-c", "import sys; sys.exit('no such engine')")
    assert (failed.reason, failed.kind) == ("exit status 1: no such engine", "error")


def test_a_command_stopped_while_it_is_being_started_does_not_run_on() -> None:
    running = Running(("sleep", "600"), time.monotonic() + 600, os.environ)
    running.stop()
    assert running.ended_within(20)
