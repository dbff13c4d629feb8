"""A binding to a node that the caller names, for workloads without a GPU; and why there is no far node."""

from collections.abc import Iterable

from hostdoctor.diagnosis.nodes import lacks, usable_nodes
from hostdoctor.diagnosis.subjects import nodes_by_id
from hostdoctor.errors import PlacementError, UsageError
from hostdoctor.facts import Host
from hostdoctor.parsers.cpulist import format_cpulist
from hostdoctor.placement.binding import refusal
from hostdoctor.placement.model import Arm, Binding, Reason, Selection
from hostdoctor.placement.nodes import Place, far_places
from hostdoctor.placement.reach import reach_of


def bind_to_node(host: Host, node: int, *, arm: Arm = "near", use_isolated: bool = False) -> Binding:
    """Return a binding of CPUs and memory to one node.

    Raises UsageError where there is no such node, PlacementError where the caller cannot be bound to it.
    """
    record = nodes_by_id(host).get(node)
    if record is None or not record.cpus or lacks(record):
        usable = ", ".join(str(other.id) for other in usable_nodes(host)) or "none known"
        raise UsageError(f"node {node}: no such node with CPUs and memory (known: {usable})")
    reach = reach_of(host, use_isolated=use_isolated)
    why = refusal(host, node, reach)
    if why is not None:
        raise PlacementError(why)
    cpus = reach.bindable(record)
    return Binding(
        selection=Selection(gpus=(), labels=(f"node {node}",), origin=f"node {node} as asked"),
        ranks=(),
        nodes=(node,),
        mems=(node,),
        cpus=format_cpulist(cpus),
        whole_nodes=format_cpulist(cpus) == record.cpus,
        policy="bind",
        arm=arm,
        reasons=(Reason(text=f"node {node}: as asked"),),
    )


def farthest_node(host: Host, node: int, *, use_isolated: bool = False) -> int:
    """Return the node farthest from another; raise PlacementError, UnknownNodeError where there is none or not told."""
    near = Place(nodes=(node,), reason=Reason(text=f"node {node}"))
    return far_places(host, (near,), reach_of(host, use_isolated=use_isolated))[0].nodes[0]


def why_no_far(host: Host, near: Iterable[int], *, use_isolated: bool = False) -> str | None:
    """Return why no node is far from these ones for the caller; None where there is one to bind to."""
    known = set(near)
    reach = reach_of(host, use_isolated=use_isolated)
    others = [node for node in usable_nodes(host) if node.id not in known]
    if not others:
        return f"node {format_cpulist(known)} is the only one with CPUs and memory: nothing is far from it"
    refusals = [why for node in others if (why := refusal(host, node.id, reach)) is not None]
    return "; ".join(refusals) if len(refusals) == len(others) else None
