from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, needs
from hostdoctor.diagnosis.subjects import FAR_NODE_EFFECT, brief, gpu_labels, near_nodes, positions, sysfs
from hostdoctor.facts import Gpu, Host


@check("HD101", "gpu-numa-unknown", "warning", needs=(needs.gpus, needs.several_cpu_nodes))
def gpu_numa_unknown(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find GPUs whose NUMA node no source gives, on a host with several CPU nodes.

    ## What it checks
    GPUs in scope for which the kernel says -1, and the driver and `nvidia-smi topo -m` say N/A or name every node that
    has CPUs. That is unknown, never node 0. It is information in a virtual machine, where only the hypervisor can tell.

    ## Why it matters
    Half of the guesses put a process and its pinned memory on the far socket. Published copies from there range from no
    difference to 3.2 times slower; measure before you care.

    ## Remedy
    Update the firmware, whose ACPI tables must give each root bridge a proximity domain (`_PXM`). In a virtual machine
    ask for a guest topology that shows nodes and root complexes. Until then copy bandwidth
    measured from each node (numactl) shows which is near. Never write `numa_node`: it taints the kernel.

    ## References
    - https://docs.kernel.org/admin-guide/abi-testing.html (sysfs-bus-pci, numa_node)
    - https://github.com/mpicbg-scicomp/gearshifft/pull/82, https://github.com/ROCm/rocm_bandwidth_test/issues/129
    """
    unknown = [i for i in positions(host, ask) if not needs.node_known(host, host.gpus[i])]
    gaps = {i: [gap for gap in host.gaps if gap.fact == f"gpus[{i}].numa_node"] for i in unknown}
    lost = [i for i in unknown if not gaps[i] or any(gap.kind != "missing" for gap in gaps[i])]
    untold = gpu_labels(host, (host.gpus[i] for i in unknown if i not in lost))
    if untold:
        yield Skip(kind="no-evidence", reason=f"{brief(untold)}: no source was there that could tell the NUMA node")
    if not lost:
        return
    guest = host.system.virtualization
    labels = gpu_labels(host, (host.gpus[i] for i in lost))
    evidence: list[tuple[str, object]] = []
    for i, label in zip(lost, labels, strict=True):
        evidence += [(f"{gap.source}: numa_node of {label}", gap.reason) for gap in gaps[i]] or [
            (sysfs(host.gpus[i].bdf, "numa_node"), _told(host.gpus[i]))
        ]
    yield finding(
        ", ".join(labels),
        f"{brief(labels)}: NUMA node unknown, with {len(needs.cpu_nodes(host))} CPU nodes",
        "info" if guest else "warning",
        evidence=evidence,
        effect=FAR_NODE_EFFECT,
        remedy=Remedy(
            text="Only the hypervisor knows: ask for a guest with vNUMA and PCIe locality; until then compare copy"
            " bandwidth from each node (numactl)."
            if guest
            else "Update the firmware (ACPI _PXM of the root bridges); until then compare copy bandwidth"
            " from each node (numactl). Never write numa_node.",
            risk="none" if guest else "reboot",
            undo="None needed.",
            verify="hostdoctor topo shows the GPU below a node.",
        ),
    )


def _told(gpu: Gpu) -> str:
    every = ", ".join(map(str, near_nodes(gpu)))
    return f"sources name every CPU node ({every}), which tells none" if every else "no source tells it"
