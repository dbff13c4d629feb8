"""What the experiments share: only the running host, progress, keeping what was measured when interrupted."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from hostdoctor.cli.app import SIGINT_STATUS
from hostdoctor.cli.common import emit
from hostdoctor.errors import MeasureError, OutputError
from hostdoctor.facts import Fact, Host
from hostdoctor.measure.documents import Circumstances, document_json

QUIET_S = 2.0  # what takes longer shows its progress
_UNITS = 1000

FormatOption = Annotated[Literal["text", "json"], typer.Option("--format", help="How to print.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE.json", help="Keep the results in this file too.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace the file when it exists.")]
NotLiveOption = Annotated[list[str] | None, typer.Option("--from", hidden=True)]


def refuse_evidence(names: list[str] | None) -> None:
    """Raise MeasureError for a capture or text: nothing can be measured on it."""
    if names:
        raise MeasureError(f"{names[0][:80]}: experiments run on this host, now, not on a capture or text (no --from)")


def run_steps(steps: Iterator[float], seconds: float, label: str) -> int | None:
    """Take all steps, each telling the seconds that it stands for, with a progress bar on a terminal.

    Returns the exit status that a signal ended it with (130, 143), None when it came to its end.
    """
    try:
        if seconds <= QUIET_S or not sys.stderr.isatty():
            for _ in steps:
                pass
            return None
        with typer.progressbar(length=int(seconds * _UNITS), label=label, file=sys.stderr) as bar:
            for step in steps:
                bar.update(int(step * _UNITS))
    except KeyboardInterrupt:
        return SIGINT_STATUS
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else SIGINT_STATUS
    return None


def circumstances(host: Host, ended_by: int | None = None) -> Circumstances:
    """Return where and when this is; ``ended_by`` is the exit status that a signal asked for."""
    from hostdoctor import __version__
    from hostdoctor.measure.clock import now

    system = host.system
    return Circumstances(
        at=now(),
        hostdoctor=__version__,
        hostname=system.hostname,
        kernel=system.kernel,
        cpu_model=system.cpu_model,
        virtualization=system.virtualization,
        interrupted=None if ended_by is None else signal_name(ended_by),
    )


def finish(document: Fact, text: str, format_: str, output: Path | None, *, force: bool, ended_by: int | None) -> None:
    """Keep and print the results; raise typer.Exit with the status that a signal asked for, if one did."""
    unwritten = None if output is None else _keep(output, document_json(document), force=force)
    emit(document_json(document) if format_ == "json" else text)
    if unwritten is not None:
        raise unwritten
    if ended_by is not None:
        typer.echo(
            f"hostdoctor: ended early by {signal_name(ended_by)}: what was measured until then is kept", err=True
        )
        raise typer.Exit(ended_by)


def _keep(output: Path, text: str, *, force: bool) -> OutputError | None:
    """Write the results; return why that failed, so that they are printed all the same."""
    from hostdoctor.sources.whole_file import whole_file

    try:
        with whole_file(output, force=force) as stream:
            stream.write(text.encode("utf-8"))
    except OutputError as error:
        return error
    return None


def signal_name(status: int) -> str:
    """Return the signal that an exit status stands for."""
    import signal

    names = {int(number): number.name for number in signal.Signals}
    return names.get(status - 128, f"signal {status - 128}")
