from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope, needs
from hostdoctor.diagnosis.api import gpu_label
from hostdoctor.diagnosis.nic_paths import NEAREST_FIRST, nic_paths
from hostdoctor.diagnosis.paths import model
from hostdoctor.diagnosis.subjects import brief, gpu_labels
from hostdoctor.facts import Gpu, Host

NEAR = ("PIX", "PXB")


@check("HD109", "nic-missing-near-gpu", "warning", needs=(needs.gpus,))
def nic_missing_near_gpu(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find GPUs without a data NIC below their PCIe switch while GPUs of the same model have one.

    ## What it checks
    The best path (PIX, PXB, PHB, NODE, SYS) from each GPU in scope to any RDMA NIC, against that of the other usable
    GPUs of its model. PIX and PXB stay below the CPU.

    ## Why it matters
    GPUDirect RDMA from such a GPU passes the CPU's root complex, or another socket, on every transfer: collectives
    wait for the slowest rank. A NIC that is missing where the siblings have one has often failed or is disabled.

    ## Remedy
    See whether the NIC is gone (`lspci`, BMC inventory); reseat or replace it. If the board is built so,
    keep these GPUs out of multi-node groups.

    ## References
    - https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html (NCCL_NET_GDR_LEVEL)
    """
    if not any(nic.rdma for nic in host.nics):
        yield needs.no_rdma_nic(host, "no RDMA NIC known")
        return
    scope = in_scope(host, ask)
    every = list(dict.fromkeys((*scope, *in_scope(host, Ask()))))
    nearest = {gpu: way for gpu in every if (way := _nearest(host, gpu)) is not None}
    well_off = {model(host, gpu) for gpu, (kind, _) in nearest.items() if kind in NEAR} - {None}
    lacking = [g for g in scope if g in nearest and nearest[g][0] not in NEAR and model(host, g) in well_off]
    if lacking:
        models = {model(host, gpu) for gpu in lacking}
        siblings = [gpu for gpu, (kind, _) in nearest.items() if kind in NEAR and model(host, gpu) in models]
        names = gpu_labels(host, lacking)
        far = ", ".join(f"{gpu_label(host, gpu)} {nearest[gpu][0]} to {nearest[gpu][1]}" for gpu in lacking)
        yield finding(
            ", ".join(names),
            f"{brief(names)}: no RDMA NIC below the same switch, as {brief(gpu_labels(host, siblings))} have ({far})",
            "warning",
            evidence=[(f"path of {gpu_label(host, gpu)}", f"{kind} to {nic}") for gpu, (kind, nic) in nearest.items()],
            effect="effect unknown: transfers between this GPU and the network pass the CPU",
            remedy=Remedy(
                text="Look for the missing NIC (lspci, BMC inventory), reseat or replace it; if the board is built so,"
                " keep these GPUs out of multi-node groups.",
                risk="reboot",
                undo="None needed.",
                verify="nvidia-smi topo -m shows PIX or PXB to a NIC for every GPU.",
            ),
        )
    elif any(gpu not in nearest for gpu in scope):
        yield Skip(kind="no-evidence", reason="the paths between GPUs and NICs are not known")


def _nearest(host: Host, gpu: Gpu) -> tuple[str, str] | None:
    """Return the best kind of path from a GPU to an RDMA NIC, and that NIC."""
    known = min(((NEAREST_FIRST.index(kind), nic) for nic, kind in nic_paths(host, gpu).items()), default=None)
    return (NEAREST_FIRST[known[0]], known[1]) if known else None
