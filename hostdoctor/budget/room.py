"""Whether a command's memory fits the nodes that it is about to be bound to."""

from hostdoctor.budget.whole import Request, whole_budget
from hostdoctor.facts import Host
from hostdoctor.sources.base import Source


def nodes_with_room(source: Source, host: Host, request: Request, *, need_known: bool) -> dict[int, bool | None]:
    """Return for each node whether it holds what the request places there; None where that cannot be told.

    ``need_known`` is False for a command of which nobody knows what it takes: then only a node with nothing to spare
    is known not to hold it.
    """
    _, budget = whole_budget(source, host, request)
    fits: dict[int, bool | None] = {}
    for node in budget.nodes:
        if node.own_bytes is None or node.weights_bytes is None or node.kv_bytes is None:
            fits[node.id] = None
        elif node.own_bytes == 0 or node.weights_bytes + node.kv_bytes > node.own_bytes:
            fits[node.id] = False
        else:
            fits[node.id] = True if need_known else None
    return fits
