"""Options and steps that several commands share."""

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from hostdoctor.errors import SourceError
from hostdoctor.facts import Host, System
from hostdoctor.outputs.style import Style
from hostdoctor.sources.base import LIVE_COMMANDS, Source

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
ChecksDirOption = Annotated[
    list[Path] | None,
    typer.Option("--checks-dir", metavar="DIR", help="A folder of your own checks, owned by root or by you."),
]
DemoOption = Annotated[bool, typer.Option("--demo", help="Look at the bundled example: an 8-GPU two-socket host.")]


def open_evidence(names: list[str] | None, *, demo: bool, timeout_s: float) -> Source:
    """Return what was named, the demo, or this machine, whose slow commands are then running already.

    Raises UsageError for what does not exist, SourceError for what cannot be read.
    """
    if demo:
        from hostdoctor.sources.opening import open_source

        return open_source([str(Path(__file__).parent.parent / "demo.tar.gz")])
    if names:
        from hostdoctor.sources.opening import open_source

        return open_source(names)
    from hostdoctor.sources.live import LiveSource

    source = LiveSource(timeout_s)
    source.prefetch(LIVE_COMMANDS)
    return source


def survey_host(source: Source) -> Host:
    """Return the surveyed host; raise SourceError when nothing at all could be established."""
    from hostdoctor.survey import survey

    host = survey(source)
    if not host.is_live and _is_empty(host):
        raise SourceError(f"{host.sources[0]}: nothing could be established: {_first_reason(host)}")
    return host


def _is_empty(host: Host) -> bool:
    devices = (host.numa_nodes, host.gpus, host.nics, host.nvme, host.pci_devices, host.cores)
    return not any(devices) and host.system == System()


def _first_reason(host: Host) -> str:
    """Return the most telling gap: a text that could not be read, else what somebody else could not tell."""
    kinds = ("unreadable", "error", "denied", "timeout", "not-told", "missing")
    gap = min(host.gaps, key=lambda gap: kinds.index(gap.kind), default=None)
    return "nothing known in it" if gap is None else f"{gap.source}: {gap.reason}"


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
