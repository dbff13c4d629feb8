"""``hostdoctor measure``: near against far, on this host. A module a command, imported when named."""

import typer

from hostdoctor.cli.app import USAGE, LazyGroup

# Each is a module hostdoctor.cli.measure_NAME with an ``app``.
EXPERIMENTS = {
    "memory": "Latency and bandwidth from each node's CPUs to each node's memory.",
    "nvme": "Read latency of a drive from near and far CPUs, by fio; or watch drives without load.",
    "copy": "Copies between host memory and a GPU, from near and far memory and CPUs.",
}


class Experiments(LazyGroup):
    """The experiments."""

    names = EXPERIMENTS
    modules = "hostdoctor.cli.measure_"


app = typer.Typer(
    cls=Experiments,
    help="Near against far, measured on this host: what a binding is worth, or that nothing can be seen of it.",
    epilog="Ctrl-C ends a measurement early and keeps what was measured (exit status 130).",
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(USAGE)
