"""From a request and a host to the whole answer: ranks, growth, limits, budget, fit, options, advice."""

from typing import Any

from msgspec.structs import replace

from hostdoctor.budget.advice import advise
from hostdoctor.budget.document import BudgetDocument, Weights, document
from hostdoctor.budget.fit import Largest, judge, largest_kv, largest_weights
from hostdoctor.budget.growth import Engine, Growth, default_growth
from hostdoctor.budget.kv import BLOCK_TOKENS, KvOptions, kv_cost
from hostdoctor.budget.layout import kv_layout
from hostdoctor.budget.limits import Limit, sglang_limit, shm_limit, total_limits
from hostdoctor.budget.model_files import layers_of_model
from hostdoctor.budget.offload import kv_chunks, kv_rounding, options, parse_version, pool_in_shm
from hostdoctor.budget.pinned import Budget, Keep, make_budget, total_growth
from hostdoctor.budget.ranks import Rank, Wish, place_ranks
from hostdoctor.budget.rounding import (
    WORST_FACTOR,
    Layers,
    largest_asked,
    layers_of_config,
    offloaded_bytes,
    rounding_factor,
)
from hostdoctor.diagnosis.api import Ask, gpu_label, in_scope
from hostdoctor.errors import LayoutError, ParseError, UsageError
from hostdoctor.facts import Fact, Host
from hostdoctor.parsers.model_config import model_config
from hostdoctor.sources.base import Source

GIB = 1 << 30
STATED_FACTOR = "upper bound: a power of two is less than twice; the model's --config gives it exactly"


class Request(Fact, frozen=True, kw_only=True):
    """What the command line states, checked for ranges. ``growth_bytes`` replaces the engine's default growth."""

    positions: tuple[int, ...] | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    engine: Engine = "vllm"
    engine_version: str = ""
    cpu_offload_gib: float = 0.0
    kv_offload_gib: float = 0.0
    kv_bytes_per_token: int | None = None
    block_tokens: int | None = None
    growth_bytes: int | None = None
    api_servers: int = 1
    multimodal: bool = False
    cache_percent: float = 5.0
    cache_bytes: int = 0
    reserve_bytes: int | None = None
    eviction_bytes: int | None = None
    config: dict[str, Any] | None = None
    config_path: str = ""
    model_folder: str | None = None

    @property
    def has_plan(self) -> bool:
        """Something is to be pinned."""
        return bool(self.cpu_offload_gib or self.kv_offload_gib)


def whole_budget(source: Source, host: Host, request: Request) -> tuple[BudgetDocument, Budget]:
    """Return the document and the budget that it tells of; raise UsageError for a plan that cannot be."""
    cards = [(gpu_label(host, gpu), gpu) for gpu in in_scope(host, Ask(gpus=request.positions))]
    version = parse_version(request.engine_version)
    sizes = _sizes(request, len(cards))
    layers, weights = _weights(source, request, sizes)
    kv_factor = kv_rounding(request.engine, version)
    wish = _wish(sizes, request, layers, weights, kv_factor)
    ranks = _ranks(host, cards, wish, request)
    growth = _growth(request, sizes.dp, len(ranks))
    shm = shm_limit(host) if request.kv_offload_gib and pool_in_shm(request.engine, version) else None
    limits = _limits(host, request, total_growth(ranks, growth))
    keep = Keep(
        cache_percent=request.cache_percent, cache_bytes=request.cache_bytes, reserve_bytes=request.reserve_bytes
    )
    budget = make_budget(host, ranks, growth, keep, limits)
    fit = judge(budget, wish, shm)
    largest = _largest(budget, wish, shm, layers, weights, kv_factor)
    told = options(
        request.engine,
        version,
        weights_gib=request.cpu_offload_gib,
        kv_gib=request.kv_offload_gib,
        ranks_per_engine=wish.ranks_per_engine,
    )
    per_token, block_tokens, untold = _kv_bytes_per_token(request, sizes.tp)
    notes = (*told.notes, *_notes(ranks, weights, request, kv_factor, growth), *untold)
    findings = advise(host, budget, wish, fit, largest, notes)
    kv = kv_chunks(round(request.kv_offload_gib * GIB), per_token, block_tokens)
    shown = (*limits, *((shm,) if shm else ()))
    return document(budget, fit, largest, told, kv, weights, findings, shown, has_plan=request.has_plan), budget


