"""When to survey because of events: soon, once for many, and not without end. Times are monotonic seconds."""

from collections import deque

from hostdoctor.agent.model import SurveyReason

QUIET_S, LATEST_S = 1.0, 3.0  # after the last event, and after the first at the latest
STORM, STORM_LATEST_S = 500, 30.0  # from so many on, the end of the storm is waited for
MOST, WITHIN_S = 12, 600.0  # surveys that events may ask for


class Asked:
    """Events that no survey has looked at yet."""

    def __init__(self) -> None:
        self.count = 0
        self.words = ""
        self.reason: SurveyReason = "event"
        self._first = self._last = 0.0
        self._granted: deque[float] = deque(maxlen=MOST)

    def note(self, count: int, words: str, now: float, reason: SurveyReason = "event") -> None:
        """Count events (or signals that changed); ``words`` names one of them."""
        if not count:
            return
        if not self.count:
            self._first, self.words, self.reason = now, words, reason
        self._last = now
        self.count += count

    def due(self) -> float | None:
        """Return when a survey is due for them, None where there are none."""
        if not self.count:
            return None
        latest = STORM_LATEST_S if self.count > STORM else LATEST_S
        return max(min(self._last + QUIET_S, self._first + latest), self._next_grant())

    def is_held(self, now: float) -> bool:
        """Tell whether there are events, but too many surveys have been asked for already."""
        return bool(self.count) and self._next_grant() > now

    def answered(self, now: float, *, granted: bool) -> None:
        """Forget them: a survey begins. ``granted``: they are why."""
        if granted:
            self._granted.append(now)
        self.count, self.words = 0, ""

    def _next_grant(self) -> float:
        return self._granted[0] + WITHIN_S if len(self._granted) == MOST else 0.0
