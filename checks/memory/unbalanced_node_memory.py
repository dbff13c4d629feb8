from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope
from hostdoctor.diagnosis.needs import several_cpu_nodes
from hostdoctor.facts import Host

GIB = 1 << 30


@check("HD305", "unbalanced-node-memory", "warning", needs=(several_cpu_nodes,))
def unbalanced_node_memory(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Compare the amounts of memory of the CPU nodes.

    ## What it checks
    The memory of the nodes that have CPUs: the smallest is more than 10 % below the largest. Memory-only and GPU memory
    nodes are not compared. A near node without any memory is HD104's.

    ## Why it matters
    A missing or disabled DIMM costs bandwidth and room on one side only: what is bound there fills up first and is
    reclaimed or killed, while the same service fits on the other side.

    ## Remedy
    Look for missing or disabled DIMMs and populate the sockets alike. Until then plan with the smaller node. In a
    virtual machine the sizes are the hypervisor's choice.

    ## References
    - https://docs.kernel.org/admin-guide/mm/numaperf.html
    """
    near = {node for gpu in in_scope(host, ask) for node in (gpu.numa_node, *gpu.numa_nodes)}
    sizes = {n.id: n.memory_bytes for n in host.numa_nodes if n.cpus and not (n.memory_bytes == 0 and n.id in near)}
    known = {node: size for node, size in sizes.items() if size is not None}
    largest = max(known.values(), default=0)
    small = [node for node, size in known.items() if (largest - size) * 10 > largest]
    if small:
        told = all(gap.fact != "system.virtualization" for gap in host.gaps)
        virtual = host.system.virtualization is not None
        yield finding(
            ", ".join(f"node {node}" for node in small),
            "CPU nodes have unlike memory: "
            + ", ".join(f"node {node} {size / GIB:.1f} GiB" for node, size in known.items()),
            "warning" if told and not virtual else "info",
            evidence=[(f"numactl --hardware, node {node} size", f"{size >> 20} MB") for node, size in known.items()],
            effect=f"up to {(largest - min(known.values())) / GIB:.1f} GiB less room on the smaller side",
            remedy=Remedy(
                text="Ask for evenly sized nodes in the virtual machine's definition."
                if virtual
                else "Look for missing or disabled DIMMs (dmidecode -t memory, as root) and populate the nodes alike.",
                risk="reboot",
                undo="None needed.",
                verify="numactl --hardware shows sizes within 10 %.",
            ),
        )
    elif len(known) < len(sizes):
        yield Skip(kind="no-evidence", reason="the memory of a CPU node is not known")
