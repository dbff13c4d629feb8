"""The VRAM, KV and concurrency plan: from a model, a GPU and traffic to one record for every output."""

from typing import Literal

from msgspec.structs import replace

from hostdoctor.budget.kv import KV_DTYPES, KvCost, KvLayout, KvOptions, kv_cost, stated_cost
from hostdoctor.budget.layout import kv_layout
from hostdoctor.budget.options import Base, Need, Option, replicas_for, side_by_side
from hostdoctor.budget.remedies import Remedy, remedies_for
from hostdoctor.budget.request_log import RequestLog
from hostdoctor.budget.traffic import Load, Profile, ProfileName, Traffic, traffic_of
from hostdoctor.budget.vram import USUAL_RESERVE_PERCENT, Sessions, Vram, measured, sessions_at, split
from hostdoctor.budget.weights import Model
from hostdoctor.errors import HostdoctorError, LayoutError, UsageError
from hostdoctor.facts import SCHEMA_VERSION, Fact
from hostdoctor.parsers.model_config import count

CONTEXTS = (2048, 8192, 32768, 131072)
_SIXTEEN_BIT = (None, "bfloat16", "float16", "float32")  # engines load float32 as a 16-bit type
LEAST_GROWTH_PERCENT = 20.0


class Ask(Fact, frozen=True, kw_only=True):
    """Everything that is planned with; sizes in bytes, None is not stated.

    ``kv_dtype`` ``auto`` follows the model. ``replicas`` is how many engines will run.
    """

    model: Model | None = None
    weights_bytes: int | None = None
    gpu: str = ""
    gpu_bytes: int | None = None
    gpu_source: str = ""
    tp: int = 1
    kv_dtype: str = "auto"
    block_tokens: int | None = None
    batched_tokens: int
    speculative_tokens: int = 0
    hybrid_manager: bool = True
    prefix_caching: bool = False
    kv_bytes_per_token: int | None = None
    used_bytes: int | None = None
    reserve_percent: float = 20.0
    max_tokens: int | None = None
    load: Load = Load()
    log: RequestLog | None = None
    growth_percent: float = 25.0
    replicas: int | None = None
    options: tuple[tuple[str, int], ...] = ()


class Kv(Fact, frozen=True, kw_only=True):
    """KV bytes. ``state_bytes_per_sequence``: full windows and states, on each rank, beside what grows by token.

    ``offload_bytes_per_token`` is for all ranks in host memory, None where a model's states are offloaded too. All None
    where there is no config.
    """

    kv_dtype: str | None = None
    bytes_per_token_per_rank: int | None = None
    bytes_per_token_total: int | None = None
    state_bytes_per_sequence: int | None = None
    block_tokens: int | None = None
    offload_bytes_per_token: int | None = None


class Precision(Fact, frozen=True, kw_only=True):
    """The same plan at another KV precision; ``unsupported`` says why the layout has none such."""

    kv_dtype: str
    bytes_per_token_per_rank: int | None = None
    sessions: tuple[Sessions, ...] = ()
    unsupported: str | None = None


class Fit(Fact, frozen=True, kw_only=True):
    """Whether a profile fits, by its planned requests (growth included).

    ``fits`` judges the stated replicas (one where none are stated), ``fits_one_down`` one fewer. ``short_bytes`` is
    the KV memory that the stated replicas lack in all, on every rank; None where the profile is longer than the
    model's context, which no memory mends.
    """

    name: ProfileName
    context_tokens: int | None = None
    planned_requests: int | None = None
    session_bytes: int | None = None
    sessions_per_replica: int | None = None
    replicas: int | None = None
    replicas_n_plus_1: int | None = None
    fits: bool | None = None
    fits_one_down: bool | None = None
    short_bytes: int | None = None


