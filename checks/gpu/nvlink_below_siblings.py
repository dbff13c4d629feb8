import re
from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope, needs
from hostdoctor.diagnosis.paths import model
from hostdoctor.diagnosis.subjects import brief, gpu_labels
from hostdoctor.facts import Gpu, Host

# Boards where every GPU has NVLink; cards (PCIe, NVL, RTX) have it only where somebody put a bridge on.
BOARD = re.compile(r"SXM|HBM|\bG?B[23]00\b|\bH(20|200|800)$")


@check("HD508", "nvlink-below-siblings", "critical", needs=(needs.gpus,))
def nvlink_below_siblings(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find GPUs with fewer active NVLinks than others of their model.

    ## What it checks
    The active NVLinks of each GPU in scope against usable GPUs of the same model, never against what the model could
    have. None at all is judged on SXM-like boards only: bridges join some cards and leave others out. GPUs in MIG mode
    are left out.

    ## Why it matters
    A link that did not train is broken hardware. Collectives run at the pace of the GPU with the fewest links.

    ## Remedy
    Read dmesg for Xid 74 and nvidia-smi nvlink errors, reset the GPUs or reboot; if the link stays down, have the GPU,
    bridge or board serviced.

    ## References
    - https://docs.nvidia.com/deploy/xid-errors/index.html (Xid 74)
    """
    scope = [gpu for gpu in in_scope(host, ask) if not gpu.mig]
    every = list(dict.fromkeys((*scope, *(gpu for gpu in in_scope(host, Ask()) if not gpu.mig))))
    low = {gpu: most for gpu in scope if (most := _siblings_have(host, gpu, every))}
    if low:
        labels = gpu_labels(host, low)
        counts = ", ".join(f"{gpu.nvlinks} of {most}" for gpu, most in low.items())
        yield finding(
            ", ".join(labels),
            f"{brief(labels)}: fewer active NVLinks than GPUs of the same model ({counts})",
            "critical",
            evidence=[
                (f"NVML: active NVLinks of {label}", gpu.nvlinks)
                for gpu, label in zip(every, gpu_labels(host, every), strict=True)
                if gpu.nvlinks is not None
            ],
            effect="collectives run at the pace of the GPU with the fewest links",
            remedy=Remedy(
                text="Read dmesg for Xid 74, reset the GPUs or reboot; if the link stays down, have it serviced.",
                risk="reboot",
                undo="None needed.",
                verify="nvidia-smi nvlink --status shows as many links on every GPU.",
            ),
        )
    elif any(gpu.nvlinks is None for gpu in scope) or not scope:
        yield Skip(kind="no-evidence", reason="active NVLinks are not known")


def _siblings_have(host: Host, gpu: Gpu, every: Iterable[Gpu]) -> int | None:
    """Return the most links that a sibling has, where that is more than this GPU has and means a fault."""
    own = model(host, gpu)
    others = [g.nvlinks for g in every if g != gpu and own and model(host, g) == own and g.nvlinks is not None]
    most = max(others, default=0)
    if gpu.nvlinks is None or gpu.nvlinks >= most:
        return None
    bridged = BOARD.search(gpu.name or "") is None
    return None if gpu.nvlinks == 0 and bridged else most
