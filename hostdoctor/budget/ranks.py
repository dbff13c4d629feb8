"""What the caller wants to pin, for which ranks, and on which nodes that lands."""

from collections.abc import Sequence

from hostdoctor.budget.growth import Engine
from hostdoctor.budget.shares import split
from hostdoctor.errors import UsageError
from hostdoctor.facts import Fact, Gpu, Host

GIB = 1 << 30
MAX_RANKS = 4096


class Wish(Fact, frozen=True, kw_only=True):
    """The plan. ``weights_bytes`` are pinned by each rank, ``kv_bytes`` by each DP engine in all, rounding included."""

    engine: Engine = "vllm"
    tp: int = 1
    pp: int = 1
    dp: int = 1
    weights_bytes: int = 0
    kv_bytes: int = 0

    @property
    def ranks_per_engine(self) -> int:
        """Tensor-parallel times pipeline-parallel ranks."""
        return self.tp * self.pp

    @property
    def is_empty(self) -> bool:
        """Nothing is to be pinned."""
        return not self.weights_bytes and not self.kv_bytes

    @property
    def total_bytes(self) -> int:
        """Return all that is pinned, over all engines."""
        return self.dp * (self.ranks_per_engine * self.weights_bytes + self.kv_bytes)


class Rank(Fact, frozen=True, kw_only=True):
    """One rank: its GPU's label, the node that its memory goes to (None with a ``reason``), and what it pins."""

    rank: int
    gpu: str | None = None
    node: int | None = None
    reason: str | None = None
    weights_bytes: int = 0
    kv_bytes: int = 0


def place_ranks(host: Host, gpus: Sequence[tuple[str, Gpu]], wish: Wish) -> tuple[Rank, ...]:
    """Return the ranks in order, the first on the first GPU; where no GPU is known, ranks without one.

    Raises UsageError for more ranks than GPUs.
    """
    count = wish.dp * wish.ranks_per_engine
    if count > MAX_RANKS:
        raise UsageError(f"--tp × --pp × --dp: {count} ranks, at most {MAX_RANKS} make sense on one host")
    if gpus and count > len(gpus):
        raise UsageError(f"--tp × --pp × --dp: {count} ranks, but {len(gpus)} GPUs in scope")
    kv = split(wish.kv_bytes, [1] * wish.ranks_per_engine) * wish.dp
    return tuple(
        _rank(host, number, gpus[number] if gpus else None, wish.weights_bytes, kv[number]) for number in range(count)
    )


def _rank(host: Host, number: int, card: tuple[str, Gpu] | None, weights_bytes: int, kv_bytes: int) -> Rank:
    node, reason = _node(host, card)
    label = card[0] if card else None
    return Rank(rank=number, gpu=label, node=node, reason=reason, weights_bytes=weights_bytes, kv_bytes=kv_bytes)


def _node(host: Host, card: tuple[str, Gpu] | None) -> tuple[int | None, str | None]:
    """Return the node of a rank's memory: its GPU's, or the only one that there is."""
    with_cpus = [node.id for node in host.numa_nodes if node.cpus != ""]
    if len(with_cpus) == 1:
        return with_cpus[0], None
    if card is None:
        return None, "no GPU is known"
    label, gpu = card
    if gpu.numa_node is not None:
        return gpu.numa_node, None
    if gpu.numa_nodes:
        return None, f"{label} is near several nodes ({', '.join(map(str, gpu.numa_nodes))})"
    return None, f"the node of {label} is not known"
