from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope, needs
from hostdoctor.diagnosis.nodes import distances_to, lacks, usable_nodes
from hostdoctor.diagnosis.subjects import FAR_NODE_EFFECT, brief, gpu_labels, near_nodes, nodes_by_id
from hostdoctor.facts import Gpu, Host, NumaNode


@check("HD104", "gpu-node-without-cpus-or-memory", "warning", needs=(needs.gpus,))
def gpu_node_without_cpus_or_memory(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find GPUs whose near node has no CPUs or no memory.

    ## What it checks
    The near node of each GPU in scope: a node whose CPU list is empty or whose MemTotal is 0. A node without memory is
    critical on bare metal, where it means missing DIMMs. The node that a GPU's own memory forms is not judged.

    ## Why it matters
    Binding to such a node fails (no memory) or is refused (no CPUs), so every process of this GPU works from afar.

    ## Remedy
    Populate or re-enable the socket's DIMMs and cores. Until then bind to the nearest node that has both.

    ## References
    - https://docs.kernel.org/admin-guide/mm/numaperf.html
    """
    nodes = nodes_by_id(host)
    lacking: dict[int, list[Gpu]] = {}
    judged = False
    for gpu in in_scope(host, ask):
        near = [nodes[i] for i in near_nodes(gpu) if i in nodes and i != gpu.memory_numa_node]
        near = [node for node in near if node.kind != "gpu-memory"]
        judged = judged or bool(near)
        if near and all(lacks(node) for node in near):
            lacking.setdefault(near[0].id, []).append(gpu)
    if not judged:
        yield Skip(kind="no-evidence", reason="no GPU's near node is known")
    for node_id, gpus in lacking.items():
        node, labels = nodes[node_id], gpu_labels(host, gpus)
        what = " and ".join(lacks(node))
        instead = _nearest_usable(node, host)
        broken = "memory" in lacks(node) and not host.system.virtualization
        yield finding(
            ", ".join(labels),
            f"{brief(labels)}: near node {node_id} has no {what}; {instead or 'no other node is known to have both'}",
            "critical" if broken else "warning",
            evidence=[
                (f"/sys/devices/system/node/node{node_id}/cpulist", node.cpus or "(empty)"),
                (f"/sys/devices/system/node/node{node_id}/meminfo MemTotal", _bytes(node.memory_bytes)),
            ],
            effect=FAR_NODE_EFFECT,
            remedy=Remedy(
                text=f"Populate or re-enable the {what} of node {node_id}'s socket; until then bind elsewhere: "
                + (instead or "no usable node is known")
                + ".",
                risk="reboot",
                undo="None needed.",
                verify="numactl --hardware shows CPUs and memory on every near node.",
            ),
        )


def _bytes(size: int | None) -> str:
    return "not told" if size is None else f"{size} bytes"


def _nearest_usable(node: NumaNode, host: Host) -> str | None:
    usable = usable_nodes(host)
    for nearest, distance in distances_to(node, usable).items():
        if distance is not None:
            return f"nearest usable: node {nearest} (distance {distance})"
        return "usable: " + ", ".join(f"node {other.id}" for other in usable) + " (distances not told)"
    return None
