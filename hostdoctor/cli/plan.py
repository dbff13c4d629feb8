"""``hostdoctor plan``: VRAM, KV cache and concurrency for a model, a GPU and traffic."""

import math
from pathlib import Path
from typing import Annotated, Literal

import typer

from hostdoctor.budget.gpus import gpu_named, memory_of_host
from hostdoctor.budget.kv import kv_dtype_named
from hostdoctor.budget.options import parse_option
from hostdoctor.budget.plan import Ask, Unsupported, make_plan
from hostdoctor.budget.request_log import Tokens, read_request_log
from hostdoctor.budget.traffic import Load, load_of
from hostdoctor.budget.weights import read_model
from hostdoctor.cli.common import (
    DemoOption,
    FromOption,
    QuickOption,
    TimeoutOption,
    emit,
    open_evidence,
    survey_host,
    terminal_style,
    timeout_of,
)
from hostdoctor.errors import LayoutError, UsageError

app = typer.Typer(add_completion=False)

GIB = 1 << 30
MAX_GIB = 1 << 20
MAX_COUNT = 10**9
DOES_NOT_FIT, UNSUPPORTED = 2, 3
Format = Literal["text", "json"]


@app.command(help="Plan VRAM, KV cache and concurrency. Exits 0, 2 when it does not fit, 3 for an unknown KV layout.")
def plan(
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A model's config.json, or the folder that holds it.")
    ] = None,
    gpu: Annotated[str, typer.Option(metavar="NAME", help="A product, as h100-80; a wrong name lists all.")] = "",
    gpu_memory_gib: Annotated[float | None, typer.Option(metavar="GIB", help="Memory of each GPU.")] = None,
    from_: FromOption = None,
    tp: Annotated[int, typer.Option("--tp", min=1, max=1024, metavar="N", help="Tensor-parallel GPUs a replica.")] = 1,
    kv_dtype: Annotated[
        str, typer.Option("--kv-dtype", metavar="NAME", help="KV precision: auto, bf16, fp8, int8, int4, nvfp4 …")
    ] = "auto",
    kv_bytes_per_token: Annotated[
        int | None, typer.Option(min=1, max=MAX_COUNT, metavar="B", help="Instead of the config: bytes on each GPU.")
    ] = None,
    used_gib: Annotated[
        float | None, typer.Option(metavar="GIB", help="Measured use of each GPU without KV: weights and reserve.")
    ] = None,
    weights_gib: Annotated[
        float | None, typer.Option(metavar="GIB", help="All weights, where no safetensors index tells them.")
    ] = None,
    reserve_percent: Annotated[
        float, typer.Option(min=0, max=90, help="Of VRAM, for runtime, graphs, fragmentation: usually 15 to 25.")
    ] = 20.0,
    block_size: Annotated[
        int | None, typer.Option(min=1, max=1 << 20, metavar="N", help="Tokens a KV block; 16, for MLA 64.")
    ] = None,
    max_model_len: Annotated[
        int | None, typer.Option(min=1, max=MAX_COUNT, metavar="N", help="Longest context, if below the model's.")
    ] = None,
    batched_tokens: Annotated[
        int, typer.Option(min=1, max=MAX_COUNT, metavar="N", help="The engine's max-num-batched-tokens.")
    ] = 8192,
    speculative_tokens: Annotated[
        int, typer.Option(min=0, max=64, metavar="N", help="Drafted by the model's own MTP layers.")
    ] = 0,
    prefix_caching: Annotated[
        bool, typer.Option("--prefix-caching", help="Hybrid models then keep one more state a sequence.")
    ] = False,
    no_hybrid_manager: Annotated[
        bool, typer.Option("--no-hybrid-manager", help="No hybrid KV manager: sliding layers cost as full ones.")
    ] = False,
    rps: Annotated[float | None, typer.Option(metavar="R", help="Requests a second in a normal hour.")] = None,
    peak_rps: Annotated[float | None, typer.Option(metavar="R", help="In the busiest minute.")] = None,
    burst_rps: Annotated[float | None, typer.Option(metavar="R", help="In the busiest second.")] = None,
    time_in_system: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="From a request's arrival to its last token.")
    ] = None,
    input_tokens: Annotated[str, typer.Option(metavar="MEAN,P95,P99", help="Tokens of a request's input.")] = "",
    output_tokens: Annotated[str, typer.Option(metavar="MEAN,P95,P99", help="Tokens of its answer.")] = "",
    sessions: Annotated[
        int | None, typer.Option(min=0, max=MAX_COUNT, metavar="N", help="Conversations alive at once.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option("--log", metavar="FILE", help="Requests as JSON Lines or CSV: docs/plan.md.")
    ] = None,
    growth_percent: Annotated[float, typer.Option(min=0, max=1000, help="Margin for growth.")] = 25.0,
    replicas: Annotated[
        int | None, typer.Option(min=1, max=100_000, metavar="N", help="Engines that will run.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="GPU:TP", help="Set this beside the plan; repeatable.")
    ] = None,
    format_: Annotated[Format, typer.Option("--format", help="How to print.")] = "text",
    show_all: Annotated[bool, typer.Option("--all", help="Every precision, option, remedy and note.")] = False,
    timeout: TimeoutOption = None,
    quick: QuickOption = False,
    demo: DemoOption = False,
) -> None:
    """Print the plan and exit 0, or 2 when it does not fit."""
    stated = Load(
        rps=_positive("--rps", rps),
        peak_rps=_positive("--peak-rps", peak_rps),
        burst_rps=_positive("--burst-rps", burst_rps),
        time_in_system_s=_above_zero("--time-in-system", time_in_system),
        input_tokens=_tokens("--input-tokens", input_tokens),
        output_tokens=_tokens("--output-tokens", output_tokens),
        sessions=sessions,
    )
    precision = kv_dtype if kv_dtype == "auto" else kv_dtype_named(kv_dtype)
    named = tuple(parse_option(text) for text in option or ())
    used, weights = _size("--used-gib", used_gib), _size("--weights-gib", weights_gib)
    reserve = _positive("--reserve-percent", reserve_percent) or 0.0
    growth = _positive("--growth-percent", growth_percent) or 0.0
    stated_gpu = _stated_gpu(gpu, gpu_memory_gib, from_ or demo)
    model = None if config is None else read_model(config)
    seen = None if log is None else read_request_log(log)
    name, size, source = stated_gpu or _gpu_of_host(from_, tp, demo=demo, limit_s=timeout_of(timeout, quick=quick))
    ask = Ask(
        model=model,
        weights_bytes=weights,
        gpu=name,
        gpu_bytes=size,
        gpu_source=source,
        tp=tp,
        kv_dtype=precision,
        block_tokens=block_size,
        batched_tokens=batched_tokens,
        speculative_tokens=speculative_tokens,
        hybrid_manager=not no_hybrid_manager,
        prefix_caching=prefix_caching,
        kv_bytes_per_token=kv_bytes_per_token,
        used_bytes=used,
        reserve_percent=reserve,
        max_tokens=max_model_len,
        load=stated if seen is None else load_of(seen, stated),
        log=seen,
        growth_percent=growth,
        replicas=replicas,
        options=named,
    )
    try:
        made = make_plan(ask)
    except LayoutError as error:
        if format_ != "json":
            raise
        emit(_unsupported(str(error)))
        raise typer.Exit(UNSUPPORTED) from None
    if format_ == "json":
        from hostdoctor.outputs.report_json import render_json

        emit(render_json(made))
    else:
        from hostdoctor.outputs.plan_text import render_plan

        emit(render_plan(made, terminal_style(), show_all=show_all))
    raise typer.Exit(DOES_NOT_FIT if made.fits is False else 0)


def _unsupported(reason: str) -> str:
    from hostdoctor.outputs.report_json import render_json

    return render_json(Unsupported(unsupported=reason))


def _positive(option: str, value: float | None) -> float | None:
    """Return a finite number from 0, or None where none was given; raise UsageError for any other."""
    if value is not None and not (math.isfinite(value) and 0 <= value <= MAX_COUNT):
        raise UsageError(f"{option}: not a number from 0 to {MAX_COUNT}: {value:g}")
    return value


def _above_zero(option: str, value: float | None) -> float | None:
    """Return a finite number above 0, or None where none was given; raise UsageError for any other."""
    if value == 0:
        raise UsageError(f"{option}: 0 is no time that a request takes")
    return _positive(option, value)


def _size(option: str, gib: float | None) -> int | None:
    """Return a size in bytes; raise UsageError for what is no size."""
    if gib is None:
        return None
    if not (math.isfinite(gib) and 0 < gib <= MAX_GIB):
        raise UsageError(f"{option}: not a size in GiB above 0: {gib:g}")
    return round(gib * GIB)


def _tokens(option: str, text: str) -> Tokens:
    """Return a mean and percentiles, those that are told; raise UsageError for anything else."""
    if not text.strip():
        return Tokens()
    words = text.split(",")
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = [math.nan]
    if len(words) > 3 or not all(math.isfinite(number) and 0 <= number <= MAX_COUNT for number in numbers):
        raise UsageError(f"{option}: not MEAN,P95,P99 in tokens: {text[:60]!r}")
    if numbers[1:] != sorted(numbers[1:]) or (len(numbers) > 2 and numbers[0] > numbers[2]):
        raise UsageError(f"{option}: P95 above P99, or the mean above both: {text[:60]!r}")
    mean, p95, p99 = (*numbers, None, None)[:3]
    return Tokens(mean=mean, p95=p95, p99=p99)


def _stated_gpu(name: str, gib: float | None, other: object) -> tuple[str, int, str] | None:
    """Return name, memory in bytes and source of the GPU that the options state, None where they state none."""
    if sum(bool(given) for given in (name, gib is not None, other)) > 1:
        raise UsageError("--gpu, --gpu-memory-gib and --from each name the GPU: give one")
    size = _size("--gpu-memory-gib", gib)
    if size is not None:
        return f"GPU of {gib:g} GiB", size, ""
    if not name:
        return None
    found = gpu_named(name)
    source = f"{found.name}: {found.memory_gib:g} GiB by its data sheet; the driver shows up to 1 % less."
    return found.name, round(found.memory_gib * GIB), source


def _gpu_of_host(from_: list[str] | None, tp: int, *, demo: bool, limit_s: float) -> tuple[str, int | None, str]:
    """Return name, memory and source of the host's GPUs; the memory is None where it is not known."""
    host = survey_host(open_evidence(from_, demo=demo, timeout_s=limit_s), map_only=True)
    if host.gpus and tp > len(host.gpus):
        raise UsageError(f"--tp {tp}: more ranks than the {len(host.gpus)} GPUs of this host (--gpu plans with others)")
    size, source = memory_of_host(host, tp)
    name = next((gpu.name for gpu in host.gpus if gpu.name), "")
    return name, size, source if host.gpus else ""