def _kv_bytes_per_token(request: Request, tp: int) -> tuple[int | None, int, tuple[str, ...]]:
    """Return what an offloaded token takes over all ranks and the tokens of a block, with notes on them.

    Both as stated, else by the model's config.
    """
    block_tokens = request.block_tokens or BLOCK_TOKENS
    if request.kv_bytes_per_token is not None or request.config is None:
        return request.kv_bytes_per_token, block_tokens, ()
    options = KvOptions(tp=tp, block_tokens=request.block_tokens)
    try:
        cost = kv_cost(kv_layout(model_config(request.config, request.config_path)), options)
    except UsageError:
        if request.tp is None:  # nobody said that all GPUs are one engine
            return None, block_tokens, ()
        raise
    except (LayoutError, ParseError) as error:
        return None, block_tokens, (f"the pool in tokens is not known: {error}",)
    if cost.offload_bytes_per_token is None:
        return None, block_tokens, ("the pool in tokens is not known: the model's states are offloaded too",)
    notes = ("tokens are counted at 16 bits (--kv-bytes-per-token states another size)",)
    return cost.offload_bytes_per_token, cost.block_tokens, notes


def _sizes(request: Request, gpus: int) -> Wish:
    """Return the parallel sizes; where none is stated, all GPUs in scope are one tensor-parallel engine."""
    stated = (request.tp, request.pp, request.dp)
    if any(stated):
        tp, pp, dp = (size or 1 for size in stated)
        return Wish(tp=tp, pp=pp, dp=dp)
    return Wish(tp=max(1, gpus))


def _wish(sizes: Wish, request: Request, layers: Layers | None, weights: Weights, kv_factor: float) -> Wish:
    asked = round(request.cpu_offload_gib * GIB)
    factor = weights.rounding_factor or WORST_FACTOR
    pinned = offloaded_bytes(layers, asked) if layers else round(asked * factor)
    kv = round(request.kv_offload_gib * GIB * kv_factor)
    return Wish(engine=request.engine, tp=sizes.tp, pp=sizes.pp, dp=sizes.dp, weights_bytes=pinned, kv_bytes=kv)


def _ranks(host: Host, cards: list[Any], wish: Wish, request: Request) -> tuple[Rank, ...]:
    """Return the ranks; none where there is neither a GPU nor a plan, so that no engine is there to grow."""
    if not cards and wish.is_empty and not any((request.tp, request.pp, request.dp)):
        return ()
    return place_ranks(host, cards, wish)


def _weights(source: Source, request: Request, sizes: Wish) -> tuple[Layers | None, Weights]:
    """Return the model's layers where they are told, and the rounding with where it comes from."""
    layers, path = None, ""
    if request.config is not None:
        layers, path = layers_of_config(request.config, sizes.tp), request.config_path
    elif request.model_folder is not None:
        layers, path = layers_of_model(source, request.model_folder, sizes.tp)
    if layers is not None:
        layers = replace(layers, layers=-(-layers.layers // sizes.pp))  # the most that a pipeline's stage has
        return layers, Weights(rounding_factor=rounding_factor(layers.parameter_bytes), source=f"shapes of {path}")
    if not request.cpu_offload_gib:
        return None, Weights()
    return None, Weights(rounding_factor=WORST_FACTOR, source=STATED_FACTOR)


def _growth(request: Request, dp: int, ranks: int) -> Growth:
    if request.growth_bytes is None:
        return default_growth(request.engine, dp, request.api_servers, multimodal=request.multimodal)
    each = request.growth_bytes // max(1, ranks)
    return Growth(rank_bytes=each, shared_bytes=request.growth_bytes - each * ranks, source="--anon-gib")


def _limits(host: Host, request: Request, growth_bytes: int) -> tuple[Limit, ...]:
    limits = total_limits(host, growth_bytes, eviction_bytes=request.eviction_bytes)
    return (*limits, sglang_limit(host)) if request.engine == "sglang" and request.kv_offload_gib else limits


def _largest(
    budget: Budget, wish: Wish, shm: Limit | None, layers: Layers | None, weights: Weights, kv_factor: float
) -> Largest:
    kv, pinned = largest_kv(budget, wish, shm), largest_weights(budget, wish, shm)
    factor = weights.rounding_factor or WORST_FACTOR
    return Largest(
        kv_offload_bytes=None if kv is None or not budget.ranks else int(kv / kv_factor),
        cpu_offload_bytes=None if pinned is None or not budget.ranks else largest_asked(pinned, layers, factor),
    )


def _notes(ranks: tuple[Rank, ...], weights: Weights, request: Request, kv_factor: float, growth: Growth) -> list[str]:
    notes = []
    if not ranks:
        notes.append("no GPU is known: what an engine itself needs is not taken off (state --tp)")
    elif request.growth_bytes is None:
        grown = f"{growth.rank_bytes // GIB} GiB a rank, {growth.shared_bytes // GIB} GiB beside"
        notes.append(f"the engine's own memory is an estimate ({grown}): --anon-gib states a measured figure")
    if request.cpu_offload_gib and weights.source == STATED_FACTOR:
        notes.append(f"offloaded weights are counted {WORST_FACTOR:g} times ({STATED_FACTOR})")
    if kv_factor > 1 and request.kv_offload_gib:
        notes.append("vLLM before 0.27 rounds each KV tensor up to a power of two: the pool is counted twice")
    return notes
