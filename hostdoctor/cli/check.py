"""``hostdoctor check``: the preflight."""

import datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from hostdoctor.cli.common import (
    ChecksDirOption,
    DemoOption,
    FromOption,
    QuickOption,
    TimeoutOption,
    open_evidence,
    survey_host,
    terminal_style,
    timeout_of,
)
from hostdoctor.diagnosis import Ask, Report
from hostdoctor.errors import UsageError
from hostdoctor.facts import Host

app = typer.Typer()

Severity = Literal["info", "warning", "critical"]
ExitStyle = Literal["nagios", "npd", "gate"]
STATUS = {
    "nagios": {"ok": 0, "warning": 1, "critical": 2, "unknown": 3},
    "npd": {"ok": 0, "warning": 1, "critical": 1, "unknown": 2},
    "gate": {"ok": 0, "warning": 1, "critical": 1, "unknown": 0},
}


@app.command(help="Survey the host, run the checks, print verdicts. Exits 0 ok, 1 warning, 2 critical, 3 unknown.")
def check(
    from_: FromOption = None,
    format_: Annotated[
        Literal["text", "json", "nagios", "markdown"], typer.Option("--format", help="How to print.")
    ] = "text",
    select: Annotated[str, typer.Option(metavar="IDS", help="Run only these checks, comma-separated.")] = "",
    ignore: Annotated[str, typer.Option(metavar="IDS", help="Leave these checks out.")] = "",
    fail_on: Annotated[Severity | None, typer.Option(help="Findings below this count as ok.")] = None,
    exit_style: Annotated[ExitStyle, typer.Option(help="What the exit status means.")] = "nagios",
    gpus: Annotated[
        str, typer.Option(metavar="GPUS", help="Judge only these: indices, UUIDs, addresses, or all.")
    ] = "",
    show_all: Annotated[
        bool, typer.Option("--all", help="Show every finding, its evidence, and what was skipped.")
    ] = False,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Instead of /etc/hostdoctor/config.toml.")] = None,
    checks_dir: ChecksDirOption = None,
    timeout: TimeoutOption = None,
    quick: QuickOption = False,
    demo: DemoOption = False,
) -> None:
    """Print the report in the chosen format and exit with the status that ``--exit-style`` gives it."""
    from hostdoctor.config import read_config
    from hostdoctor.diagnosis.accept import in_force
    from hostdoctor.diagnosis.registry import choose, load_rules
    from hostdoctor.diagnosis.runner import diagnose

    limit_s = timeout_of(timeout, quick=quick or exit_style == "npd")
    source = open_evidence(from_, demo=demo, timeout_s=limit_s)
    rules = choose(load_rules(checks_dir or ()), _ids(select), _ids(ignore))
    accepts = in_force(read_config(config).accept, datetime.datetime.now(tz=datetime.timezone.utc).date())
    host = survey_host(source)
    ask = Ask(gpus=_positions(host, gpus))
    default_fail_on: Severity = "critical" if exit_style == "gate" else "warning"
    report = diagnose(host, ask, rules, accepts=accepts, fail_on=fail_on or default_fail_on)
    typer.echo(_render(report, format_, show_all=show_all), nl=False)
    if format_ == "text" and host.is_live and not host.gpus:
        typer.echo("No GPU found on this host. A full example: hostdoctor check --demo")
    raise typer.Exit(STATUS[exit_style][report.status])


def _render(report: Report, format_: str, *, show_all: bool) -> str:
    if format_ == "json":
        from hostdoctor.outputs.report_json import render_json

        return render_json(report)
    if format_ == "nagios":
        from hostdoctor.outputs.nagios import render_nagios

        return render_nagios(report)
    if format_ == "markdown":
        from hostdoctor.outputs.markdown import render_markdown

        return render_markdown(report)
    from hostdoctor.outputs.report_text import render_report

    return render_report(report, terminal_style(), show_all=show_all)


def _ids(text: str) -> list[str]:
    return [part for part in text.replace(",", " ").split() if part]


def _positions(host: Host, text: str) -> tuple[int, ...] | None:
    """Return which of ``host.gpus`` were named, in the order named; None for all."""
    from hostdoctor.parsers.bdf import canonical_bdf

    if text.strip() in ("", "all"):
        return None
    found = []
    for word in _ids(text):
        matches = [
            i
            for i, gpu in enumerate(host.gpus)
            if word in (str(gpu.index), gpu.uuid) or (gpu.bdf is not None and gpu.bdf == canonical_bdf(word))
        ]
        if not matches:
            known = ", ".join(str(gpu.index) for gpu in host.gpus if gpu.index is not None) or "none"
            raise UsageError(f"--gpus: no GPU {word[:60]!r} here (known: {known})")
        found += matches
    return tuple(dict.fromkeys(found))
