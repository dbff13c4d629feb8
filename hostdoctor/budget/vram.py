"""What a GPU's memory is split into, and how many sequences its share for KV holds."""

from hostdoctor.budget.kv import KvCost
from hostdoctor.facts import Fact

USUAL_RESERVE_PERCENT = (15.0, 25.0)


class Vram(Fact, frozen=True, kw_only=True):
    """One GPU's memory in bytes: weights + reserve (or the measured ``used_bytes`` for both) + KV is the whole.

    ``reserve_bytes`` is for the runtime, graphs and fragmentation. Of ``kv_bytes`` the planned requests take
    ``planned_kv_bytes``; ``batch_room_bytes`` is what they leave. ``short_bytes``: weights and reserve are larger than
    the GPU by so much. None is unknown.
    """

    gpu_bytes: int | None = None
    weights_bytes: int | None = None
    reserve_bytes: int | None = None
    used_bytes: int | None = None
    kv_bytes: int | None = None
    planned_kv_bytes: int | None = None
    batch_room_bytes: int | None = None
    short_bytes: int | None = None


class Sessions(Fact, frozen=True, kw_only=True):
    """How many sequences of one length a replica holds at once."""

    context_tokens: int
    sessions: int


def split(gpu_bytes: int, weights_bytes: int | None, reserve_percent: float, tp: int) -> Vram:
    """Return the split of each GPU for weights (of the whole model) that ``tp`` ranks share; unknown stays unknown."""
    reserve = round(gpu_bytes * reserve_percent / 100)
    share = None if weights_bytes is None else -(-weights_bytes // tp)
    room = None if share is None else gpu_bytes - share - reserve
    return Vram(
        gpu_bytes=gpu_bytes,
        weights_bytes=share,
        reserve_bytes=reserve,
        kv_bytes=None if room is None else max(0, room),
        short_bytes=None if room is None else max(0, -room),
    )


def measured(gpu_bytes: int, used_bytes: int) -> Vram:
    """Return the split by what a running engine takes without its KV cache."""
    return Vram(
        gpu_bytes=gpu_bytes,
        used_bytes=used_bytes,
        kv_bytes=max(0, gpu_bytes - used_bytes),
        short_bytes=max(0, used_bytes - gpu_bytes),
    )


def sessions_at(cost: KvCost, pool_bytes: int, contexts: tuple[int, ...]) -> tuple[Sessions, ...]:
    """Return how many sequences of each length a pool on each rank holds."""
    return tuple(Sessions(context_tokens=tokens, sessions=cost.sessions(pool_bytes, tokens)) for tokens in contexts)
