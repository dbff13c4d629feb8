from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Skip, check, in_scope, needs
from hostdoctor.diagnosis.narrow import narrow_findings
from hostdoctor.diagnosis.nearby import device_label, nearby_devices
from hostdoctor.diagnosis.paths import Tree, physical_ports
from hostdoctor.facts import Host


@check("HD212", "nic-or-nvme-link-narrow", "warning", needs=(physical_ports,))
def nic_or_nvme_link_narrow(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find NICs and NVMe drives whose PCIe link came up with fewer lanes than both of its ends have.

    ## What it checks
    As HD201, for the own links of NICs and NVMe drives: all of them when every GPU of the host is in scope, else those
    of the scope's root complexes and nodes. Uplinks of GPUs are HD201's. Virtual functions and fabrics are not judged.

    ## Why it matters
    A drive at x2 loads models and KV blocks at half its rate, a NIC at x8 halves what one rank can send: the slowest of
    several sets the pace.

    ## Remedy
    Reseat the card, drive or cable; check the slot's lane setting in the BIOS; if the width follows the device, replace
    it.

    ## References
    - https://docs.kernel.org/admin-guide/abi-testing.html (current_link_width, max_link_width)
    """
    tree = Tree(host)
    shared = {hop for gpu in in_scope(host, ask) for hop in tree.hops(gpu)}
    devices = nearby_devices(host, ask)
    own = {device_label(host, device): tree.hops(device)[-1] for device in devices if tree.hops(device)}
    own = {label: hop for label, hop in own.items() if hop not in shared}
    yield from narrow_findings(((label, hop, True) for label, hop in own.items()), "warning")
    if not any(hop.is_judged for hop in own.values()):
        yield (
            Skip(kind="no-evidence", reason="no NIC's or drive's link is known")
            if devices or not host.pci_devices
            else needs.none_known(host, "no NIC or NVMe drive in scope", "nics", "nvme")
        )
