"""``hostdoctor capture``: what the survey reads, in one file, to be looked at elsewhere or later."""

import datetime
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hostdoctor.cli.common import (
    FromOption,
    QuickOption,
    TimeoutOption,
    emit,
    open_evidence,
    stated_path,
    survey_host,
    timeout_of,
)
from hostdoctor.outputs.words import printable
from hostdoctor.parsers.pci_config import HEADER_BYTES

if TYPE_CHECKING:
    from hostdoctor.sources.recording import RecordingSource

app = typer.Typer(add_completion=False)

SHOWN = 3


@app.command(help="Write what the survey reads to one file; check and topo take it with --from. Changes nothing else.")
def capture(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE.tar.gz", help="The file to write.")],
    redact: Annotated[
        bool,
        typer.Option("--redact", help="Replace host and user names, serials, UUIDs, MAC and IP addresses by others."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file when it exists.")] = False,
    model_path: Annotated[str, typer.Option(metavar="PATH", help="Keep also what this path of a plan lies on.")] = "",
    kv_path: Annotated[str, typer.Option(metavar="PATH", help="Keep also what this path of a plan lies on.")] = "",
    from_: FromOption = None,
    timeout: TimeoutOption = None,
    quick: QuickOption = False,
) -> None:
    """Write the capture, say what is in it, and on standard error what root would have added."""
    from hostdoctor import __version__
    from hostdoctor.sources.recording import RecordingSource
    from hostdoctor.sources.snapshot import members, snapshot
    from hostdoctor.sources.tar_writing import write_archive
    from hostdoctor.sources.whole_file import refuse_bad_target

    refuse_bad_target(output, force=force)
    recording = RecordingSource(open_evidence(from_, demo=False, timeout_s=timeout_of(timeout, quick=quick)))
    stated = (("--model-path", model_path), ("--kv-path", kv_path))
    paths = (stated_path(recording, option, path) for option, path in stated)
    survey_host(recording, paths=[path for path in paths if path])
    now = datetime.datetime.now(tz=datetime.timezone.utc)
    taken = snapshot(recording, __version__, now.isoformat(timespec="seconds"))
    if redact:
        from hostdoctor.sources.redacting import redacted

        taken = redacted(taken)
    written = members(taken)
    size = write_archive(output, written, force=force)
    emit(f"{output}: {len(written)} files, {size / 1024:.0f} KiB, {_identifiers(taken.manifest.redacted)}\n")
    if os.geteuid() != 0:
        _say_what_root_adds(recording)


def _identifiers(redacted: dict[str, int] | None) -> str:
    if redacted is None:
        return "not redacted: host name, serials, UUIDs and addresses are in it (--redact replaces them)"
    found = ", ".join(f"{count} {what}" for what, count in redacted.items() if count)
    return f"replaced: {found or 'nothing to replace'}"


def _say_what_root_adds(recording: "RecordingSource") -> None:
    """Tell an ordinary user what the kernel and the tools kept back."""
    denied = sorted(path for path, (kind, _) in recording.errors.items() if kind == "denied")
    if denied:
        more = f" and {len(denied) - SHOWN} more" if len(denied) > SHOWN else ""
        typer.echo(f"root would add {', '.join(map(printable, denied[:SHOWN]))}{more} (permission denied)", err=True)
    short = sum(len(data) == HEADER_BYTES for data in recording.binaries.values())
    if short:
        typer.echo(f"root would add the rest of the configuration space of {short} PCI functions", err=True)
    for command, outputs in recording.outputs.items():
        if any("<access denied>" in (output.text or "") for output in outputs):
            typer.echo(f"root would add the capabilities that {command.label} shows it", err=True)
