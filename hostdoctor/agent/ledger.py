"""From one survey's results to the next: which findings appeared, changed, cleared. Pure.

What could not be judged this time stands as it was last seen: missing evidence is not health.
"""

import re
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from hostdoctor.agent.model import CheckState, OpenFinding, Transition
from hostdoctor.diagnosis.report import SEVERITIES, CheckResult, Finding, Severity
from hostdoctor.facts import Fact

FLIPS, FLAP_WINDOW_S = 4, 1800.0  # so many comings and goings in so long: flapping, until quiet for as long
NUMBERS_QUIET_S = 3600.0  # a message in which only numbers differ is told again no sooner
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")

Key = tuple[str, str]


class Held(Fact, frozen=True, kw_only=True):
    """A finding that is remembered. ``flips`` are the times at which it came or went; it may be gone by now."""

    finding: OpenFinding
    is_present: bool = True
    flips: tuple[float, ...] = ()

    @property
    def key(self) -> Key:
        """What tells it from others: the check and the subject."""
        return self.finding.id, self.finding.subject


class Event(Fact, frozen=True, kw_only=True):
    """A transition, as it is logged and kept in the history. ``before`` is the message or severity that it had."""

    at: float
    transition: Transition
    id: str
    name: str
    subject: str
    severity: Severity
    message: str
    remedy: str = ""
    before: str | None = None


def step(
    held: Mapping[Key, Held], results: Iterable[CheckResult], now: float
) -> tuple[dict[Key, Held], tuple[Event, ...]]:
    """Return what is held after a survey and what is to be told; ``now`` is seconds since 1970."""
    known = {result.id: result for result in results}
    kept: dict[Key, Held] = {}
    events: list[Event] = []
    for result in known.values():
        mine = {key: one for key, one in held.items() if key[0] == result.id}
        for one, told in _judged(mine, result, now):
            kept[one.key] = one
            events += told
    for key, one in held.items():
        if key[0] not in known:  # the check is no longer run
            events += _told(one, "cleared", now) if one.is_present else ()
    return {key: one for key, one in kept.items() if one.is_present or _recent(one.flips, now)}, tuple(events)


def check_states(results: Iterable[CheckResult], held: Mapping[Key, Held]) -> tuple[CheckState, ...]:
    """Return every check with the findings that stand."""
    by_id: dict[str, list[OpenFinding]] = {}
    for one in held.values():
        if one.is_present:
            by_id.setdefault(one.finding.id, []).append(one.finding)
    return tuple(
        CheckState(
            id=result.id,
            name=result.name,
            status=result.status,
            severity=_worst(by_id.get(result.id, ())),
            skip_kind=result.skip_kind,
            reason=result.reason,
            findings=tuple(by_id.get(result.id, ())),
            accepted=len(result.accepted),
        )
        for result in results
    )


def _worst(findings: Iterable[OpenFinding]) -> Severity | None:
    return max((finding.severity for finding in findings), key=SEVERITIES.index, default=None)


def _judged(mine: dict[Key, Held], result: CheckResult, now: float) -> list[tuple[Held, list[Event]]]:
    """Return what one check's findings have become."""
    if result.status == "error" or (result.status == "skip" and result.skip_kind != "not-applicable"):
        return [(replace(one, finding=replace(one.finding, is_judged=False)), []) for one in mine.values()]
    left = dict(mine)
    pairs = [(_take(left, result.id, finding), finding) for finding in result.findings]
    found = [_present(before, result, finding, now) for before, finding in pairs]
    return found + [_absent(one, now) for one in left.values()]


def _take(left: dict[Key, Held], id: str, finding: Finding) -> Held | None:
    """Take what is held of a finding: under its subject, else under one that shares a part with it."""
    exact = left.pop((id, finding.subject), None)
    if exact is not None:
        return exact
    parts = _parts(finding.subject)
    key = next((key for key, one in left.items() if one.is_present and parts & _parts(key[1])), None)
    return None if key is None else left.pop(key)


def _parts(subject: str) -> frozenset[str]:
    return frozenset(part.strip() for part in subject.split(","))


def _present(before: Held | None, result: CheckResult, found: Finding, now: float) -> tuple[Held, list[Event]]:
    seen = OpenFinding(
        id=result.id,
        name=result.name,
        subject=found.subject,
        severity=found.severity,
        message=found.message,
        remedy=found.remedy.text,
        first_seen_at=now,
        changed_at=now,
    )
    if before is None:
        one = Held(finding=seen, flips=(now,))
        return one, _told(one, "appeared", now)
    if not before.is_present:
        return _flipped(before, replace(before, finding=replace(seen, is_flapping=before.finding.is_flapping)), now)
    old = before.finding
    is_told = old.severity != seen.severity or (not old.is_flapping and _says_more(old, seen, now))
    finding = replace(
        seen,
        first_seen_at=old.first_seen_at,
        changed_at=now if is_told else old.changed_at,
        is_flapping=old.is_flapping,
    )
    one = Held(finding=finding, flips=_recent(before.flips, now))
    events = _told(one, "changed", now, before=f"{old.severity}: {old.message}") if is_told else []
    return _settled(one, now, events)


def _absent(before: Held, now: float) -> tuple[Held, list[Event]]:
    if before.is_present:
        return _flipped(before, replace(before, is_present=False), now)
    return _settled(replace(before, flips=_recent(before.flips, now)), now, [])


def _flipped(before: Held, after: Held, now: float) -> tuple[Held, list[Event]]:
    """Return a finding that came back or went, and what is told of it: nothing more once it flaps."""
    flips = (*_recent(before.flips, now), now)
    one = Held(finding=after.finding, is_present=not before.is_present, flips=flips[-FLIPS:])
    if before.finding.is_flapping:
        return one, []
    if len(flips) >= FLIPS:
        one = replace(one, finding=replace(one.finding, is_flapping=True))
        return one, _told(one, "flapping", now)
    return one, _told(one, "appeared" if one.is_present else "cleared", now)


def _settled(one: Held, now: float, events: list[Event]) -> tuple[Held, list[Event]]:
    """Return a finding that flapped and has been quiet for long enough as an ordinary one."""
    if not one.finding.is_flapping or _recent(one.flips, now):
        return one, events
    calm = replace(one, finding=replace(one.finding, is_flapping=False))
    state = "present" if one.is_present else "gone"
    return calm, [*events, *_told(calm, "settled", now, before=state)]


def _says_more(old: OpenFinding, new: OpenFinding, now: float) -> bool:
    """Tell whether a message differs in more than numbers, or in numbers after a while."""
    if old.message == new.message and old.subject == new.subject:
        return False
    if _NUMBER.sub("#", old.message) != _NUMBER.sub("#", new.message) or old.subject != new.subject:
        return True
    return not 0 <= now - old.changed_at < NUMBERS_QUIET_S


def _recent(flips: tuple[float, ...], now: float) -> tuple[float, ...]:
    """Return the times within the window; those of a clock that was set back are dropped."""
    return tuple(at for at in flips if 0 <= now - at < FLAP_WINDOW_S)


def _told(one: Held, transition: Transition, now: float, before: str | None = None) -> list[Event]:
    finding = one.finding
    return [
        Event(
            at=now,
            transition=transition,
            id=finding.id,
            name=finding.name,
            subject=finding.subject,
            severity=finding.severity,
            message=finding.message,
            remedy=finding.remedy,
            before=before,
        )
    ]
