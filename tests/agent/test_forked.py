"""Work in a forked child."""

import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hostdoctor.errors import SourceError
from hostdoctor.sources import forked
from hostdoctor.sources.forked import Job, JobError, reap

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def result(work: Callable[[], bytes]) -> bytes:
    job = Job(work)
    while True:
        assert select.select([job], [], [], 60)[0]
        data = job.collect()
        if data is not None:
            return data


def fail(error: BaseException) -> Callable[[], bytes]:
    def work() -> bytes:
        raise error

    return work


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_it_returns_what_the_function_returned_however_much_that_is() -> None:
    assert result(lambda: b"") == b""
    assert result(lambda: b"x" * 5_000_000) == b"x" * 5_000_000


def test_it_holds_nothing_of_its_parents_open() -> None:
    def opened() -> bytes:
        return ",".join(str(number) for number in range(256) if Path(f"/proc/self/fd/{number}").exists()).encode()

    reading, writing = os.pipe()
    numbers = result(opened).decode().split(",")
    assert not {str(reading), str(writing)} & set(numbers)
    assert len([number for number in numbers if int(number) > 2]) == 1  # where it writes its result
    os.close(reading)
    os.close(writing)


def test_while_it_is_at_work_there_is_nothing() -> None:
    job = Job(lambda: time.sleep(60) or b"")  # type: ignore[func-returns-value]
    assert job.collect() is None
    job.kill()


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ValueError("boom"), "ValueError: boom"),
        (SourceError("nothing could be established"), "^nothing could be established"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_what_it_raises_is_told(error: BaseException, says: str) -> None:
    with pytest.raises(JobError, match=says):
        result(fail(error))


def test_a_crash_is_told() -> None:
    with pytest.raises(JobError, match="killed by signal 9"):
        result(lambda: os.kill(os.getpid(), signal.SIGKILL) or b"")  # type: ignore[func-returns-value]
    with pytest.raises(JobError, match="ended with status 7"):
        result(lambda: os._exit(7))


def test_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "MAX_BYTES", 1000)
    with pytest.raises(JobError, match="MiB of results"):
        result(lambda: b"x" * 2000)


def test_killed_it_takes_along_what_it_started(tmp_path: Path) -> None:
    def work() -> bytes:
        pid = os.fork()
        if pid == 0:
            os.setsid()
            time.sleep(600)
            os._exit(0)
        (tmp_path / "pid").write_text(str(pid))
        time.sleep(600)
        return b""

    job = Job(work)
    deadline = time.monotonic() + 60
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    grandchild = int((tmp_path / "pid").read_text())
    job.kill()
    while is_running(job.pid) or is_running(grandchild):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    reap()
    assert not Path(f"/proc/{job.pid}").exists()
