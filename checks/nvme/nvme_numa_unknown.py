from collections.abc import Container, Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.diagnosis.needs import nvme, several_cpu_nodes
from hostdoctor.facts import Host, NvmeController


@check("HD401", "nvme-numa-unknown", "warning", needs=(nvme, several_cpu_nodes))
def nvme_numa_unknown(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find NVMe drives for which the kernel knows no NUMA node on a host with several CPU nodes.

    ## What it checks
    PCIe drives whose `numa_node` is -1. A drive whose node no source was asked for is not judged. A warning needs bare
    metal known as such and a drive that does not hold `/`; otherwise it is information.

    ## Why it matters
    -1 means unknown, not node 0: nothing can say which GPUs the drive is near, and tools that read -1 as 0 place its
    users on the wrong side.

    ## Remedy
    Update the firmware (its ACPI tables must give the root bridge a proximity domain) or move the drive to a slot of
    another root bridge. In a virtual machine only the hypervisor can tell. Never write numa_node: it taints the kernel.

    ## References
    - https://docs.kernel.org/admin-guide/abi-testing.html (sysfs-bus-pci, numa_node)
    """
    named = [(i, drive.name, drive) for i, drive in enumerate(host.nvme) if drive.name and drive.bdf]
    unknown = [(i, name, drive) for i, name, drive in named if drive.numa_node is None]
    told = {gap.fact: gap for gap in host.gaps if "-1" in gap.reason}
    lost = {name: told[f"nvme[{i}].numa_node"] for i, name, _ in unknown if f"nvme[{i}].numa_node" in told}
    if not lost:
        names = ", ".join([*(name for _, name, _ in unknown), *_untold(host, told.keys())])
        yield from [Skip(kind="no-evidence", reason=f"no source tells the node of {names}")] if names else []
        return
    data = any(name in lost and not _holds_root(host, drive) for _, name, drive in unknown)
    guest = host.system.virtualization or host.system.container
    metal = not guest and all(gap.fact != "system.virtualization" for gap in host.gaps)
    yield finding(
        ", ".join(lost),
        f"NVMe drives without a NUMA node: {len(lost)} of {len(named)}" + ("" if data else " (boot drives only)"),
        "warning" if metal and data else "info",
        evidence=[(f"{gap.source}: numa_node of {name}", gap.reason) for name, gap in lost.items()],
        remedy=Remedy(
            text="Only the host below knows: compare fio runs bound to each node with numactl."
            if guest
            else "Update the firmware, or move the drive below another root bridge; never write numa_node.",
            risk="none" if guest else "reboot",
            undo="None needed.",
            verify="numa_node below /sys/class/nvme/nvme*/device shows a node.",
        ),
    )


def _untold(host: Host, told: Container[str]) -> Iterable[str]:
    """Yield the addresses of drives without a name, so without a driver or in a list alone, whose node nobody told."""
    for i, drive in enumerate(host.nvme):
        if drive.name is None and drive.bdf and drive.numa_node is None and f"nvme[{i}].numa_node" not in told:
            yield drive.bdf


def _holds_root(host: Host, drive: NvmeController) -> bool:
    return any("/" in disk.holds for disk in host.block_devices if disk.name in drive.namespaces)
