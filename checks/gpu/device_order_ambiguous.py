from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.facts import Host

VISIBLE, ORDER = "env.CUDA_VISIBLE_DEVICES", "env.CUDA_DEVICE_ORDER"


@check("HD504", "device-order-ambiguous", "warning")
def device_order_ambiguous(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find GPU numbers that CUDA and nvidia-smi count differently.

    ## What it checks
    Unlike GPU models in one host, `CUDA_VISIBLE_DEVICES` with indices, and no `CUDA_DEVICE_ORDER=PCI_BUS_ID`.

    ## Why it matters
    CUDA by default puts the fastest GPU first, while nvidia-smi, NVML and this tool count by PCI address. A service
    then runs on another GPU than meant, and is bound to another GPU's node.

    ## Remedy
    Set `CUDA_DEVICE_ORDER=PCI_BUS_ID`, or name GPUs by UUID.

    ## References
    - https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html (CUDA environment variables)
    """
    listed = host.settings.get(VISIBLE, "")
    order = host.settings.get(ORDER)
    words = [word.strip() for word in listed.split(",") if word.strip()]
    if not any(word.isdigit() for word in words) or order == "PCI_BUS_ID":
        told = "no GPU is named by its index" if order != "PCI_BUS_ID" else "CUDA_DEVICE_ORDER is PCI_BUS_ID"
        yield Skip(kind="not-applicable", reason=told)
        return
    usable = [gpu for gpu in host.gpus if gpu.visible is not False]
    models = sorted({gpu.name for gpu in usable if gpu.name})
    if not host.gpus:
        yield Skip(kind="not-applicable", reason="no GPU in scope")
    elif len(models) > 1:
        yield finding(
            "host",
            f"CUDA_VISIBLE_DEVICES={listed} counts unlike GPUs, fastest first: {', '.join(models)}",
            "warning",
            evidence=[
                ("CUDA_VISIBLE_DEVICES", listed),
                ("CUDA_DEVICE_ORDER", order or "not set"),
                *((f"model of GPU{gpu.index}", gpu.name) for gpu in usable if gpu.name),
            ],
            effect="the service may run on another GPU, bound to another node, than meant",
            remedy=Remedy(
                text="Set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name GPUs by UUID.",
                risk="restart",
                scope="process",
                undo="Unset the variable.",
                verify="The UUIDs that the service logs are those of nvidia-smi -L under the same numbers.",
            ),
        )
    elif any(gpu.name is None for gpu in usable) or not usable:
        yield Skip(kind="no-evidence", reason="the GPUs' models are not known")
