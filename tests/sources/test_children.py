"""Long-running commands: what they start ends with them, and with whoever asked for them."""

import os
import signal
import subprocess  # noqa: TID251  a caller that is killed
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hostdoctor.errors import OutputError, Terminated
from hostdoctor.placement.applying import Step
from hostdoctor.placement.becoming import bound_argv
from hostdoctor.sources import children
from hostdoctor.sources.children import Child, stop_all

STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
open(sys.argv[1] + str(os.getpid()), "w").close()
time.sleep(600)
"""
FREE = Step(tier="unbound")


def child(folder: Path, *argv: str, step: Step = FREE, grace_s: float = 0.2) -> Child:
    return Child(bound_argv(step, argv), log=folder / "log", environment=os.environ, grace_s=grace_s)


def wait_until(is_so: Callable[[], bool]) -> None:
    limit = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < limit
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").exists() and ") Z " not in Path(f"/proc/{pid}/stat").read_text()


def test_its_status_its_output_and_its_binding(tmp_path: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    code = "import os; print('said', sorted(os.sched_getaffinity(0)), flush=True); raise SystemExit(3)"
    one = child(tmp_path, sys.executable, "-c", code, step=Step(tier="cpus-only", cpus=str(cpu)))
    assert one.wait(30)
    assert one.ended is not None
    assert (one.ended.status, one.ended.words) == (3, "status 3")
    assert one.started_at is not None
    assert one.ended.at > one.started_at
    assert one.stop() == ()
    assert one.last_words() == f"said [{cpu}]"


def test_a_signal_while_a_command_is_started_waits_until_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Signalled(subprocess.Popen[bytes]):
        def __init__(self, *words: Any, **named: Any) -> None:
            super().__init__(*words, **named)
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)  # not to another thread of the runner

    def end(*_: object) -> None:
        raise Terminated(143)

    monkeypatch.setattr("hostdoctor.sources.children.subprocess.Popen", Signalled)
    former = signal.signal(signal.SIGTERM, end)
    try:
        with pytest.raises(Terminated):
            child(tmp_path, "sleep", "600")
    finally:
        signal.signal(signal.SIGTERM, former)
    (kept,) = children._kept
    stop_all()
    assert kept.processes() == ()
    assert children._kept == set()


def test_a_command_that_is_not_there_and_a_binding_that_is_not_permitted(tmp_path: Path) -> None:
    missing = child(tmp_path, "no-such-command-here")
    assert missing.wait(30)
    assert (missing.started_at, missing.refused) == (None, "no-such-command-here: no such file or directory")
    missing.stop()
    nowhere = child(tmp_path, "true", step=Step(tier="cpus-only", cpus="1023"))
    assert nowhere.wait(30)
    assert nowhere.refused is not None
    assert nowhere.refused.startswith("cannot bind as asked (CPUs 1023)")
    nowhere.stop()


def test_processes_that_ignore_the_request_and_leave_the_session_are_ended_too(tmp_path: Path) -> None:
    one = child(tmp_path, sys.executable, "-c", STUBBORN, f"{tmp_path}/pid-")
    wait_until(lambda: len(list(tmp_path.glob("pid-*"))) == 2)
    pids = [int(path.name.removeprefix("pid-")) for path in tmp_path.glob("pid-*")]
    assert set(pids) <= set(one.processes())
    assert one.stop() == ()
    assert not any(map(is_alive, pids))


def test_what_a_command_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    one = child(tmp_path, "sh", "-c", "setsid sleep 600 & echo $! ; exit 0")
    assert one.wait(30)
    assert one.stop() == ()
    assert not is_alive(int(one.last_words()))


def test_it_ends_when_its_caller_is_killed(tmp_path: Path) -> None:
    code = f"""
import os, sys, time
from pathlib import Path
from tests.sources.test_children import STUBBORN, child
one = child(Path({str(tmp_path)!r}), sys.executable, "-c", STUBBORN, {str(tmp_path)!r} + "/pid-")
time.sleep(600)
"""
    with subprocess.Popen((sys.executable, "-c", code), cwd=Path(__file__).parents[2]) as caller:
        wait_until(lambda: len(list(tmp_path.glob("pid-*"))) == 2)
        caller.kill()
    pids = [int(path.name.removeprefix("pid-")) for path in tmp_path.glob("pid-*")]
    wait_until(lambda: not any(map(is_alive, pids)))


def test_the_command_ends_when_its_keeper_is_killed(tmp_path: Path) -> None:
    one = child(tmp_path, "sleep", "600")
    wait_until(lambda: one.wait(0.01) or one.started_at is not None)
    assert one.pid is not None
    os.kill(one._keeper.pid, signal.SIGKILL)
    assert one.wait(30)
    assert one.ended is None
    wait_until(lambda: not is_alive(one.pid or 0))
    one.stop()


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="No such file"):
        child(tmp_path / "missing", "true")


def test_a_signal_while_the_last_ones_are_ended_leaves_them_to_their_keeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = child(tmp_path, sys.executable, "-c", STUBBORN, f"{tmp_path}/pid-", grace_s=0.5)
    wait_until(lambda: len(list(tmp_path.glob("pid-*"))) == 2)
    pids = [int(path.name.partition("-")[2]) for path in tmp_path.glob("pid-*")]

    def interrupted(_child: Child, _seconds: float) -> bool:
        raise Terminated(143)

    with monkeypatch.context() as patched:
        patched.setattr(Child, "_has_news", interrupted)
        stop_all()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    kept.stop()
