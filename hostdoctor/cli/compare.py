"""``hostdoctor compare``: the same workload from the near and from the far node, run here or from files."""

import contextlib
import math
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hostdoctor.cli.common import emit, terminal_style
from hostdoctor.cli.placing import (
    COMMAND_LAST,
    AssumeNodeOption,
    EngineOption,
    EngineVersionOption,
    GpusOption,
    IsolatedOption,
)
from hostdoctor.errors import UsageError

if TYPE_CHECKING:
    from hostdoctor.facts.runs import RunResult
    from hostdoctor.measure.compare import Key

QUIET_BYTES = 20 << 20  # about two seconds of reading

_WITH_FILES = ("near", "far", "control", "metric", "margin", "force", "format_")
_WITH_RESUME = ("resume", "force", "format_", "dry_run", "from_")

app = typer.Typer(add_completion=False)

FILES = "Results taken elsewhere"


@app.command(
    context_settings=COMMAND_LAST,
    help="Run COMMAND by turns near its GPUs, far from them and as today, or compare results taken elsewhere: which is"
    " faster, at the median and at p99, or that nothing can be seen. In COMMAND, {result}, {seed}, {rate} and {run}"
    " stand for the run's own. Ctrl-C keeps what was measured; --resume goes on.",
)
def compare(
    context: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND…]", help="The workload; with --server, the client that drives it."),
    ] = None,
    near: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE", help="Results from near; in the order given, one of each pair.", rich_help_panel=FILES
        ),
    ] = None,
    far: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Results from far, in the same order.", rich_help_panel=FILES),
    ] = None,
    control: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE", help="Second near results: near against near must not differ.", rich_help_panel=FILES
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The primary one: ttft, tpot, itl, e2el or wall; its median, or ttft.p99. Else itl, or wall where the"
            " command leaves no result.",
        ),
    ] = None,
    margin: Annotated[
        float, typer.Option(min=0.0, max=10.0, metavar="SHARE", help="How much worse p99 may get: 0.1 is 10 %.")
    ] = 0.1,
    force: Annotated[
        bool,
        typer.Option("--force", help="Compare also runs of different workloads; run beside others that use the GPUs."),
    ] = False,
    format_: Annotated[Literal["text", "json"], typer.Option("--format", help="How to print.")] = "text",
    server: Annotated[
        str,
        typer.Option(metavar="COMMAND", help="Started in its arm for every run, stopped after it; no shell."),
    ] = "",
    ready_url: Annotated[
        str, typer.Option(metavar="URL", help="Answers when the server is ready; else /health at its --port.")
    ] = "",
    ready_timeout: Annotated[
        float, typer.Option(min=1, max=86400, metavar="SECONDS", help="For the server to become ready.")
    ] = 1800.0,
    arms: Annotated[
        str, typer.Option(metavar="ARMS", help="Of current, near and far (all); near,near is near against itself.")
    ] = "",
    no_control: Annotated[bool, typer.Option("--no-control", help="Leave out near against near.")] = False,
    pairs: Annotated[int, typer.Option(min=6, max=100, metavar="N", help="Runs of each arm.")] = 10,
    warm_ups: Annotated[int, typer.Option(min=0, max=10, metavar="N", help="Runs before that do not count.")] = 1,
    result: Annotated[
        str, typer.Option(metavar="FILE", help="Where the command leaves its result, if not in {result}.")
    ] = "",
    rate: Annotated[
        float | None, typer.Option(min=0.0001, max=1e6, metavar="N", help="Requests a second, for {rate}.")
    ] = None,
    capacity: Annotated[
        float | None,
        typer.Option(min=0.0001, max=1e6, metavar="N", help="What the slower arm can do; 80 % of it is the most."),
    ] = None,
    probe_capacity: Annotated[
        bool, typer.Option("--probe-capacity", help="Find that by one run of each arm with everything sent at once.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=1, max=86400, metavar="SECONDS", help="A run that takes longer is ended.")
    ] = 3600.0,
    gpus: GpusOption = "",
    node: Annotated[int | None, typer.Option(min=0, metavar="N", help="Without a GPU: the node that is near.")] = None,
    far_node: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="With --node: the far one, else the farthest.")
    ] = None,
    client_cpus: Annotated[
        str, typer.Option(metavar="CPUS", help="Kept free for the client; else it gets what the arms leave.")
    ] = "",
    engine: EngineOption = "",
    engine_version: EngineVersionOption = "",
    assume_node: AssumeNodeOption = None,
    use_isolated: IsolatedOption = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="For all files; else hostdoctor-compare-TIME.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Go on with an experiment at its next unfinished run, by its own options."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be started, and start nothing.")] = False,
    from_: Annotated[list[str] | None, typer.Option("--from", hidden=True)] = None,
) -> None:
    """Print the comparison. Exits 0 whatever its verdict, 3 where the runs are not one workload or one failed."""
    if near or far or control:
        if command or server or resume:
            raise UsageError(
                "compare: --near and --far are results taken elsewhere: give no command with them"
                f"{_unnamed_files(command or [])}"
            )
        _refuse_others(context, _WITH_FILES, "--near and --far are results taken elsewhere")
        return _files(
            near or [],
            far or [],
            control or [],
            "itl" if metric is None else metric,
            margin,
            force=force,
            format_=format_,
        )
    if resume is not None and not (command or server):
        _refuse_others(context, _WITH_RESUME, "--resume goes on by its own options")
    from hostdoctor.cli.comparing import Asked, run_here

    asked = Asked(
        command=tuple(command or ()),
        server=server,
        ready_url=ready_url,
        ready_timeout_s=ready_timeout,
        arms=arms,
        control=not no_control,
        pairs=pairs,
        warm_ups=warm_ups,
        metric=metric,
        margin=margin,
        result=result,
        rate=rate,
        capacity=capacity,
        probe=probe_capacity,
        timeout_s=timeout,
        gpus=gpus,
        node=node,
        far_node=far_node,
        client_cpus=client_cpus,
        engine=engine,
        engine_version=engine_version,
        assume_node=assume_node,
        use_isolated=use_isolated,
        out=None if out is None else str(out),
        resume=None if resume is None else str(resume),
        dry_run=dry_run,
        force=force,
        format=format_,
        elsewhere=tuple(from_ or ()),
    )
    return run_here(asked)


