from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope, needs
from hostdoctor.diagnosis.subjects import brief, gpu_labels
from hostdoctor.facts import Host


@check("HD505", "mig-enabled", "info", needs=(needs.gpus,))
def mig_enabled(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Say that GPUs are divided into instances, which share one place in the map.

    ## What it checks
    The MIG mode of each GPU in scope.

    ## Why it matters
    An instance has a share of the GPU's memory and cores, but the NUMA node, the PCIe link and the root complex of the
    whole GPU. Peer-to-peer and NVLink between GPUs are off.

    ## Remedy
    Bind the processes of every instance as for its parent GPU; the instances share its link.

    ## References
    - https://docs.nvidia.com/datacenter/tesla/mig-user-guide/
    """
    scope = in_scope(host, ask)
    on = gpu_labels(host, (gpu for gpu in scope if gpu.mig))
    if on:
        yield finding(
            ", ".join(on),
            f"{brief(on)}: divided by MIG; every instance is where its GPU is",
            "info",
            evidence=[(f"NVML: MIG mode of {label}", "enabled") for label in on],
            effect="the instances of a GPU share its PCIe link; no peer-to-peer between GPUs",
            remedy=Remedy(
                text="Bind the processes of each instance to the node of its parent GPU.",
                risk="restart",
                scope="process",
                undo="Start without the binding.",
                verify="nvidia-smi -L lists the instances below their GPU.",
            ),
        )
    elif all(gpu.mig is None for gpu in scope):
        yield Skip(kind="no-evidence", reason="the MIG mode is not known, or these GPUs have none")
