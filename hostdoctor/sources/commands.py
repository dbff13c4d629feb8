"""Running external commands: argument lists, LC_ALL=C, one deadline, bounded output, side by side, never waited for."""

import atexit
import contextlib
import os
import selectors
import shutil
import signal
import subprocess  # noqa: TID251  the one module that may
import sys
import threading
import time
from collections.abc import Mapping

from hostdoctor.facts import Fact, GapKind

MAX_OUTPUT_BYTES = 32 << 20
GRACE_S = 0.2  # for a killed child to be reaped; one in D state is left behind
LINGER_S = 0.25  # for output that a child's own children may still write

# The kernel kills it when the thread that started it is no more: also where this process is killed.
_DIE_WITH = """import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
if os.getppid() != int(sys.argv[1]): os._exit(1)
try: os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error: sys.exit(f"{sys.argv[2]}: {error.strerror}")
"""

_unfinished: "set[subprocess.Popen[bytes]]" = set()


class Completed(Fact, frozen=True, kw_only=True):
    """How a command ended. ``text`` is its standard output, possibly partial; ``reason`` is None when it succeeded."""

    text: str = ""
    reason: str | None = None
    kind: GapKind = "error"


class Running:
    """A command started in the background; :meth:`wait` gives its outcome, at the deadline at the latest.

    ``dies_with_us``: it ends also where this process is killed, as one must that puts load on the host.
    """

    def __init__(
        self, argv: tuple[str, ...], deadline: float, environment: Mapping[str, str], *, dies_with_us: bool = False
    ) -> None:
        self._argv = argv
        self._dies_with_us = dies_with_us
        self._is_unwanted = False
        self._deadline = deadline
        self._outcome = Completed(reason="did not answer in time", kind="timeout")
        self._environment = dict(environment) | {"LC_ALL": "C", "LANGUAGE": "C"}
        self.pid: int | None = None  # once it has started
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def wait(self) -> Completed:
        """Return how it ended; after the deadline the command is killed and the answer is a timeout."""
        self._thread.join(max(0.0, self._deadline - time.monotonic()) + 2 * GRACE_S)
        return self._outcome

    def ended_within(self, seconds: float) -> bool:
        """Wait at most so long, and tell whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def stop(self) -> None:
        """End the command and all that it started; one that has ended is left alone."""
        self._is_unwanted = True  # for one that is being started at this moment
        for process in tuple(_unfinished):
            if process.pid == self.pid and process.poll() is None:
                _kill(process)

    def _work(self) -> None:
        command = self._argv
        if self._dies_with_us and os.access(sys.executable, os.X_OK):  # not one in a folder that was given up with root
            if shutil.which(command[0]) is None:
                self._outcome = _not_started(command[0], FileNotFoundError())
                return
            command = (sys.executable, "-I", "-S", "-c", _DIE_WITH, str(os.getpid()), *command)
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                start_new_session=True,
            )
        except OSError as error:
            self._outcome = _not_started(self._argv[0], error)
            return
        _unfinished.add(process)
        self.pid = process.pid
        if self._is_unwanted:
            _kill(process)
        out, err, complete = _collect(process, self._deadline)
        status = _finish(process, self._deadline if complete else 0.0)
        if process.returncode is not None:
            _unfinished.discard(process)
        self._outcome = _outcome(out, err, status if complete else None, self._deadline)


@atexit.register
def kill_unfinished() -> None:
    """Leave nothing behind when this process ends early: Ctrl-C, an error elsewhere."""
    for process in tuple(_unfinished):
        if process.poll() is None:
            _kill(process)


def _not_started(name: str, error: OSError) -> Completed:
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return Completed(reason=f"{name}: command not found", kind="missing")
    if isinstance(error, PermissionError) and not _is_somewhere(name):
        return Completed(reason=f"{name}: command not found", kind="missing")
    kind: GapKind = "denied" if isinstance(error, PermissionError) else "error"
    return Completed(reason=f"{name}: {os.strerror(error.errno or 0).lower()}", kind=kind)


def _is_somewhere(name: str) -> bool:
    """Tell whether the program exists: a folder of PATH that may not be searched gives "permission denied" too."""
    folders = [""] if "/" in name else os.environ.get("PATH", "").split(os.pathsep)
    return any(os.path.exists(os.path.join(folder, name)) for folder in folders)  # noqa: PTH110, PTH118  no raising


def _collect(process: "subprocess.Popen[bytes]", deadline: float) -> tuple[bytes, bytes, bool]:
    """Read both pipes to their ends; the last value is False when the deadline or the size limit cut it short."""
    buffers: dict[int, list[bytes]] = {}
    size = 0
    with selectors.DefaultSelector() as selector:
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            buffers[pipe.fileno()] = []
            selector.register(pipe, selectors.EVENT_READ)
        out_fd, err_fd = buffers
        while selector.get_map():
            remaining = deadline - time.monotonic()
            if remaining <= 0 or size > MAX_OUTPUT_BYTES:
                break
            ended = process.poll() is not None  # asked before waiting: its last words may come with its end
            events = selector.select(min(remaining, LINGER_S))
            if not events and ended:
                return b"".join(buffers[out_fd]), b"".join(buffers[err_fd]), True
            for key, _ in events:
                data = os.read(key.fd, 1 << 16)
                size += len(data)
                buffers[key.fd].append(data)
                if not data:
                    selector.unregister(key.fileobj)
        complete = not selector.get_map()
    return b"".join(buffers[out_fd]), b"".join(buffers[err_fd]), complete


def _finish(process: "subprocess.Popen[bytes]", deadline: float) -> int | None:
    """Return the exit status; kill the process and its group when it has not ended by the deadline."""
    try:
        return process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        _kill(process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
        return None
    finally:
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def _outcome(out: bytes, err: bytes, status: int | None, deadline: float) -> Completed:
    text = out.decode("utf-8", "replace")
    if status == 0:
        return Completed(text=text)
    if status is None:
        late = time.monotonic() >= deadline
        reason = "did not answer in time" if late else f"printed more than {MAX_OUTPUT_BYTES >> 20} MiB"
        return Completed(text=text, reason=reason, kind="timeout" if late else "error")
    said = err.decode("utf-8", "replace").strip() or (text.strip() if status > 0 else "")
    first = f": {said.splitlines()[0][:200]}" if said else ""
    return Completed(text=text, reason=_ending(status) + first, kind="error")


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    names = {int(number): number.name for number in signal.Signals}
    return f"killed by {names.get(-status, f'signal {-status}')}"