def _refuse_others(context: typer.Context, allowed: tuple[str, ...], why: str) -> None:
    """Raise UsageError for an option on the command line that would be passed over in silence."""
    for parameter in context.command.params:
        told_by = context.get_parameter_source(parameter.name or "")
        if parameter.name not in allowed and told_by is not None and told_by.name == "COMMANDLINE":
            raise UsageError(f"compare: {why}: {parameter.opts[0]} says nothing there")


def _unnamed_files(command: list[str]) -> str:
    """Return what to say where the command is files, as a shell leaves of ``--near n*.json``; else nothing."""
    if not command or not Path(command[0]).is_file():
        return ""
    return f" (each file wants a --near, --far or --control of its own; {command[0][:60]!r} has none)"


def _files(
    near: list[str], far: list[str], control: list[str], metric: str, margin: float, *, force: bool, format_: str
) -> None:
    from hostdoctor.measure.compare import compare_runs

    if not near or not far:
        raise UsageError("compare: give results from both nodes: --near FILE … --far FILE …")
    key, margin = primary_of(metric), share_of(margin)
    with _progress([*near, *far, *control]) as names:
        read = {name: _runs(name) for name in names}
    arms = [[run for name in names for run in read[name]] for names in (near, far, control)]
    result = compare_runs(arms[0], arms[1], control=arms[2], primary=key, margin=margin, force=force)
    if format_ == "json":
        from hostdoctor.outputs.report_json import render_json

        emit(render_json(result))
    else:
        from hostdoctor.outputs.comparison_text import render_comparison

        emit(render_comparison(result, terminal_style()))


@contextlib.contextmanager
def _progress(names: list[str]) -> Iterator[Iterable[str]]:
    """Give the names, each once; on a terminal with a bar where reading them takes a while."""
    distinct = list(dict.fromkeys(names))
    if not sys.stderr.isatty() or sum(map(_size_bytes, distinct)) < QUIET_BYTES:
        yield distinct
        return
    with typer.progressbar(distinct, label="Reading results", file=sys.stderr) as bar:
        yield bar


def _size_bytes(name: str) -> int:
    try:
        return os.stat(name).st_size  # noqa: PTH116  any name, also one that no path can have
    except (OSError, ValueError):
        return 0


def _runs(name: str) -> "tuple[RunResult, ...]":
    from hostdoctor.parsers.run_results import parse_run_results
    from hostdoctor.sources.texts import read_text_file
    from hostdoctor.sources.tree import decoded

    return parse_run_results(read_text_file("-" if name == "-" else Path(name)), decoded(name))


def share_of(margin: float) -> float:
    """Return a share; raise UsageError for NaN."""
    if math.isnan(margin):  # no range excludes it
        raise UsageError("--margin: not a share")
    return margin


def primary_of(text: str) -> "Key":
    """Return the latency and quantile that ``--metric`` names; raise UsageError for what is none."""
    from hostdoctor.measure.arms import SHARES
    from hostdoctor.measure.compare import METRICS

    name, _, quantile = text.lower().partition(".")
    for known in SHARES:
        if name in (*METRICS, "wall") and quantile in (known, "" if known == "p50" else known):
            return name, known
    raise UsageError(f"--metric: {text[:60]!r} is none of {', '.join(METRICS)}, wall, alone or with .p50 or .p99")
