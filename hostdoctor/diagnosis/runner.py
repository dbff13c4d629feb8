"""Running the checks over a host, and the status that comes of it."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Literal, TypeVar

import msgspec

from hostdoctor.diagnosis.accept import Accept
from hostdoctor.diagnosis.api import Ask, Rule, gpu_label, in_scope
from hostdoctor.diagnosis.needs import node_known, one_cpu_node
from hostdoctor.diagnosis.report import SEVERITIES, Accepted, CheckResult, Finding, Report, Severity, Skip, Status
from hostdoctor.errors import Terminated, described
from hostdoctor.facts import Host

Yielded = TypeVar("Yielded", Finding, Skip, Finding | Skip)


def diagnose(
    host: Host,
    ask: Ask,
    rules: Sequence[Rule],
    *,
    accepts: Sequence[Accept] = (),
    ended: Sequence[Accept] = (),
    fail_on: Severity = "warning",
) -> Report:
    """Return the verdict: each check's result and the status that the findings at or above ``fail_on`` give.

    ``ended`` are acceptances whose date has passed: those that would still matter are named in the notes.
    """
    with contextlib.redirect_stdout(sys.stderr):  # what a site's check prints is no part of the report
        results = tuple(_judge(host, ask, rule, accepts) for rule in rules)
    unknown = why_unknown(host, ask)
    return Report(
        status=_status(results, unknown, fail_on),
        unknown=unknown,
        gpus_in_scope=len(in_scope(host, ask)),
        notes=tuple(_ended_notes(results, rules, ended)),
        results=results,
        host=host,
    )


def _ended_notes(results: Sequence[CheckResult], rules: Sequence[Rule], ended: Sequence[Accept]) -> Iterator[str]:
    """Yield a line for each acceptance that ended and whose finding is still there."""
    for rule, result in zip(rules, results, strict=True):
        for accept in ended:
            if any(_accepts(accept, rule, finding) for finding in result.findings):
                yield f"acceptance of {rule.id} {accept.subject} ended on {accept.until}: {accept.reason}"


def why_unknown(host: Host, ask: Ask) -> str | None:
    """Return why the map itself could not be established, None when it could."""
    hung = [gap for gap in host.gaps if gap.fact == "source:topo-matrix" and gap.kind == "timeout"]
    if host.nvidia.state == "timeout" or (hung and host.nvidia.state != "ok"):
        return f"the NVIDIA driver: {host.nvidia.reason if not hung else hung[0].reason}"
    denied = (gap for gap in host.gaps if gap.kind == "denied")
    hidden = next((gap for gap in denied if gap.fact == "pci_devices" or gap.fact.endswith(".class_code")), None)
    if hidden is not None:
        return f"PCI functions cannot be read ({hidden.source}: {hidden.reason})"
    listing = next((gap for gap in host.gaps if gap.fact == "pci_devices"), None)
    if host.is_live and listing is not None and not host.gpus:
        return f"PCI functions cannot be listed ({listing.source}: {listing.reason})"
    lost = [gpu_label(host, gpu) for gpu in in_scope(host, ask) if not node_known(host, gpu)]
    if lost and not one_cpu_node(host):
        return f"no source tells the NUMA node of {', '.join(lost)}"
    return None


def _judge(host: Host, ask: Ask, rule: Rule, accepts: Sequence[Accept]) -> CheckResult:
    try:
        skip = next((skip for need in rule.needs if (skip := need(host, ask)) is not None), None)
        if skip is not None:
            return _result(rule, "skip", skip=_sound(skip))
        yielded = tuple(_quoting(host, _sound(item)) for item in rule.function(host, ask))
    except (KeyboardInterrupt, Terminated):
        raise
    except BaseException as error:  # noqa: BLE001  one broken check must not cost the others, nor end the process
        return _result(rule, "error", reason=described(error))
    findings = tuple(item for item in yielded if isinstance(item, Finding))
    pairs = [(f, next((a for a in accepts if _accepts(a, rule, f)), None)) for f in findings]
    accepted = tuple(Accepted(finding=f, reason=a.reason, until=a.until.isoformat()) for f, a in pairs if a)
    open_ = tuple(f for f, a in pairs if a is None)
    if open_:
        return _result(rule, "fail", findings=open_, accepted=accepted)
    skipped = next((item for item in yielded if isinstance(item, Skip)), None)
    if skipped is not None and not accepted:
        return _result(rule, "skip", skip=skipped)
    return _result(rule, "pass", accepted=accepted)


def _sound(item: Yielded) -> Yielded:
    """Return what a check yielded; raise for anything but a finding or skip that can be printed."""
    if not isinstance(item, (Finding, Skip)):
        raise TypeError(f"neither a finding nor a skip: {type(item).__name__}")
    msgspec.json.decode(msgspec.json.encode(item), type=type(item))
    return item


def _quoting(host: Host, item: Finding | Skip) -> Finding | Skip:
    """Return a finding whose evidence names what told it where a path below /sys stands for what nobody read there."""
    if host.has_sysfs or not host.sources or isinstance(item, Skip):
        return item
    evidence = tuple(
        msgspec.structs.replace(seen, source=f"{host.sources[0]}, for {seen.source}")
        if seen.source.startswith("/sys/")
        else seen
        for seen in item.evidence
    )
    return msgspec.structs.replace(item, evidence=evidence)


def _result(
    rule: Rule,
    status: Literal["pass", "fail", "skip", "error"],
    *,
    skip: Skip | None = None,
    reason: str | None = None,
    findings: tuple[Finding, ...] = (),
    accepted: tuple[Accepted, ...] = (),
) -> CheckResult:
    return CheckResult(
        id=rule.id,
        name=rule.name,
        severity=rule.severity,
        status=status,
        skip_kind=skip.kind if skip else None,
        reason=skip.reason if skip else reason,
        findings=findings,
        accepted=accepted,
    )


def _accepts(accept: Accept, rule: Rule, finding: Finding) -> bool:
    """Tell whether an acceptance covers a finding: its whole subject, or every one of the subjects listed."""
    if accept.id.upper() != rule.id and accept.id != rule.name:
        return False
    subjects = [subject.strip() for subject in finding.subject.split(",")]
    return fnmatchcase(finding.subject, accept.subject) or all(fnmatchcase(s, accept.subject) for s in subjects)


def _status(results: Sequence[CheckResult], unknown: str | None, fail_on: Severity) -> Status:
    """Return the worst that counts: critical, warning, unknown, ok. Info counts (as a warning) only when asked."""
    counted = SEVERITIES[SEVERITIES.index(fail_on) :]
    seen = {finding.severity for result in results for finding in result.findings} & set(counted)
    if "critical" in seen:
        return "critical"
    if seen:
        return "warning"
    return "unknown" if unknown else "ok"
