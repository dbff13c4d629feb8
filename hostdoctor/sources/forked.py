"""A function run in a forked child: what hangs, crashes or leaks there costs the child alone.

The child inherits what the parent has imported and holds, so that starting it costs milliseconds and no memory.
"""

import contextlib
import ctypes
import gc
import os
import signal
from collections.abc import Callable

from hostdoctor.errors import HostdoctorError, described
from hostdoctor.sources.keeper import descendants

MAX_BYTES = 64 << 20
_PR_SET_PDEATHSIG = 1
_STDERR = 2
_OK, _FAILED = b"+", b"-"
_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGCHLD)


_killed: set[int] = set()


class JobError(HostdoctorError):
    """The child did not come to its end: it raised, was killed, or said too much."""


class Job:
    """A function at work in a child; :meth:`fileno` becomes readable when there is news of it."""

    def __init__(self, work: Callable[[], bytes]) -> None:
        """Start it; raise OSError where no process can be had."""
        reading, writing = os.pipe2(os.O_CLOEXEC)
        parent = os.getpid()
        try:
            self.pid = os.fork()
        except OSError:
            os.close(reading)
            os.close(writing)
            raise
        if self.pid == 0:
            _work(work, writing, parent)
        os.close(writing)
        os.set_blocking(reading, False)
        self._reading = reading
        self._said = bytearray()

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._reading

    def collect(self) -> bytes | None:
        """Return what the function returned, None while it is at work; raise JobError where it failed."""
        while True:
            try:
                data = os.read(self._reading, 1 << 20)
            except BlockingIOError:
                return None
            if not data:
                return self._result()
            self._said += data
            if len(self._said) > MAX_BYTES:
                self.kill()
                raise JobError(f"more than {MAX_BYTES >> 20} MiB of results")

    def kill(self) -> None:
        """Kill it and all that it started, and do not wait: a process in D state never ends."""
        for pid in (self.pid, *descendants(self.pid)):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        _killed.add(self.pid)
        self._close()

    def _result(self) -> bytes:
        said = bytes(self._said)
        _, status = os.waitpid(self.pid, 0)  # it has closed its end: it is ending
        self._close()
        if said[:1] == _OK and status == 0:
            return said[1:]
        if said[:1] == _FAILED:
            raise JobError(said[1:].decode("utf-8", "replace"))
        code = os.waitstatus_to_exitcode(status)
        raise JobError(f"ended with status {code}" if code >= 0 else f"was killed by signal {-code}")

    def _close(self) -> None:
        if self._reading >= 0:
            os.close(self._reading)
            self._reading = -1


def reap() -> None:
    """Take the ends of children that were killed and not waited for."""
    for pid in tuple(_killed):
        try:
            has_ended = os.waitpid(pid, os.WNOHANG)[0] == pid
        except ChildProcessError:
            has_ended = True
        if has_ended:
            _killed.discard(pid)


def _work(work: Callable[[], bytes], writing: int, parent: int) -> None:
    """Run the function and leave by ``_exit``: nothing of the parent's clean-up is the child's to do."""
    try:
        gc.disable()
        _be_a_child(parent, writing)
        said = _OK + work()
    except BaseException as error:  # noqa: BLE001  whatever it is, the parent is told
        text = str(error) if isinstance(error, HostdoctorError) else described(error)
        said = _FAILED + text.encode("utf-8", "replace")[:4096]
    status = 1
    with contextlib.suppress(OSError):
        view = memoryview(said)
        while view:
            view = view[os.write(writing, view) :]
        status = 0
    os._exit(status)


def _be_a_child(parent: int, writing: int) -> None:
    """Die with the parent, with its signals as they were before anybody handled them, and none of its files open.

    A child that the kernel does not let die must hold neither the port nor the state that the next agent needs.
    """
    os.closerange(_STDERR + 1, writing)
    os.closerange(writing + 1, os.sysconf("SC_OPEN_MAX"))
    signal.set_wakeup_fd(-1)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
