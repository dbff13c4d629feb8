from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope, needs
from hostdoctor.diagnosis.paths import is_c2c
from hostdoctor.diagnosis.subjects import GIB, brief, gpu_labels, sysfs
from hostdoctor.facts import Host


@check("HD209", "bar1-small", "info", needs=(needs.gpus,))
def bar1_small(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find GPUs of whose memory only a part can be reached over PCIe at a time.

    ## What it checks
    The size of BAR1, as the driver or else the PCI resource tells it, against the GPU's memory. GPUs joined chip to
    chip (Grace, GB10) need no window and are not judged.

    ## Why it matters
    NICs, drives and other GPUs reach a GPU's memory through this window: GPUDirect RDMA, GPUDirect Storage and
    peer-to-peer are limited to its size. Copies by the GPU itself are not.

    ## Remedy
    Turn on "Above 4G decoding" and "Resizable BAR" in the BIOS, where the card supports it.

    ## References
    - https://docs.nvidia.com/cuda/gpudirect-rdma/index.html (BAR sizes)
    """
    scope = [gpu for gpu in in_scope(host, ask) if not is_c2c(gpu)]
    if not scope:
        yield Skip(kind="not-applicable", reason="GPUs joined chip to chip need no PCIe window")
        return
    sizes = {gpu: (gpu.bar1_bytes, gpu.memory_bytes) for gpu in scope}
    small = [gpu for gpu, (bar1, memory) in sizes.items() if bar1 and memory and bar1 < memory]
    if small:
        labels, first = gpu_labels(host, small), small[0]
        yield finding(
            ", ".join(labels),
            f"{brief(labels)}: BAR1 {_gib(first.bar1_bytes)} is smaller than the memory, {_gib(first.memory_bytes)}",
            "info",
            evidence=[
                (f"NVML or {sysfs(gpu.bdf, 'resource')}: BAR1", f"{gpu.bar1_bytes} of {gpu.memory_bytes} bytes")
                for gpu in small
            ],
            effect="direct transfers by other devices reach so much at a time; the GPU's own copies are as fast",
            remedy=Remedy(
                text="For GPUDirect turn on Above 4G decoding and Resizable BAR in the BIOS, if the card supports it.",
                risk="reboot",
                undo="Restore the BIOS settings.",
                verify="nvidia-smi -q -d MEMORY shows BAR1 at least as large as the memory.",
            ),
        )
    elif any(None in pair for pair in sizes.values()):
        yield Skip(kind="no-evidence", reason="the size of BAR1 or of a GPU's memory is not known")


def _gib(size: int | None) -> str:
    return f"{(size or 0) / GIB:.1f} GiB"
