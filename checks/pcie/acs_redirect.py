from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope, needs
from hostdoctor.diagnosis.paths import Device, Tree, on_pcie, pcie_links, physical_ports
from hostdoctor.diagnosis.subjects import brief, gpu_labels, sysfs
from hostdoctor.facts import Host


@check("HD206", "acs-redirect", "info", needs=(needs.gpus, physical_ports, pcie_links))
def acs_redirect(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find PCIe bridges above GPUs that send peer-to-peer traffic up to the CPU first.

    ## What it checks
    The request and completion redirect bits of Access Control Services in the bridges above the GPUs in scope; reading
    them needs root. A warning on bare metal without passthrough devices where such a bridge lies between a GPU and
    another GPU or NIC below one switch.

    ## Why it matters
    With redirection every transfer between two devices below a switch goes up to the root complex and down again:
    slower, and through the uplink that it would have spared. Virtual machines need it for isolation.

    ## Remedy
    Turn ACS off in the BIOS, or boot so that the kernel does not set it (without IOMMU, or with it in passthrough mode
    where vendor and kernel allow). Do not write the bits on a running system: they separate guests.

    ## References
    - https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html (PCI Access Control Services)
    - https://github.com/NVIDIA/nccl/issues/304
    """
    tree = Tree(host)
    scope = on_pcie(host, in_scope(host, ask))
    bridges = {bdf: tree.function(bdf) for gpu in scope for bdf in tree.upstream(gpu)}
    redirecting = [bdf for bdf, bridge in bridges.items() if bridge and bridge.acs_redirects]
    if not redirecting:
        if any(bridge is None or bridge.acs_redirects is None for bridge in bridges.values()) or not bridges:
            yield needs.configuration(host, "whether the bridges above the GPUs redirect peer-to-peer traffic")
        return
    affected = [gpu for gpu in scope if set(tree.upstream(gpu)) & set(redirecting)]
    peers: list[Device] = [*on_pcie(host, in_scope(host, Ask())), *host.nics]
    others = {(peer.bdf, switch) for peer in peers for switch in tree.upstream(peer)[1:2]}
    shared = any(gpu.bdf != bdf and switch in tree.upstream(gpu)[1:] for gpu in affected for bdf, switch in others)
    passthrough = any("vfio" in (device.driver or "") for device in host.pci_devices)
    labels = gpu_labels(host, affected)
    yield finding(
        ", ".join(labels),
        f"{brief(labels)}: {len(redirecting)} of {len(bridges)} bridges above send peer traffic to the CPU first (ACS)"
        + ("; guests use devices here" if passthrough else ""),
        "warning" if shared and not passthrough else "info",
        evidence=[(sysfs(bdf, "config") + " ACS control", "redirect bits set") for bdf in redirecting],
        effect="transfers between devices below one switch pass the root complex; measure with p2pBandwidthLatencyTest",
        remedy=Remedy(
            text="Turn ACS off in the BIOS or by boot options; never while guests use passed-through devices.",
            risk="isolation",
            undo="Restore the BIOS setting or boot options.",
            verify="hostdoctor check --select HD206 as root finds nothing after a reboot.",
        ),
    )
