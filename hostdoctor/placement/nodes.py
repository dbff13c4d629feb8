"""The node or nodes that each chosen GPU's worker goes to: the near ones, or the farthest for a comparison."""

from collections.abc import Sequence

from hostdoctor.diagnosis import needs
from hostdoctor.diagnosis.api import gpu_label
from hostdoctor.diagnosis.nodes import distances_to, lacks, usable_nodes
from hostdoctor.diagnosis.paths import Tree
from hostdoctor.diagnosis.subjects import near_nodes, nodes_by_id, sysfs
from hostdoctor.errors import PlacementError, UnknownNodeError, UsageError
from hostdoctor.facts import Fact, Gpu, Host, NumaNode
from hostdoctor.parsers.cpulist import format_cpulist
from hostdoctor.placement.model import Reason
from hostdoctor.placement.reach import Reach


class Place(Fact, frozen=True, kw_only=True):
    """Where a GPU's worker goes and why; ``assumed``: the caller said so, no source did."""

    nodes: tuple[int, ...]
    reason: Reason
    assumed: bool = False
    warnings: tuple[str, ...] = ()


def near_places(
    host: Host, gpus: Sequence[int], assume_node: int | None, *, complete: bool = True
) -> tuple[Place, ...]:
    """Return the near place of each GPU (positions in ``host.gpus``); ``complete``: the host lists all of its nodes.

    Raises UnknownNodeError where a node is not known, PlacementError where no node has CPUs and memory, UsageError for
    an assumed node that cannot be one or that contradicts what is known of every GPU.
    """
    _check_assumed(host, gpus, assume_node)
    return tuple(_near(host, i, assume_node, complete=complete) for i in gpus)


def far_places(host: Host, near: Sequence[Place], reach: Reach) -> tuple[Place, ...]:
    """Return for each near place the farthest node that a process can be bound to, on another package if there is one.

    Raises PlacementError where there is no second node, UnknownNodeError where the distances are not told.
    """
    return tuple(_far(host, place, reach) for place in near)


def _check_assumed(host: Host, gpus: Sequence[int], node: int | None) -> None:
    if node is None:
        return
    record = nodes_by_id(host).get(node)
    if record is None or not record.cpus or lacks(record):
        usable = ", ".join(str(other.id) for other in usable_nodes(host)) or "none known"
        raise UsageError(f"--assume-node {node}: no such node with CPUs and memory (known: {usable})")
    told = [host.gpus[i] for i in gpus if needs.node_known(host, host.gpus[i])]
    differing = [gpu for gpu in told if node not in near_nodes(gpu)]
    if len(told) == len(gpus) and differing:
        gpu = differing[0]
        raise UsageError(f"--assume-node {node}: {gpu_label(host, gpu)} is known to be near {_named(near_nodes(gpu))}")


def _near(host: Host, position: int, assume_node: int | None, *, complete: bool) -> Place:
    gpu, nodes = host.gpus[position], nodes_by_id(host)
    near = near_nodes(gpu)
    if not needs.node_known(host, gpu):  # near every node is near none
        return _unknown(host, position, assume_node, complete=complete)
    strange = [i for i in near if i not in nodes or nodes[i].cpus is None]
    if strange:
        raise UnknownNodeError(
            f"{gpu_label(host, gpu)} is near {_named(near)}, but the CPUs of {_named(strange)} are not known"
            " (numactl --hardware or lscpu tell)"
        )
    whole = tuple(i for i in near if not lacks(nodes[i]))
    if not whole:
        return _instead(host, gpu, [nodes[i] for i in near])
    left = [i for i in near if i not in whole]
    warnings = tuple(
        f"{gpu_label(host, gpu)}: node {i} is near but has no {' and '.join(lacks(nodes[i]))}" for i in left
    )
    return Place(
        nodes=whole, reason=_evidence(host, gpu, f"{gpu_label(host, gpu)} is near {_named(whole)}"), warnings=warnings
    )


def _unknown(host: Host, position: int, assume_node: int | None, *, complete: bool) -> Place:
    label = gpu_label(host, host.gpus[position])
    ids = needs.cpu_nodes(host)
    whole = complete and not needs.nodes_missing(host)
    if whole and len(ids) == 1 and all(node.cpus is not None for node in host.numa_nodes):
        only = nodes_by_id(host)[ids[0]]
        text = f"{label}: node {only.id} is the only one with CPUs: nothing to choose"
        if lacks(only):
            raise PlacementError(f"{label}: node {only.id} is the only one with CPUs and has no memory")
        reason = Reason(text=text, source=f"/sys/devices/system/node/node{only.id}/cpulist", value=only.cpus)
        return Place(nodes=(only.id,), reason=reason)
    if (beside := _beside_memory(host, position)) is not None:
        return beside
    told = [gap for gap in host.gaps if gap.fact == f"gpus[{position}].numa_node"]
    if assume_node is not None:
        text = f"{label}: node {assume_node} was assumed (--assume-node), no source tells it"
        reason = Reason(text=text, source=told[0].source if told else None, value=told[0].reason if told else None)
        return Place(nodes=(assume_node,), reason=reason, assumed=True, warnings=(text,))
    near = near_nodes(host.gpus[position])
    silent = f"the sources name every node: {_named(near)}" if near else "no source tells it"
    why = "; ".join(f"{gap.source}: {gap.reason}" for gap in told) or silent
    tells = "the hypervisor alone knows" if host.system.virtualization else "firmware that gives _PXM would tell"
    raise UnknownNodeError(f"{label}: NUMA node unknown ({why}): {tells}, or state it: --assume-node N")


