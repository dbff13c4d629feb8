"""How ``matrix init`` comes to its experiment: sizes of VRAM and RAM, four variants, cells that cannot be."""

from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from hostdoctor.budget.advice import size_words
from hostdoctor.budget.cells import Store, impossible, kv_room, why_no_server
from hostdoctor.budget.gpus import gpu_named, memory_of_host
from hostdoctor.budget.kv import KvCost, KvOptions, kv_cost, kv_dtype_named
from hostdoctor.budget.layout import kv_layout
from hostdoctor.budget.offload import options as engine_options
from hostdoctor.budget.offload import parse_version
from hostdoctor.budget.vram import Vram, split
from hostdoctor.budget.weights import Model, read_model
from hostdoctor.cli.common import open_evidence, stated_path, survey_host
from hostdoctor.cli.placing import Wish, place
from hostdoctor.errors import HostdoctorError, UsageError
from hostdoctor.facts import Fact, Host, Place
from hostdoctor.measure.matrix import experiment as files
from hostdoctor.measure.matrix.grid import all_series, cells_of, struck_cells
from hostdoctor.measure.matrix.variants import (
    FS_CONTRACT,
    LMCACHE_CONTRACT,
    TIERING,
    doubling,
    lmcache_disk,
    tiering_args,
    usual_contexts,
)
from hostdoctor.outputs.words import plural
from hostdoctor.sources.base import Source

GIB = 1 << 30
USUAL_LONGEST = 131072  # where neither model nor caller says
SMALL_SHORTFALL = 0.25  # of the weights: beyond, every forward pass reads more than a remedy may cost
PRICE_SHARE = 0.1  # of the weights, where they fit anyway and B only tells what offloading costs
DISK_SHARE = 0.8  # of what is free: other things live there


class Wanted(Fact, frozen=True, kw_only=True):
    """What the options asked for."""

    name: str
    model: str
    config: Path | None
    weights_bytes: int | None
    gpus: str
    tp: int
    gpu: str
    gpu_memory_bytes: int | None
    reserve_percent: float
    max_context: int | None
    max_concurrency: int
    output_tokens: int
    kv_dtypes: tuple[str, ...]
    rates: tuple[float, ...]
    offload_bytes: int | None
    kv_bytes: int | None
    nvme_dir: str
    lmcache: bool
    repeats: int
    port: int
    engine_version: str
    ttft_p99_ms: float
    itl_p99_ms: float
    from_: tuple[str, ...]
    demo: bool
    limit_s: float
    vllm: str | None


class Made(NamedTuple):
    """An experiment, comments for its file, and what is said when it is written."""

    experiment: files.Experiment
    notes: tuple[str, ...]
    placement: tuple[str, ...]
    summary: tuple[str, ...]


class _Seen(NamedTuple):
    """The host, where one is looked at."""

    source: Source
    host: Host


class _Sizes(Fact, frozen=True, kw_only=True):
    vram: Vram
    costs: dict[str, KvCost | None]
    limit: int | None
    contexts: tuple[int, ...]
    concurrency: tuple[int, ...]


class _Made(NamedTuple):
    variant: files.Variant
    store: Store


def make_experiment(wanted: Wanted) -> Made:
    """Return the experiment; raise UsageError, SourceError or LayoutError where it cannot be made."""
    notes: list[str] = []
    model = _model(wanted)
    seen = _seen(wanted)
    sizes = _sizes(wanted, model, _gpu_bytes(wanted, seen, notes), notes)
    variants = _variants(wanted, seen, sizes, notes)
    struck = [one for made in variants for one in _struck(made, sizes)]
    experiment = files.Experiment(
        name=wanted.name,
        slo=files.Slo(ttft_p99_ms=wanted.ttft_p99_ms, itl_p99_ms=wanted.itl_p99_ms),
        model=files.Model(name=wanted.model),
        server=files.Server(command=_command(wanted), engine_version=wanted.engine_version),
        binding=files.Binding(gpus=wanted.gpus, bind=seen is not None and bool(seen.host.gpus)),
        grid=files.Grid(
            contexts=sizes.contexts,
            concurrency=sizes.concurrency,
            output_tokens=wanted.output_tokens,
            kv_cache_dtypes=wanted.kv_dtypes,
            request_rates=wanted.rates,
        ),
        mix=_mix(sizes),
        prefix=files.Prefix(context=sizes.contexts[0], concurrency=(sizes.concurrency[-1],)),
        load=files.Load(repeats=wanted.repeats),
        variants=tuple(made.variant for made in variants),
        struck=tuple(struck),
    )
    files.checked(experiment, "matrix init")
    placement = _placement(wanted, seen)
    return Made(experiment, tuple(notes), placement, _summary(experiment))


