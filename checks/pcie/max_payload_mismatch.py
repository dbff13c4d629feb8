from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, check, finding, in_scope, needs
from hostdoctor.diagnosis.nearby import device_label, nearby_devices
from hostdoctor.diagnosis.paths import Device, Tree, on_pcie, physical_ports
from hostdoctor.diagnosis.report import Skip
from hostdoctor.diagnosis.subjects import brief, sysfs
from hostdoctor.facts import Host


@check("HD208", "max-payload-mismatch", "info", needs=(physical_ports,))
def max_payload_mismatch(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find PCIe paths on which devices and bridges are set to different maximal payload sizes.

    ## What it checks
    The maximal payload size of every function from the root port to each GPU in scope and the NICs and drives near
    it; reading it needs root. The maximal read request size is each requester's own and is not compared.

    ## Why it matters
    A function that is sent a larger packet than it is set for reports a malformed packet, which is fatal; a smaller
    size than the path could carry costs a few per cent to packet headers. Firmware sets both alike as a rule.

    ## Remedy
    Update the firmware, or let the kernel set it (`pci=pcie_bus_safe`).

    ## References
    - https://docs.kernel.org/admin-guide/kernel-parameters.html (pci=pcie_bus_safe)
    """
    tree = Tree(host)
    devices: list[Device] = [*on_pcie(host, in_scope(host, ask)), *nearby_devices(host, ask)]
    mixed: dict[str, dict[str, int]] = {}
    known = False
    for device in devices:
        path = (*tree.upstream(device), device.bdf or "")
        sizes = {bdf: f.max_payload_bytes for bdf in path if (f := tree.function(bdf)) and f.max_payload_bytes}
        known = known or len(sizes) > 1
        if len(set(sizes.values())) > 1:
            mixed[device_label(host, device)] = sizes
    if not devices:
        yield needs.none_known(host, "no GPU, NIC or NVMe drive in scope", "gpus", "nics", "nvme")
    elif mixed:
        every = {bdf: size for sizes in mixed.values() for bdf, size in sizes.items()}
        yield finding(
            ", ".join(mixed),
            f"{brief(list(mixed))}: maximal payload differs along the path"
            f" ({', '.join(map(str, sorted(set(every.values()))))} bytes)",
            "info",
            evidence=[(sysfs(bdf, "config") + " maximal payload", f"{size} bytes") for bdf, size in every.items()],
            effect="a few per cent of bandwidth where a part is set lower; effect unknown otherwise",
            remedy=Remedy(
                text="Update the firmware, or boot with pci=pcie_bus_safe, if errors or a loss were measured.",
                risk="reboot",
                undo="Boot without the option.",
                verify="lspci -vv as root shows one MaxPayload in DevCtl along the path.",
            ),
        )
    elif not known:
        yield needs.configuration(host, "the maximal payload size along the paths")
