"""Whether a plan fits a budget, where it does not and by how much, and the largest that does."""

from hostdoctor.budget.limits import Limit
from hostdoctor.budget.pinned import Budget, NodeBudget
from hostdoctor.budget.ranks import Wish
from hostdoctor.facts import Fact

GIB = 1 << 30


class Shortage(Fact, frozen=True, kw_only=True):
    """Where a plan goes beyond what there is: ``where`` is a node, all nodes, or /dev/shm."""

    where: str
    planned_bytes: int
    room_bytes: int
    bound_by: str
    source: str

    @property
    def missing_bytes(self) -> int:
        """By how much."""
        return self.planned_bytes - self.room_bytes


class Largest(Fact, frozen=True, kw_only=True):
    """The largest that fits, as asked for: KV for each DP engine, weights for each GPU; None while unknown."""

    kv_offload_bytes: int | None = None
    cpu_offload_bytes: int | None = None


class Fit(Fact, frozen=True, kw_only=True):
    """The answer: ``fits`` is None without a plan, or with a ``reason`` where it cannot be told."""

    fits: bool | None
    shortages: tuple[Shortage, ...] = ()
    reason: str | None = None


def judge(budget: Budget, wish: Wish, shm: Limit | None) -> Fit:
    """Return whether the plan fits; ``shm`` is the room of /dev/shm where the KV pool lies there, else None.

    One known shortage is enough for no; a yes needs everything to be known.
    """
    if wish.is_empty:
        return Fit(fits=None, reason="no plan stated: --cpu-offload-gib, --kv-offload-gib")
    shortages = (*_nodes_short(budget), *_total_short(budget, wish), *_shm_short(wish, shm))
    if shortages:
        return Fit(fits=False, shortages=shortages)
    reason = _unknown(budget, shm if wish.kv_bytes else None)
    return Fit(fits=None if reason else True, reason=reason)


def largest_kv(budget: Budget, wish: Wish, shm: Limit | None) -> int | None:
    """Return the largest KV pool of each DP engine that fits beside the weights, in bytes; None while unknown."""
    if budget.pinnable_bytes is None or (shm is not None and shm.bytes is None):
        return None
    weights = wish.weights_bytes * wish.ranks_per_engine * wish.dp
    most = [(budget.pinnable_bytes - weights) // wish.dp]
    if shm is not None and shm.bytes is not None:
        most.append(shm.bytes // wish.dp)
    for node in budget.nodes:
        ranks = sum(rank.node == node.id for rank in budget.ranks)
        if ranks and node.pinnable_bytes is not None and node.weights_bytes is not None:
            most.append((node.pinnable_bytes - node.weights_bytes) // ranks * wish.ranks_per_engine)
    return max(0, min(most))


def largest_weights(budget: Budget, wish: Wish, shm: Limit | None) -> int | None:
    """Return the most that each rank may pin for weights beside the KV pool, in bytes.

    None while unknown, and where the pool does not even fit into /dev/shm.
    """
    if budget.pinnable_bytes is None or _shm_short(wish, shm):
        return None
    most = [(budget.pinnable_bytes - wish.kv_bytes * wish.dp) // (wish.ranks_per_engine * wish.dp)]
    for node in budget.nodes:
        ranks = sum(rank.node == node.id for rank in budget.ranks)
        if ranks and node.pinnable_bytes is not None and node.kv_bytes is not None:
            most.append((node.pinnable_bytes - node.kv_bytes) // ranks)
    return max(0, min(most))


def _nodes_short(budget: Budget) -> list[Shortage]:
    return [
        Shortage(
            where=f"node {node.id}",
            planned_bytes=planned,
            room_bytes=node.pinnable_bytes,
            bound_by=node.bound_by or "available memory",
            source=f"/sys/devices/system/node/node{node.id}/meminfo, /proc/zoneinfo",
        )
        for node in budget.nodes
        if (planned := _planned(node)) is not None and node.pinnable_bytes is not None and planned > node.pinnable_bytes
    ]


def _planned(node: NodeBudget) -> int | None:
    if node.weights_bytes is None or node.kv_bytes is None:
        return None
    return node.weights_bytes + node.kv_bytes


def _total_short(budget: Budget, wish: Wish) -> list[Shortage]:
    """Limits bind whether or not it is known which node each rank is on."""
    known = [limit for limit in budget.limits if limit.bytes is not None and limit.bytes < wish.total_bytes]
    return [
        Shortage(
            where="all nodes",
            planned_bytes=wish.total_bytes,
            room_bytes=limit.bytes or 0,
            bound_by=limit.name,
            source=limit.source,
        )
        for limit in known
    ]


def _shm_short(wish: Wish, shm: Limit | None) -> list[Shortage]:
    needed = wish.kv_bytes * wish.dp
    if shm is None or shm.bytes is None or needed <= shm.bytes:
        return []
    return [Shortage(where=shm.name, planned_bytes=needed, room_bytes=shm.bytes, bound_by=shm.name, source=shm.source)]


def _unknown(budget: Budget, shm: Limit | None) -> str | None:
    lost = next((rank for rank in budget.ranks if rank.node is None), None)
    if lost is not None:
        return lost.reason
    used = {rank.node for rank in budget.ranks}
    node = next((n for n in budget.nodes if n.id in used and n.pinnable_bytes is None), None)
    if node is not None:
        return node.reason
    if used - {n.id for n in budget.nodes}:
        return "a GPU's node is none that the host lists"
    limit = next((limit for limit in (*budget.limits, *((shm,) if shm else ())) if limit.bytes is None), None)
    return limit.reason if limit else None
