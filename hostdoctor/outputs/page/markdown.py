"""The whole report as Markdown, for tickets: what the page shows, without its drawings."""

from collections.abc import Iterator

from hostdoctor.outputs.markdown import escape, render_markdown
from hostdoctor.outputs.page.content import budget_headline, budget_table, drive_table
from hostdoctor.outputs.page.model import Measurement, Page, Table
from hostdoctor.outputs.style import Style
from hostdoctor.outputs.topo_text import render_topo
from hostdoctor.outputs.words import printable

MAX_GAPS = 40


def render_page_markdown(page: Page) -> str:
    """Return the report as Markdown."""
    lines = [
        render_markdown(page.report).rstrip("\n"),
        "",
        "### The map",
        "",
        *_fenced(render_topo(page.report.host, Style())),
    ]
    lines += ["### Launch wrappers", "", *_wrappers(page)]
    lines += ["### Pinned memory", "", *_budget(page)]
    for title, section in (("Near against far", "near-far"), ("Offload matrix", "matrix")):
        lines += [f"### {title}", ""]
        lines += list(_measurements(page, section)) or ["Not measured.", ""]
    lines += ["### NVMe signals", "", *_table(drive_table(page.report.host))]
    lines += _measurements(page, "nvme")
    lines += ["### Plan", "", *_plan(page), "### What could not be known", "", *_unknown(page)]
    lines += ["### How this was made", "", *_about(page)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _fenced(text: str) -> list[str]:
    """Return text as a block of code; its fence is longer than any in the text."""
    fence = "```"
    while fence in text:
        fence += "`"
    return [fence, *(printable(line, 2000) for line in text.rstrip("\n").split("\n")), fence, ""]


def _table(told: Table) -> list[str]:
    if not told.rows:
        return ["None known.", ""]
    rows = [_row(name for name in told.columns), "|" + "---|" * len(told.columns)]
    rows += [_row(figure.text for figure in row) for row in told.rows]
    return [escape(told.caption) + ":", "", *rows, ""]


def _row(cells: Iterator[str]) -> str:
    return "| " + " | ".join(escape(cell) for cell in cells) + " |"


def _wrappers(page: Page) -> Iterator[str]:
    for one in page.wrappers:
        yield f"{escape(one.title)}:"
        yield from ("", *(_fenced(one.line) if not one.reason else [f"Not bound: {escape(one.reason)}", ""]))
        yield from (f"- {escape(warning)}" for warning in one.warnings)
    if not page.wrappers:
        yield from ("No GPU that a command could be bound to.", "")


def _budget(page: Page) -> list[str]:
    if page.budget is None:
        return [escape(page.budget_reason or "Not computed."), ""]
    return [escape(budget_headline(page.budget)), "", *_table(budget_table(page.budget, page.node_budgets))]


def _measurements(page: Page, section: str) -> Iterator[str]:
    for told in page.measurements:
        if told.section == section:
            yield from _measurement(told)


def _measurement(told: Measurement) -> Iterator[str]:
    yield from (f"#### {escape(told.title)}", "", escape(told.made), "")
    if told.headline:
        yield from (f"**{escape(told.headline)}**", "")
    if told.verdicts:
        near, far = told.arms
        yield _row(iter(("measured", near, far, "ratio", "verdict", "samples")))
        yield "|---|---|---|---|---|---|"
        for one in told.verdicts:
            yield _row(iter((one.what, one.near.text, one.far.text, one.ratio.text, one.words, one.samples)))
        yield ""
    for table in told.tables:
        yield from _table(table)
    yield from (f"- {escape(note)}" for note in told.notes)
    yield ""


def _plan(page: Page) -> list[str]:
    if page.plan is None:
        return ["No plan was given.", ""]
    from hostdoctor.outputs.plan_text import render_plan

    return _fenced(render_plan(page.plan, Style(), show_all=True))


def _unknown(page: Page) -> Iterator[str]:
    host = page.report.host
    for one in host.disagreements[:MAX_GAPS]:
        told = ", ".join(f"{source}: {value}" for source, value in one.values.items())
        yield f"- sources differ on {escape(one.fact)}: {escape(told)}"
    for gap in host.gaps[:MAX_GAPS]:
        yield f"- {escape(gap.fact)} ({escape(gap.source)}: {escape(gap.reason)})"
    if len(host.gaps) > MAX_GAPS:
        yield f"- and {len(host.gaps) - MAX_GAPS} more facts"
    for result in page.report.results:
        if result.status in ("skip", "error"):
            yield f"- {escape(f'{result.id} {result.name}')} was not judged: {escape(result.reason or '')}"
    yield ""


def _about(page: Page) -> Iterator[str]:
    yield f"- made {escape(page.about.made_at)} from {escape(', '.join(page.report.host.sources) or 'this host')}"
    yield from (f"- {escape(name)}: {escape(value)}" for name, value in page.about.versions.items())
    yield ""
    for command in page.about.commands:
        yield from _fenced(command)
