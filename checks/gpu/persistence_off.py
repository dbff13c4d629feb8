from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope, needs
from hostdoctor.diagnosis.subjects import brief, gpu_labels
from hostdoctor.facts import Host


@check("HD503", "persistence-off", "info", needs=(needs.gpus,))
def persistence_off(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Say that the driver lets go of a GPU whenever nobody uses it.

    ## What it checks
    The persistence mode of each GPU in scope.

    ## Why it matters
    Without it the driver sets the GPU up anew for the first process that comes, and takes it down after the last:
    seconds at every start, up to 25 s on hosts with many GPUs, and settings such as power limits are lost in between.

    ## Remedy
    Run nvidia-persistenced (its systemd unit comes with the driver).

    ## References
    - https://docs.nvidia.com/deploy/driver-persistence/index.html
    """
    scope = in_scope(host, ask)
    off = gpu_labels(host, (gpu for gpu in scope if gpu.persistence is False))
    if off:
        yield finding(
            ", ".join(off),
            f"{brief(off)}: persistence mode is off",
            "info",
            evidence=[(f"NVML: persistence mode of {label}", "off") for label in off],
            effect="seconds at the start of the first process; none while the GPU is in use",
            remedy=Remedy(
                text="Enable and start nvidia-persistenced.service.",
                undo="Disable the service.",
                verify="nvidia-smi --query-gpu=persistence_mode --format=csv",
            ),
        )
    elif any(gpu.persistence is None for gpu in scope):
        yield Skip(kind="no-evidence", reason="the persistence mode is not known")
