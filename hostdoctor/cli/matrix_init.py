"""``hostdoctor matrix init``: from a model, its GPUs and the map to an experiment file."""

import math
import shutil
from pathlib import Path
from typing import Annotated

import typer

from hostdoctor.cli.common import (
    DemoOption,
    FromOption,
    KvOffloadOption,
    OffloadOption,
    TimeoutOption,
    emit,
    gib_bytes,
    listed_words,
    some_gpus,
    timeout_of,
)
from hostdoctor.errors import UsageError
from hostdoctor.sources.tree import decoded

app = typer.Typer(add_completion=False)

MAX_TOKENS = 10**8


@app.command(
    help="Write an experiment file (TOML): variants A all in VRAM, B weights partly offloaded, C KV to RAM, D KV to"
    " NVMe; contexts, concurrency, SLO. Cells that fit neither VRAM nor the budget are struck out, with the reason."
)
def init(
    model: Annotated[str, typer.Option(metavar="NAME", help="As vllm serve is given it: a name or a folder.")],
    ttft_p99_ms: Annotated[float, typer.Option(min=0.001, max=1e9, metavar="MS", help="SLO: time to first token.")],
    itl_p99_ms: Annotated[float, typer.Option(min=0.001, max=1e9, metavar="MS", help="SLO: between two tokens.")],
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Its config.json or folder, where NAME is no folder here.")
    ] = None,
    weights_gib: Annotated[
        float | None, typer.Option(metavar="GIB", help="All weights, where no safetensors index tells them.")
    ] = None,
    gpus: Annotated[
        str,
        typer.Option(metavar="GPUS", callback=some_gpus, help="The server's GPUs; the first --tp when omitted."),
    ] = "",
    tp: Annotated[int, typer.Option("--tp", min=1, max=1024, metavar="N", help="Tensor-parallel size.")] = 1,
    gpu: Annotated[str, typer.Option(metavar="NAME", help="Without the host: a product, as h100-80.")] = "",
    gpu_memory_gib: Annotated[float | None, typer.Option(metavar="GIB", help="Without the host: of each.")] = None,
    reserve_percent: Annotated[
        float, typer.Option(min=0, max=90, help="Of VRAM, for runtime, graphs, fragmentation: usually 15 to 25.")
    ] = 20.0,
    max_context: Annotated[
        int | None,
        typer.Option(min=2, max=MAX_TOKENS, metavar="N", help="Longest in production; else the model's own."),
    ] = None,
    max_concurrency: Annotated[
        int, typer.Option(min=1, max=100_000, metavar="N", help="Requests at once, the production limit.")
    ] = 32,
    output_tokens: Annotated[
        int, typer.Option(min=1, max=MAX_TOKENS, metavar="N", help="Length of every answer: 256 or 512.")
    ] = 256,
    kv_dtypes: Annotated[str, typer.Option(metavar="NAMES", help="KV precisions: auto,fp8 …")] = "auto",
    rates: Annotated[str, typer.Option(metavar="N,N", help="Requests a second; none: closed loops.")] = "",
    cpu_offload_gib: OffloadOption = None,
    kv_offload_gib: KvOffloadOption = None,
    nvme_dir: Annotated[
        str, typer.Option(metavar="DIR", help="For variant D: a folder of its own on the NVMe file system.")
    ] = "",
    lmcache: Annotated[bool, typer.Option("--lmcache", help="D by LMCache; else by vLLM's own tiers.")] = False,
    repeats: Annotated[int, typer.Option(min=1, max=50, metavar="N", help="Of every cell.")] = 3,
    port: Annotated[int, typer.Option(min=1, max=65535, metavar="PORT", help="Of the server.")] = 8000,
    engine_version: Annotated[str, typer.Option(metavar="VERSION", help="vLLM's; else the newest is assumed.")] = "",
    name: Annotated[str, typer.Option(metavar="NAME", help="Of the experiment.")] = "matrix",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE.toml", help="Else to standard output.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file when it exists.")] = False,
    from_: FromOption = None,
    timeout: TimeoutOption = None,
    demo: DemoOption = False,
) -> None:
    """Write the file. Exits 0, 3 for a KV layout that is not known, 64 for what cannot be."""
    from hostdoctor.cli.matrix_making import Wanted, make_experiment
    from hostdoctor.outputs.matrix_toml import render_experiment_file

    if output is not None:
        from hostdoctor.sources.whole_file import refuse_bad_target

        refuse_bad_target(output, force=force)
    for option, text in (("--model", model), ("--nvme-dir", nvme_dir)):
        if decoded(text) != text:
            raise UsageError(f"{option}: not UTF-8: {text[:80]!r}")
    wanted = Wanted(
        name=name,
        model=model,
        config=config,
        weights_bytes=gib_bytes("--weights-gib", weights_gib),
        gpus=gpus,
        tp=tp,
        gpu=gpu,
        gpu_memory_bytes=gib_bytes("--gpu-memory-gib", gpu_memory_gib),
        reserve_percent=_finite("--reserve-percent", reserve_percent, "percent"),
        max_context=max_context,
        max_concurrency=max_concurrency,
        output_tokens=output_tokens,
        kv_dtypes=tuple(listed_words(kv_dtypes)),
        rates=_rates(rates),
        offload_bytes=gib_bytes("--cpu-offload-gib", cpu_offload_gib),
        kv_bytes=gib_bytes("--kv-offload-gib", kv_offload_gib),
        nvme_dir=nvme_dir,
        lmcache=lmcache,
        repeats=repeats,
        port=port,
        engine_version=engine_version,
        ttft_p99_ms=_finite("--ttft-p99-ms", ttft_p99_ms),
        itl_p99_ms=_finite("--itl-p99-ms", itl_p99_ms),
        from_=tuple(from_ or ()),
        demo=demo,
        limit_s=timeout_of(timeout, quick=False),
        vllm=shutil.which("vllm"),
    )
    made = make_experiment(wanted)
    from hostdoctor import __version__

    text = render_experiment_file(made.experiment, version=__version__, notes=made.notes, placement=made.placement)
    if output is None:
        emit(text)
        return
    from hostdoctor.sources.whole_file import permitted, whole_file

    with whole_file(output, force=force, mode=permitted(0o666)) as stream:
        stream.write(text.encode("utf-8"))
    for line in made.summary:
        typer.echo(f"hostdoctor: {line}", err=True)


def _finite(option: str, value: float, unit: str = "milliseconds") -> float:
    if not math.isfinite(value):
        raise UsageError(f"{option}: not a number of {unit}")
    return value


def _rates(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(word) for word in listed_words(text))
    except ValueError:
        raise UsageError(f"--rates: not numbers: {text[:60]!r}") from None
    if not all(0 < rate <= 1e6 for rate in found):
        raise UsageError(f"--rates: from 0 to a million: {text[:60]!r}")
    return found
