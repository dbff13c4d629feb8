"""Which cells of an offload matrix a GPU, host memory and a drive cannot hold, each with the figures that say so."""

from collections.abc import Sequence
from typing import Literal

from hostdoctor.budget.advice import size_words as gib
from hostdoctor.budget.kv import KvCost
from hostdoctor.budget.vram import Vram
from hostdoctor.facts import Fact

Kind = Literal["vram", "weights", "kv-ram", "nvme"]


class Store(Fact, frozen=True, kw_only=True):
    """Where one variant keeps weights and KV, in bytes.

    ``offload_bytes`` of weights are moved off each GPU; ``ram_bytes`` and ``disk_bytes`` (None: not known) hold the KV
    of all ranks together.
    """

    kind: Kind
    offload_bytes: int = 0
    ram_bytes: int = 0
    disk_bytes: int | None = None


class Impossible(Fact, frozen=True, kw_only=True):
    """Contexts of so many tokens are out from a concurrency up."""

    context: int
    from_concurrency: int
    reason: str


def kv_room(vram: Vram, store: Store) -> int | None:
    """Return the bytes on each GPU that are left for KV, below 0 where weights and reserve are too much; None unknown.

    What a running engine was measured to take (``used_bytes``) is taken as it is.
    """
    if vram.gpu_bytes is None:
        return None
    if vram.used_bytes is not None:
        return vram.gpu_bytes - vram.used_bytes + store.offload_bytes
    if vram.weights_bytes is None or vram.reserve_bytes is None:
        return None
    return vram.gpu_bytes - max(0, vram.weights_bytes - store.offload_bytes) - vram.reserve_bytes


def why_no_server(vram: Vram, store: Store) -> str | None:
    """Return why the whole variant cannot start, None where nothing is known to forbid it."""
    room = kv_room(vram, store)
    if room is None or room > 0:
        return None
    held = vram.used_bytes if vram.used_bytes is not None else (vram.weights_bytes or 0) + (vram.reserve_bytes or 0)
    what = "weights and reserve" if vram.used_bytes is None else "the engine without its KV cache"
    less = f", less {gib(store.offload_bytes)} offloaded," if store.offload_bytes else ""
    return f"{what} take {gib(held)} of each GPU's {gib(vram.gpu_bytes or 0)}{less}: no room for KV"


def impossible(
    cost: KvCost | None,
    vram: Vram,
    store: Store,
    contexts: Sequence[int],
    concurrency: Sequence[int],
    limit: int | None = None,
) -> tuple[Impossible, ...]:
    """Return what cannot be, for each context from the smallest concurrency up; ``limit`` is the model's context."""
    found = []
    for context in sorted(contexts):
        if limit is not None and context > limit:
            reason = f"{context:,} tokens: the model's own limit is {limit:,}"
            found.append(Impossible(context=context, from_concurrency=1, reason=reason))
            continue
        first = next((many for many in sorted(concurrency) if _why(cost, vram, store, context, many)), None)
        if first is not None:
            reason = _why(cost, vram, store, context, first) or ""
            found.append(Impossible(context=context, from_concurrency=first, reason=reason))
    return tuple(found)


def _why(cost: KvCost | None, vram: Vram, store: Store, context: int, many: int) -> str | None:
    """Return why so many sequences at once cannot be held; what is not known forbids nothing."""
    room = kv_room(vram, store)
    if cost is None or room is None:
        return None
    one = cost.session_bytes(context)
    if one > room:
        return (
            f"one sequence of {context:,} tokens is {gib(one)} of KV on each GPU, which has {gib(max(0, room))} for it"
        )
    held = cost.sessions(room, context)
    if held >= many:
        return None
    asked = f"{many} × {context:,} tokens are {gib(many * one)} of KV on each GPU, which has {gib(room)} for it"
    if store.kind in ("vram", "weights"):
        return f"{asked}: what does not fit would wait, and the queue be measured"
    return _beyond(cost, store, context, many - held, asked)


def _beyond(cost: KvCost, store: Store, context: int, waiting: int, asked: str) -> str | None:
    """Return why the sequences that the GPUs cannot hold do not fit the tiers below."""
    if cost.offload_bytes_per_token is None or (store.kind == "nvme" and store.disk_bytes is None):
        return None
    size = waiting * context * cost.offload_bytes_per_token
    if size <= store.ram_bytes + (store.disk_bytes or 0):
        return None
    below = f"the {gib(store.ram_bytes)} pool in RAM"
    if store.kind == "nvme":
        below += f" and {gib(store.disk_bytes or 0)} on the drive"
    return f"{asked}: the other {waiting} are {gib(size)}, more than {below}"
