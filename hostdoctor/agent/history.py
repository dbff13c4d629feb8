"""Keeping the state written: what could not be is tried again, and the agent goes on meanwhile."""

import datetime
from collections import deque
from collections.abc import Iterable

from hostdoctor.agent.ledger import Event
from hostdoctor.agent.state import Memory, State, StateError
from hostdoctor.agent.troubles import Troubles
from hostdoctor.facts import Baseline

MAX_WAITING = 1000


class Recorder:
    """Writes to the state, or, where there is none, nowhere."""

    def __init__(self, state: State | None) -> None:
        self._state = state
        self._waiting: deque[Event] = deque(maxlen=MAX_WAITING)
        self._is_loaded = False
        self.is_behind = False

    def start(self, now: float, troubles: Troubles) -> Memory | None:
        """Open the state and return what it remembers; what is damaged is set aside, which is told."""
        if self._state is None:
            return None
        try:
            aside = self._state.open(now)
            if aside is not None:
                troubles.note("state", aside)
                troubles.over("state", "a new one is begun")
        except StateError as error:
            troubles.note("state", f"not read: {error}")
            return None
        return self.load(troubles)

    def load(self, troubles: Troubles) -> Memory | None:
        """Return what the state remembers now, None where it cannot be read."""
        if self._state is None:
            return None
        try:
            memory = self._state.load()
        except StateError as error:
            troubles.note("state", f"not read: {error}")
            return None
        self._is_loaded = True
        return memory

    def add(self, events: Iterable[Event]) -> None:
        """Take transitions to write; of those that cannot be written for long only the newest are kept."""
        if self._state is not None:
            self._waiting.extend(events)

    def save(self, memory: Memory, now: float, troubles: Troubles) -> bool:
        """Write what has changed; tell whether that failed, to be tried again with the next reading.

        What was never read is not written over.
        """
        if self._state is None:
            return False
        if not self._is_loaded:
            self.is_behind = True
            return True
        try:
            self._state.save(memory, tuple(self._waiting))
        except StateError as error:
            troubles.note("state", f"not written: {error}")
            self.is_behind = True
            if error.is_damaged:
                self._begin_anew(now, troubles)
            return True
        self._waiting.clear()
        self.is_behind = False
        troubles.over("state", "written again")
        return False

    def prune(self, now: float, days: float, troubles: Troubles) -> None:
        """Forget what is too old."""
        try:
            if self._state is not None:
                self._state.prune(now, days)
        except StateError as error:
            troubles.note("state", f"not pruned: {error}")
            self.is_behind = True

    def changed_elsewhere(self) -> bool:
        """Tell whether there is something to load: ``accept-baseline`` has written, or nothing could be read before."""
        if self._state is None:
            return False
        return self._state.changed_elsewhere() if self._is_loaded else self._state.is_readable()

    def accepted_at(self, baseline: Baseline | None) -> float | None:
        """Return when a map was accepted, in seconds since 1970."""
        if baseline is None:
            return None
        try:
            return datetime.datetime.fromisoformat(baseline.accepted_at).timestamp()
        except ValueError:
            return None

    def close(self) -> None:
        """Let go of the file."""
        if self._state is not None:
            self._state.close()

    def _begin_anew(self, now: float, troubles: Troubles) -> None:
        assert self._state is not None
        try:
            aside = self._state.open(now)
        except StateError as error:
            troubles.note("state", f"not written: {error}")
        else:
            troubles.note("state", aside or "it was damaged, and is sound now")
