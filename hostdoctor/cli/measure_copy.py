"""``hostdoctor measure copy``: host and GPU memory, from near and far."""

import re
from typing import Annotated, Any, get_args

import typer

from hostdoctor.cli.common import (
    QuickOption,
    TimeoutOption,
    listed_words,
    open_evidence,
    survey_host,
    terminal_style,
    timeout_of,
)
from hostdoctor.cli.experiments import (
    FormatOption,
    NotLiveOption,
    OutputOption,
    circumstances,
    conduct,
    refuse_evidence,
)
from hostdoctor.errors import UsageError
from hostdoctor.facts import Host
from hostdoctor.sources.base import Source

app = typer.Typer(add_completion=False)

MIB = 1 << 20
MAX_COPY_BYTES = 1 << 30
_SIZE = re.compile(r"(\d{1,7})(KiB|MiB)?")
_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20}


@app.command(
    help="Copy between host memory and a GPU, from near and far memory and near and far CPUs (2 × 2), alternating:"
    " latency of small copies, bandwidth of large ones, and the PCIe links meanwhile (check --measured judges them)."
)
def copy(
    gpu: Annotated[str, typer.Option(metavar="GPU", help="Which GPU: index, UUID or PCI address.")],
    sizes: Annotated[
        str, typer.Option(metavar="SIZES", help="Sizes of small copies, comma-separated.")
    ] = "16KiB,256KiB,2MiB",
    memory: Annotated[
        str, typer.Option(metavar="KINDS", help="Kinds of host memory, comma-separated.")
    ] = "pinned,pageable",
    directions: Annotated[str, typer.Option(metavar="WAYS", help="Directions, comma-separated.")] = "to-gpu,from-gpu",
    loops: Annotated[
        str,
        typer.Option(
            metavar="LOOPS",
            help="Small copies one after another (closed), on a schedule (open), large ones (bandwidth).",
        ),
    ] = "closed,open,bandwidth",
    pairs: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Visits to each cell: pairs of near and far. [default: 12, more if needed]"),
    ] = None,
    copies: Annotated[int, typer.Option(min=10, max=100_000, help="Small copies in each visit.")] = 1000,
    buffer_mib: Annotated[
        int | None, typer.Option(min=2, max=65536, metavar="MIB", help="Size of each buffer, and of large copies.")
    ] = None,
    contend: Annotated[
        bool, typer.Option("--contend", help="Also with a second stream and memory load beside the copies.")
    ] = False,
    near_only: Annotated[bool, typer.Option("--near-only", help="Measure the near node alone.")] = False,
    assume_node: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The GPU's NUMA node, where no source tells it.")
    ] = None,
    format_: FormatOption = "text",
    output: OutputOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file when it exists; measure a GPU that is in use.")
    ] = False,
    timeout: TimeoutOption = None,
    quick: QuickOption = False,
    from_: NotLiveOption = None,
) -> None:
    """Measure, print, keep."""
    import msgspec

    from hostdoctor.measure.copies import CopyExperiment
    from hostdoctor.measure.copies_links import LinkWatch
    from hostdoctor.measure.copies_model import Direction, Loop, Memory, Settings
    from hostdoctor.measure.copies_plan import plan_copies
    from hostdoctor.outputs.measure_copy_text import render_copies
    from hostdoctor.sources.whole_file import refuse_bad_target

    settings = Settings(
        pairs=pairs or 0,
        copies_per_run=copies,
        buffer_bytes=(buffer_mib or 0) * MIB,
        sizes_bytes=_sizes(sizes),
        memories=_chosen("--memory", memory, Memory),
        directions=_chosen("--directions", directions, Direction),
        loops=_chosen("--loops", loops, Loop),
        contend=contend,
        near_only=near_only,
    )
    refuse_evidence(from_)
    if output is not None:
        refuse_bad_target(output, force=force)
    limit_s = timeout_of(timeout, quick=quick)
    source = open_evidence(None, demo=False, timeout_s=limit_s)
    host = survey_host(source)
    position = _position(host, gpu)
    plan = plan_copies(host, position, settings, assume_node)
    note = _in_use(source, host, position, force=force)
    plan = msgspec.structs.replace(plan, notes=(*plan.notes, *note))
    experiment = CopyExperiment(plan, LinkWatch(source, plan.path), timeout_s=limit_s)
    conduct(
        experiment.steps(),
        experiment.seconds,
        "copying",
        document=lambda ended_by: experiment.document(circumstances(host, ended_by), host.system.nvidia_driver),
        render=lambda document: render_copies(document, terminal_style()),
        format_=format_,
        output=output,
        force=force,
    )


def _position(host: Host, word: str) -> int:
    from hostdoctor.placement.selection import named_gpus

    try:
        found = named_gpus(host, word) or ()
    except UsageError as error:
        raise UsageError(str(error).replace("--gpus:", "--gpu:", 1)) from None
    if len(found) != 1:
        raise UsageError(f"--gpu: {word[:60]!r} names no one GPU: give one index, UUID or address")
    return found[0]


def _in_use(source: Source, host: Host, position: int, *, force: bool) -> tuple[str, ...]:
    """Return what is to be noted of other users of the GPU; raise MeasureError where they forbid measuring."""
    from hostdoctor.diagnosis.api import gpu_label
    from hostdoctor.facts import Process
    from hostdoctor.facts.processes import is_monitor
    from hostdoctor.measure.copies_plan import refuse_shared, users_of

    gpu = host.gpus[position]
    users = users_of(source.nvml().document, gpu.bdf)
    label = gpu_label(host, gpu)
    if users is None:
        return (f"whether others use {label} is not told by the driver",)
    named = (Process(pid=pid, name=(source.read(f"/proc/{pid}/comm") or "").strip()) for pid in users)
    busy = {process.pid: process.name or "" for process in named if not is_monitor(process)}
    note = refuse_shared(label, busy, force=force)
    return () if note is None else (note,)


def _sizes(text: str) -> tuple[int, ...]:
    found = []
    for word in listed_words(text):
        match = _SIZE.fullmatch(word)
        size = int(match[1]) * _UNITS.get(match[2] or "", 1) if match else 0
        if not 0 < size <= MAX_COPY_BYTES:
            raise UsageError(f"--sizes: {word[:40]!r} is no size up to 1024MiB, as 16KiB, 2MiB or bytes")
        found.append(size)
    if not found:
        raise UsageError("--sizes: names no size")
    return tuple(dict.fromkeys(found))


def _chosen(option: str, text: str, kinds: Any) -> tuple[Any, ...]:
    """Return which of a Literal's words were named, in its order."""
    words, known = listed_words(text), get_args(kinds)
    unknown = [word for word in words if word not in known]
    if unknown or not words:
        raise UsageError(f"{option}: {(unknown or [text])[0][:40]!r} is none of {', '.join(known)}")
    return tuple(word for word in known if word in words)
