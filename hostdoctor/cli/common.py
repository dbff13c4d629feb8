"""Options and steps that several commands share."""

import math
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hostdoctor.errors import OutputError, SourceError, UsageError
from hostdoctor.facts import Host, System
from hostdoctor.outputs.style import Style
from hostdoctor.sources.base import LIVE_COMMANDS, Source
from hostdoctor.sources.tree import decoded

FULL_TIMEOUT_S = 60.0  # enabling persistence mode can take 25 s
QUICK_TIMEOUT_S = 5.0
SIGPIPE_STATUS = 141  # as a shell says it

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


def emit(text: str) -> None:
    """Print on standard output; raise OutputError where that fails, end quietly where nobody reads any more."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that nothing is flushed into it again
        if isinstance(error, BrokenPipeError):
            raise SystemExit(SIGPIPE_STATUS) from None
        raise OutputError(f"cannot write the output: {error.strerror}") from error


def open_evidence(names: list[str] | None, *, demo: bool, timeout_s: float) -> Source:
    """Return what was named, the demo, or this machine, whose slow commands are then running already.

    Raises UsageError for what does not exist, SourceError for what cannot be read.
    """
    if demo and names:
        raise UsageError("--demo and --from name two different hosts: give one")
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


def survey_host(source: Source, *, map_only: bool = False, paths: Sequence[str] = ()) -> Host:
    """Return the surveyed host; raise SourceError when nothing at all could be established."""
    from hostdoctor.survey import survey, survey_map

    host = survey_map(source) if map_only else survey(source, paths=paths)
    if not host.is_live and _is_empty(host):
        raise SourceError(f"{host.sources[0]}: nothing could be established: {_first_reason(host)}")
    return host


def stated_path(source: Source, option: str, path: str) -> str | None:
    """Return a path of the caller's plan, absolute; None when none was stated.

    Raises UsageError for what is not there, and for a relative path on another host.
    """
    if not path:
        return None
    if decoded(path) != path:
        raise UsageError(f"{option}: not a UTF-8 name: {path[:80]!r}")
    if not source.is_live and not path.startswith("/"):
        raise UsageError(f"{option}: not an absolute path of that host: {path[:80]!r}")
    if source.is_live and not os.path.lexists(path):
        raise UsageError(f"{option}: no such file or directory: {path[:80]!r}")
    return os.path.abspath(path)  # noqa: PTH100  links are the survey's to follow


def _is_empty(host: Host) -> bool:
    devices = (host.numa_nodes, host.gpus, host.nics, host.nvme, host.pci_devices, host.cores)
    return not any(devices) and host.system == System()


def _first_reason(host: Host) -> str:
    """Return the most telling gap: a text that could not be read, else what somebody else could not tell."""
    kinds = ("unreadable", "error", "denied", "timeout", "not-told", "missing")
    gaps = (gap for gap in host.gaps if gap.fact != "system.virtualization")  # every text leaves that open
    gap = min(gaps, key=lambda gap: kinds.index(gap.kind), default=None)
    if gap is None or gap.kind == "missing":
        return "it names no NUMA node and no GPU, NIC or drive"
    return f"{gap.source}: {gap.reason}"


def timeout_of(timeout_s: float | None, *, quick: bool) -> float:
    """Return how long to wait, in seconds; raise UsageError for what is no time."""
    if timeout_s is not None:
        return finite("--timeout", timeout_s)
    return QUICK_TIMEOUT_S if quick else FULL_TIMEOUT_S


def finite(option: str, seconds: float) -> float:
    """Return a number of seconds; raise UsageError for NaN, which no range excludes."""
    if not math.isfinite(seconds):
        raise UsageError(f"{option}: not a number of seconds: {seconds:g}")
    return seconds


def terminal_style() -> Style:
    """Return how to print on standard output: colour and width only on a terminal, no colour with NO_COLOR."""
    if not sys.stdout.isatty():
        return Style()
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return Style(colour=not plain, width=shutil.get_terminal_size().columns)


def listed_words(text: str) -> list[str]:
    """Return the words of a list given with commas or blanks."""
    return [part for part in text.replace(",", " ").split() if part]


def gpu_positions(host: Host, text: str) -> tuple[int, ...] | None:
    """Return which of ``host.gpus`` were named, in the order named; None for all. Raises UsageError."""
    from hostdoctor.parsers.bdf import canonical_bdf

    if text.strip() in ("", "all"):
        return None
    if not listed_words(text):
        raise UsageError(f"--gpus: {text!r} names no GPU")
    found = []
    for word in listed_words(text):
        matches = [
            i
            for i, gpu in enumerate(host.gpus)
            if word in (str(gpu.index), gpu.uuid) or (gpu.bdf is not None and gpu.bdf == canonical_bdf(word))
        ]
        if not matches:
            known = ", ".join(str(gpu.index) for gpu in host.gpus if gpu.index is not None) or "none"
            raise UsageError(f"--gpus: no GPU {word[:60]!r} here (known: {known})")
        found += matches
    return tuple(dict.fromkeys(found))
