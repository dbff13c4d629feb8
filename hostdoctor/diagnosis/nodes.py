"""Which NUMA nodes a process can live on, and how far they are from each other."""

from collections.abc import Iterable

from hostdoctor.facts import Host, NumaNode

WITHOUT_CPUS = ("memory-only", "gpu-memory", "empty")
WITHOUT_MEMORY = ("cpu-only", "empty")


def lacks(node: NumaNode) -> list[str]:
    """Return which of CPUs and memory a node is known not to have."""
    cpus = node.cpus == "" or node.kind in WITHOUT_CPUS
    memory = node.memory_bytes == 0 or node.kind in WITHOUT_MEMORY
    return ["CPUs"] * cpus + ["memory"] * memory


def usable_nodes(host: Host) -> tuple[NumaNode, ...]:
    """Return the nodes that are known to have both CPUs and memory of the CPUs' own."""
    return tuple(node for node in host.numa_nodes if node.cpus and node.memory_bytes and not lacks(node))


def distances_to(node: NumaNode, others: Iterable[NumaNode]) -> dict[int, int | None]:
    """Return how far other nodes are, nearest first, equal ones by id; None and last where the distance is not told."""
    told = {other.id: node.distances.get(str(other.id)) for other in others}
    return dict(sorted(told.items(), key=lambda pair: (pair[1] is None, pair[1] or 0, pair[0])))
