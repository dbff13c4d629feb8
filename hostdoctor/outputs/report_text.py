"""The verdict for a person at a terminal: at most 25 lines and five actions on the first screen."""

from collections import Counter
from collections.abc import Iterator

from hostdoctor.diagnosis.report import SEVERITIES, CheckResult, Finding, Report
from hostdoctor.outputs.style import Style
from hostdoctor.outputs.words import counts, host_words, plural, printable

FIRST_SCREEN_LINES = 25
MAX_ACTIONS = 5
MAX_INFO_LINES = 5


def render_report(report: Report, style: Style, *, show_all: bool = False) -> str:
    """Return the report as text; ``show_all`` adds every finding, its evidence, passes, skips and acceptances."""
    head = [_headline(report, style)]
    if report.unknown:
        head.append(style.wrap(f"Not known: {printable(report.unknown)}.", "  ", "  "))
    found = findings_by_severity(report)
    tail = list(_tail(report, style, show_all=show_all))
    blocks = [_block(result, finding, style, show_all=show_all) for result, finding in found]
    if not show_all:
        blocks = _fit(blocks, [finding for _, finding in found], FIRST_SCREEN_LINES - _height([*head, *tail]) - 1)
    if len(blocks) < len(found):
        tail.insert(0, f"  and {_left_out([finding for _, finding in found[len(blocks) :]])}: --all shows them")
    return "\n".join([*head, *blocks, *tail]) + "\n"


def _left_out(findings: list[Finding]) -> str:
    counts = Counter(finding.severity for finding in findings)
    by_severity = ", ".join(f"{counts[severity]} {severity}" for severity in reversed(SEVERITIES) if counts[severity])
    return f"{plural(len(findings), 'more finding')} ({by_severity})"


def _fit(blocks: list[str], findings: list[Finding], room: int) -> list[str]:
    """Return the first blocks that fit a screen: at most five actions and five lines of information."""
    kept: list[str] = []
    counts: Counter[bool] = Counter()
    for block, finding in zip(blocks, findings, strict=True):
        is_info = finding.severity == "info"
        counts[is_info] += 1
        if counts[is_info] > (MAX_INFO_LINES if is_info else MAX_ACTIONS) or _height([*kept, block]) > room:
            break
        kept.append(block)
    return kept


def _height(texts: list[str]) -> int:
    return sum(text.count("\n") + 1 for text in texts)


def findings_by_severity(report: Report) -> list[tuple[CheckResult, Finding]]:
    """Return every open finding with its check, the worst first, else in order of id."""
    pairs = [(result, finding) for result in report.results for finding in result.findings]
    return sorted(pairs, key=lambda pair: -SEVERITIES.index(pair[1].severity))


def _headline(report: Report, style: Style) -> str:
    word = style.paint(report.status.upper(), report.status)
    return f"{word}  {host_words(report.host)}: {counts(report.host, report.gpus_in_scope)}"


def _block(result: CheckResult, finding: Finding, style: Style, *, show_all: bool) -> str:
    word = finding.severity if finding.severity == "info" else finding.severity.upper()
    text = f"{result.id} {result.name}: {printable(finding.message)}"
    lines = [style.wrap(text, f"  {style.paint(word, finding.severity)} ", "    ")]
    if show_all or finding.severity != "info":
        lines.append(style.wrap(f"do: {printable(finding.remedy.text)}", "    ", "        "))
    if show_all:
        lines += _details(finding, style)
    return "\n".join(lines)


def _details(finding: Finding, style: Style) -> Iterator[str]:
    yield style.wrap(f"subject: {printable(finding.subject)}", "    ", "        ")
    for seen in finding.evidence:
        yield style.wrap(f"seen: {printable(seen.source)} = {printable(seen.value)}", "    ", "        ")
    yield style.wrap(f"effect: {printable(finding.effect)}", "    ", "        ")
    remedy = finding.remedy
    yield f"    risk: {remedy.risk}, scope: {remedy.scope}"
    for name, text in (("undo", remedy.undo), ("verify", remedy.verify)):
        if text:
            yield style.wrap(f"{name}: {printable(text)}", "    ", "        ")


def _tail(report: Report, style: Style, *, show_all: bool) -> Iterator[str]:
    for note in report.notes:
        yield style.wrap(printable(note), "  ", "    ")
    hint = "" if show_all else " (--all shows why; `hostdoctor explain ID` explains one)"
    yield style.paint(style.wrap(tally(report) + hint, "", "  "), "dim")
    for result in report.results:
        if result.status == "error":
            yield style.wrap(f"{result.id} {result.name} failed to run: {printable(result.reason or '')}", "  ", "    ")
    if show_all:
        yield from _everything_else(report, style)


def tally(report: Report) -> str:
    """Return how many checks ended how: ``24 checks passed, 3 do not apply here, 1 lacks evidence``."""
    statuses = Counter(result.status for result in report.results)
    skips = Counter(result.skip_kind == "not-applicable" for result in report.results if result.status == "skip")
    accepted = sum(len(result.accepted) for result in report.results)
    parts = [f"{plural(statuses['pass'], 'check')} passed"]
    parts += [f"{skips[True]} not applicable"] if skips[True] else []
    parts += [f"{skips[False]} without evidence"] if skips[False] else []
    parts += [f"{plural(accepted, 'finding')} accepted"] if accepted else []
    parts += [f"{statuses['error']} FAILED TO RUN"] if statuses["error"] else []
    return ", ".join(parts)


def _everything_else(report: Report, style: Style) -> Iterator[str]:
    for result in report.results:
        if result.status == "skip":
            text = f"skipped {result.id} {result.name}: {printable(result.reason or '')} ({result.skip_kind})"
            yield style.wrap(text, "  ", "    ")
        elif result.status == "pass" and not result.accepted:
            yield f"  passed {result.id} {result.name}"
        for accepted in result.accepted:
            text = f"accepted until {accepted.until} ({printable(accepted.reason)}) {result.id} {result.name}:"
            yield style.wrap(f"{text} {printable(accepted.finding.message)}", "  ", "    ")
    for gap in report.host.gaps:
        yield style.wrap(
            f"not known: {printable(gap.fact)} ({printable(gap.source)}: {printable(gap.reason)})", "  ", "    "
        )
