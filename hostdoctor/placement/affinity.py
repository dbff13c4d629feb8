"""Nodes that no source lists but whose CPUs a driver or a matrix names as near a GPU."""

import msgspec

from hostdoctor.diagnosis.subjects import near_nodes, nodes_by_id
from hostdoctor.facts import Host, NumaNode
from hostdoctor.parsers.cpulist import shared_cpus


def with_near_cpus(host: Host) -> tuple[Host, frozenset[int]]:
    """Return the host with the CPUs of nodes that only its GPUs tell, and which nodes those are.

    A node counts where all GPUs near it alone name the same CPUs and no other node has any of them.
    """
    listed = nodes_by_id(host)
    told: dict[int, set[str]] = {}
    for gpu in host.gpus:
        if len(near_nodes(gpu)) == 1 and gpu.cpus:
            told.setdefault(near_nodes(gpu)[0], set()).add(gpu.cpus)
    untold = {i: ",".join(cpus) for i, cpus in told.items() if _is_untold(listed.get(i))}
    shared = shared_cpus({node.id: node.cpus for node in host.numa_nodes if node.cpus} | untold)
    clear = {i: cpus for i, cpus in untold.items() if len(told[i]) == 1 and i not in shared}
    records = listed | {
        i: msgspec.structs.replace(listed.get(i, NumaNode(id=i)), cpus=cpus) for i, cpus in clear.items()
    }
    return msgspec.structs.replace(host, numa_nodes=tuple(records[i] for i in sorted(records))), frozenset(clear)


def _is_untold(node: NumaNode | None) -> bool:
    return node is None or (node.cpus is None and node.kind is None)
