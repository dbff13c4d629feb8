"""What the agent itself suffers from: told once when it begins and once when it ends."""

from collections.abc import Callable

from hostdoctor.agent.log import Log, log_problem
from hostdoctor.agent.model import Problem


class Troubles:
    """The problems that stand, by name."""

    def __init__(self, log: Log, wall: Callable[[], float]) -> None:
        self._log, self._wall = log, wall
        self._standing: dict[str, Problem] = {}

    def note(self, name: str, message: str) -> None:
        """Say that there is a problem; one that stands already is told again only in other words."""
        old = self._standing.get(name)
        if old is None or old.message != message:
            log_problem(self._log, name, message)
        since = self._wall() if old is None else old.since_at
        self._standing[name] = Problem(name=name, message=message, since_at=since)

    def over(self, name: str, message: str) -> None:
        """Say that a problem has ended, where there was one."""
        if self._standing.pop(name, None) is not None:
            log_problem(self._log, name, message, is_over=True)

    def all(self) -> tuple[Problem, ...]:
        """Return the problems that stand."""
        return tuple(self._standing.values())
