from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.diagnosis.needs import nvme
from hostdoctor.diagnosis.subjects import cpuset
from hostdoctor.facts import Host, NvmeQueue

KERNEL = "Usually the kernel alone places these interrupts: check isolcpus=managed_irq and CPUs taken offline."
MOVE = "Write each queue's CPU list to its smp_affinity_list and keep irqbalance off these interrupts."
SHOWN = 4  # queues quoted


@check("HD404", "nvme-irq-off-node", "info", needs=(nvme,))
def nvme_irq_off_node(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find NVMe queues whose interrupt lands on a CPU that does not use the queue.

    ## What it checks
    Each queue's effective interrupt CPU against its CPU list, unless its CPUs are all offline. A warning outside the
    queue's nodes, where the kernel does not manage the interrupt; never in a container.

    ## Why it matters
    The completion runs on a foreign CPU and has to wake the submitter across the host.

    ## Remedy
    Managed interrupts cannot be moved (EIO): look for CPU isolation or offline CPUs. Others can be moved back.

    ## References
    - https://docs.kernel.org/admin-guide/kernel-parameters.html (isolcpus, managed_irq)
    """
    node_of = {cpu: node.id for node in host.numa_nodes for cpu in cpuset(node.cpus) or ()}
    drives = [(str(drive.name or drive.bdf), drive.queues_irq_managed is False, drive.queues) for drive in host.nvme]
    judged = [(name, free, q) for name, free, queues in drives for q in queues if _is_told(q)]
    if not judged:
        yield Skip(kind="no-evidence", reason="no queue's interrupt CPU is known")
    for free in (True, False):
        stray = [(name, q) for name, movable, q in judged if movable is free and _stray(q, node_of)]
        bad = free and not host.system.container and any(_off_node(q, node_of) for _, q in stray)
        undo = "Write the old affinity back." if free else "None needed."
        if stray:
            yield finding(
                ", ".join(dict.fromkeys(name for name, _ in stray)),
                f"NVMe interrupts land outside their queue's CPUs: {len(stray)} of {len(judged)} queues",
                "warning" if bad else "info",
                evidence=[_seen(name, q) for name, q in stray[:SHOWN]],
                remedy=Remedy(text=MOVE if free else KERNEL, undo=undo, verify="The two lists of each queue overlap."),
            )


def _is_told(q: NvmeQueue) -> bool:
    return bool(cpuset(q.cpus) and cpuset(q.irq_cpus))


def _stray(q: NvmeQueue, node_of: dict[int, int]) -> bool:
    users, lands = cpuset(q.cpus) or frozenset(), cpuset(q.irq_cpus) or frozenset()
    return not lands <= users and not (node_of and users.isdisjoint(node_of))


def _off_node(q: NvmeQueue, node_of: dict[int, int]) -> bool:
    users, lands = ({node_of.get(cpu) for cpu in cpuset(cpus) or ()} for cpus in (q.cpus, q.irq_cpus))
    return not (lands <= users and None not in users)


def _seen(name: str, q: NvmeQueue) -> tuple[str, str]:
    return f"/proc/irq/{q.irq or '*'}/effective_affinity_list", f"{q.irq_cpus}; {name} queue {q.id} serves {q.cpus}"
