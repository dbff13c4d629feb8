from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope, needs
from hostdoctor.diagnosis.subjects import brief, cpuset, gpu_labels, near_nodes, nodes_by_id, online_cpus
from hostdoctor.facts import Gpu, Host
from hostdoctor.parsers.cpulist import format_cpulist

NAMES = {"cpu.isolated": "isolcpus", "cpu.nohz_full": "nohz_full"}


@check("HD112", "isolated-cpus-overlap", "warning", needs=(needs.gpus,))
def isolated_cpus_overlap(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find CPUs near the GPUs that the boot command line isolates from the scheduler.

    ## What it checks
    `isolcpus` and `nohz_full` CPUs against the CPUs to which a service of the GPUs in scope would be bound: those of
    its near nodes, or all where there is one node. In a container only its own CPU set counts.

    ## Why it matters
    The scheduler does not move threads between isolated CPUs. An engine bound to a set that holds some piles its
    threads up on one of them, or leaves them idle, while the rest of the set is crowded.

    ## Remedy
    Leave the isolated CPUs out of the binding (`numactl --physcpubind` with the others), or take the option off the
    boot command line if nothing on this host needs it.

    ## References
    - https://docs.kernel.org/admin-guide/kernel-parameters.html (isolcpus, nohz_full)
    """
    isolated = {name: cpus for name in NAMES if (cpus := cpuset(host.settings.get(name))) is not None}
    near = _bindable(host, in_scope(host, ask))
    if not isolated or not near:
        missing = "which CPUs are isolated" if not isolated else "which CPUs are near the GPUs"
        yield Skip(kind="no-evidence", reason=f"{missing} is not known")
        return
    allowed = cpuset(host.allowed.cpus)
    if allowed is not None:  # outside a container the inherited mask lacks isolated CPUs, and numactl widens it again
        near &= allowed if host.system.container else allowed.union(*isolated.values())
    overlap = {name: cpus & near for name, cpus in isolated.items() if cpus & near}
    if not overlap:
        return
    labels = gpu_labels(host, in_scope(host, ask))
    shown = "; ".join(f"{NAMES[name]} {format_cpulist(cpus)}" for name, cpus in overlap.items())
    yield finding(
        ", ".join(labels),
        f"{len(frozenset().union(*overlap.values()))} of {len(near)} CPUs near {brief(labels)} are isolated ({shown})",
        "warning",
        evidence=[(f"/sys/devices/system/cpu/{name.partition('.')[2]}", host.settings[name]) for name in overlap]
        + [("CPUs near the GPUs", format_cpulist(near))],
        effect="effect unknown: threads started on an isolated CPU stay there, however busy it is",
        remedy=Remedy(
            text="Bind to the CPUs that are not isolated; or boot without the option if nothing here needs it.",
            risk="isolation",
            scope="process",
            undo="Start with the former binding.",
            verify="The binding and cat /sys/devices/system/cpu/isolated have no CPU in common.",
        ),
    )


def _bindable(host: Host, gpus: Iterable[Gpu]) -> frozenset[int]:
    """Return the CPUs of the GPUs' near nodes; all of them where there is but one node."""
    if needs.one_cpu_node(host):
        return online_cpus(host) or frozenset()
    nodes = nodes_by_id(host)
    told = [cpuset(nodes[i].cpus if i in nodes else None) for gpu in gpus for i in near_nodes(gpu)]
    return frozenset().union(*(cpus for cpus in told if cpus))