def _model(wanted: Wanted) -> Model | None:
    if wanted.config is not None:
        return read_model(wanted.config)
    return read_model(Path(wanted.model)) if Path(wanted.model).is_dir() else None


def _seen(wanted: Wanted) -> _Seen | None:
    """Return the host that the server is to run on, None where a product stands for it."""
    if wanted.gpu or wanted.gpu_memory_bytes is not None:
        if wanted.from_ or wanted.demo or (wanted.gpu and wanted.gpu_memory_bytes is not None):
            raise UsageError("--gpu, --gpu-memory-gib and --from each name the GPU: give one")
        return None
    source = open_evidence(list(wanted.from_) or None, demo=wanted.demo, timeout_s=wanted.limit_s)
    folder = stated_path(source, "--nvme-dir", wanted.nvme_dir)
    return _Seen(source, survey_host(source, paths=[folder] if folder else []))


def _gpu_bytes(wanted: Wanted, seen: _Seen | None, notes: list[str]) -> int | None:
    if seen is None:
        if wanted.gpu:
            return round(gpu_named(wanted.gpu).memory_gib * GIB)
        return wanted.gpu_memory_bytes
    if wanted.tp > len(seen.host.gpus) and seen.host.gpus:
        raise UsageError(f"--tp {wanted.tp}: more ranks than the {len(seen.host.gpus)} GPUs of this host")
    size, source = memory_of_host(seen.host, wanted.tp)
    if size is None:
        notes.append(f"what fits VRAM is not known: {source}")
    return size


def _sizes(wanted: Wanted, model: Model | None, gpu_bytes: int | None, notes: list[str]) -> _Sizes:
    weights = wanted.weights_bytes if wanted.weights_bytes is not None else model.weights_bytes if model else None
    if gpu_bytes is not None and weights is None:
        notes.append("the size of the weights is not known (--config, --weights-gib): no cell is struck for VRAM")
    layout = kv_layout(model.config) if model is not None else None
    if layout is None:
        notes.append("the model's KV layout is not known (--config): no cell is struck for its KV")
    own = layout.max_tokens if layout else None
    longest = wanted.max_context or own or USUAL_LONGEST
    costs: dict[str, KvCost | None] = {}
    for name in wanted.kv_dtypes:
        dtype = "bf16" if name == "auto" else kv_dtype_named(name)
        costs[name] = kv_cost(layout, KvOptions(tp=wanted.tp, kv_dtype=dtype)) if layout else None
    contexts = usual_contexts(longest)
    if contexts[0] <= wanted.output_tokens:
        raise UsageError(f"--output-tokens {wanted.output_tokens}: no prompt fits a context of {contexts[0]} tokens")
    return _Sizes(
        vram=Vram() if gpu_bytes is None else split(gpu_bytes, weights, wanted.reserve_percent, wanted.tp),
        costs=costs,
        limit=own,
        contexts=contexts,
        concurrency=doubling(wanted.max_concurrency),
    )


def _command(wanted: Wanted) -> tuple[str, ...]:
    tp = ("--tensor-parallel-size", str(wanted.tp)) if wanted.tp > 1 else ()
    return ("vllm", "serve", wanted.model, "--host", "127.0.0.1", "--port", str(wanted.port), *tp)


def _mix(sizes: _Sizes) -> files.Mix | None:
    if len(sizes.contexts) < 2 or sizes.concurrency[-1] < 2:
        return None
    return files.Mix(
        short_context=sizes.contexts[0], long_context=sizes.contexts[-1], concurrency=(sizes.concurrency[-1],)
    )


# --- the variants ---


def _variants(wanted: Wanted, seen: _Seen | None, sizes: _Sizes, notes: list[str]) -> list[_Made]:
    if seen is None:
        notes.append("which host is not said: how much memory it may pin was not checked (hostdoctor budget)")
    made = [_in_vram(sizes), _weights_offloaded(wanted, seen, sizes, notes), _kv_in_ram(wanted, seen, sizes)]
    return [*made, _kv_on_nvme(wanted, seen, sizes)]


