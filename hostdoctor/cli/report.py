"""``hostdoctor report``: everything known about a host on one page."""

import datetime
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hostdoctor.cli.common import (
    ChecksDirOption,
    DemoOption,
    FromOption,
    KvOffloadOption,
    OffloadOption,
    QuickOption,
    TimeoutOption,
    deliver,
    gib_bytes,
    open_evidence,
    refuse_output,
    stated_path,
    survey_host,
    timeout_of,
)
from hostdoctor.cli.placing import COMMAND_LAST, EngineVersionOption
from hostdoctor.cli.report_files import measured_in, plan_in, report_of
from hostdoctor.cli.report_parts import STAND_IN, about, cpu_of, gpu_sets, wrapper_of
from hostdoctor.diagnosis import Ask, MemoryPlan, in_scope
from hostdoctor.errors import HostdoctorError, UsageError
from hostdoctor.facts import Host
from hostdoctor.sources.base import Source

if TYPE_CHECKING:
    from hostdoctor.budget.plan import Plan
    from hostdoctor.diagnosis.api import Rule
    from hostdoctor.outputs.page.model import Measurement, Page
    from hostdoctor.sources.cpu import CpuDescription

app = typer.Typer()

Format = Literal["html", "markdown"]


@app.command(
    context_settings=COMMAND_LAST,
    help="Write everything known about this host on one page of HTML, or as Markdown for a ticket.",
)
def report(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND…]", help="What the launch wrappers start.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of printing.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file when it exists.")] = False,
    format_: Annotated[Format, typer.Option("--format", help="What to write.")] = "html",
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="OLD NEW", help="What changed between two captures, or two files of check --format json."),
    ] = None,
    from_: FromOption = None,
    measured: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="What `measure` or `compare` wrote as JSON; repeatable.")
    ] = None,
    plan: Annotated[Path | None, typer.Option(metavar="FILE", help="What `plan --format json` wrote.")] = None,
    gpus: Annotated[
        str, typer.Option(metavar="GPUS", help="Judge only these: indices, UUIDs, addresses, or all.")
    ] = "",
    tp: Annotated[
        int | None, typer.Option("--tp", min=1, metavar="N", help="Plan: the GPUs, in order, form sets of N.")
    ] = None,
    model_path: Annotated[
        str, typer.Option(metavar="PATH", help="Where the model lies: judge the drives below it.")
    ] = "",
    kv_path: Annotated[
        str, typer.Option(metavar="PATH", help="Where the KV cache spills to: judge the drives below it.")
    ] = "",
    cpu_offload_gib: OffloadOption = None,
    kv_offload_gib: KvOffloadOption = None,
    engine_version: EngineVersionOption = "",
    checks_dir: ChecksDirOption = None,
    timeout: TimeoutOption = None,
    quick: QuickOption = False,
    demo: DemoOption = False,
) -> None:
    """Survey, judge, place, and write the page. Exits 0 when it was written, whatever the verdict."""
    from hostdoctor.diagnosis.registry import load_rules
    from hostdoctor.sources.cpu import start_cpu

    if format_ == "html" and output is None and on_terminal():
        raise UsageError("a page of HTML is no text for a terminal: -o FILE, or --format markdown")
    refuse_output(output, force=force)
    rules = load_rules(checks_dir or ())
    if compare is not None:
        if from_ or demo or measured or plan or command:
            raise UsageError("--compare looks at its two files alone")
        deliver(_compared(compare, rules, format_), output, force=force)
        return
    limit_s = timeout_of(timeout, quick=quick)
    shown = [one for path in measured or () for one in measured_in(path)]
    planned = None if plan is None else plan_in(plan)
    source = open_evidence(from_, demo=demo, timeout_s=limit_s)
    paths = [stated_path(source, "--model-path", model_path), stated_path(source, "--kv-path", kv_path)]
    host = survey_host(source, paths=[path for path in paths if path])
    ask = _ask(host, gpus, tp, paths, cpu_offload_gib, kv_offload_gib)
    cpu = start_cpu(limit_s) if source.is_live else None
    page = _page(source, host, ask, rules, shown, planned, cpu_of(source, cpu))
    page = _with_wrappers(page, source, ask, command, engine_version, limit_s)
    page = _with_budget(page, source, ask, cpu_offload_gib, kv_offload_gib)
    deliver(_render(page, format_), output, force=force)


