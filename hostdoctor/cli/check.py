"""``hostdoctor check``: the preflight."""

import datetime
import time
from collections.abc import Sequence
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
    emit,
    finite,
    gib_bytes,
    listed_words,
    open_evidence,
    refuse_output,
    some_gpus,
    stated_path,
    survey_host,
    terminal_style,
    timeout_of,
)
from hostdoctor.diagnosis import Ask, MemoryPlan, Report, in_scope
from hostdoctor.errors import UsageError
from hostdoctor.facts import Host
from hostdoctor.sources.base import Source

if TYPE_CHECKING:
    from hostdoctor.diagnosis.accept import Accept
    from hostdoctor.diagnosis.api import Rule

app = typer.Typer(add_completion=False)

Severity = Literal["info", "warning", "critical"]
QUIET_WAIT_S = 2.0  # a longer wait is announced on a terminal
ExitStyle = Literal["nagios", "npd", "gate"]
Format = Literal["text", "json", "nagios", "markdown", "prometheus", "nfd"]
STATUS = {
    "nagios": {"ok": 0, "warning": 1, "critical": 2, "unknown": 3},
    "npd": {"ok": 0, "warning": 1, "critical": 1, "unknown": 2},
    "gate": {"ok": 0, "warning": 1, "critical": 1, "unknown": 0},
}


