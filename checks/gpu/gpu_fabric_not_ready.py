import re
from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope, needs
from hostdoctor.diagnosis.api import gpu_label
from hostdoctor.diagnosis.subjects import brief
from hostdoctor.facts import Gpu, Host

RACK = re.compile(r"\bGB[23]00\b")  # NVLink spans hosts: each GPU must know its cluster and clique


@check("HD507", "gpu-fabric-not-ready", "critical", needs=(needs.gpus,))
def gpu_fabric_not_ready(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find GPUs that are not registered with their NVSwitch fabric.

    ## What it checks
    The fabric state and status of each GPU in scope that has a fabric: anything but Completed with Success. On systems
    whose NVLink spans hosts (GB200, GB300) also a cluster UUID or clique id of zero.

    ## Why it matters
    CUDA does not start on such a GPU (error 802, system not yet initialized), or NVLink to its peers does not work
    although every link shows as active.

    ## Remedy
    Start nvidia-fabricmanager in exactly the driver's version and read its log; on rack systems also the NVLink switch
    management and IMEX. Then reset the GPU or reboot.

    ## References
    - https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html
    - https://github.com/NVIDIA/NVSentinel/issues/883
    """
    scope = in_scope(host, ask)
    bad = {gpu_label(host, gpu): why for gpu in scope if (why := _fault(gpu))}
    if bad:
        labels = list(bad)
        yield finding(
            ", ".join(labels),
            f"{brief(labels)}: NVLink fabric not ready ({'; '.join(dict.fromkeys(bad.values()))})",
            "critical",
            evidence=[(f"NVML: fabric of {label}", why) for label, why in bad.items()],
            effect="CUDA does not start, or NVLink to the peers does not work",
            remedy=Remedy(
                text="Start nvidia-fabricmanager in the driver's version and read its log (racks: also IMEX and the"
                " NVLink switches' management); then reset the GPUs or reboot.",
                risk="restart",
                undo="None needed.",
                verify="nvidia-smi -q shows Fabric State Completed and Status Success.",
            ),
        )
    elif all(gpu.fabric is None or gpu.fabric.state is None for gpu in scope):
        yield Skip(
            kind="not-applicable", reason="no fabric is told of: these GPUs have none, or nobody asked the driver"
        )


def _fault(gpu: Gpu) -> str | None:
    fabric = gpu.fabric
    if fabric is None or fabric.state is None:
        return None
    if fabric.state != "completed":
        return f"state {fabric.state}"
    if fabric.status not in (None, "Success"):
        return f"status {fabric.status}"
    spans_hosts = RACK.search(gpu.name or "") is not None
    zero = [name for name, value in (("cluster UUID", _digits(fabric.cluster_uuid)), ("clique id", fabric.clique_id))
            if value == 0]  # fmt: skip
    return f"{' and '.join(zero)} zero" if spans_hosts and zero else None


def _digits(uuid: str | None) -> int | None:
    text = (uuid or "").replace("-", "")
    return int(text, 16) if re.fullmatch(r"[0-9a-fA-F]{1,32}", text) else None
