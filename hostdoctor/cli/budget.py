"""``hostdoctor budget``: how much memory may be pinned on each node, and the offload options that fit."""

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer

from hostdoctor.cli.common import (
    DemoOption,
    FromOption,
    KvOffloadOption,
    OffloadOption,
    QuickOption,
    TimeoutOption,
    emit,
    gib_bytes,
    open_evidence,
    some_gpus,
    stated_path,
    survey_host,
    terminal_style,
    timeout_of,
)
from hostdoctor.errors import SourceError, UsageError
from hostdoctor.sources.base import Source

if TYPE_CHECKING:
    from hostdoctor.budget.document import BudgetDocument

app = typer.Typer(add_completion=False)

MAX_RANKS = 4096
STATUS = {True: 0, False: 2, None: 3}


@app.command(help="Say how much memory may be pinned on each node, and whether a plan fits. Exits 0, 2 too much, 3.")
def budget(
    from_: FromOption = None,
    format_: Annotated[Literal["text", "json"], typer.Option("--format", help="How to print.")] = "text",
    gpus: Annotated[
        str, typer.Option(metavar="GPUS", callback=some_gpus, help="The GPUs of the ranks, in order; all when omitted.")
    ] = "",
    tp: Annotated[int | None, typer.Option("--tp", metavar="N", help="Tensor-parallel size.")] = None,
    pp: Annotated[int | None, typer.Option("--pp", metavar="N", help="Pipeline-parallel size.")] = None,
    dp: Annotated[int | None, typer.Option("--dp", metavar="N", help="Data-parallel engines on this host.")] = None,
    cpu_offload_gib: OffloadOption = None,
    kv_offload_gib: KvOffloadOption = None,
    engine: Annotated[Literal["vllm", "sglang", "lmcache"], typer.Option(help="Whose options to print.")] = "vllm",
    engine_version: Annotated[str, typer.Option(metavar="VERSION", help="Its version: options differ.")] = "",
    config: Annotated[
        str, typer.Option(metavar="FILE", help="The model's config.json or its folder: exact rounding.")
    ] = "",
    kv_bytes_per_token: Annotated[
        int | None, typer.Option(metavar="BYTES", help="KV bytes of a token over all ranks: gives the pool in tokens.")
    ] = None,
    block_size: Annotated[
        int | None, typer.Option(metavar="TOKENS", help="Tokens of a KV block; 16, for MLA 64.")
    ] = None,
    anon_gib: Annotated[
        float | None, typer.Option(metavar="GIB", help="What all the engine's processes will still grow by.")
    ] = None,
    api_servers: Annotated[int, typer.Option(metavar="N", help="API servers of the engine.")] = 1,
    multimodal: Annotated[bool, typer.Option("--multimodal", help="Count the multimodal cache.")] = False,
    page_cache_gib: Annotated[float | None, typer.Option(metavar="GIB", help="Page cache to keep, in all.")] = None,
    page_cache_percent: Annotated[
        float | None, typer.Option(metavar="PERCENT", help="Page cache to keep of each node; 5 when omitted.")
    ] = None,
    model_path: Annotated[str, typer.Option(metavar="PATH", help="Keep this model's files in the page cache.")] = "",
    reserve_gib: Annotated[
        float | None, typer.Option(metavar="GIB", help="For OS and bursts, each node; else 2 GiB or 2 %.")
    ] = None,
    eviction_gib: Annotated[
        float | None, typer.Option(metavar="GIB", help="What kubelet keeps free (memory.available).")
    ] = None,
    timeout: TimeoutOption = None,
    quick: QuickOption = False,
    demo: DemoOption = False,
) -> None:
    """Print the budget. Exits 0, 2 when the plan does not fit, 3 when that cannot be told, 64 for impossible input."""
    from hostdoctor.budget.whole import Request, whole_budget
    from hostdoctor.placement.selection import named_gpus

    config = _config_file(config)
    sizes = {
        "--cpu-offload-gib": cpu_offload_gib,
        "--kv-offload-gib": kv_offload_gib,
        "--anon-gib": anon_gib,
        "--page-cache-gib": page_cache_gib,
        "--reserve-gib": reserve_gib,
        "--eviction-gib": eviction_gib,
    }
    in_bytes = {option: gib_bytes(option, size) for option, size in sizes.items()}
    counts = {"--tp": tp, "--pp": pp, "--dp": dp, "--api-servers": api_servers, "--block-size": block_size}
    for option, count in (counts | {"--kv-bytes-per-token": kv_bytes_per_token}).items():
        _refuse_count(option, count)
    percent = _percent(page_cache_percent, has_bytes=page_cache_gib is not None)
    source = open_evidence(from_, demo=demo, timeout_s=timeout_of(timeout, quick=quick))
    model = stated_path(source, "--model-path", model_path)
    host = survey_host(source)
    request = Request(
        positions=named_gpus(host, gpus),
        tp=tp,
        pp=pp,
        dp=dp,
        engine=engine,
        engine_version=engine_version,
        cpu_offload_gib=cpu_offload_gib or 0.0,
        kv_offload_gib=kv_offload_gib or 0.0,
        kv_bytes_per_token=kv_bytes_per_token,
        block_tokens=block_size,
        growth_bytes=in_bytes["--anon-gib"],
        api_servers=api_servers,
        multimodal=multimodal,
        cache_percent=percent,
        cache_bytes=max(in_bytes["--page-cache-gib"] or 0, _model_bytes(source, model)),
        reserve_bytes=in_bytes["--reserve-gib"],
        eviction_bytes=in_bytes["--eviction-gib"],
        config=_config(config),
        config_path=config,
        model_folder=model,
    )
    told, made = whole_budget(source, host, request)
    if format_ == "json":
        emit(msgspec.json.format(msgspec.json.encode(told), indent=2).decode() + "\n")
    else:
        from hostdoctor.outputs.budget_text import render_budget

        emit(render_budget(host, made, told, terminal_style(), has_plan=request.has_plan))
    raise typer.Exit(STATUS[told.fits] if request.has_plan else _known(told))


