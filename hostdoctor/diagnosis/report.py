"""What checks yield and the runner collects: the JSON contract of ``hostdoctor check --format json``."""

from typing import Literal

from hostdoctor.facts import SCHEMA_VERSION, Fact, Host

Severity = Literal["info", "warning", "critical"]
Status = Literal["ok", "warning", "critical", "unknown"]
SkipKind = Literal["not-applicable", "live-only", "needs-root", "no-plan", "no-evidence"]
Risk = Literal["none", "restart", "reboot", "isolation", "oom"]

SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")


class Evidence(Fact, frozen=True, kw_only=True):
    """Where something was seen (a path or a command) and the value seen there."""

    source: str
    value: str


class Remedy(Fact, frozen=True, kw_only=True):
    """What to do: prose, what it can break, whom it touches, how to undo it and how to see that it worked."""

    text: str
    risk: Risk = "none"
    scope: Literal["process", "host"] = "host"
    undo: str | None = None
    verify: str | None = None


class Finding(Fact, frozen=True, kw_only=True):
    """One cause, on the subjects listed in ``subject``; ``effect`` is what it costs, or "effect unknown"."""

    subject: str
    message: str
    severity: Severity
    evidence: tuple[Evidence, ...]
    effect: str
    remedy: Remedy


class Accepted(Fact, frozen=True, kw_only=True):
    """A finding that the site lives with: why, and until which date (inclusive, ISO 8601)."""

    finding: Finding
    reason: str
    until: str


class Skip(Fact, frozen=True, kw_only=True):
    """Why a check could not be judged."""

    kind: SkipKind
    reason: str


class CheckResult(Fact, frozen=True, kw_only=True):
    """How one check ended. ``fail`` means it fired, at any severity."""

    id: str
    name: str
    severity: Severity
    status: Literal["pass", "fail", "skip", "error"]
    skip_kind: SkipKind | None = None
    reason: str | None = None
    findings: tuple[Finding, ...] = ()
    accepted: tuple[Accepted, ...] = ()


class Report(Fact, frozen=True, kw_only=True):
    """The verdict on a host, with the host itself."""

    schema_version: str = SCHEMA_VERSION
    status: Status = "ok"
    unknown: str | None = None
    gpus_in_scope: int | None = None
    notes: tuple[str, ...] = ()
    results: tuple[CheckResult, ...] = ()
    host: Host = Host()
