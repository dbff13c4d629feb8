"""What the report's sections show, in the order in which somebody decides."""

from collections.abc import Iterator
from typing import Any

from hostdoctor.budget.advice import size_words
from hostdoctor.budget.document import BudgetDocument
from hostdoctor.budget.pinned import NodeBudget
from hostdoctor.diagnosis.report import SEVERITIES, CheckResult, Finding, Report
from hostdoctor.facts import BlockDevice, Fact, Host, NvmeController
from hostdoctor.outputs.page.charts import memory_bar
from hostdoctor.outputs.page.figures import figure, plain, size
from hostdoctor.outputs.page.model import Figure, Page, Table
from hostdoctor.outputs.report_text import findings_by_severity, tally
from hostdoctor.outputs.style import Style
from hostdoctor.outputs.topo_svg import render_topo_svg
from hostdoctor.outputs.topo_text import render_topo
from hostdoctor.outputs.words import counts, host_words, link_words, plural

MAX_ACTIONS = 5
PLAN_COLUMNS = 110
MAX_FINDINGS, MAX_EVIDENCE, MAX_GAPS, MAX_DRIVES, MAX_DRAWN = 120, 16, 150, 128, 300
SECTIONS = (
    ("verdict", "Verdict"),
    ("map", "Map"),
    ("findings", "Findings"),
    ("wrappers", "Launch wrappers"),
    ("budget", "Pinned memory"),
    ("near-far", "Near against far"),
    ("matrix", "Offload matrix"),
    ("nvme", "NVMe signals"),
    ("plan", "Plan"),
    ("unknown", "Not known"),
    ("about", "Versions"),
)
RISKS = {
    "none": "none",
    "restart": "a restart of the service",
    "reboot": "a reboot, or work on the machine",
    "isolation": "less isolation between devices or users",
    "oom": "memory that runs out",
}
LIVE_TODO = "Look again as root, and when the driver answers: its state and the facts below say what is missing."
CAPTURED_TODO = "Look on the host itself, or add nvidia-smi topo -m, numactl --hardware and lspci -vvv by --from."
SCOPES = {"process": "the process alone", "host": "the whole host"}


class Shown(Fact, frozen=True, kw_only=True):
    """A finding with its check, and the name of its place on the page."""

    anchor: str
    result: CheckResult
    finding: Finding


class Action(Fact, frozen=True, kw_only=True):
    """Something to do first."""

    message: str
    todo: str
    id: str
    anchor: str


class Bar(Fact, frozen=True, kw_only=True):
    """A node of the budget: its sentence and its bar ("" where nothing can be drawn)."""

    id: int
    words: str
    svg: str


def content_of(page: Page) -> dict[str, Any]:
    """Return the names that the template uses."""
    report, host = page.report, page.report.host
    findings = shown_findings(report)
    name = host_words(host)
    return {
        "page_title": f"{name}: {report.status} (hostdoctor)",
        "title": name,
        "subtitle": _subtitle(report),
        "sections": SECTIONS,
        "report": report,
        "verdict": verdict_words(report),
        "actions": [*_missing_map(report), *map(_action, _urgent(findings))][:MAX_ACTIONS],
        "tally": tally(report),
        "map": _map(report),
        "map_text": render_topo(host, Style()),
        "findings": findings[:MAX_FINDINGS],
        "findings_left_out": max(0, len(findings) - MAX_FINDINGS),
        "accepted": [(result, one) for result in report.results for one in result.accepted][:MAX_FINDINGS],
        "most_evidence": MAX_EVIDENCE,
        "risks": RISKS,
        "scopes": SCOPES,
        "documentation": page.documentation,
        "command": page.command,
        "wrappers": page.wrappers,
        **_budget(page),
        "comparisons": [told for told in page.measurements if told.section == "near-far"],
        "signals": [told for told in page.measurements if told.section == "nvme"],
        "matrices": [told for told in page.measurements if told.section == "matrix"],
        "drives": drive_table(host),
        "drive_findings": [one for one in findings if one.result.id.startswith("HD4")],
        **_plan(page),
        **_unknown(report),
        "about": page.about,
        "made_from": ", ".join(host.sources) or "this host",
        "size": size,
    }


