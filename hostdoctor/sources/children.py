"""Long-running commands: started, watched and ended with all that they started; nothing of them outlives this process.

Each is kept by a :mod:`hostdoctor.sources.keeper`, which ends it also when this process is killed.
"""

import atexit
import contextlib
import json
import os
import selectors
import signal
import subprocess  # noqa: TID251  starts the keeper
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hostdoctor.errors import OutputError
from hostdoctor.sources.keeper import ENDING, KILL_WAIT_S, descendants

KEEPER = Path(__file__).with_name("keeper.py")
_SLACK_S = 5.0
_TAIL_BYTES = 64 << 10

_kept: "set[Child]" = set()


class Ended(NamedTuple):
    """How a command ended: its status (negative: the signal) and when (monotonic seconds)."""

    status: int
    at: float

    @property
    def words(self) -> str:
        """``status 1``, or ``signal 9``."""
        return f"status {self.status}" if self.status >= 0 else f"signal {-self.status}"


class Child:
    """A command that closes descriptor 3 when it is under way, with its output in a file.

    ``started_at`` is when that was (monotonic seconds), ``refused`` why it was not; ``ended`` how it ended. They are
    as :meth:`wait` last saw them. ``log`` is the file of its output.
    """

    def __init__(
        self, argv: Sequence[str], *, log: Path, environment: Mapping[str, str], grace_s: float = 30.0
    ) -> None:
        """Start it; raise OutputError where its output cannot be written."""
        self.pid: int | None = None
        self.started_at: float | None = None
        self.refused: str | None = None
        self.ended: Ended | None = None
        self.left: tuple[int, ...] = ()
        self.log = log
        self._grace_s = grace_s
        self._heard = b""
        self._is_over = False
        command = (sys.executable, "-I", "-S", str(KEEPER), str(grace_s), *argv)
        try:
            with log.open("wb") as output, _signals_kept_back():
                self._keeper = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    env=dict(environment),
                    start_new_session=True,
                )
                _kept.add(self)
        except OSError as error:
            raise OutputError(f"{log}: {error.strerror}") from error

    def wait(self, seconds: float) -> bool:
        """Wait at most so long for its end, and tell whether it has ended or was refused."""
        deadline = time.monotonic() + seconds
        while not self._has_news(max(0.0, deadline - time.monotonic())) and time.monotonic() < deadline:
            pass
        return self.ended is not None or self._is_over

    def processes(self) -> tuple[int, ...]:
        """Return the PIDs of the command and of everything that it started and that runs still."""
        return tuple(descendants(self._keeper.pid))

    def stop(self) -> tuple[int, ...]:
        """End the command and all that it started; return the PIDs of what would not end."""
        stdin, stdout = self._keeper.stdin, self._keeper.stdout
        assert stdin is not None
        assert stdout is not None
        with contextlib.suppress(OSError):
            stdin.close()
        deadline = time.monotonic() + self._grace_s + KILL_WAIT_S + _SLACK_S
        while not self._is_over and time.monotonic() < deadline:
            self._has_news(deadline - time.monotonic())
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._keeper.wait(_SLACK_S)
        if self._keeper.poll() is None:
            self._keeper.kill()
        stdout.close()
        _kept.discard(self)
        return self.left

    def last_words(self) -> str:
        """Return the last line of its output that says anything, ``""`` where none does."""
        return next(iter(self.last_lines(1)), "")

    def last_lines(self, count: int) -> list[str]:
        """Return the last lines of its output that say anything, in their order."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
                lines = file.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return []
        return [line.strip() for line in lines if line.strip()][-count:]

    def _has_news(self, seconds: float) -> bool:
        """Wait for what the keeper says; tell whether the command has ended, or can end no more."""
        stdout = self._keeper.stdout
        if self._is_over or stdout is None or stdout.closed:
            return True
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                return False
        data = os.read(stdout.fileno(), 1 << 16)
        self._is_over = not data
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            self._take(json.loads(line))
        return self.ended is not None or self._is_over

    def _take(self, event: dict[str, Any]) -> None:
        if "started" in event:
            self.pid, self.started_at = event["started"], event["at"]
        elif "refused" in event:
            self.refused = event["refused"]
        elif "ended" in event:
            self.ended = Ended(event["ended"], event["at"])
        elif "left" in event:
            self.left = tuple(event["left"])


@contextlib.contextmanager
def _signals_kept_back() -> Iterator[None]:
    """Have signals that end this process wait: nobody would end what is just being started. The keeper lets them in."""
    former = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


@atexit.register
def stop_all() -> None:
    """End whatever is still kept; a signal ends the waiting alone, as each keeper was asked and needs nobody."""
    for child in tuple(_kept):
        with contextlib.suppress(KeyboardInterrupt, SystemExit):
            child.stop()
