"""``hostdoctor measure memory``: each CPU node against each memory node."""

from typing import Annotated

import typer

from hostdoctor.cli.common import (
    QuickOption,
    TimeoutOption,
    finite,
    open_evidence,
    survey_host,
    terminal_style,
    timeout_of,
)
from hostdoctor.cli.experiments import (
    ForceOption,
    FormatOption,
    NotLiveOption,
    OutputOption,
    circumstances,
    conduct,
    refuse_evidence,
)

app = typer.Typer(add_completion=False)


@app.command(
    help="Latency of dependent loads and read, write and copy bandwidth, from each node's CPUs to each node's memory."
)
def memory(
    native_chase: Annotated[
        bool,
        typer.Option(
            "--native-chase",
            help="Measure latency with a few bytes of machine code made at run time (endpoint protection may object); "
            "without it only differences to the near memory are told.",
        ),
    ] = False,
    size_mib: Annotated[
        int | None,
        typer.Option(min=4, metavar="MIB", help="Memory to take on each node, at most half of what it has free."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, max=10_000, help="Visits to each pair of nodes.")] = 20,
    warmup: Annotated[
        float, typer.Option(min=0, max=600, metavar="SECONDS", help="Work before measuring, for each CPU node.")
    ] = 2.0,
    threads: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Threads for bandwidth; else one a core, at most 64.")
    ] = None,
    bandwidth: Annotated[bool, typer.Option(help="Measure bandwidth too.")] = True,
    format_: FormatOption = "text",
    output: OutputOption = None,
    force: ForceOption = False,
    timeout: TimeoutOption = None,
    quick: QuickOption = False,
    from_: NotLiveOption = None,
) -> None:
    """Measure, print, keep."""
    from hostdoctor.measure.chase import has_numpy
    from hostdoctor.measure.memory import MemoryExperiment, MemoryOptions, enough_rounds
    from hostdoctor.measure.memory_plan import MIB, plan_memory, read_limits
    from hostdoctor.outputs.measure_text import render_memory
    from hostdoctor.sources.whole_file import refuse_bad_target

    refuse_evidence(from_)
    warmup = finite("--warmup", warmup)
    if output is not None:
        refuse_bad_target(output, force=force)
    source = open_evidence(None, demo=False, timeout_s=timeout_of(timeout, quick=quick))
    host = survey_host(source)
    limits = read_limits(source, host, fast_shuffle=has_numpy())
    plan = plan_memory(host, limits, size_bytes=size_mib and size_mib * MIB, threads=threads)
    options = MemoryOptions(
        rounds=rounds, warmup_s=warmup, bandwidth_rounds=enough_rounds(plan, rounds), bandwidth=bandwidth
    )
    experiment = MemoryExperiment(plan, options, native=native_chase)
    conduct(
        experiment.steps(),
        experiment.seconds,
        "measuring memory",
        document=lambda ended_by: experiment.document(circumstances(host, ended_by)),
        render=lambda document: render_memory(document, terminal_style()),
        format_=format_,
        output=output,
        force=force,
    )
