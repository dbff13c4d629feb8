"""``hostdoctor matrix``: offload variants × context × concurrency. A module a command, imported when named."""

import typer

from hostdoctor.cli.app import USAGE, LazyGroup

# Each is a module hostdoctor.cli.matrix_NAME with an ``app``.
STEPS = {
    "init": "Write an experiment file: variants, contexts, concurrency, SLO; cells that cannot be are struck out.",
    "run": "Run the cells of an experiment, or print or emit their commands.",
    "boundary": "Tell up to which context and concurrency each variant holds the SLO, from result files.",
}


class Steps(LazyGroup):
    """The steps."""

    names = STEPS
    modules = "hostdoctor.cli.matrix_"


app = typer.Typer(
    cls=Steps,
    help="Where does p99 leave the SLO? Offload variants × context × concurrency, and the boundary of each.",
    epilog="Ctrl-C ends a run early and keeps what was measured (exit status 130).",
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(USAGE)
