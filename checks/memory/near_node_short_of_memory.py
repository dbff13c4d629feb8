from collections.abc import Iterable

from hostdoctor.budget.available import node_available
from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.diagnosis.needs import gpus, memory_plan
from hostdoctor.diagnosis.planned import planned_ranks
from hostdoctor.facts import Host
from hostdoctor.outputs.words import gib

MEMINFO = "/sys/devices/system/node/node{}/meminfo"


@check("HD303", "near-node-short-of-memory", "warning", needs=(gpus, memory_plan))
def near_node_short_of_memory(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Warn that the node near the GPUs cannot hold what a plan pins there.

    ## What it checks
    For each node, the parts of `--cpu-offload-gib` and `--kv-offload-gib` of the GPUs near it against what the node has
    left by the kernel's own rule (MemAvailable, for one node), less memory that cannot be pinned (movable zones, CMA).
    Sizes count as asked for; allocators round up. `hostdoctor budget` also keeps a page cache and a reserve.

    ## Why it matters
    A process bound to the node (`--membind`) first drops the node's page cache, which stalls it, and is killed when
    that is not enough, with memory free on other nodes. Unbound, the rest lands on a far node and stays there: pinned
    pages do not move.

    ## Remedy
    Plan less for this node, or spread the GPUs. For a service prefer the node (`--preferred`) instead of binding to it.

    ## References
    - https://docs.kernel.org/admin-guide/mm/numa_memory_policy.html
    - https://docs.kernel.org/filesystems/proc.html#meminfo
    """
    ranks = planned_ranks(host, ask)
    unknown = next((rank.reason for rank in ranks if rank.node is None), None)
    short = []
    for node in host.numa_nodes:
        planned = sum(rank.weights_bytes + rank.kv_bytes for rank in ranks if rank.node == node.id)
        left = node_available(node)
        if planned and left.pinnable_bytes is None:
            unknown = unknown or left.reason
        elif left.pinnable_bytes is not None and planned > left.pinnable_bytes:
            short.append((node.id, left.pinnable_bytes, planned))
    if short:
        nodes = ", ".join(f"node {node}" for node, _, _ in short)
        words = "; ".join(f"node {node} has {gib(left)}, the plan puts {gib(plan)} there" for node, left, plan in short)
        yield finding(
            nodes,
            f"Less memory near the GPUs than is to be pinned: {words}",
            "warning",
            evidence=[(f"{MEMINFO.format(node)}, /proc/zoneinfo", f"{left} bytes") for node, left, _ in short],
            effect="reclaim stalls; bound to the node the process is killed while other nodes have memory",
            remedy=Remedy(
                text="Plan less (hostdoctor budget says how much), or use --preferred instead of --membind.",
                risk="restart",
                scope="process",
                undo="Go back to the former sizes.",
                verify="hostdoctor budget with the new sizes exits 0.",
            ),
        )
    elif unknown:
        yield Skip(kind="no-evidence", reason=unknown)
