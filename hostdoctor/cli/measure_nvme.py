"""``hostdoctor measure nvme``: a drive read from near and far CPUs; or drives watched without load."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hostdoctor.cli.common import (
    QuickOption,
    TimeoutOption,
    finite,
    open_evidence,
    stated_path,
    survey_host,
    terminal_style,
    timeout_of,
)
from hostdoctor.cli.experiments import (
    ForceOption,
    FormatOption,
    NotLiveOption,
    OutputOption,
    circumstances,
    conduct,
    refuse_evidence,
)
from hostdoctor.errors import MeasureError, UsageError

if TYPE_CHECKING:
    from hostdoctor.facts import Host
    from hostdoctor.measure.nvme_plan import Target
    from hostdoctor.sources.base import Source

app = typer.Typer(add_completion=False)

METRICS_TIMEOUT_S = 5.0


@app.command(
    help="Random reads of a drive by fio from near and far CPUs, 16 and 128 KiB, queue depths 1, 8 and 32; never "
    "writes. With --watch no load: latency and queue depth of the drives, hits of an engine's caches."
)
def nvme(
    drive: Annotated[str, typer.Option(metavar="NAME", help="The drive: nvme0, or a disk of it: nvme0n1.")] = "",
    file: Annotated[
        str, typer.Option(metavar="PATH", help="Instead of the drive, read an existing big file on it: no root needed.")
    ] = "",
    seconds: Annotated[int, typer.Option(min=1, max=3600, help="How long each run reads.")] = 5,
    repeats: Annotated[
        int, typer.Option(min=1, max=1000, help="Runs of each kind, in turns: near, far, far, near.")
    ] = 2,
    block_kib: Annotated[
        list[int] | None, typer.Option(min=1, max=16384, metavar="KIB", help="Bytes of a read: 16 and 128 KiB.")
    ] = None,
    depth: Annotated[
        list[int] | None, typer.Option(min=1, max=1024, metavar="N", help="Reads in flight: 1, 8 and 32.")
    ] = None,
    watch: Annotated[
        float | None, typer.Option(min=0.1, max=86400, metavar="SECONDS", help="Put no load on it: only look.")
    ] = None,
    metrics_url: Annotated[
        str, typer.Option(metavar="URL", help="With --watch: vLLM's metrics, http://127.0.0.1:8000/metrics.")
    ] = "",
    format_: FormatOption = "text",
    output: OutputOption = None,
    force: ForceOption = False,
    timeout: TimeoutOption = None,
    quick: QuickOption = False,
    from_: NotLiveOption = None,
) -> None:
    """Measure or watch, print, keep."""
    from hostdoctor.sources.whole_file import refuse_bad_target

    refuse_evidence(from_)
    _refuse_mixed(drive, file, watch, metrics_url)
    if output is not None:
        refuse_bad_target(output, force=force)
    source = open_evidence(None, demo=False, timeout_s=timeout_of(timeout, quick=quick))
    path = stated_path(source, "--file", file) or ""
    host = survey_host(source, paths=[path] if path else [])
    if watch is not None:
        _watch(source, host, drive, path, finite("--watch", watch), metrics_url, format_, output, force=force)
        return
    from hostdoctor.measure.nvme import NvmeExperiment
    from hostdoctor.measure.nvme_plan import BLOCK_SIZES_KIB, QUEUE_DEPTHS, arms_of, readings
    from hostdoctor.outputs.measure_text import render_nvme
    from hostdoctor.outputs.words import printable

    target = _target(host, drive, path)
    arms, notes = arms_of(host, target)
    runs = readings(arms, repeats, block_kib or BLOCK_SIZES_KIB, depth or QUEUE_DEPTHS)
    experiment = NvmeExperiment(source, target, runs, seconds, notes)
    conduct(
        experiment.steps(),
        experiment.seconds,
        f"reading {printable(target.path)}",
        document=lambda ended_by: experiment.document(circumstances(host, ended_by)),
        render=lambda document: render_nvme(document, terminal_style()),
        format_=format_,
        output=output,
        force=force,
    )


def _refuse_mixed(drive: str, file: str, watch: float | None, metrics_url: str) -> None:
    if drive and file:
        raise UsageError("--drive and --file: give one")
    if metrics_url and watch is None:
        raise UsageError("--metrics-url: only with --watch SECONDS")
    if not drive and not file and watch is None:
        raise UsageError("what to read? --drive nvme0, or --file PATH (or --watch SECONDS, without load)")
    if metrics_url:
        from hostdoctor.sources.web import refuse_bad_url

        refuse_bad_url("--metrics-url", metrics_url)


def _target(host: "Host", drive: str, path: str) -> "Target":
    from hostdoctor.measure.nvme_plan import drive_target, file_target

    return drive_target(host, drive) if drive else file_target(host, path)


def _watch(
    source: "Source",
    host: "Host",
    drive: str,
    path: str,
    seconds: float,
    metrics_url: str,
    format_: str,
    output: Path | None,
    *,
    force: bool,
) -> None:
    """Read the counters twice, tell the differences."""
    from hostdoctor.measure.documents import WatchDocument
    from hostdoctor.measure.watch import Watch
    from hostdoctor.outputs.measure_text import render_watch

    watched = _watched(host, drive, path)
    what = f"no disk below {path!r} is known" if path else "no NVMe drive is known here"
    if not watched and not metrics_url:
        raise MeasureError(f"nothing to watch: {what}")
    watch = Watch(source, watched, metrics_url, METRICS_TIMEOUT_S)

    def document(ended_by: str | None) -> WatchDocument:
        seen = watch.end()
        return WatchDocument(
            circumstances=circumstances(host, ended_by),
            seconds=seen.seconds,
            disks=seen.disks,
            metrics_url=metrics_url or None,
            caches=seen.caches,
            notes=(*seen.notes, *(() if watched else (f"no drive was watched: {what}",))),
        )

    conduct(
        _waiting(seconds),
        seconds,
        "watching",
        document=document,
        render=lambda told: render_watch(told, terminal_style()),
        format_=format_,
        output=output,
        force=force,
    )


def _watched(host: "Host", drive: str, path: str) -> tuple[str, ...]:
    """Return the disks to watch: those named, else all of NVMe drives."""
    from hostdoctor.measure.nvme_plan import disks_of

    if path:
        return tuple(disk for place in host.places if place.path == path for disk in place.disks)
    if drive:
        return disks_of(host, drive)
    return tuple(disk for known in host.nvme for disk in known.namespaces)


def _waiting(seconds: float) -> Iterator[float]:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        step = min(0.5, left)
        time.sleep(step)
        yield step