def _known(told: "BudgetDocument") -> int:
    """Without a plan there is an answer as soon as one node's is known."""
    return 0 if any(node.pinnable_bytes is not None for node in told.nodes) else 3


def _refuse_count(option: str, count: int | None) -> None:
    most = 1 << 40 if option == "--kv-bytes-per-token" else MAX_RANKS
    if count is not None and not 1 <= count <= most:
        raise UsageError(f"{option}: {count} is not between 1 and {most}")


def _percent(percent: float | None, *, has_bytes: bool) -> float:
    """Return the page cache's share; stated bytes replace the default share."""
    if percent is None:
        return 0.0 if has_bytes else 5.0
    if not math.isfinite(percent) or not 0 <= percent <= 100:
        raise UsageError(f"--page-cache-percent: {percent:g} is not between 0 and 100")
    return percent


def _model_bytes(source: Source, path: str | None) -> int:
    if path is None:
        return 0
    if not source.is_live:
        raise SourceError(
            "--model-path: only the running host tells how large its files are; --page-cache-gib states it"
        )
    from hostdoctor.sources.sizes import files_bytes

    size = files_bytes(path)
    if size is None:
        raise SourceError(f"--model-path: the size of its files cannot be told: {path[:80]!r}")
    return size


def _config_file(path: str) -> str:
    """Return the stated config.json; of a folder, the one in it."""
    from pathlib import Path

    return str(Path(path) / "config.json") if path and Path(path).is_dir() else path


def _config(path: str) -> dict[str, Any] | None:
    """Return the stated config.json, which is a file of this machine whatever host is looked at."""
    if not path:
        return None
    from pathlib import Path

    from hostdoctor.budget.model_files import QUANTIZATION, read_config, with_quantization
    from hostdoctor.sources.tree import DiskTree

    tree, file = DiskTree("/"), Path(path).absolute()
    config = read_config(tree.read_bytes(str(file)), path)
    return with_quantization(config, tree.read_bytes(str(file.parent / QUANTIZATION)))
