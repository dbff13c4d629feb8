"""What changed between two looks at a host, as a page or as Markdown."""

from collections.abc import Iterator

from hostdoctor.diagnosis.changes import Change, Changes, FindingChange
from hostdoctor.outputs.markdown import escape
from hostdoctor.outputs.page.html import render_changes_page
from hostdoctor.outputs.page.model import About
from hostdoctor.outputs.words import plural

MOST = 1000
SIGNS = {"added": "new", "removed": "gone", "changed": "changed"}


def render_changes(changes: Changes, names: tuple[str, str], about: About) -> str:
    """Return the page; ``names`` are the two files."""
    return render_changes_page(
        {
            "page_title": f"{changes.hostname or 'Host'}: what changed (hostdoctor)",
            "title": f"{changes.hostname or 'This host'}: what changed",
            "summary": summary(changes),
            "changes": changes,
            "facts": changes.facts[:MOST],
            "left_out": max(0, len(changes.facts) - MOST),
            "other_host": other_host(changes),
            "names": names,
            "signs": SIGNS,
            "about": about,
        }
    )


def summary(changes: Changes) -> str:
    """Return how much changed, in one sentence."""
    if changes.is_same:
        return "Nothing changed that is compared."
    verdict = (
        f"verdict still {changes.status}"
        if changes.status == changes.status_before
        else f"verdict from {changes.status_before} to {changes.status}"
    )
    kinds = [change.kind for change in changes.findings]
    found = [f"{kinds.count(kind)} {SIGNS[kind]}" for kind in ("added", "removed", "changed") if kind in kinds]
    what = f"; findings: {', '.join(found)}" if found else "; the same findings"
    return f"{plural(len(changes.facts), 'fact')} changed; {verdict}{what}."


def other_host(changes: Changes) -> str:
    """Return a warning where the two are not looks at one host."""
    before, after = changes.hostname_before, changes.hostname
    return f"These are two hosts by name: {before} and {after}." if before and after and before != after else ""


def changes_markdown(changes: Changes, names: tuple[str, str]) -> str:
    """Return the changes as Markdown for a ticket."""
    lines = [
        f"## hostdoctor: what changed on {escape(changes.hostname or 'this host')}",
        "",
        escape(summary(changes)),
        "",
    ]
    lines += [f"From {escape(names[0])} to {escape(names[1])}.", ""]
    lines += [escape(other_host(changes)), ""] if other_host(changes) else []
    if changes.findings:
        lines += ["| finding | severity | check | subject | before | now |", "|---|---|---|---|---|---|"]
        lines += [_finding_row(one) for one in changes.findings] + [""]
    if changes.facts:
        lines += ["| what | of | fact | before | now |", "|---|---|---|---|---|"]
        lines += [_fact_row(one) for one in changes.facts[:MOST]] + [""]
    lines += _left_out(changes)
    lines += [f"- {escape(text)}" for text in changes.not_judged]
    return "\n".join(lines).rstrip("\n") + "\n"


def _left_out(changes: Changes) -> Iterator[str]:
    if len(changes.facts) > MOST:
        yield f"{len(changes.facts) - MOST} more facts changed."


def _finding_row(one: FindingChange) -> str:
    cells = (SIGNS[one.kind], one.severity or one.severity_before or "", f"{one.id} {one.name}", one.subject)
    return "| " + " | ".join(escape(cell) for cell in (*cells, one.before or "–", one.after or "–")) + " |"


def _fact_row(one: Change) -> str:
    cells = (one.area, one.subject, one.what or SIGNS[one.kind], one.before or "–", one.after or "–")
    return "| " + " | ".join(escape(cell) for cell in cells) + " |"