def shown_findings(report: Report) -> list[Shown]:
    """Return every open finding, the worst first, each with a place of its own."""
    return [
        Shown(anchor=f"finding-{number}", result=result, finding=finding)
        for number, (result, finding) in enumerate(findings_by_severity(report), start=1)
    ]


def verdict_words(report: Report) -> str:
    """Return the verdict line: how many findings of each severity, on what."""
    found = [finding.severity for _, finding in findings_by_severity(report)]
    by_severity = [f"{found.count(severity)} {severity}" for severity in reversed(SEVERITIES) if severity in found]
    what = f"{plural(len(found), 'finding')}: {', '.join(by_severity)}" if found else "no finding"
    return f"{counts(report.host, report.gpus_in_scope)}. {what[0].upper()}{what[1:]}."


def _subtitle(report: Report) -> str:
    system = report.host.system
    parts = (
        system.cpu_model,
        system.kernel and f"Linux {system.kernel}",
        system.nvidia_driver and f"NVIDIA driver {system.nvidia_driver}",
        system.virtualization and f"under {system.virtualization}",
        system.container and f"in {system.container}",
    )
    return " · ".join(part for part in parts if part) or "CPU, kernel and driver not told"


def _urgent(findings: list[Shown]) -> list[Shown]:
    return [one for one in findings if one.finding.severity != "info"]


def _missing_map(report: Report) -> Iterator[Action]:
    """Yield what to do first where the map itself is not known: what follows from it is not known either."""
    if report.unknown:
        where = LIVE_TODO if report.host.is_live else CAPTURED_TODO
        todo = f"{where} Launch wrappers and the budget need it."
        yield Action(message="Establish the map.", todo=todo, id="map", anchor="unknown")


def _action(one: Shown) -> Action:
    finding = one.finding
    return Action(message=f"{finding.message}.", todo=finding.remedy.text, id=one.result.id, anchor=one.anchor)


def _map(report: Report) -> str:
    """Return the picture; "" where so many devices make none that anybody could read."""
    host = report.host
    if len(host.gpus) + len(host.nics) + len(host.nvme) > MAX_DRAWN:
        return ""
    pairs = [(result.id, finding) for result in report.results for finding in result.findings]
    return render_topo_svg(host, pairs, alone=False)


def _budget(page: Page) -> dict[str, Any]:
    told = page.budget
    return {
        "budget": told,
        "budget_reason": page.budget_reason or "Not computed.",
        "budget_headline": "" if told is None else budget_headline(told),
        "budget_bars": [_bar(node) for node in page.node_budgets],
        "budget_table": Table(caption="", columns=(), rows=())
        if told is None
        else budget_table(told, page.node_budgets),
        "budget_options": "" if told is None else _options(told),
    }


def budget_headline(told: BudgetDocument) -> str:
    """Return how much may be pinned, and whether what was planned fits."""
    fits = {True: "The plan fits. ", False: "The plan does not fit. ", None: ""}[told.fits if _planned(told) else None]
    if told.total.pinnable_bytes is None:
        return f"{fits}How much may be pinned is not known: {told.reason or 'no source tells'}."
    return f"{fits}{size_words(told.total.pinnable_bytes)} may be pinned, bound by {told.total.bound_by or '?'}."


def _planned(told: BudgetDocument) -> bool:
    return any(node.planned.weights_bytes or node.planned.kv_bytes for node in told.nodes)


def _bar(node: NodeBudget) -> Bar:
    if not node.memory_bytes:
        known = "no memory" if node.memory_bytes == 0 else "its memory is not known"
        return Bar(id=node.id, words=known, svg="")
    may = f"not known ({node.reason or '?'})"
    if node.pinnable_bytes is not None:
        may = f"{size_words(node.pinnable_bytes)} (bound by {node.bound_by or '?'})"
    available = "?" if node.available_bytes is None else size_words(node.available_bytes)
    words = f"{size_words(node.memory_bytes)}, {available} available, may pin {may}"
    if node.available_bytes is None:
        return Bar(id=node.id, words=words, svg="")
    parts = (
        ("used", "in use and kernel", node.memory_bytes - node.available_bytes),
        ("growth", "an engine's growth", node.growth_bytes or 0),
        ("cache", "page cache to keep", node.cache_bytes),
        ("reserve", "reserve", node.reserve_bytes),
        ("weights", "planned weights", node.weights_bytes or 0),
        ("kv", "planned KV cache", node.kv_bytes or 0),
    )
    return Bar(id=node.id, words=words, svg=memory_bar(node.id, node.memory_bytes, parts))