def _in_vram(sizes: _Sizes) -> _Made:
    store = Store(kind="vram")
    title = "all in VRAM"
    return _Made(
        files.Variant(name="A", kind="vram", title=title, struck=why_no_server(sizes.vram, store) or ""), store
    )


def _weights_offloaded(wanted: Wanted, seen: _Seen | None, sizes: _Sizes, notes: list[str]) -> _Made:
    size = wanted.offload_bytes or _offload_needed(sizes)
    share = sizes.vram.weights_bytes
    if share and size > SMALL_SHORTFALL * share:
        notes.append(
            f"B offloads {size_words(size)} of {size_words(share)} of weights on each GPU: every forward pass reads"
            " them; weight offload is for a small shortfall"
        )
    store = Store(kind="weights", offload_bytes=size)
    variant = files.Variant(name="B", kind="weights", title=f"{size_words(size)} of weights in RAM for each GPU")
    return _with_words(wanted, seen, variant, store, sizes, weights_bytes=size, kv_bytes=0)


def _kv_in_ram(wanted: Wanted, seen: _Seen | None, sizes: _Sizes) -> _Made:
    size = wanted.kv_bytes or _kv_needed(wanted, sizes)
    store = Store(kind="kv-ram", ram_bytes=size)
    variant = files.Variant(name="C", kind="kv-ram", title=f"KV to {size_words(size)} of RAM")
    return _with_words(wanted, seen, variant, store, sizes, weights_bytes=0, kv_bytes=size)