def _beside_memory(host: Host, position: int) -> Place | None:
    """Return the node nearest to the one that the GPU's own memory forms; None where two are equally near."""
    gpu = host.gpus[position]
    own = nodes_by_id(host).get(-1 if gpu.memory_numa_node is None else gpu.memory_numa_node)
    distances = [] if own is None else list(distances_to(own, usable_nodes(host)).values())
    if own is None or len(distances) < 2 or None in distances or distances[0] == distances[1]:
        return None
    return _instead(host, gpu, [own])


def _instead(host: Host, gpu: Gpu, near: Sequence[NumaNode]) -> Place:
    """Return the usable node nearest to nodes that lack CPUs or memory."""
    label, missing = gpu_label(host, gpu), " or ".join(dict.fromkeys(word for node in near for word in lacks(node)))
    what = f"{label}: {_named([node.id for node in near])} near it has no {missing}"
    usable = usable_nodes(host)
    if not usable:
        raise PlacementError(f"{what}, and no node is known to have both CPUs and memory")
    ranked = {i: min(told) for i in (node.id for node in usable) if (told := _told(near, i))}
    if len(ranked) < len(usable) and len(usable) > 1:
        raise UnknownNodeError(f"{what}, and how far the others are is not told (numactl --hardware tells)")
    nearest = min(ranked, key=lambda i: (ranked[i], i), default=usable[0].id)
    how = f"the nearest with both (distance {ranked[nearest]})" if nearest in ranked else "the only one with both"
    source = f"/sys/devices/system/node/node{near[0].id}/cpulist"
    reason = Reason(text=f"{what}; node {nearest} is {how}", source=source, value=near[0].cpus or "(empty)")
    return Place(nodes=(nearest,), reason=reason, warnings=(reason.text,))


def _far(host: Host, place: Place, reach: Reach) -> Place:
    nodes = nodes_by_id(host)
    others = [node for node in host.numa_nodes if node.id not in place.nodes and reach.is_home(node)]
    if not others:
        raise PlacementError(
            f"no far arm: besides {_named(place.nodes)} no node can be bound to (CPUs, memory, cpuset)"
        )
    packages = {nodes[i].package for i in place.nodes} | {None}
    elsewhere = [node for node in others if node.package not in packages]
    pool = elsewhere or others
    ranked = {node.id: min(told) for node in pool if (told := _told([nodes[i] for i in place.nodes], node.id))}
    if len(ranked) < len(pool) and len(pool) > 1:
        raise UnknownNodeError(f"no far arm: how far nodes are from {_named(place.nodes)} is not told")
    farthest = max(ranked, key=lambda i: (ranked[i], -i), default=pool[0].id)
    distance = f"distance {ranked[farthest]}" if farthest in ranked else "distance not told"
    source = f"/sys/devices/system/node/node{place.nodes[0]}/distance"
    text = f"{place.reason.text}; the far arm is node {farthest} ({distance})"
    same = nodes[farthest].package is not None and nodes[farthest].package in packages
    doubt = (f"far arm: node {farthest} is on the same package as {_named(place.nodes)}",) if same else ()
    return Place(
        nodes=(farthest,),
        reason=Reason(text=text, source=source, value=distance),
        assumed=place.assumed,
        warnings=place.warnings + doubt,
    )


def _told(near: Sequence[NumaNode], far: int) -> list[int]:
    """Return the known distances from nodes to another."""
    return [distance for node in near if (distance := node.distances.get(str(far))) is not None]


def _evidence(host: Host, gpu: Gpu, text: str) -> Reason:
    """Quote sysfs where it says so; what only a driver or a matrix told has no file to quote."""
    function = Tree(host).function(gpu.bdf)
    if function is None or function.numa_node is None or function.numa_node != gpu.numa_node:
        return Reason(text=text)
    return Reason(text=text, source=sysfs(gpu.bdf, "numa_node"), value=str(function.numa_node))


def _named(ids: Sequence[int]) -> str:
    return f"node{'s' if len(ids) > 1 else ''} {format_cpulist(ids)}"
