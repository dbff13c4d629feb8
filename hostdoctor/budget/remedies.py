"""What to do when KV is what does not fit, cheapest first: trim before buying, and move to RAM last."""

from typing import Protocol

from hostdoctor.budget.kv import KvCost
from hostdoctor.facts import Fact

GIB = 1 << 30
# The cheapest first.
ORDER = ("trim-history", "prefix-caching", "kv-precision", "cap-long-sessions", "kv-to-ram")


class Unfit(Protocol):
    """A profile that does not fit."""

    @property
    def context_tokens(self) -> int | None: ...
    @property
    def planned_requests(self) -> int | None: ...
    @property
    def session_bytes(self) -> int | None: ...
    @property
    def short_bytes(self) -> int | None: ...


class Remedy(Fact, frozen=True, kw_only=True):
    """One remedy and what it gives here; ``tokens``, ``sessions`` or ``bytes`` where that is a number."""

    name: str
    text: str
    tokens: int | None = None
    sessions: int | None = None
    size_bytes: int | None = None


def remedies_for(
    cost: KvCost | None, at_8_bits: KvCost | None, pool_bytes: int | None, unfit: Unfit | None, replicas: int, tp: int
) -> tuple[Remedy, ...]:
    """Return the remedies in the order in which to try them, or none where everything that is known fits."""
    if cost is None or pool_bytes is None or unfit is None:
        return ()
    tokens, requests = unfit.context_tokens, unfit.planned_requests
    if tokens is None or requests is None or not pool_bytes:
        return ()
    return (
        _trim(cost, pool_bytes, -(-requests // replicas)),
        Remedy(name="prefix-caching", text="Share what sequences begin with: prefix caching, if prompts repeat."),
        _lower_precision(at_8_bits, pool_bytes, tokens, replicas),
        _cap(cost, pool_bytes, tokens, replicas),
        _to_ram(cost, unfit.short_bytes or 0, tp),
    )


def _trim(cost: KvCost, pool_bytes: int, requests: int) -> Remedy:
    """Return to what length histories must be trimmed for all requests to fit."""
    low, high = 0, max(1, pool_bytes // max(1, requests)) + cost.block_tokens
    while low < high:  # the longest context at which enough sequences fit
        middle = (low + high + 1) // 2
        if cost.sessions(pool_bytes, middle) >= requests:
            low = middle
        else:
            high = middle - 1
    if not low:
        return Remedy(name="trim-history", text="Trim histories: alone not enough at any length.", tokens=0)
    return Remedy(name="trim-history", text=f"Trim histories to {low:,} tokens each: all then fit.", tokens=low)


def _lower_precision(cost: KvCost | None, pool_bytes: int, tokens: int, replicas: int) -> Remedy:
    if cost is None:
        return Remedy(name="kv-precision", text="Lower the KV precision further only where long-context tasks hold.")
    held = cost.sessions(pool_bytes, tokens) * replicas
    text = f"Keep KV in 8 bits (fp8), checked on long-context tasks: {held:,} requests then fit."
    return Remedy(name="kv-precision", text=text, sessions=held)


def _cap(cost: KvCost, pool_bytes: int, tokens: int, replicas: int) -> Remedy:
    held = cost.sessions(pool_bytes, tokens) * replicas
    return Remedy(
        name="cap-long-sessions", text=f"Cap requests of {tokens:,} tokens at {held:,} at once.", sessions=held
    )


def _to_ram(cost: KvCost, short_bytes: int, tp: int) -> Remedy:
    size = short_bytes if cost.offload_bytes_per_token == cost.bytes_per_token_per_rank else short_bytes * tp
    text = (
        f"Only then keep KV of waiting requests in RAM: {-(-size // GIB):,} GiB over all ranks and replicas"
        " (`hostdoctor budget` says what a host holds); each return then costs time to the first token."
    )
    return Remedy(name="kv-to-ram", text=text, size_bytes=size)