def _kv_on_nvme(wanted: Wanted, seen: _Seen | None, sizes: _Sizes) -> _Made:
    size = wanted.kv_bytes or _kv_needed(wanted, sizes)
    place = _tier_place(seen)
    free = int(DISK_SHARE * place.available_bytes) if place and place.available_bytes is not None else None
    store = Store(kind="nvme", ram_bytes=size, disk_bytes=free)
    contract = LMCACHE_CONTRACT if wanted.lmcache else FS_CONTRACT
    title = f"KV to {size_words(size)} of RAM, then {wanted.nvme_dir or 'a folder on NVMe'}"
    variant = files.Variant(name="D", kind="nvme", title=title, contract=contract, disks=place.disks if place else ())
    if not wanted.nvme_dir:
        return _Made(replace(variant, struck="no folder for the tier was named (--nvme-dir)"), store)
    if wanted.lmcache:
        made = _with_words(wanted, seen, variant, store, sizes, weights_bytes=0, kv_bytes=size, engine="lmcache")
        disk = lmcache_disk(wanted.nvme_dir, max(1, (free or 100 * GIB) // GIB))
        return _Made(replace(made.variant, environment=made.variant.environment | disk), store)
    version = parse_version(wanted.engine_version)
    if version is not None and version < TIERING:
        told = ".".join(map(str, version))
        return _Made(replace(variant, struck=f"vLLM {told} has no tier of files (0.23 has; or --lmcache)"), store)
    why = why_no_server(sizes.vram, store) or _why_not_pinned(wanted, seen, 0, size)
    return _Made(replace(variant, args=tiering_args(size, wanted.nvme_dir), struck=why or ""), store)


def _with_words(
    wanted: Wanted,
    seen: _Seen | None,
    variant: files.Variant,
    store: Store,
    sizes: _Sizes,
    *,
    weights_bytes: int,
    kv_bytes: int,
    engine: str = "vllm",
) -> _Made:
    """Return a variant with the engine's words for its sizes, struck where the engine, VRAM or the budget cannot."""
    try:
        told = engine_options(
            "lmcache" if engine == "lmcache" else "vllm",
            parse_version(wanted.engine_version),
            weights_gib=weights_bytes / GIB,
            kv_gib=kv_bytes / GIB,
            ranks_per_engine=wanted.tp,
        )
    except UsageError as error:
        return _Made(replace(variant, struck=str(error)), store)
    why = why_no_server(sizes.vram, store) or _why_not_pinned(wanted, seen, weights_bytes, kv_bytes)
    return _Made(replace(variant, args=told.flags, environment=told.environment, struck=why or ""), store)


def _offload_needed(sizes: _Sizes) -> int:
    """Return what B moves off each GPU: what is short, with room for one sequence, else a tenth as a price."""
    vram = sizes.vram
    room = kv_room(vram, Store(kind="vram"))
    if room is None:
        return GIB
    one = max((cost.session_bytes(sizes.contexts[0]) for cost in sizes.costs.values() if cost), default=0)
    if room >= one:
        return max(GIB, _whole_gib(round(PRICE_SHARE * (vram.weights_bytes or 0))))
    return max(GIB, _whole_gib(one - room))


def _kv_needed(wanted: Wanted, sizes: _Sizes) -> int:
    """Return a pool for the requests that do not fit the GPUs at the usual contexts, at least 4 GiB a rank."""
    least = 4 * GIB * wanted.tp
    room = kv_room(sizes.vram, Store(kind="vram"))
    costs = [cost for cost in sizes.costs.values() if cost and cost.offload_bytes_per_token]
    if room is None or not costs:
        return least
    needed = least
    for context in sizes.contexts[:-1] or sizes.contexts:
        for cost in costs:
            waiting = sizes.concurrency[-1] - cost.sessions(max(0, room), context)
            needed = max(needed, waiting * context * (cost.offload_bytes_per_token or 0))
    return _whole_gib(needed)


def _whole_gib(size: int) -> int:
    return -(-size // GIB) * GIB


def _why_not_pinned(wanted: Wanted, seen: _Seen | None, weights_bytes: int, kv_bytes: int) -> str | None:
    """Return why the host's memory does not hold what a variant pins; None where it does, or nobody can tell."""
    if seen is None:
        return None
    from hostdoctor.budget.whole import Request, whole_budget
    from hostdoctor.placement.selection import named_gpus

    positions = named_gpus(seen.host, wanted.gpus)
    request = Request(
        positions=positions if positions is not None else tuple(range(min(wanted.tp, len(seen.host.gpus)))),
        tp=wanted.tp,
        engine_version=wanted.engine_version,
        cpu_offload_gib=weights_bytes / GIB,
        kv_offload_gib=kv_bytes / GIB,
    )
    try:
        told, _ = whole_budget(seen.source, seen.host, request)
    except HostdoctorError as error:
        return str(error)
    if told.fits is not False:
        return None
    largest = told.largest.cpu_offload_bytes if weights_bytes else told.largest.kv_offload_bytes
    most = "" if largest is None else f": at most {size_words(largest)}{' for each GPU' if weights_bytes else ''}"
    bound = f" (bound by {told.total.bound_by})" if told.total.bound_by else ""
    return f"{size_words(weights_bytes or kv_bytes)} cannot be pinned here{most}{bound}"


def _tier_place(seen: _Seen | None) -> Place | None:
    """Return what the survey tells of the tier's folder."""
    return next(iter(seen.host.places), None) if seen is not None else None


def _struck(made: _Made, sizes: _Sizes) -> list[files.Struck]:
    if made.variant.struck:
        return []
    return [
        files.Struck(
            variant=made.variant.name,
            kv_cache_dtype=dtype,
            context=one.context,
            from_concurrency=one.from_concurrency,
            reason=one.reason,
        )
        for dtype, cost in sizes.costs.items()
        for one in impossible(cost, sizes.vram, made.store, sizes.contexts, sizes.concurrency, sizes.limit)
    ]


# --- what is said ---


def _placement(wanted: Wanted, seen: _Seen | None) -> tuple[str, ...]:
    if seen is None:
        return ("not bound: no host was looked at (bind = true binds it by the map of the host that runs it)",)
    if not seen.host.gpus:
        return ("no GPU is known on this host: node = N binds it to a NUMA node",)
    try:
        wish = Wish(gpus=wanted.gpus, engine="vllm", engine_version=wanted.engine_version)
        launch = place(seen.source, seen.host, wish, list(_command(wanted)), wanted.limit_s)
    except HostdoctorError as error:
        return (f"cannot be bound here: {error}",)
    return tuple(f"{reason.text}" for reason in launch.binding.reasons)


def _summary(experiment: files.Experiment) -> tuple[str, ...]:
    total = sum(len(cells_of(experiment, series)) for series in all_series(experiment))
    out = struck_cells(experiment)
    reasons: dict[str, int] = {}
    for one in out:
        key = f"{one.cell.series.label}: {one.reason}"
        reasons[key] = reasons.get(key, 0) + 1
    lines = [f"{plural(total, 'cell')}, {len(out)} of them struck out"]
    return (*lines, *(f"struck, {plural(count, 'cell')}: {reason}" for reason, count in reasons.items()))
