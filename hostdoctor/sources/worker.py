"""A child process that is asked things in JSON lines: what hangs or crashes in it costs the child alone."""

import atexit
import contextlib
import os
import selectors
import signal
import subprocess  # noqa: TID251  this room runs commands
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hostdoctor.errors import MeasureError

GRACE_S = 1.0  # to end by itself once nobody asks any more; one in D state is left behind
MAX_LINE_BYTES = 64 << 20
_ROOT = Path(__file__).parents[2]
# Not ``-m``: that would look for hostdoctor in the working directory first.
_START = (
    "import runpy, sys; sys.path[0] = sys.argv[1]; sys.argv = sys.argv[2:];"
    "runpy.run_module(sys.argv[0], run_name='__main__')"
)

_alive: "set[Worker]" = set()


class WorkerLostError(MeasureError):
    """A child ended, or did not answer in time and was killed: it can be asked nothing more."""


class Worker:
    """A module of hostdoctor run as a child that answers each line on its standard input with one line."""

    def __init__(
        self, module: str, arguments: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        """Start it; raise MeasureError when that cannot be done. ``environment`` is added to this process' own."""
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  read when it has ended; a pipe could fill up
        self._buffer = b""
        command = (sys.executable, "-c", _START, str(_ROOT), module, *arguments)
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                env=os.environ | dict(environment or {}),
                start_new_session=True,
            )
        except OSError as error:
            raise MeasureError(f"cannot start a process: {os.strerror(error.errno or 0).lower()}") from None
        self.pid = self._process.pid
        _alive.add(self)

    def ask(self, question: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Return the answer to a question.

        Raises WorkerLostError where none came (the child is then gone), MeasureError where the answer is ``error``.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(question) + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._lost() from None
        answer = self._decode(self._line(time.monotonic() + timeout_s, timeout_s))
        if "error" in answer:
            raise MeasureError(str(answer["error"]))
        return answer

    def close(self) -> None:
        """End it: let it end by itself for a moment, then kill it and all that it started."""
        if self not in _alive:
            return
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_S)
        self.kill()

    def kill(self) -> None:
        """Kill it and all that it started; do not wait for one that the kernel holds."""
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_S)
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]
        _alive.discard(self)

    def _line(self, deadline: float, timeout_s: float) -> bytes:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    self.kill()
                    raise WorkerLostError(f"no answer within {timeout_s:g} s: the process was killed")
                data = os.read(self._process.stdout.fileno(), 1 << 20)
                self._buffer += data
                if not data or len(self._buffer) > MAX_LINE_BYTES:
                    raise self._lost()
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _decode(self, line: bytes) -> dict[str, Any]:
        try:
            answer = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            self.kill()
            raise WorkerLostError(f"not an answer: {line[:80]!r}")
        return answer

    def _lost(self) -> WorkerLostError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_S)
        status = self._process.returncode
        self.kill()
        return WorkerLostError(f"the child process {_ending(status)}{self._last_words()}")

    def _last_words(self) -> str:
        self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, self._said.tell() - 4096))
        lines = self._said.read().decode("utf-8", "replace").strip().splitlines()
        return f": {lines[-1][:200]}" if lines else ""


@atexit.register
def _kill_all() -> None:
    """Leave nothing behind when this process ends early."""
    for worker in tuple(_alive):
        worker.kill()


def _ending(status: int | None) -> str:
    if status is None:
        return "closed its output"
    if status >= 0:
        return f"ended with status {status}"
    names = {int(number): number.name for number in signal.Signals}
    return f"was killed by {names.get(-status, f'signal {-status}')}"