class Plan(Fact, frozen=True, kw_only=True):
    """The plan.

    ``fits``: false where not one sequence fits, or not one request of the normal or long profile, or not these profiles
    on stated replicas.
    ``alive_kv_bytes`` is what all sessions that are alive would hold, on each rank, over all replicas. ``notes`` are
    what was assumed and what to look at; ``missing`` the figures without which the plan is not finished.
    """

    schema_version: str = SCHEMA_VERSION
    model_type: str | None = None
    config: str | None = None
    tp: int = 1
    max_tokens: int | None = None
    kv: Kv = Kv()
    weights_bytes: int | None = None
    weights_source: str | None = None
    gpu: str | None = None
    vram: Vram = Vram()
    sessions: tuple[Sessions, ...] = ()
    precisions: tuple[Precision, ...] = ()
    traffic: Traffic
    log: RequestLog | None = None
    replicas: int | None = None
    profiles: tuple[Fit, ...] = ()
    alive_kv_bytes: int | None = None
    options: tuple[Option, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    fits: bool | None = None
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


class Unsupported(Fact, frozen=True, kw_only=True):
    """What is told of a model whose KV layout is not known for certain: why, and no number."""

    schema_version: str = SCHEMA_VERSION
    unsupported: str


def make_plan(ask: Ask) -> Plan:
    """Return the plan.

    Raises LayoutError for a layout that is not known, UsageError for figures that cannot be.
    """
    notes: list[str] = []
    layout, options = _layout(ask, notes)
    limit = _limit(ask, layout)
    layout = replace(layout, max_tokens=limit) if layout else None
    cost = _cost(ask, layout, options)
    vram = _vram(ask)
    contexts = _contexts(limit)
    pool = vram.kv_bytes
    traffic = traffic_of(ask.load, ask.growth_percent)
    fits = tuple(_fit(profile, cost, pool, limit, ask.replicas) for profile in traffic.profiles)
    vram = _with_load(vram, fits, ask.replicas)
    remedies = remedies_for(cost, _precision_cost(layout, options), pool, _worst(fits), ask.replicas or 1, ask.tp)
    return Plan(
        model_type=ask.model.config.model_type if ask.model else None,
        config=ask.model.config.source if ask.model else None,
        tp=ask.tp,
        max_tokens=limit,
        kv=_kv(cost, options.kv_dtype if layout else None),
        weights_bytes=_weights(ask),
        weights_source=_weights_source(ask),
        gpu=ask.gpu or None,
        vram=vram,
        sessions=sessions_at(cost, pool, contexts) if cost and pool is not None else (),
        precisions=_precisions(layout, options, pool, contexts) if layout else (),
        traffic=traffic,
        log=ask.log,
        replicas=ask.replicas,
        profiles=fits,
        alive_kv_bytes=_alive(traffic, fits),
        options=_options(ask, layout, options, cost, vram, fits),
        remedies=remedies,
        fits=_verdict(vram, cost, fits, ask.replicas),
        notes=(*notes, *_notes(ask)),
        missing=_missing(ask, vram, cost),
    )


def _layout(ask: Ask, notes: list[str]) -> tuple[KvLayout | None, KvOptions]:
    """Return the model's layout (None where bytes a token are stated, or no model) and how it is held."""
    layout, kv_dtype = None, ask.kv_dtype
    if ask.model is not None and ask.kv_bytes_per_token is None:
        layout = kv_layout(ask.model.config)
        kv_dtype = _precision(ask.model, ask.kv_dtype, notes)
        if ask.speculative_tokens and not layout.draft_layers:
            notes.append("The model has no draft layers of its own: a separate draft model's KV is not counted.")
    return layout, KvOptions(
        tp=ask.tp,
        kv_dtype="bf16" if kv_dtype == "auto" else kv_dtype,
        block_tokens=ask.block_tokens,
        batched_tokens=ask.batched_tokens,
        speculative_tokens=ask.speculative_tokens,
        hybrid_manager=ask.hybrid_manager,
        prefix_caching=ask.prefix_caching,
    )


def _precision(model: Model, kv_dtype: str, notes: list[str]) -> str:
    if kv_dtype != "auto":
        return kv_dtype
    config = model.config
    if config.kv_scheme is not None:
        raise UsageError(
            f"--kv-dtype auto: the checkpoint states a quantized KV cache ({config.kv_scheme[:40]}), which engines take"
            " up or not by version: say --kv-dtype fp8 or bf16"
        )
    if config.dtype not in _SIXTEEN_BIT:
        raise LayoutError(f"unsupported layout: weights of type {config.dtype!r:.40}: say --kv-dtype")
    if config.dtype is None:
        notes.append("The config tells no dtype: a 16-bit KV cache is assumed, which engines choose then.")
    return "bf16"


def _cost(ask: Ask, layout: KvLayout | None, options: KvOptions) -> KvCost | None:
    if ask.kv_bytes_per_token is not None:
        return stated_cost(ask.kv_bytes_per_token, ask.tp, ask.block_tokens)
    return kv_cost(layout, options) if layout else None


def _limit(ask: Ask, layout: KvLayout | None) -> int | None:
    """Return the longest context in tokens, None where nobody says."""
    told = ask.model.config.fields.get("max_position_embeddings") if ask.model else None
    own = layout.max_tokens if layout else count(told) or None
    if ask.max_tokens is not None and own is not None and ask.max_tokens > own:
        raise UsageError(f"--max-model-len {ask.max_tokens}: the model's own limit is {own} tokens")
    return ask.max_tokens or own


def _weights(ask: Ask) -> int | None:
    return ask.weights_bytes if ask.weights_bytes is not None else ask.model.weights_bytes if ask.model else None


def _weights_source(ask: Ask) -> str | None:
    return "--weights-gib" if ask.weights_bytes is not None else ask.model.weights_source if ask.model else None


def _vram(ask: Ask) -> Vram:
    if ask.gpu_bytes is None:
        return Vram()
    if ask.used_bytes is not None:
        return measured(ask.gpu_bytes, ask.used_bytes)
    return split(ask.gpu_bytes, _weights(ask), ask.reserve_percent, ask.tp)


def _contexts(limit: int | None) -> tuple[int, ...]:
    if limit is None:
        return CONTEXTS
    return tuple(sorted({*(tokens for tokens in CONTEXTS if tokens < limit), limit}))


def _kv(cost: KvCost | None, kv_dtype: str | None) -> Kv:
    if cost is None:
        return Kv()
    return Kv(
        kv_dtype=kv_dtype,
        bytes_per_token_per_rank=cost.bytes_per_token_per_rank,
        bytes_per_token_total=cost.bytes_per_token_total,
        state_bytes_per_sequence=cost.state_bytes_per_sequence,
        block_tokens=cost.block_tokens,
        offload_bytes_per_token=cost.offload_bytes_per_token,
    )


def _precisions(
    layout: KvLayout, options: KvOptions, pool: int | None, contexts: tuple[int, ...]
) -> tuple[Precision, ...]:
    found = []
    for kv_dtype in KV_DTYPES:
        try:
            cost = kv_cost(layout, replace(options, kv_dtype=kv_dtype))
        except LayoutError as error:
            found.append(Precision(kv_dtype=kv_dtype, unsupported=str(error)))
            continue
        sessions = sessions_at(cost, pool, contexts) if pool is not None else ()
        found.append(
            Precision(kv_dtype=kv_dtype, bytes_per_token_per_rank=cost.bytes_per_token_per_rank, sessions=sessions)
        )
    return tuple(found)


def _precision_cost(layout: KvLayout | None, options: KvOptions) -> KvCost | None:
    """Return the cost at 8 bits, the next lower precision, or None where the cache is not a 16-bit one."""
    if layout is None or options.kv_dtype != "bf16":
        return None
    try:
        return kv_cost(layout, replace(options, kv_dtype="fp8"))
    except HostdoctorError:
        return None


def _fit(profile: Profile, cost: KvCost | None, pool: int | None, limit: int | None, stated: int | None) -> Fit:
    """Return how a profile fits the pool of each replica."""
    tokens, requests = profile.context_tokens, profile.planned_requests
    each = cost.session_bytes(tokens) if cost and tokens is not None else None
    sessions = cost.sessions(pool, tokens) if cost and tokens is not None and pool is not None else None
    too_long = tokens is not None and limit is not None and tokens > limit
    if too_long:
        sessions = 0
    replicas = replicas_for(requests, sessions)
    engines = stated or 1
    fits = None if requests is None or sessions is None else engines * sessions >= requests
    lacking = None if each is None or requests is None or sessions is None else max(0, requests - engines * sessions)
    return Fit(
        name=profile.name,
        context_tokens=tokens,
        planned_requests=requests,
        session_bytes=each,
        sessions_per_replica=sessions,
        replicas=replicas,
        replicas_n_plus_1=None if replicas is None else replicas + 1,
        fits=fits,
        fits_one_down=None if fits is None or stated is None else (stated - 1) * (sessions or 0) >= (requests or 0),
        short_bytes=None if lacking is None or each is None or too_long else lacking * each,
    )


def _worst(fits: tuple[Fit, ...]) -> Fit | None:
    """Return the first profile that more room for KV would make fit, in the order of the days."""
    return next((fit for fit in fits if fit.short_bytes), None)


def _with_load(vram: Vram, fits: tuple[Fit, ...], replicas: int | None) -> Vram:
    """Return the split with what the planned requests take: of the long profile, else of the normal one."""
    by_name = {fit.name: fit for fit in fits}
    for name in _JUDGED[::-1]:
        fit = by_name[name]
        if vram.kv_bytes is not None and fit.session_bytes is not None and fit.planned_requests is not None:
            taken = min(vram.kv_bytes, -(-fit.planned_requests // (replicas or 1)) * fit.session_bytes)
            return replace(vram, planned_kv_bytes=taken, batch_room_bytes=vram.kv_bytes - taken)
    return vram


_JUDGED: tuple[Literal["normal", "long"], ...] = ("normal", "long")


def _verdict(vram: Vram, cost: KvCost | None, fits: tuple[Fit, ...], replicas: int | None) -> bool | None:
    if vram.short_bytes:
        return False
    if cost is None or vram.kv_bytes is None:
        return None
    if not cost.sessions(vram.kv_bytes, 1):
        return False
    judged = [fit for fit in fits if fit.name in _JUDGED]
    if any(fit.sessions_per_replica == 0 and fit.planned_requests != 0 for fit in judged):
        return False  # not one such request, however many replicas
    return not (replicas and any(fit.fits is False for fit in judged))


def _alive(traffic: Traffic, fits: tuple[Fit, ...]) -> int | None:
    """Return what the sessions alive hold as long dialogues, else as normal requests."""
    judged = [fit.session_bytes for fit in fits if fit.name in _JUDGED and fit.session_bytes is not None]
    return judged[-1] * traffic.sessions if judged and traffic.sessions is not None else None


def _options(
    ask: Ask,
    layout: KvLayout | None,
    options: KvOptions,
    cost: KvCost | None,
    vram: Vram,
    fits: tuple[Fit, ...],
) -> tuple[Option, ...]:
    judged = [fit for fit in fits if fit.name in _JUDGED and fit.context_tokens is not None]
    if cost is None or vram.kv_bytes is None or not judged:
        return ()
    need = Need(context_tokens=judged[-1].context_tokens or 0, planned_requests=judged[-1].planned_requests)
    base = Base(
        gpu=ask.gpu,
        vram=vram,
        cost=cost,
        layout=layout,
        kv=options,
        weights_bytes=None if ask.used_bytes is not None else _weights(ask),
        reserve_percent=ask.reserve_percent,
    )
    return side_by_side(base, need, ask.options)


def _notes(ask: Ask) -> tuple[str, ...]:
    found = []
    if ask.gpu_source:
        found.append(ask.gpu_source)
    least, most = USUAL_RESERVE_PERCENT
    if ask.used_bytes is None and not least <= ask.reserve_percent <= most:
        found.append(f"A reserve of {ask.reserve_percent:g} % is outside the usual {least:g} to {most:g} %.")
    if ask.used_bytes is None and ask.weights_bytes is None and _is_float32(ask.model):
        found.append("The checkpoint is float32, which engines load as 16 bits: state --weights-gib with half of it.")
    if ask.log and (ask.log.malformed or ask.log.untimed):
        found.append(
            f"The log: {ask.log.malformed} malformed lines left out, {ask.log.untimed} requests without a time."
        )
    return tuple(found)


def _is_float32(model: Model | None) -> bool:
    return model is not None and model.weights_bytes is not None and model.config.dtype == "float32"


def _missing(ask: Ask, vram: Vram, cost: KvCost | None) -> tuple[str, ...]:
    """Return the figures that a finished check names and this one does not, each with where to give it."""
    load = ask.load
    lacking = (
        (cost is None, "the model, or its KV bytes a token: --config or --kv-bytes-per-token"),
        (vram.gpu_bytes is None, "the GPU's memory: --gpu, --gpu-memory-gib or --from"),
        (
            ask.used_bytes is None and _weights(ask) is None,
            f"the size of the weights ({_weights_source(ask) or 'no model'}): --weights-gib, or measured --used-gib",
        ),
        *_lacking_tokens("input", load.input_tokens),
        *_lacking_tokens("output", load.output_tokens),
        (load.rps is None, "requests a second in a normal hour: --rps or --log"),
        (load.peak_rps is None, "the busiest minute: --peak-rps or --log"),
        (load.time_in_system_s is None, "seconds a request is in the system: --time-in-system or --log"),
        (load.sessions is None, "sessions alive at once: --sessions"),
        (ask.growth_percent < LEAST_GROWTH_PERCENT, "a growth margin of at least 20 %: --growth-percent"),
        (ask.replicas is None, "how many replicas run, to judge one node down: --replicas"),
    )
    return tuple(text for is_missing, text in lacking if is_missing)


def _lacking_tokens(name: str, tokens: object) -> list[tuple[bool, str]]:
    lacking = [part for part in ("mean", "p95", "p99") if getattr(tokens, part) is None]
    return [(bool(lacking), f"{name} tokens, {', '.join(lacking)}: --{name}-tokens MEAN,P95,P99 or --log")]