def budget_table(told: BudgetDocument, nodes: tuple[NodeBudget, ...]) -> Table:
    """Return the budget of each node in figures."""
    rows: list[tuple[Figure, ...]] = [
        (
            plain(f"node {node.id}"),
            size(node.memory_bytes),
            size(node.available_bytes),
            size(node.growth_bytes),
            size(node.cache_bytes),
            size(node.reserve_bytes),
            size(node.weights_bytes),
            size(node.kv_bytes),
            size(node.pinnable_bytes),
        )
        for node in nodes
    ]
    rows.append((plain("all"), *[plain("")] * 7, size(told.total.pinnable_bytes)))
    columns = ("Node", "Memory", "Available", "Growth", "Cache", "Reserve", "Weights", "KV", "May be pinned")
    return Table(caption="Each node's memory", columns=columns, rows=tuple(rows))


def _options(told: BudgetDocument) -> str:
    import shlex

    return " ".join([*(f"{name}={value}" for name, value in told.environment.items()), *map(shlex.quote, told.flags)])


def drive_table(host: Host) -> Table:
    """Return the drives: where they are, their link, their health, what the block layer says."""
    disks = {disk.name: disk for disk in host.block_devices}
    rows = tuple(_drive(drive, [disks[name] for name in drive.namespaces if name in disks]) for drive in host.nvme)
    columns = ("Drive", "Model", "Node", "Link", "State", "Temperature", "Used", "Media errors", "Scheduler", "Holds")
    left = f"; {len(rows) - MAX_DRIVES} more are left out" if len(rows) > MAX_DRIVES else ""
    return Table(caption=f"{plural(len(host.nvme), 'drive')}{left}", columns=columns, rows=rows[:MAX_DRIVES])


def _drive(drive: NvmeController, disks: list[BlockDevice]) -> tuple[Figure, ...]:
    health = drive.health
    schedulers = dict.fromkeys(disk.scheduler for disk in disks if disk.scheduler)
    holds = [mount for disk in disks for mount in disk.holds]
    return (
        plain(drive.name or drive.bdf or "NVMe"),
        plain(drive.model or "not known"),
        plain("not known" if drive.numa_node is None else drive.numa_node),
        plain(link_words(drive.link) or "not known"),
        plain(drive.state or "not known"),
        figure(drive.temperature_celsius, "°C", none="not read"),
        figure(None if health is None else health.used_percent, "%", none="not read"),
        figure(None if health is None else health.media_errors, "", none="not read"),
        plain(", ".join(schedulers) or "not known"),
        plain(", ".join(holds[:6]) or "nothing known"),
    )


def _plan(page: Page) -> dict[str, Any]:
    if page.plan is None:
        return {"plan_text": "", "plan_table": Table(caption="", columns=(), rows=())}
    from hostdoctor.outputs.plan_text import render_plan

    plan = page.plan
    rows = tuple(
        (plain(f"{one.context_tokens:,}"), Figure(text=f"{one.sessions:,}", value=one.sessions))
        for one in plan.sessions
    )
    table = Table(caption="Sequences that one replica holds at once", columns=("Tokens each", "Sequences"), rows=rows)
    return {"plan_text": render_plan(plan, Style(width=PLAN_COLUMNS), show_all=True), "plan_table": table}


def _unknown(report: Report) -> dict[str, Any]:
    host = report.host
    return {
        "disagreements": host.disagreements[:MAX_GAPS],
        "gaps": host.gaps[:MAX_GAPS],
        "gaps_left_out": max(0, len(host.gaps) - MAX_GAPS),
        "skipped": list(_not_judged(report)),
        "passed": [one for one in report.results if one.status == "pass"],
    }


def _not_judged(report: Report) -> Iterator[CheckResult]:
    yield from (one for one in report.results if one.status == "error")
    yield from (one for one in report.results if one.status == "skip")
