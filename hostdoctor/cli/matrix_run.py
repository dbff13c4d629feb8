"""``hostdoctor matrix run``: the cells of an experiment, run here, printed, or emitted as jobs."""

import math
from pathlib import Path
from typing import Annotated, Literal

import typer

from hostdoctor.cli.placing import AssumeNodeOption, IsolatedOption
from hostdoctor.errors import UsageError

app = typer.Typer(add_completion=False)


@app.command(
    help="Run an experiment's cells: a server for each variant and repeat, its cells in random order, each kept as it"
    " ended. A cell that fails is kept as failed, and the next one run. --resume goes on after Ctrl-C."
)
def run(
    experiment: Annotated[
        Path | None, typer.Argument(metavar="[EXPERIMENT.toml]", help="What matrix init wrote.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="For all files; else hostdoctor-matrix-TIME.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Go on with what was begun there, by its own experiment.")
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="With --resume: make the runs again that failed.")
    ] = False,
    bisect: Annotated[
        bool, typer.Option("--bisect", help="Only the cells that tell the boundary, not the whole grid.")
    ] = False,
    budget_minutes: Annotated[
        float | None,
        typer.Option(
            min=0.01, max=1e6, metavar="N", help="Stop before it takes longer, resumed time included; bisects."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print every command, and start nothing.")] = False,
    emit: Annotated[
        Literal["k8s", "slurm", "shell"] | None,
        typer.Option("--emit", help="Write the whole grid as jobs into --out, and start nothing."),
    ] = None,
    image: Annotated[str, typer.Option(metavar="IMAGE", help="With --emit k8s: the container's image.")] = "",
    format_: Annotated[Literal["text", "json"], typer.Option("--format", help="How to print the boundary.")] = "text",
    force: Annotated[bool, typer.Option("--force", help="Run beside others that use the GPUs.")] = False,
    assume_node: AssumeNodeOption = None,
    use_isolated: IsolatedOption = False,
) -> None:
    """Run, then print the boundary. Exits 0, 3 where nothing could be run, 130 on Ctrl-C."""
    from hostdoctor.cli.matrix_running import Asked, run_matrix

    if (experiment is None) == (resume is None):
        raise UsageError("matrix run: give an experiment file, or --resume DIR")
    if resume is not None and (out is not None or emit is not None):
        raise UsageError("--resume goes on in its own folder: give no --out and no --emit")
    if retry_failed and resume is None:
        raise UsageError("--retry-failed goes with --resume DIR")
    if budget_minutes is not None and math.isnan(budget_minutes):  # no range excludes it
        raise UsageError("--budget-minutes: not a number of minutes")
    run_matrix(
        Asked(
            experiment=experiment,
            out=out,
            resume=resume,
            retry_failed=retry_failed,
            bisect=bisect or budget_minutes is not None,
            budget_s=None if budget_minutes is None else 60 * budget_minutes,
            dry_run=dry_run,
            emit=emit,
            image=image,
            format=format_,
            force=force,
            assume_node=assume_node,
            use_isolated=use_isolated,
        )
    )
