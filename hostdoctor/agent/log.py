"""What the agent says in its log, and with which fields."""

from collections.abc import Mapping
from typing import Protocol

from hostdoctor.agent.ledger import Event
from hostdoctor.agent.model import Transition
from hostdoctor.diagnosis.report import Severity
from hostdoctor.sources.journal import ERROR, INFO, NOTICE, WARNING

# Ids of kinds of entries (journald's MESSAGE_ID), made once at random.
TRANSITION_ID, PROBLEM_ID = "d49f5a6c8fd64239a1097734d2800834", "7c66bee28785439292f40501b35fc6e2"
_PRIORITIES: dict[Severity, int] = {"critical": ERROR, "warning": WARNING, "info": INFO}
_CALM: tuple[Transition, ...] = ("cleared", "settled")


class Log(Protocol):
    """Takes entries; :class:`hostdoctor.sources.journal.Journal` is one."""

    def write(self, priority: int, message: str, fields: Mapping[str, str] | None = None) -> None:
        """Log an entry."""


def log_event(log: Log, event: Event) -> None:
    """Log a transition with the check's id, name and subject as fields."""
    fields = {
        "MESSAGE_ID": TRANSITION_ID,
        "HOSTDOCTOR_TRANSITION": event.transition,
        "HOSTDOCTOR_CHECK": event.id,
        "HOSTDOCTOR_NAME": event.name,
        "HOSTDOCTOR_SUBJECT": event.subject,
        "HOSTDOCTOR_SEVERITY": event.severity,
        "HOSTDOCTOR_REMEDY": event.remedy,
    }
    if event.before is not None:
        fields["HOSTDOCTOR_BEFORE"] = event.before
    priority = NOTICE if event.transition in _CALM else _PRIORITIES[event.severity]
    log.write(priority, sentence(event), fields)


def sentence(event: Event) -> str:
    """Return a transition as one line."""
    kind: str = event.transition
    if event.transition == "settled":
        kind = f"settled ({event.before})"
    elif event.transition == "flapping":
        kind = "flapping (comes and goes: told again once it is quiet for half an hour)"
    return " ".join(f"{event.id} {event.name} {kind}, {event.severity}: {event.message}".split())


def log_problem(log: Log, name: str, message: str, *, is_over: bool = False) -> None:
    """Log that the agent itself suffers from something, or no longer does."""
    fields = {"MESSAGE_ID": PROBLEM_ID, "HOSTDOCTOR_PROBLEM": name}
    log.write(NOTICE if is_over else WARNING, f"{name}: {message}", fields)
