"""The application: names of commands, lazy loading, and what errors mean for the exit status."""

import contextlib
import gc
import importlib
import io
import os
import signal
import sys
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from hostdoctor.errors import HostdoctorError, Terminated

USAGE, INTERNAL = 64, 70
SIGINT_STATUS = 130

# Each is a module of hostdoctor.cli with an ``app``; the text is what ``--help`` lists.
COMMANDS = {
    "check": "Survey the host, run the checks, print verdicts: the preflight.",
    "topo": "Print the map alone: nodes, root complexes, GPUs, NICs, NVMe drives.",
    "explain": "Print one check's documentation.",
    "capture": "Write what the survey reads to one file, for offline use.",
    "plan": "Plan VRAM, KV cache and concurrency for a model and its traffic.",
    "budget": "Say how much memory may be pinned on each node, and the offload options that fit.",
    "wrap": "Print or write a launch wrapper that binds a command to the nodes of its GPUs.",
    "run": "Become a command, bound to the nodes of its GPUs.",
    "ps": "Print where running processes and their memory are, against their GPUs' nodes.",
    "measure": "Near against far: memory, drives, copies, measured on this host.",
    "compare": "Run a workload by turns near and far, or compare its results: p99 with intervals.",
    "matrix": "Offload variants × context × concurrency, and the boundary where p99 leaves the SLO.",
    "report": "Write everything known about this host on one self-contained page.",
    "agent": "Watch this host as a service: surveys, events, history, what drifted.",
    "install-service": "Put the service's systemd units in place from this installation.",
}


class LazyGroup(TyperGroup):
    """A group whose commands are imported only when named: start-up time is a feature."""

    names = COMMANDS
    modules = "hostdoctor.cli."  # what the module's name begins with

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the command names in the order of ``names``."""
        return list(self.names)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command, imported now, or None when there is no such command."""
        if cmd_name not in self.names:
            return None
        command = get_command(importlib.import_module(f"{self.modules}{cmd_name.replace('-', '_')}").app)
        command.name, command.short_help = cmd_name, self.names[cmd_name]
        return command


app = typer.Typer(
    cls=LazyGroup,
    name="hostdoctor",
    help="Maps each GPU to its NUMA node, PCIe link and shared root complex, and judges the map.",
    epilog="Exit status: check 0 ok, 1 warning, 2 critical, 3 unknown; ps 0, 1, 3; plan and budget 2 when it does not"
    " fit; wrap and run 2 when the command cannot be bound so, run else the command's own; every command 0 when done,"
    " 3 when nothing could be read, 64 for usage, 70 for a defect of hostdoctor.",
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True),
) -> None:
    if version:
        from hostdoctor import __version__

        typer.echo(f"hostdoctor {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(USAGE)


def main() -> None:
    """Run the command line and exit with its status; never a traceback for what a user or machine did."""
    _end_on_signals()
    gc.disable()  # one short pass over acyclic records: collecting costs milliseconds and frees nothing
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123  started with its output closed
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # an encoding without box characters still gets the verdict
    try:
        status = get_command(app).main(standalone_mode=False, prog_name="hostdoctor")
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  the last resort: one line and its own status
        status = _status_of(error)
    sys.exit(status if isinstance(status, int) else 0)


def _end_on_signals() -> None:
    """Exit as on Ctrl-C, so that children are ended; a signal that the caller has ignored (nohup) stays so."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where a caller has it ignored, nobody learns how a child ended
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)


def _end(number: int, _: object) -> None:
    raise Terminated(128 + number)


def _status_of(error: BaseException) -> int:
    """Say what went wrong in one line and return the exit status that it means."""
    if isinstance(error, HostdoctorError):
        return _say(str(error), error.exit_status)
    if isinstance(error, typer.TyperException):
        return _usage(error)
    if isinstance(error, (KeyboardInterrupt, typer.Abort)):
        return _say("interrupted", SIGINT_STATUS)
    if os.environ.get("HOSTDOCTOR_DEBUG"):
        raise error
    return _say(f"internal error: {type(error).__name__}: {error} (HOSTDOCTOR_DEBUG=1 shows where)", INTERNAL)


def _is_of_the_command_line(error: typer.TyperException) -> bool:
    """Tell whether the value that is refused was given as an option, not by the environment."""
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    source = context.get_parameter_source(parameter.name) if context and parameter else None
    return source is not None and source.name == "COMMANDLINE"


def _usage(error: typer.TyperException) -> int:
    text = getattr(error, "format_message", lambda: str(error))()
    if _is_of_the_command_line(error):
        import re

        text = re.sub(r" \(env var: '[^']*'\)", "", text, count=1)  # the variable is not to blame
    path = getattr(getattr(error, "ctx", None), "command_path", "hostdoctor")  # of the command, or the program itself
    return _say(f"{text} (see {path} --help)", USAGE)


def _say(text: str, status: int) -> int:
    from hostdoctor.outputs.words import printable

    with contextlib.suppress(OSError):  # where nobody can be told, the status still tells
        typer.echo(f"hostdoctor: {printable(text)}", err=True)
    return status
