"""Options and steps that several commands share."""

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from hostdoctor.facts import Host
from hostdoctor.outputs.style import Style
from hostdoctor.sources.base import Source

FULL_TIMEOUT_S = 60.0  # enabling persistence mode can take 25 s
QUICK_TIMEOUT_S = 5.0

FromOption = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        metavar="PATH",
        help="Instead of this host: a capture, a folder with sys/ and proc/, pasted outputs; - is standard input.",
    ),
]
TimeoutOption = Annotated[
    float | None,
    typer.Option("--timeout", min=0.1, max=3600, metavar="SECONDS", help="Wait no longer for any driver or command."),
]
QuickOption = Annotated[bool, typer.Option("--quick", help=f"The same as --timeout {QUICK_TIMEOUT_S:g}.")]
DemoOption = Annotated[bool, typer.Option("--demo", help="Look at the bundled example: an 8-GPU two-socket host.")]


def open_host(names: list[str] | None, *, demo: bool, timeout_s: float) -> Host:
    """Return the surveyed host: from what was named, the demo, or this machine.

    Raises UsageError for what does not exist, SourceError when nothing could be read.
    """
    from hostdoctor.survey import survey

    return survey(_source(names, demo=demo, timeout_s=timeout_s))


def timeout_of(timeout_s: float | None, *, quick: bool) -> float:
    """Return how long to wait, in seconds."""
    if timeout_s is not None:
        return timeout_s
    return QUICK_TIMEOUT_S if quick else FULL_TIMEOUT_S


def terminal_style() -> Style:
    """Return how to print on standard output: colour and width only on a terminal, no colour with NO_COLOR."""
    if not sys.stdout.isatty():
        return Style()
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return Style(colour=not plain, width=shutil.get_terminal_size().columns)


def _source(names: list[str] | None, *, demo: bool, timeout_s: float) -> Source:
    if demo:
        from hostdoctor.sources.opening import open_source

        return open_source([str(Path(__file__).parent.parent / "demo.tar.gz")])
    if names:
        from hostdoctor.sources.opening import open_source

        return open_source(names)
    from hostdoctor.sources.live import LiveSource

    return LiveSource(timeout_s)
