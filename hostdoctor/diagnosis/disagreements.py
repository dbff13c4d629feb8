"""Where sources place a GPU differently: the kept disagreements that still count, and their values as evidence."""

from collections.abc import Iterator

from hostdoctor.diagnosis.api import gpu_label
from hostdoctor.diagnosis.subjects import cpuset, online_cpus, sysfs
from hostdoctor.facts import Disagreement, Host


def placements(host: Host, position: int) -> tuple[Disagreement, ...]:
    """Return the disagreements on the NUMA node and the CPUs of ``host.gpus[position]``, and of its node, that count.

    CPU lists count only where they differ on CPUs that are online and allowed.
    """
    bdf = host.gpus[position].bdf
    facts = {f"gpus[{position}].numa_node", f"gpus[{position}].cpus", f"pci_devices[{bdf}].numa_node"}
    facts |= {f"numa_nodes[{node}].cpus" for node in host.gpus[position].numa_nodes}
    return tuple(d for d in host.disagreements if d.fact in facts and _counts(host, d))


def quoted(host: Host, position: int, disagreement: Disagreement) -> Iterator[tuple[str, object]]:
    """Yield every value with where it was seen."""
    gpu = host.gpus[position]
    field = disagreement.fact.rpartition(".")[2]
    subject = gpu_label(host, gpu) if not disagreement.fact.startswith("numa_nodes") else disagreement.fact
    for source, value in disagreement.values.items():
        if source == "sysfs" and gpu.bdf and not disagreement.fact.startswith("numa_nodes"):
            yield sysfs(gpu.bdf, "numa_node" if field == "numa_node" else "local_cpulist"), value
        else:
            yield f"{source}: {field} of {subject}", value


def _counts(host: Host, disagreement: Disagreement) -> bool:
    told = {cpuset(str(value)) for value in disagreement.values.values() if value is not None} - {None, frozenset()}
    sets = {ids for ids in told if ids is not None}
    if disagreement.fact.endswith(".cpus"):
        for usable in (online_cpus(host), cpuset(host.allowed.cpus)):
            sets = {ids & usable for ids in sets} if usable is not None else sets
    return len(sets) > 1
