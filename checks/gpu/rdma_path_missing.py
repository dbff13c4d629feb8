import re
from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope, needs
from hostdoctor.diagnosis.subjects import brief, gpu_labels
from hostdoctor.facts import Host

OLDEST_DMA_BUF = (5, 12)  # the kernel whose RDMA stack takes dma-buf


@check("HD506", "rdma-path-missing", "info", needs=(needs.gpus,))
def rdma_path_missing(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find hosts whose RDMA NICs have no way into GPU memory.

    ## What it checks
    Where there are RDMA NICs and NVIDIA GPUs: neither a peer memory module (nvidia_peermem) is loaded, nor can dma-buf
    be used (open kernel modules on Linux 5.12 or later).

    ## Why it matters
    GPUDirect RDMA is off: every transfer between GPU and network goes through a buffer in host memory.

    ## Remedy
    Load nvidia_peermem (it comes with the driver and needs the RDMA stack installed before it), or use the driver's
    open kernel modules.

    ## References
    - https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-rdma.html
    - https://docs.nvidia.com/cuda/gpudirect-rdma/index.html
    """
    nics = [nic.name or nic.label or nic.bdf or "?" for nic in host.nics if nic.rdma]
    modules, flavour = host.settings.get("modules.peer_memory"), host.settings.get("modules.nvidia")
    if not any(gpu.driver == "nvidia" or gpu.uuid for gpu in in_scope(host, ask)):
        yield needs.no_nvidia_gpu(host, in_scope(host, ask), "no NVIDIA GPU in scope")
        return
    if not nics:
        yield needs.no_rdma_nic(host, "no RDMA NIC known")
        return
    version = re.match(r"(\d{1,4})\.(\d{1,4})", host.system.kernel or "")
    if modules is None or flavour is None or version is None:
        yield Skip(kind="no-evidence", reason="the loaded modules or the kind of driver are not known")
        return
    kernel = int(version.group(1)), int(version.group(2))
    if modules or (flavour == "open" and kernel >= OLDEST_DMA_BUF):
        return
    yield finding(
        ", ".join(gpu_labels(host, in_scope(host, ask))),
        f"no GPUDirect RDMA: {brief(nics)} cannot reach GPU memory (no peer memory module, no dma-buf)",
        "info",
        evidence=[
            ("/proc/modules", "none of nvidia_peermem, nv_peer_mem, efa_nv_peermem"),
            ("/proc/driver/nvidia/version", f"{flavour} kernel modules"),
            ("/proc/sys/kernel/osrelease", host.system.kernel),
        ],
        effect="transfers between GPUs and the network pass host memory: effect unknown, measure",
        remedy=Remedy(
            text="Load nvidia_peermem, or install the driver with its open kernel modules.",
            risk="restart",
            undo="Unload the module.",
            verify="lsmod shows nvidia_peermem; NCCL logs GDRDMA.",
        ),
    )
