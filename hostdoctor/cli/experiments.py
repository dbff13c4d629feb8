"""What the experiments share: only the running host, progress, keeping what was measured when interrupted."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from hostdoctor.cli.common import emit
from hostdoctor.errors import MeasureError, OutputError, Terminated
from hostdoctor.facts import Fact, Host
from hostdoctor.measure.documents import Circumstances, document_json, shortfall

QUIET_S = 2.0  # what takes longer shows its progress
INCOMPLETE = 3
_UNITS = 1000
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

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


class Signals:
    """What asks this process to end: the first ends the measuring, never what keeps the results; the next ends all."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.is_measuring = True

    def __call__(self, number: int, _: object) -> None:
        """Take a signal."""
        is_first, self.number = self.number is None, number
        if self.is_measuring or not is_first:
            raise Terminated(128 + number)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take signals within the block; one that the caller has ignored stays ignored."""
        former = {number: signal.getsignal(number) for number in _SIGNALS}
        for number, handler in former.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, self)
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)


def conduct(
    steps: Iterator[float],
    seconds: float,
    label: str,
    *,
    document: Callable[[str | None], Fact],
    render: Callable[[Any], str],
    format_: str,
    output: Path | None,
    force: bool,
) -> None:
    """Take all steps, then keep and print what they measured, also when a signal or an error ended them early.

    ``document`` makes the results; it gets the name of the signal that ended the steps. Raises typer.Exit with the
    status that a signal asks for, or INCOMPLETE where something is missing.
    """
    signals = Signals()
    with signals.taken():
        ended_by = _take(steps, seconds, label, signals)
        results = document(ended_by)
        _finish(results, render(results), format_, output, force=force)
    if ended_by is not None:
        typer.echo(f"hostdoctor: ended early by {ended_by}: what was measured until then is kept", err=True)
    if signals.number is not None:
        raise typer.Exit(128 + signals.number)
    lacks = shortfall(results)
    if lacks is not None:
        from hostdoctor.outputs.words import printable

        typer.echo(f"hostdoctor: {printable(lacks)}", err=True)
        raise typer.Exit(INCOMPLETE)


def _take(steps: Iterator[float], seconds: float, label: str, signals: Signals) -> str | None:
    """Take all steps, each telling the seconds that it stands for, with a progress bar on a terminal.

    Returns the name of the signal that ended it, None when it came to its end.
    """
    try:
        _show(steps, seconds, label)
        signals.is_measuring = False
    except Terminated:
        signals.is_measuring = False
        return signal.Signals(signals.number or signal.SIGTERM).name
    return None


def _show(steps: Iterator[float], seconds: float, label: str) -> None:
    if seconds <= QUIET_S or not sys.stderr.isatty():
        for _ in steps:
            pass
        return
    with typer.progressbar(length=int(seconds * _UNITS), label=label, file=sys.stderr) as bar:
        for step in steps:
            bar.update(int(step * _UNITS))


def circumstances(host: Host, ended_by: str | None = None) -> Circumstances:
    """Return where and when this is; ``ended_by`` names the signal that ended it early."""
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
        interrupted=ended_by,
    )


def _finish(document: Fact, text: str, format_: str, output: Path | None, *, force: bool) -> None:
    """Keep and print the results; raise OutputError, once they are printed, where they could not be kept."""
    unwritten = None if output is None else _keep(output, document_json(document), force=force)
    emit(document_json(document) if format_ == "json" else text)
    if unwritten is not None:
        raise unwritten


def _keep(output: Path, text: str, *, force: bool) -> OutputError | None:
    """Write the results; return why that failed, so that they are printed all the same."""
    from hostdoctor.sources.whole_file import whole_file

    try:
        with whole_file(output, force=force) as stream:
            stream.write(text.encode("utf-8"))
    except OutputError as error:
        return error
    return None