@app.command(help="Survey the host, run the checks, print verdicts. Exits 0 ok, 1 warning, 2 critical, 3 unknown.")
def check(
    from_: FromOption = None,
    format_: Annotated[Format, typer.Option("--format", help="How to print.")] = "text",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of printing: whole or not at all.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file when it exists.")] = False,
    select: Annotated[str, typer.Option(metavar="IDS", help="Run only these checks, comma-separated.")] = "",
    ignore: Annotated[str, typer.Option(metavar="IDS", help="Leave these checks out.")] = "",
    fail_on: Annotated[Severity | None, typer.Option(help="Findings below this count as ok.")] = None,
    exit_style: Annotated[ExitStyle, typer.Option(help="What the exit status means.")] = "nagios",
    gpus: Annotated[
        str,
        typer.Option(metavar="GPUS", callback=some_gpus, help="Judge only these: indices, UUIDs, addresses, or all."),
    ] = "",
    model_path: Annotated[
        str, typer.Option(metavar="PATH", help="Where the model lies: judge the drives below it.")
    ] = "",
    kv_path: Annotated[
        str, typer.Option(metavar="PATH", help="Where the KV cache spills to: judge the drives below it.")
    ] = "",
    tp: Annotated[
        int | None, typer.Option("--tp", min=1, metavar="N", help="Plan: the GPUs, in order, form sets of N.")
    ] = None,
    cpu_offload_gib: OffloadOption = None,
    kv_offload_gib: KvOffloadOption = None,
    sample: Annotated[
        float | None,
        typer.Option("--sample", min=0.1, max=86400, metavar="SECONDS", help="Read counters twice, so far apart."),
    ] = None,
    show_all: Annotated[
        bool, typer.Option("--all", help="Show every finding, its evidence, and what was skipped.")
    ] = False,
    measured: Annotated[
        list[str] | None,
        typer.Option("--measured", metavar="FILE", help="What hostdoctor measure copy wrote: links under load."),
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Instead of /etc/hostdoctor/config.toml.")] = None,
    checks_dir: ChecksDirOption = None,
    timeout: TimeoutOption = None,
    quick: QuickOption = False,
    demo: DemoOption = False,
) -> None:
    """Print the report in the chosen format and exit with the status that ``--exit-style`` gives it."""
    from hostdoctor.config import DEFAULT, read_config
    from hostdoctor.diagnosis.accept import by_date
    from hostdoctor.diagnosis.registry import choose, load_rules
    from hostdoctor.diagnosis.runner import diagnose
    from hostdoctor.placement.selection import named_gpus

    began = time.monotonic()
    refuse_output(output, force=force)
    limit_s = timeout_of(timeout, quick=quick or exit_style == "npd")
    sample = None if sample is None else finite("--sample", sample)
    source = open_evidence(from_, demo=demo, timeout_s=limit_s)
    known = load_rules(checks_dir or ())
    rules = choose(known, listed_words(select), listed_words(ignore))
    # what this machine's site accepts says nothing of a captured one
    listed = read_config(config).accept if config or source.is_live else ()
    _refuse_unknown(config or DEFAULT, known, listed)
    accepts, ended = by_date(listed, datetime.datetime.now(tz=datetime.timezone.utc).date())
    if sample is not None and not source.is_live:
        raise UsageError("--sample: only the running host has counters to read twice")
    model = stated_path(source, "--model-path", model_path)
    kv = stated_path(source, "--kv-path", kv_path)
    host = survey_host(source, paths=[path for path in (model, kv) if path])
    host = _with_measured(host, measured or ())
    named = Ask(gpus=named_gpus(host, gpus))
    sets_of = _tensor_parallel(tp, len(in_scope(host, named)))
    memory = _memory_plan(cpu_offload_gib, kv_offload_gib)
    ask = Ask(gpus=named.gpus, tp=sets_of, model_path=model, kv_path=kv, memory=memory)
    if sample is not None:
        host = _sampled(source, host, sample)
    default_fail_on: Severity = "critical" if exit_style == "gate" else "warning"
    report = diagnose(host, ask, rules, accepts=accepts, ended=ended, fail_on=fail_on or default_fail_on)
    deliver(_render(report, format_, source, began, show_all=show_all), output, force=force)
    if format_ == "text" and host.is_live and not host.gpus and not report.unknown and output is None:
        emit("No GPU found on this host. A full example: hostdoctor check --demo\n")
    raise typer.Exit(STATUS[exit_style][report.status])


def _refuse_unknown(config: Path, known: "tuple[Rule, ...]", listed: "Sequence[Accept]") -> None:
    """Raise UsageError, naming the file, for an acceptance of an id that no check has: it is a mistake."""
    from hostdoctor.diagnosis.registry import choose

    try:
        choose(known, [accept.id for accept in listed], ())
    except UsageError as error:
        raise UsageError(f"{config}: accept: {error}") from None


def _with_measured(host: Host, names: "Sequence[str]") -> Host:
    """Return the host with what files of experiments add; raise UsageError, SourceError or ParseError for a bad one."""
    if not names:
        return host
    import msgspec

    from hostdoctor.sources.texts import read_text_file
    from hostdoctor.survey.measured import read_measured

    files = [(name, read_text_file("-" if name == "-" else Path(name))) for name in names]
    return msgspec.structs.replace(host, measured=read_measured(host, files))


def _sampled(source: Source, host: Host, seconds: float) -> Host:
    import sys

    import msgspec

    from hostdoctor.survey.samples import take_samples

    if seconds > QUIET_WAIT_S and sys.stderr.isatty():
        typer.echo(f"Reading counters for {seconds:g} s …", err=True)
    return msgspec.structs.replace(host, samples=take_samples(source, host, seconds, numa_maps=True))


def _render(report: Report, format_: Format, source: Source, began: float, *, show_all: bool) -> str:
    if format_ == "json":
        from hostdoctor.outputs.report_json import render_json

        return render_json(report)
    if format_ == "nagios":
        from hostdoctor.outputs.nagios import render_nagios

        return render_nagios(report)
    if format_ == "markdown":
        from hostdoctor.outputs.markdown import render_markdown

        return render_markdown(report)
    if format_ == "prometheus":
        return _metrics(report, source, began)
    if format_ == "nfd":
        from hostdoctor.outputs.nfd import render_nfd

        return render_nfd(report, datetime.datetime.now(tz=datetime.timezone.utc) if source.is_live else None)
    from hostdoctor.outputs.report_text import render_report

    return render_report(report, terminal_style(), show_all=show_all)


def _metrics(report: Report, source: Source, began: float) -> str:
    from hostdoctor import __version__
    from hostdoctor.budget.whole import Request, whole_budget
    from hostdoctor.errors import HostdoctorError
    from hostdoctor.outputs.prometheus import render_prometheus
    from hostdoctor.outputs.report_metrics import Made, report_families

    made = Made(version=__version__)
    if source.is_live:
        made = Made(version=__version__, ended_at=time.time(), duration_s=time.monotonic() - began)
    try:
        budget = whole_budget(source, report.host, Request())[1]
    except HostdoctorError:
        budget = None
    return render_prometheus(report_families(report, made, budget))


def _memory_plan(weights_gib: float | None, kv_gib: float | None) -> MemoryPlan | None:
    weights, kv = gib_bytes("--cpu-offload-gib", weights_gib), gib_bytes("--kv-offload-gib", kv_gib)
    return MemoryPlan(weights_bytes=weights or 0, kv_bytes=kv or 0) if weights or kv else None


def _tensor_parallel(size: int | None, gpus: int) -> int | None:
    if size is not None and size > max(gpus, 1):
        raise UsageError(f"--tp: sets of {size} GPUs, but {gpus} in scope")
    return size
