from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.diagnosis.api import gpu_label
from hostdoctor.diagnosis.subjects import is_given_some
from hostdoctor.facts import Gap, Gpu, Host

SERVICE = "Read dmesg for NVRM and Xid lines; drain, reboot or power-cycle, then have the GPU serviced."


@check("HD502", "gpu-missing-from-driver", "critical")
def gpu_missing_from_driver(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find GPUs that are bound to the nvidia driver without being listed by it.

    ## What it checks
    How many GPU functions (not virtual ones) are bound to `nvidia`, against how many NVML hands out; not in containers,
    which see a subset. GPUs bound to vfio-pci are mentioned as passed through.

    ## Why it matters
    A GPU that failed to initialise or fell off the bus stays on PCI. A service that wants all GPUs does not start.

    ## Remedy
    Read dmesg for NVRM and Xid lines, drain the machine, reboot or power-cycle it, then have the GPU serviced.

    ## References
    - https://docs.nvidia.com/deploy/xid-errors/index.html (Xid 79, fallen off the bus)
    """
    gone = [gap for gap in host.gaps if gap.fact.endswith("].handle") and "is lost" in gap.reason]
    if is_given_some(host):
        why = "in a container" if host.system.container else "NVIDIA_VISIBLE_DEVICES is set"
        subset = f"{why}: not every GPU of the host has to be visible"
        if gone:
            yield _lost(gone)
        elif host.nvidia.state in ("error", "timeout"):  # it has not found again what it lost before
            yield Skip(kind="no-evidence", reason=f"the driver does not answer ({host.nvidia.state})")
        else:
            yield Skip(kind="not-applicable", reason=subset)
        return
    virtual = {device.bdf for device in host.pci_devices if device.is_virtual_function}
    gpus = [gpu for gpu in host.gpus if gpu.bdf not in virtual]
    passed = [gpu for gpu in gpus if "vfio" in (gpu.driver or "")]
    if passed:
        message, effect = f"GPUs passed through to a guest: {len(passed)} of {len(gpus)}", "this system cannot use them"
        remedy = Remedy(text="Nothing, if a guest is meant to have them.", undo="None needed.", verify="lspci -k")
        yield finding(_names(host, passed), message, "info", evidence=_drivers(passed), effect=effect, remedy=remedy)
    bound = [gpu for gpu in gpus if gpu.driver == "nvidia"]
    lost = [gap for gap in host.gaps if gap.fact.endswith("].handle") and "ermission" not in gap.reason]
    count = (host.nvidia.gpu_count or 0) - len(lost)
    if host.nvidia.state != "ok" or host.nvidia.gpu_count is None:
        yield Skip(kind="no-evidence", reason=f"the driver's list is not known ({host.nvidia.state or 'not asked'})")
    elif len(bound) <= count and gone:
        yield _lost(gone)
    elif len(bound) > count:
        unlisted = [gpu for gpu in bound if gpu.index is None]
        yield finding(
            _names(host, unlisted if len(unlisted) == len(bound) - count else bound),
            f"The driver gives {count} GPUs, but {len(bound)} are bound to it",
            "critical",
            evidence=[("NVML", f"{count} GPUs"), *((gap.source, gap.reason) for gap in lost), *_drivers(bound)],
            effect="the missing GPU cannot be used",
            remedy=Remedy(text=SERVICE, risk="reboot", undo="None needed.", verify="nvidia-smi -L lists all of them."),
        )


def _lost(gaps: list[Gap]) -> Finding:
    """Return the finding on GPUs that the driver handed out and says that it lost: no subset explains that."""
    names = ", ".join(gap.fact.removesuffix(".handle").replace("gpus[", "GPU").rstrip("]") for gap in gaps)
    return finding(
        names,
        f"The driver lost {names}",
        "critical",
        evidence=[(f"{gap.source}: {gap.fact}", gap.reason) for gap in gaps],
        effect="the GPU cannot be used",
        remedy=Remedy(text=SERVICE, risk="reboot", undo="None needed.", verify="nvidia-smi -L lists all of them."),
    )


def _names(host: Host, gpus: list[Gpu]) -> str:
    return ", ".join(gpu_label(host, gpu) for gpu in gpus)


def _drivers(gpus: list[Gpu]) -> list[tuple[str, object]]:
    return [(f"driver of {gpu.bdf}", gpu.driver) for gpu in gpus]