def on_terminal() -> bool:
    """Tell whether a person would see the page's source."""
    return sys.stdout.isatty()


def _ask(
    host: Host, gpus: str, tp: int | None, paths: list[str | None], weights_gib: float | None, kv_gib: float | None
) -> Ask:
    from hostdoctor.placement.selection import named_gpus

    positions = named_gpus(host, gpus)
    many = len(in_scope(host, Ask(gpus=positions)))
    if tp is not None and tp > max(many, 1):
        raise UsageError(f"--tp: sets of {tp} GPUs, but {many} in scope")
    weights, kv = gib_bytes("--cpu-offload-gib", weights_gib), gib_bytes("--kv-offload-gib", kv_gib)
    memory = MemoryPlan(weights_bytes=weights or 0, kv_bytes=kv or 0) if weights or kv else None
    return Ask(gpus=positions, tp=tp, model_path=paths[0], kv_path=paths[1], memory=memory)


def _page(
    source: Source,
    host: Host,
    ask: Ask,
    rules: "tuple[Rule, ...]",
    shown: "list[Measurement]",
    planned: "Plan | None",
    cpu: "CpuDescription | None",
) -> "Page":
    from hostdoctor.config import read_config
    from hostdoctor.diagnosis.accept import by_date
    from hostdoctor.diagnosis.runner import diagnose
    from hostdoctor.outputs.page.model import Page

    # what this machine's site accepts says nothing of a captured one
    listed = read_config(None).accept if source.is_live else ()
    accepts, ended = by_date(listed, datetime.datetime.now(tz=datetime.timezone.utc).date())
    judged = diagnose(host, ask, rules, accepts=accepts, ended=ended)
    fired = {result.id for result in judged.results if result.findings}
    return Page(
        report=judged,
        about=about(host, cpu),
        documentation={rule.id: rule.documentation for rule in rules if rule.id in fired},
        measurements=tuple(shown),
        plan=planned,
    )


def _with_wrappers(
    page: "Page", source: Source, ask: Ask, command: list[str] | None, version: str, limit_s: float
) -> "Page":
    import msgspec

    host = page.report.host
    made = tuple(
        wrapper_of(source, host, title, gpus, command, version, limit_s) for title, gpus in gpu_sets(host, ask)
    )
    return msgspec.structs.replace(page, wrappers=made, command=shlex.join(command or STAND_IN))


def _with_budget(page: "Page", source: Source, ask: Ask, weights_gib: float | None, kv_gib: float | None) -> "Page":
    """Return the page with the budget; one that cannot be made says why and costs nothing else."""
    import msgspec

    from hostdoctor.budget.whole import Request, whole_budget

    request = Request(positions=ask.gpus, tp=ask.tp, cpu_offload_gib=weights_gib or 0.0, kv_offload_gib=kv_gib or 0.0)
    try:
        told, made = whole_budget(source, page.report.host, request)
    except HostdoctorError as error:
        return msgspec.structs.replace(page, budget_reason=f"Not computed: {error}.")
    return msgspec.structs.replace(page, budget=told, node_budgets=made.nodes)


def _render(page: "Page", format_: Format) -> str:
    if format_ == "markdown":
        from hostdoctor.outputs.page.markdown import render_page_markdown

        return render_page_markdown(page)
    from hostdoctor.outputs.page.html import render_page

    return render_page(page)


def _compared(names: tuple[str, str], rules: "tuple[Rule, ...]", format_: Format) -> str:
    from hostdoctor.diagnosis.changes import compare_reports
    from hostdoctor.outputs.page.changes import changes_markdown, render_changes

    before, after = (report_of(name, rules) for name in names)
    changes = compare_reports(before, after)
    if format_ == "markdown":
        return changes_markdown(changes, names)
    return render_changes(changes, names, about(None))
