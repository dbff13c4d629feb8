from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Skip, check, in_scope, needs
from hostdoctor.diagnosis.api import gpu_label
from hostdoctor.diagnosis.narrow import narrow_findings
from hostdoctor.diagnosis.paths import Tree, on_pcie, pcie_links, physical_ports
from hostdoctor.diagnosis.subjects import brief, gpu_labels
from hostdoctor.facts import Host


@check("HD201", "gpu-link-narrow", "critical", needs=(needs.gpus, physical_ports, pcie_links))
def gpu_link_narrow(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find GPUs behind a PCIe link that came up with fewer lanes than both of its ends have.

    ## What it checks
    The negotiated width of every link between a GPU in scope and the CPU against the smaller maximum of the link's two
    ends, switch uplinks included. Speed falls while idle and is not looked at; a few cards drop lanes too, so read the
    width again under load before opening the case. Not judged: virtual machines, chip-to-chip GPUs, unknown widths,
    and desktop ports that state more lanes than the board wires.

    ## Why it matters
    Lanes are lost to a badly seated card, a damaged contact, a bad riser or cable. Bandwidth to the host, to NICs and
    over PCIe peer-to-peer falls with the lanes, and the link may fail altogether.

    ## Remedy
    Read it again under load. If it stays, reseat card, riser and cables; check the slot's lane setting (bifurcation) in
    the BIOS. If the width follows the card, replace the card, else the riser or board.

    ## References
    - https://docs.kernel.org/admin-guide/abi-testing.html (current_link_width, max_link_width)
    - https://github.com/NVIDIA/NVSentinel/issues/890
    """
    tree = Tree(host)
    gpus = on_pcie(host, in_scope(host, ask))
    paths = [(gpu, tree.hops(gpu)) for gpu in gpus]
    yield from narrow_findings(
        ((gpu_label(host, gpu), hop, hop is hops[-1]) for gpu, hops in paths for hop in hops), "critical"
    )
    unknown = [gpu for gpu, hops in paths if not hops or not hops[-1].is_judged]
    if unknown:
        labels = brief(gpu_labels(host, unknown))
        yield Skip(kind="no-evidence", reason=f"{labels}: link width, or what its port can do, is not known")
