"""``hostdoctor run``: become the command, bound."""

import contextlib
import errno
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import typer

from hostdoctor.cli.common import QuickOption, TimeoutOption, open_evidence, survey_host, timeout_of
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
from hostdoctor.errors import PlacementError
from hostdoctor.placement.model import Launch

app = typer.Typer(add_completion=False)

NOT_EXECUTABLE, NOT_FOUND = 126, 127  # as a shell says it
STRICT = "HOSTDOCTOR_STRICT"
_LOOKED_AT_BYTES = 80  # as bash tells a program for another machine from a script


@app.command(
    context_settings=COMMAND_LAST,
    help="Become COMMAND, bound to the nodes of its GPUs; ends with its status (126, 127 as a shell)."
    " HOSTDOCTOR_STRICT=1 makes it fatal (2) when the kernel permits less than was asked.",
)
def run(
    command: CommandArgument,
    gpus: GpusOption = "",
    engine: EngineOption = "",
    engine_version: EngineVersionOption = "",
    policy: PolicyOption = "auto",
    arm: ArmOption = "near",
    assume_node: AssumeNodeOption = None,
    use_isolated: IsolatedOption = False,
    nics: NicsOption = None,
    timeout: TimeoutOption = None,
    quick: QuickOption = False,
) -> None:
    """Survey, bind this process, say in one line how, and exec the command in its place."""
    limit_s = timeout_of(timeout, quick=quick)
    source = open_evidence(None, demo=False, timeout_s=limit_s)
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
    _become(place(source, survey_host(source), wish, command, limit_s))


def _become(launch: Launch) -> NoReturn:
    if launch.rank_commands:
        raise PlacementError(
            f"the GPUs span nodes ({_ranks(launch)}) and one bind of the whole command would be wrong for some:"
            " start one `hostdoctor run --gpus N` a rank, see `hostdoctor wrap`, or name the engine (--engine)"
        )
    _say(_bound(launch) if launch.outer else _left_to_engine(launch))
    _exec(launch.argv, os.environ | launch.environment)


def _bound(launch: Launch) -> str:
    from hostdoctor.placement.applying import apply_best, describe, steps

    applied = apply_best(steps(launch.binding), strict=os.environ.get(STRICT, "") not in ("", "0"))
    said = f"{', '.join(launch.binding.selection.labels)}: {describe(applied.step)}"
    for tier, reason in applied.refused:
        said += f"; not {tier}: {reason}"
    return "; ".join((said, *warnings_of(launch)))


def _left_to_engine(launch: Launch) -> str:
    said = f"the GPUs span nodes ({_ranks(launch)}): {launch.engine} binds its own workers"
    added = f" ({' '.join(launch.added)})" if launch.added else ""
    return "; ".join((said + added, *warnings_of(launch)))


def _ranks(launch: Launch) -> str:
    return ", ".join(f"{rank.gpu} node {','.join(map(str, rank.nodes))}" for rank in launch.binding.ranks)


def _say(text: str) -> None:
    from hostdoctor.outputs.words import printable

    with contextlib.suppress(OSError):  # a full disk below standard error keeps no service from starting
        typer.echo(f"hostdoctor: {printable(text)}", err=True)


def _exec(argv: tuple[str, ...], environment: Mapping[str, str]) -> NoReturn:
    from hostdoctor.sources.commands import kill_unfinished

    kill_unfinished()  # nothing runs at exit: this process goes on as another program
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores them, and exec would hand that on
    sys.stdout.flush()
    try:
        _execute(argv, environment)
    except OSError as error:
        _say(f"{argv[0]}: {(error.strerror or 'cannot be started').lower()}")
        missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
        raise SystemExit(NOT_FOUND if missing else NOT_EXECUTABLE) from None
    except ValueError as error:  # a NUL
        _say(f"{argv[0]!r}: {error}")
        raise SystemExit(NOT_EXECUTABLE) from None


def _execute(argv: tuple[str, ...], environment: Mapping[str, str]) -> NoReturn:
    """Become a program; a script without a first line that names its interpreter is sh's, as execvp(3) has it."""
    try:
        os.execvpe(argv[0], argv, environment)
    except OSError as error:
        path = shutil.which(argv[0]) if error.errno == errno.ENOEXEC else None
        if path is None or not _is_text(path):
            raise
        os.execve("/bin/sh", ("/bin/sh", path, *argv[1:]), environment)


def _is_text(path: str) -> bool:
    with Path(path).open("rb") as file:
        return b"\0" not in file.read(_LOOKED_AT_BYTES)
