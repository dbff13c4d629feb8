"""``hostdoctor ps``: where running processes and their memory are, against the nodes of their GPUs."""

from collections.abc import Sequence
from typing import Annotated, Literal

import typer

from hostdoctor.cli.common import (
    QuickOption,
    TimeoutOption,
    emit,
    open_evidence,
    some_gpus,
    survey_host,
    terminal_style,
    timeout_of,
)
from hostdoctor.diagnosis.process_places import WARNINGS, Placement, ProcessReport, place
from hostdoctor.errors import SourceError, UsageError
from hostdoctor.facts import Gap, Gpu, Host, Process
from hostdoctor.sources.base import Source

app = typer.Typer(add_completion=False)

OK, WARNING, UNKNOWN = 0, 1, 3
HELP = (
    "Print where running processes and their memory are, against the NUMA nodes of their GPUs: those that the driver"
    " lists, or --pid. Each process is looked at once and stands still meanwhile, 8 ms for each GiB."
    " Exits 0 when none is far, 1 when the memory or the CPUs of one are, 3 when nothing could be told."
)


@app.command(help=HELP)
def ps(
    pid: Annotated[
        list[int] | None, typer.Option("--pid", min=1, max=1 << 30, metavar="PID", help="Look at this process.")
    ] = None,
    gpus: Annotated[
        str,
        typer.Option(
            metavar="GPUS",
            callback=some_gpus,
            help="Processes on these GPUs only; with --pid, the GPUs that they are meant for.",
        ),
    ] = "",
    node: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="With --pid: the NUMA node that they are meant for.")
    ] = None,
    deep: Annotated[bool, typer.Option("--deep", help="Read also processes above 64 GiB: they stall longer.")] = False,
    format_: Annotated[Literal["text", "json"], typer.Option("--format", help="How to print.")] = "text",
    timeout: TimeoutOption = None,
    quick: QuickOption = False,
) -> None:
    """Print the processes in the chosen format and exit with the status of the worst verdict."""
    if node is not None and not pid:
        raise UsageError("--node says where the processes of --pid should be: give --pid")
    if node is not None and gpus:
        raise UsageError("--node and --gpus name two different places: give one")
    source = open_evidence(None, demo=False, timeout_s=timeout_of(timeout, quick=quick))
    report = look(source, survey_host(source, map_only=True), pid or (), gpus, node, deep=deep)
    if format_ == "json":
        from hostdoctor.outputs.report_json import render_json

        emit(render_json(report))
    else:
        from hostdoctor.outputs.ps_text import render_processes

        emit(render_processes(report, terminal_style()))
    raise typer.Exit(status_of(report))


def look(source: Source, host: Host, pids: Sequence[int], gpus: str, node: int | None, *, deep: bool) -> ProcessReport:
    """Return the processes asked for with the verdict on each; raise SourceError where nothing can be asked.

    Raises UsageError for a GPU or node that this host does not have.
    """
    from hostdoctor.placement.selection import named_gpus
    from hostdoctor.survey.processes import PS_LIMIT_BYTES, gpu_users, read_processes, users_of

    if not source.is_live:
        raise SourceError("ps: only the running host has processes")
    if node is not None and node not in (record.id for record in host.numa_nodes):
        raise UsageError(f"--node: no NUMA node {node} here")
    if node is not None and not any(record.cpus for record in host.numa_nodes if record.id == node):
        raise UsageError(f"--node: NUMA node {node} has no CPUs for a process to run on")
    positions = named_gpus(host, gpus)
    meant = () if positions is None else tuple(_index(host.gpus[i]) for i in positions)
    users, unknown = gpu_users(source)
    if pids:
        users, unknown = {pid: meant or users.get(pid, ()) for pid in pids}, ()
    elif positions is not None:
        users = users_of(users, meant)
    elif host.nvidia.state != "ok":
        why = f"the NVIDIA driver does not answer ({host.nvidia.reason or host.nvidia.state or 'not asked'})"
        raise SourceError(f"ps: {why}: name processes with --pid")
    processes, gaps = read_processes(source, users, None if deep else PS_LIMIT_BYTES)
    placements, more = _placed(source, host, processes, gaps, () if node is None else (node,))
    return ProcessReport(processes=placements, gaps=(*unknown, *gaps, *more))


def _placed(
    source: Source, host: Host, processes: Sequence[Process], gaps: Sequence[Gap], named: tuple[int, ...]
) -> tuple[tuple[Placement, ...], tuple[Gap, ...]]:
    from hostdoctor.survey.process_memory import with_memory

    placements: list[Placement] = []
    more: list[Gap] = []
    for process in processes:
        seen, found = with_memory(source, process, host.numa_nodes)
        more += found
        if seen is not None:
            fact = f"processes[{process.pid}].memory"
            reasons = [gap.reason for gap in (*gaps, *found) if gap.fact == fact]
            placements.append(place(host, seen, named, next(iter(reasons), None)))
    return tuple(placements), tuple(more)


def _index(gpu: Gpu) -> int:
    if gpu.index is None:
        raise UsageError(f"--gpus: the driver does not show {gpu.bdf}: no process can use it")
    return gpu.index


def status_of(report: ProcessReport) -> int:
    """Return the exit status: a warning first, then unknown where nothing at all could be told."""
    verdicts = {placement.verdict for placement in report.processes}
    if verdicts & set(WARNINGS):
        return WARNING
    if verdicts <= {"unknown"} and (verdicts or report.gaps):
        return UNKNOWN
    return OK
