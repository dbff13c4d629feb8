"""The report as Markdown, for tickets."""

import re
from collections.abc import Iterator

from hostdoctor.diagnosis.report import CheckResult, Finding, Report
from hostdoctor.outputs.report_text import findings_by_severity, tally
from hostdoctor.outputs.words import counts, host_words, printable

_SPECIAL = re.compile(r"([\\`*_#\[\]|<>~&])")


def render_markdown(report: Report) -> str:
    """Return the verdict, a table of findings, and what to do about each."""
    lines = [
        f"## hostdoctor: {report.status}",
        "",
        f"{escape(host_words(report.host))}: {counts(report.host, report.gpus_in_scope)}",
        "",
    ]
    if report.unknown:
        lines += [f"Not known: {escape(report.unknown)}.", ""]
    found = findings_by_severity(report)
    if found:
        lines += ["| severity | check | subject | finding |", "|---|---|---|---|"]
        lines += [_row(result, finding) for result, finding in found]
        for result, finding in found:
            lines += _details(result, finding)
    lines += [f"{tally(report)}.", *(f"- {escape(note)}" for note in report.notes), ""]
    return "\n".join(lines)


def escape(text: str) -> str:
    """Return a machine's text as literal Markdown on one line."""
    return _SPECIAL.sub(r"\\\1", printable(text))


def _row(result: CheckResult, finding: Finding) -> str:
    cells = (finding.severity, escape(f"{result.id} {result.name}"), escape(finding.subject), escape(finding.message))
    return "| " + " | ".join(cells) + " |"


def _details(result: CheckResult, finding: Finding) -> Iterator[str]:
    yield from ("", f"### {escape(f'{result.id} {result.name}')}", "")
    for seen in finding.evidence:
        yield f"- seen: {escape(seen.source)} = {escape(seen.value)}"
    yield f"- effect: {escape(finding.effect)}"
    yield f"- do: {escape(finding.remedy.text)} (risk: {finding.remedy.risk}, scope: {finding.remedy.scope})"
    for name, text in (("undo", finding.remedy.undo), ("verify", finding.remedy.verify)):
        if text:
            yield f"- {name}: {escape(text)}"
    yield ""
