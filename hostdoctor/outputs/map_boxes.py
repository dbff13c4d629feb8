"""Which boxes the picture of a map has: one for each NUMA node that holds something, and what is said of it."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from hostdoctor.facts import Host, NumaNode
from hostdoctor.outputs.map_tree import Leaf
from hostdoctor.outputs.topo_text import group_title
from hostdoctor.outputs.words import gib, printable
from hostdoctor.parsers.cpulist import format_cpulist


def boxes_of(host: Host, devices: Sequence[Leaf]) -> list[tuple[list[str], list[Leaf]]]:
    """Return what gets a box of its own: a heading's lines and the devices in it."""
    near: dict[tuple[int, ...], list[Leaf]] = {}
    for leaf in devices:
        near.setdefault(leaf.nodes, []).append(leaf)
    nodes = [(node, near.pop((node.id,), [])) for node in host.numa_nodes]
    is_placed = bool(devices) and () not in near
    own = [
        (_node_heading(node, is_bare=is_placed and not leaves), leaves)
        for node, leaves in nodes
        if leaves or _has_cpus(node)
    ]
    own += [([group_title(ids)], leaves) for ids, leaves in sorted(near.items())]
    bare = [node for node, leaves in nodes if not leaves and not _has_cpus(node)]
    own += [(["Memory without CPUs", *_bare_lines(bare, host)], [])] if bare else []
    return own or [(["Nothing is known of this host's nodes and devices"], [])]


def _has_cpus(node: NumaNode) -> bool:
    return node.kind in ("cpu+memory", "cpu-only", None)


def _node_heading(node: NumaNode, *, is_bare: bool) -> list[str]:
    package = "" if node.package is None else f" · package {node.package}"
    cpus = "CPUs not told" if node.cpus is None else f"CPUs {printable(node.cpus)}" if node.cpus else "no CPUs"
    memory = "memory not told" if node.memory_bytes is None else gib(node.memory_bytes)
    lines = [f"NUMA node {node.id}{package}", f"{memory} · {cpus}"]
    far = [f"{printable(other)}: {value}" for other, value in node.distances.items() if other != str(node.id)]
    if far and len(node.distances) <= 8:
        lines.append(f"distance to node {', '.join(far)}")
    return [*lines, "no GPU, NIC or drive is near this node"] if is_bare else lines


def _bare_lines(nodes: list[NumaNode], host: Host) -> Iterator[str]:
    owners = {gpu.memory_numa_node: gpu for gpu in host.gpus if gpu.memory_numa_node is not None}
    for is_empty, run in groupby(nodes, lambda node: node.kind == "empty"):
        alike = list(run)
        if is_empty:
            yield f"NUMA node{'s' if len(alike) > 1 else ''} {format_cpulist(n.id for n in alike)}: empty"
            continue
        for node in alike:
            gpu = owners.get(node.id)
            whose = "memory alone" if gpu is None else f"memory of GPU{'?' if gpu.index is None else gpu.index}"
            yield f"NUMA node {node.id}: {whose}, {gib(node.memory_bytes)}"
