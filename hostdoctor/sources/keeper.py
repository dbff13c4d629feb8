"""Runs as a process of its own (``keeper.py GRACE_S COMMAND…``): keeps one command, and outlives who asked for it.

It ends the command and everything that the command started, in whatever session or process group, when its standard
input closes: on request, or because who started it is no more. Orphans come to it, as it is a child subreaper
(prctl(2)). The command gets descriptor 3 and must close it when it is under way; what it writes there instead says
why it is not. Events are JSON lines on standard output: ``{"started": PID, "at": S}``, ``{"refused": TEXT}``,
``{"ended": STATUS, "at": S}`` (as ``subprocess`` counts, negative for a signal), ``{"left": [PID, …]}``; times are
CLOCK_MONOTONIC, the same for all processes. Standard error is the command's output.

Only the standard library is imported: it is started in front of every run.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import time

READY = 3
ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
KILL_WAIT_S = 10.0  # a process in D state does not end; it is named, not waited for
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_POLL_S = 0.02
_MAX_REASON_BYTES = 4096


def descendants(pid: int) -> list[int]:
    """Return the processes below a process that have not ended, parents before children."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  hundreds of entries, often
        if name.isdecimal() and (parent := _parent(int(name))) is not None:
            children.setdefault(parent, []).append(int(name))
    found, seen = [pid], {pid}
    for one in found:
        new = [child for child in children.get(one, ()) if child not in seen]
        seen.update(new)
        found += new
    return found[1:]


def _parent(pid: int) -> int | None:
    """Return a living process' parent; its name may hold blanks and parentheses."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            state, parent = file.read().rpartition(b")")[2].split()[:2]
    except (OSError, ValueError):
        return None
    return None if state in (b"Z", b"X") else int(parent)


def main() -> None:
    """Start the command, wait for its end or for the request to end it, leave nothing behind."""
    grace_s, argv = float(sys.argv[1]), sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wakeups = _wake_on_signals()
    reading, writing = os.pipe()
    # Kept back until the command has the usual handlers: one that came before would be lost on it.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    pid = os.fork()
    if pid == 0:
        _become(libc, os.getppid(), writing, argv)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    os.close(writing)
    _watch(pid, reading, wakeups)
    _say({"left": _end_all(grace_s)})


def _become(libc: ctypes.CDLL, keeper: int, writing: int, argv: list[str]) -> None:
    os.setsid()
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        if os.getppid() != keeper:
            os._exit(1)
        signal.set_wakeup_fd(-1)
        for number in (*ENDING, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        os.dup2(writing, READY, inheritable=True)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        os.execvp(argv[0], argv)
    except OSError as error:
        os.write(READY, f"{argv[0]}: {error.strerror}".encode())
    os._exit(127)


def _wake_on_signals() -> int:
    """Return a descriptor that becomes readable when a child ends or somebody ends this process."""
    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writing)
    for number in (*ENDING, signal.SIGCHLD):
        signal.signal(number, lambda _number, _frame: None)
    return reading


def _watch(pid: int, ready: int, wakeups: int) -> None:
    """Tell of the start and the end of the command; return when it has ended or shall end."""
    reason = b""
    watched = [0, ready, wakeups]
    while True:
        readable = select.select(watched, (), ())[0]
        if ready in readable:
            data = os.read(ready, _MAX_REASON_BYTES)
            reason = (reason + data)[:_MAX_REASON_BYTES]
            if not data:
                watched.remove(ready)
                said = {"refused": reason.decode("utf-8", "replace")} if reason else {"started": pid}
                _say(said | {"at": time.monotonic()})
        if wakeups in readable and _has_ended(pid, os.read(wakeups, 512)):
            return
        if 0 in readable and not os.read(0, 512):
            return


def _has_ended(pid: int, signals: bytes) -> bool:
    """Reap who has ended; tell whether the command is among them, or this process was told to end."""
    at = time.monotonic()
    ended = dict(_reaped())
    if pid in ended:
        _say({"ended": ended[pid], "at": at})
    return pid in ended or any(number in signals for number in ENDING)


def _reaped() -> list[tuple[int, int]]:
    found = []
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            found.append((ended[0], os.waitstatus_to_exitcode(ended[1])))
    return found


def _end_all(grace_s: float) -> list[int]:
    """End everything below this process: asked first, then killed. Returns what would not end."""
    for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, KILL_WAIT_S)):
        asked: set[int] = set()
        deadline = time.monotonic() + wait_s
        while left := descendants(os.getpid()):
            for pid in left:  # those that start meanwhile too
                if pid not in asked:
                    asked.add(pid)
                    with contextlib.suppress(OSError):
                        os.kill(pid, number)
            _reaped()
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_S)
    return descendants(os.getpid())


def _say(event: dict[str, object]) -> None:
    with contextlib.suppress(OSError):  # nobody may listen any more
        os.write(1, json.dumps(event).encode() + b"\n")


if __name__ == "__main__":
    main()
