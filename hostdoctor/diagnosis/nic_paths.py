"""How far a GPU's NICs are, by the paths of the map."""

from hostdoctor.diagnosis.api import gpu_label
from hostdoctor.facts import Gpu, Host, Nic

NEAREST_FIRST = ("PIX", "PXB", "PHB", "NODE", "SYS")


def nic_label(nic: Nic) -> str:
    """Return what the map's paths call a NIC."""
    return nic.label or nic.name or nic.bdf or ""


def nic_paths(host: Host, gpu: Gpu) -> dict[str, str]:
    """Return the kind of path (PIX, PXB, PHB, NODE, SYS) from a GPU to each RDMA NIC that a path is known to."""
    labels = {nic_label(nic) for nic in host.nics if nic.rdma} - {""}
    own = gpu_label(host, gpu)
    ends = ((path.kind, {path.a, path.b} - {own}) for path in host.paths if own in (path.a, path.b))
    return {min(far): kind for kind, far in ends if far & labels and kind in NEAREST_FIRST}
