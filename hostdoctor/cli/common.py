"""Options and steps that several commands share."""

import io
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
MAX_GIB = 1 << 20  # a PiB: nobody's memory, and still exact in bytes
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
OffloadOption = Annotated[
    float | None, typer.Option("--cpu-offload-gib", metavar="GIB", help="Plan: weights to offload, for each GPU.")
]
KvOffloadOption = Annotated[
    float | None,
    typer.Option("--kv-offload-gib", metavar="GIB", help="Plan: KV cache to offload, over TP × PP of each DP engine."),
]
DemoOption = Annotated[bool, typer.Option("--demo", help="Look at the bundled example: an 8-GPU two-socket host.")]


def some_gpus(context: typer.Context, parameter: typer.CallbackParam, value: str) -> str:
    """Return ``--gpus`` as it is; raise UsageError where it was given empty, as by a variable that is not set."""
    told_by = context.get_parameter_source(parameter.name or "")
    if not value.strip() and told_by is not None and told_by.name != "DEFAULT":
        raise UsageError("--gpus: names no GPU (leave it out, or say all)")
    return value


def emit(text: str, *, exactly: bool = False) -> None:
    """Print on standard output; raise OutputError where that fails, end quietly where nobody reads any more.

    ``exactly``: every byte counts, whatever the terminal's encoding (a command's words need not even be UTF-8).
    """
    try:
        if exactly and isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
        else:
            sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that nothing is flushed into it again
        if isinstance(error, BrokenPipeError):
            raise SystemExit(SIGPIPE_STATUS) from None
        raise OutputError(f"cannot write the output: {error.strerror}") from error


def refuse_output(output: Path | None, *, force: bool) -> None:
    """Raise UsageError or OutputError, before any work, where a file that was named cannot be written."""
    if output is not None:
        from hostdoctor.sources.whole_file import refuse_bad_target

        refuse_bad_target(output, force=force)


def deliver(text: str, output: Path | None, *, force: bool) -> None:
    """Print a text, or write it to a file whole or not at all; raise UsageError or OutputError where that fails."""
    if output is None:
        emit(text)
        return
    from hostdoctor.sources.whole_file import permitted, whole_file

    with whole_file(output, force=force, mode=permitted(0o666)) as stream:
        stream.write(text.encode("utf-8", "replace"))


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
    if source.is_live:
        _refuse_missing(option, path)
    return os.path.abspath(path)  # noqa: PTH100  links are the survey's to follow


def _refuse_missing(option: str, path: str) -> None:
    try:
        os.lstat(path)
    except (OSError, ValueError) as error:
        why = (getattr(error, "strerror", None) or str(error)).lower()
        raise UsageError(f"{option}: {why}: {path[:80]!r}") from None


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


def gib_bytes(option: str, gib: float | None) -> int | None:
    """Return a size in bytes; raise UsageError for what is no size of memory."""
    if gib is None:
        return None
    if not math.isfinite(gib) or not 0 <= gib <= MAX_GIB:
        raise UsageError(f"{option}: not a size in GiB: {gib:g}")
    return round(gib * (1 << 30))


def terminal_style() -> Style:
    """Return how to print on standard output: colour and width only on a terminal, no colour with NO_COLOR."""
    if not sys.stdout.isatty():
        return Style()
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return Style(colour=not plain, width=shutil.get_terminal_size().columns)


def listed_words(text: str) -> list[str]:
    """Return the words of a list given with commas or blanks."""
    return [part for part in text.replace(",", " ").split() if part]
