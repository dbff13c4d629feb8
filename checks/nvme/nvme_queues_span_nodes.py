from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.diagnosis.needs import nvme, several_cpu_nodes
from hostdoctor.diagnosis.subjects import cpuset
from hostdoctor.facts import Host


@check("HD403", "nvme-queues-span-nodes", "info", needs=(nvme, several_cpu_nodes))
def nvme_queues_span_nodes(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find NVMe queues that serve CPUs of more than one NUMA node.

    ## What it checks
    The CPU list of each I/O queue against the nodes' CPUs. A drive with fewer queues than the host has CPUs shares its
    queues; that is normal and said so.

    ## Why it matters
    CPUs of two nodes then write one submission queue, and completions land on one of the nodes: cache lines and
    interrupts cross the socket link. The effect is small beside the drive's own latency.

    ## Remedy
    Usually nothing: the drive or the cloud decides how many queues there are. Run what reads the drive on one node.

    ## References
    - https://docs.kernel.org/block/blk-mq.html
    """
    node_of = {cpu: node.id for node in host.numa_nodes for cpu in cpuset(node.cpus) or ()}
    queues = {str(drive.name or drive.bdf): [q for q in drive.queues if cpuset(q.cpus)] for drive in host.nvme}
    wide = {
        name: [q for q in known if len({node_of[cpu] for cpu in cpuset(q.cpus) or () if cpu in node_of}) > 1]
        for name, known in queues.items()
    }
    drives = {name: spanning for name, spanning in wide.items() if spanning}
    if not any(queues.values()):
        yield Skip(kind="no-evidence", reason="no queue's CPU list is known")
    if not drives:
        return
    fewer = all(len(queues[name]) < len(node_of) for name in drives)
    yield finding(
        ", ".join(drives),
        "NVMe queues serve CPUs of several nodes: "
        + ", ".join(f"{name} {len(spanning)} of {len(queues[name])}" for name, spanning in drives.items())
        + (f" (normal: fewer queues than the host's {len(node_of)} CPUs)" if fewer else ""),
        "info",
        evidence=[
            (f"/sys/class/nvme/{name}/nvme*/mq/*/cpu_list", f"queue {spanning[0].id}: {spanning[0].cpus}")
            for name, spanning in drives.items()
        ],
        remedy=Remedy(
            text="Usually nothing to do. Keep the process that reads the drive on one node.",
            scope="process",
            undo="None needed.",
            verify="Compare fio read latency with numactl on each node.",
        ),
    )
