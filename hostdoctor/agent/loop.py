"""Waiting: for the next thing that is due, device events, a survey's end, a signal."""

import contextlib
import os
import selectors
import signal
from collections.abc import Callable, Iterator
from typing import Protocol

from hostdoctor.agent.core import Agent
from hostdoctor.errors import SourceError

LONGEST_WAIT_S = 60.0
_STOP = frozenset((signal.SIGTERM, signal.SIGINT, signal.SIGQUIT))
_HANDLED = (*_STOP, signal.SIGHUP)


class Events(Protocol):
    """A subscription to device events; :class:`hostdoctor.sources.uevents.Uevents` is one."""

    def fileno(self) -> int:
        """Return the descriptor to wait on."""

    def drain(self) -> tuple[tuple[str, ...], bool]:
        """Take what is there, and whether some were lost; raise SourceError where there can be no more."""


def run(agent: Agent, subscribe: Callable[[], Events | None]) -> None:
    """Run the agent until SIGTERM, SIGINT or SIGQUIT; SIGHUP reads the configuration again."""
    with _signals() as wakeups:
        agent.start()
        waiting = _Waiting(agent, wakeups, subscribe)
        try:
            while not waiting.once():
                pass
        finally:
            agent.stop()


class _Waiting:
    """One turn after the other."""

    def __init__(self, agent: Agent, wakeups: int, subscribe: Callable[[], Events | None]) -> None:
        self._agent, self._wakeups = agent, wakeups
        self._events: Events | None = None
        try:
            self._events = subscribe()
        except SourceError as error:
            agent.troubles.note("uevents", f"changes are seen at the next signals or survey only: {error}")

    def once(self) -> bool:
        """Do what is due, then wait; tell whether to stop."""
        self._agent.run_due()
        heard = self._wait()
        if self._events is not None and self._events.fileno() in heard:
            self._take_events(self._events)
        numbers = os.read(self._wakeups, 512) if self._wakeups in heard else b""
        if any(number in numbers for number in _STOP):
            return True
        if signal.SIGHUP in numbers:
            self._agent.reload()
        return False

    def _wait(self) -> set[int]:
        """Wait for something to happen or be due; return the descriptors with news."""
        now = self._agent.tools.monotonic()
        timeout_s = min(max(0.0, self._agent.wake_at() - now), LONGEST_WAIT_S)
        with selectors.PollSelector() as selector:
            for descriptor in self._descriptors():
                selector.register(descriptor, selectors.EVENT_READ)
            return {key.fd for key, _ in selector.select(timeout_s)}

    def _descriptors(self) -> Iterator[int]:
        yield self._wakeups
        if self._events is not None:
            yield self._events.fileno()
        if self._agent.job is not None:
            yield self._agent.job.fileno()

    def _take_events(self, events: Events) -> None:
        try:
            names, lost = events.drain()
        except SourceError as error:
            self._events = None
            self._agent.troubles.note("uevents", f"changes are seen at the next signals or survey only: {error}")
        else:
            self._agent.events(names, lost=lost)


@contextlib.contextmanager
def _signals() -> Iterator[int]:
    """Give a descriptor that becomes readable with the numbers of signals; one that is ignored stays so."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    handled = [number for number in _HANDLED if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda *_: None) for number in handled}
    old = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(old)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)
