"""The same traffic on other hardware, side by side: fewer large GPUs, more small ones, replicas, part by an API."""

from msgspec.structs import replace

from hostdoctor.budget.gpus import GIB, gpu_named, next_larger
from hostdoctor.budget.kv import KvCost, KvLayout, KvOptions, kv_cost
from hostdoctor.budget.traffic import ceiling
from hostdoctor.budget.vram import Vram, split
from hostdoctor.errors import HostdoctorError, UsageError
from hostdoctor.facts import Fact

API_SHARE = 0.05  # what lies above the 95th percentile
MAX_TP = 1024


class Need(Fact, frozen=True, kw_only=True):
    """What every option is measured against: requests at once, with their margin, and the tokens of each."""

    context_tokens: int
    planned_requests: int | None = None


class Option(Fact, frozen=True, kw_only=True):
    """One way to serve it. ``gpus_total`` carries the load with one replica down (N+1); None where it is not known.

    ``sessions`` is what one replica of ``tp`` GPUs holds at ``context_tokens``; ``note`` says what else it means, or
    why there is no number.
    """

    name: str
    gpu: str
    tp: int
    gpu_bytes: int | None = None
    kv_bytes: int | None = None
    context_tokens: int | None = None
    sessions: int | None = None
    replicas: int | None = None
    replicas_n_plus_1: int | None = None
    gpus_total: int | None = None
    note: str


class Base(Fact, frozen=True, kw_only=True):
    """The plan that the options are set beside. ``layout`` is None where bytes a token were stated."""

    gpu: str
    vram: Vram
    cost: KvCost
    layout: KvLayout | None
    kv: KvOptions
    weights_bytes: int | None
    reserve_percent: float


def parse_option(text: str) -> tuple[str, int]:
    """Return GPU and tensor-parallel size of ``h200-141:2`` (``:1`` where left out); raise UsageError for others."""
    name, _, size = text.partition(":")
    gpu = gpu_named(name, "--option")
    if size and not (size.isascii() and size.isdigit() and 0 < len(size) < 5 and 0 < int(size) <= MAX_TP):
        raise UsageError(f"--option: not GPU:TP: {text[:60]!r}")
    return gpu.name, int(size or 1)


def side_by_side(base: Base, need: Need, named: tuple[tuple[str, int], ...]) -> tuple[Option, ...]:
    """Return the plan itself and what else could carry the load, one-node-down included."""
    tp = base.kv.tp
    rows = [_row(base, need, "as planned", base.vram, base.cost, "replicas split the traffic: route by session")]
    if named:
        rows += [_other(base, need, _title(size), gpu, size) for gpu, size in named]
    else:
        rows += [_other(base, need, "smaller parts: tensor parallel over twice as many", base.gpu, 2 * tp)]
        larger = next_larger(base.vram.gpu_bytes or 0, 1.5)
        if larger is not None:
            rows.append(_other(base, need, "one larger GPU for each", larger.name, tp))
    if need.planned_requests is not None:
        less = Need(
            context_tokens=need.context_tokens, planned_requests=ceiling(need.planned_requests * (1 - API_SHARE))
        )
        note = "the longest 5 % of requests go out: their price and privacy against the replicas they would need here"
        rows.append(_row(base, less, "as planned, requests above p95 by an API", base.vram, base.cost, note))
    return tuple(rows)


def _title(tp: int) -> str:
    return "one GPU" if tp == 1 else f"{tp} GPUs, tensor parallel"


def _other(base: Base, need: Need, name: str, gpu: str, tp: int) -> Option:
    """Return an option with another GPU or tensor-parallel size; without numbers where they cannot be known."""
    size = (base.vram.gpu_bytes or 0) if gpu == base.gpu else round(gpu_named(gpu).memory_gib * GIB)
    note = "one GPU fails, one replica is gone" if tp == 1 else f"every layer exchanges data between {tp} GPUs"
    empty = Option(name=name, gpu=gpu, tp=tp, gpu_bytes=size, note="")
    if base.layout is None or base.weights_bytes is None:
        return replace(empty, note="not known: what was measured or stated holds for the planned layout alone")
    try:
        cost = kv_cost(base.layout, replace(base.kv, tp=tp))
    except HostdoctorError as error:
        return replace(empty, note=f"not possible: {error}")
    row = _row(base, need, name, split(size, base.weights_bytes, base.reserve_percent, tp), cost, note)
    total = None if row.replicas_n_plus_1 is None else row.replicas_n_plus_1 * tp
    return replace(row, gpu=gpu, tp=tp, gpus_total=total)


def _row(base: Base, need: Need, name: str, vram: Vram, cost: KvCost, note: str) -> Option:
    tp = base.kv.tp
    sessions = None if vram.kv_bytes is None else cost.sessions(vram.kv_bytes, need.context_tokens)
    replicas = replicas_for(need.planned_requests, sessions)
    return Option(
        name=name,
        gpu=base.gpu,
        tp=tp,
        gpu_bytes=vram.gpu_bytes,
        kv_bytes=vram.kv_bytes,
        context_tokens=need.context_tokens,
        sessions=sessions,
        replicas=replicas,
        replicas_n_plus_1=None if replicas is None else replicas + 1,
        gpus_total=None if replicas is None else (replicas + 1) * tp,
        note=note,
    )


def replicas_for(requests: int | None, sessions: int | None) -> int | None:
    """Return how many replicas hold so many requests at once; None where that is unknown or none can."""
    if requests is None or not sessions:
        return None
    return max(1, -(-requests // sessions))
