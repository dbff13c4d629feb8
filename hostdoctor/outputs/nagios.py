"""One line for Nagios, Naemon, Icinga and node-problem-detector (whose default limit is 80 characters)."""

from collections import Counter

from hostdoctor.diagnosis.needs import is_listed
from hostdoctor.diagnosis.report import Report
from hostdoctor.outputs.report_text import findings_by_severity
from hostdoctor.outputs.words import counts, printable

MAX_MESSAGE_CHARACTERS = 80
UNKNOWN = "U"  # as performance data has it


def render_nagios(report: Report) -> str:
    """Return ``HOSTDOCTOR WARNING - HD201 …, +2 more | critical=0 warning=3 …`` with a newline."""
    message = f"HOSTDOCTOR {report.status.upper()} - {_what(report)}".replace("|", "/")
    return f"{_short(message, MAX_MESSAGE_CHARACTERS)} | {perfdata(report)}\n"


def perfdata(report: Report) -> str:
    """Return the counts as Nagios performance data."""
    severities = Counter(f.severity for result in report.results for f in result.findings)
    statuses = Counter(result.status for result in report.results)
    host = report.host
    values = {
        "critical": severities["critical"],
        "warning": severities["warning"],
        "info": severities["info"],
        "passed": statuses["pass"],
        "skipped": statuses["skip"],
        "accepted": sum(len(result.accepted) for result in report.results),
        "gpus": len(host.gpus) if is_listed(host, "gpus") else UNKNOWN,
        "nodes": len(host.numa_nodes) or UNKNOWN,
    }
    return " ".join(f"{name}={count}" for name, count in values.items())


def _what(report: Report) -> str:
    worst = [(r, f) for r, f in findings_by_severity(report) if f.severity != "info"]
    if worst:
        result, finding = worst[0]
        more = f", +{len(worst) - 1} more" if len(worst) > 1 else ""
        return f"{result.id} {result.name} {_short(printable(finding.subject), 24)}{more}"
    return printable(report.unknown) if report.unknown else counts(report.host, report.gpus_in_scope)


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
