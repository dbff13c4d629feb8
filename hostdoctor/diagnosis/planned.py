"""What a plan pins, rank by rank, as checks judge it: sizes as asked for, before any allocator's rounding."""

from hostdoctor.budget.ranks import Rank, Wish, place_ranks
from hostdoctor.diagnosis.api import Ask, MemoryPlan, gpu_label, in_scope
from hostdoctor.facts import Host


def planned_wish(host: Host, ask: Ask) -> Wish:
    """Return the plan over the GPUs in scope: engines of ``--tp`` GPUs each, or one engine of all of them."""
    count = max(1, len(in_scope(host, ask)))
    tp = min(ask.tp or count, count)
    memory = ask.memory or MemoryPlan()
    return Wish(tp=tp, dp=count // tp, weights_bytes=memory.weights_bytes, kv_bytes=memory.kv_bytes)


def planned_ranks(host: Host, ask: Ask) -> tuple[Rank, ...]:
    """Return the plan's ranks with their nodes and their shares."""
    cards = [(gpu_label(host, gpu), gpu) for gpu in in_scope(host, ask)]
    return place_ranks(host, cards, planned_wish(host, ask))
