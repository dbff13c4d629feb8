"""``hostdoctor wrap``: print or write a launch wrapper."""

import datetime
from pathlib import Path
from typing import Annotated

import typer

from hostdoctor.cli.common import (
    DemoOption,
    FromOption,
    QuickOption,
    TimeoutOption,
    emit,
    open_evidence,
    survey_host,
    timeout_of,
)
from hostdoctor.cli.placing import (
    COMMAND_LAST,
    ArmOption,
    AssumeNodeOption,
    CommandArgument,
    EngineOption,
    EngineVersionOption,
    GpusOption,
    IsolatedOption,
    NicsOption,
    PolicyOption,
    Wish,
    place,
    warnings_of,
)
from hostdoctor.errors import UsageError
from hostdoctor.facts import Host
from hostdoctor.placement.emitting import SCRIPTS, Container, Form, Made, render, write
from hostdoctor.placement.model import Launch

_CONTAINERS: tuple[Form, ...] = ("docker", "compose", "k8s")

app = typer.Typer(add_completion=False)


@app.command(
    context_settings=COMMAND_LAST,
    help="Print or write a wrapper that starts COMMAND on the nodes of its GPUs. Changes nothing here. Exits 2 where"
    " the command cannot be bound so, 3 where a GPU's node is not known.",
)
def wrap(
    command: CommandArgument,
    gpus: GpusOption = "",
    form: Annotated[Form, typer.Option("--as", help="What to write.")] = "shell",
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of printing.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file when it exists.")] = False,
    engine: EngineOption = "",
    engine_version: EngineVersionOption = "",
    policy: PolicyOption = "auto",
    arm: ArmOption = "near",
    assume_node: AssumeNodeOption = None,
    use_isolated: IsolatedOption = False,
    nics: NicsOption = None,
    image: Annotated[str, typer.Option(metavar="IMAGE", help="The image (docker, compose, k8s).")] = "",
    memory_gib: Annotated[int | None, typer.Option(min=1, metavar="N", help="The pod's memory (k8s).")] = None,
    shm_gib: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Shared memory (docker, compose, k8s).")
    ] = None,
    from_: FromOption = None,
    timeout: TimeoutOption = None,
    quick: QuickOption = False,
    demo: DemoOption = False,
) -> None:
    """Survey, place, and print the wrapper; warnings go to standard error too."""
    container = _container(form, image, memory_gib, shm_gib)
    limit_s = timeout_of(timeout, quick=quick)
    source = open_evidence(from_, demo=demo, timeout_s=limit_s)
    host = survey_host(source)
    wish = Wish(
        gpus=gpus,
        engine=engine,
        engine_version=engine_version,
        policy=policy,
        arm=arm,
        assume_node=assume_node,
        use_isolated=use_isolated,
        nics=nics,
    )
    launch = place(source, host, wish, command, limit_s)
    text = render(launch, form, made=_made(host), container=container)
    if output is None:
        emit(text, exactly=True)
    else:
        write(output, text, executable=form in SCRIPTS, force=force)
    _warn(launch)


def _container(form: Form, image: str, memory_gib: int | None, shm_gib: int | None) -> Container:
    """Return what was said of the container; raise UsageError where the form has no place for it."""
    given = {
        "--image": (image, _CONTAINERS),
        "--memory-gib": (memory_gib, ("k8s",)),
        "--shm-gib": (shm_gib, _CONTAINERS),
    }
    for option, (value, forms) in given.items():
        if value and form not in forms:
            raise UsageError(f"{option}: nothing that --as {form} could say (it is for {', '.join(forms)})")
    return Container(image=image or None, memory_gib=memory_gib, shm_gib=shm_gib)


def _made(host: Host) -> Made:
    from hostdoctor import __version__

    now = datetime.datetime.now(tz=datetime.timezone.utc).isoformat(timespec="seconds")
    return Made(host=host.system.hostname, version=__version__, time=now)


def _warn(launch: Launch) -> None:
    from hostdoctor.outputs.words import printable

    for warning in warnings_of(launch):
        typer.echo(f"hostdoctor: warning: {printable(warning)}", err=True)
