from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope, needs
from hostdoctor.diagnosis.api import gpu_label
from hostdoctor.diagnosis.subjects import is_given_some
from hostdoctor.facts import Gpu, Host

OURS, PASSED_THROUGH = ("nvidia", "nouveau"), ("vfio", "pci-stub", "pciback")  # driver names, and parts of them
REMEDIES = {  # by a word of the driver's answer; "" matches the rest
    "mismatch": "The library was updated under the loaded module: reboot, or unload and reload the nvidia modules.",
    "permission": "Let this user open /dev/nvidiactl and /dev/nvidia* (file modes, or the container's device list).",
    "": "Install and load the NVIDIA driver for the running kernel (nouveau must let go); read dmesg for NVRM.",
}


@check("HD501", "nvidia-driver-unusable", "critical")
def nvidia_driver_unusable(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find NVIDIA GPUs on the PCI bus whose driver gives an error or is not there.

    ## What it checks
    What the driver answered, at first and for each GPU that it counts, unless all NVIDIA GPUs are passed through; in a
    container, if GPUs were handed to it. A driver that refuses every GPU cannot be used; one that refuses some may have
    been told to (a Slurm job).

    ## Why it matters
    CUDA does not start: every GPU service on this machine fails.

    ## Remedy
    By the reason: reload the modules or reboot after an update, install or load the driver, grant the device files.

    ## References
    - https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html (nvmlReturn_t)
    """
    candidates = host.gpus if ask.gpus is None and not host.system.container else in_scope(host, ask)
    nvidia = {device.bdf for device in host.pci_devices if device.vendor_id == "10de"}
    ours = [g for g in candidates if g.driver in OURS or g.bdf in nvidia]
    gpus = [g for g in ours if not any(part in (g.driver or "") for part in PASSED_THROUGH)]
    if skip := _skip(host, candidates, gpus):
        yield skip
    elif (answer := _error(host)) is not None:
        text = next(text for word, text in REMEDIES.items() if word in answer.lower())
        yield finding(
            ", ".join(gpu_label(host, g) for g in gpus),
            f"NVIDIA driver unusable: {answer}" + "; nouveau holds a GPU" * any(g.driver == "nouveau" for g in gpus),
            "critical",
            evidence=[("NVML", answer), *((f"driver of {g.bdf}", g.driver or "none") for g in gpus)],
            effect="CUDA does not start",
            remedy=Remedy(text=text, risk="reboot", undo="Install the earlier driver again.", verify="nvidia-smi -L"),
        )


def _error(host: Host) -> str | None:
    """Return the driver's error: its own, or that of every GPU where HD502 does not tell of them; None for none."""
    if host.nvidia.state != "ok":
        return host.nvidia.reason or "no reason given"
    refused = [gap.reason for gap in host.gaps if gap.fact.endswith("].handle")]
    if not host.nvidia.gpu_count or len(refused) < host.nvidia.gpu_count or any("is lost" in told for told in refused):
        return None
    told_elsewhere = not is_given_some(host) and any("ermission" not in told for told in refused)
    return None if told_elsewhere else f"every GPU: {refused[0]}"


def _skip(host: Host, candidates: Iterable[Gpu], gpus: list[Gpu]) -> Skip | None:
    if not host.pci_devices:
        return Skip(kind="no-evidence", reason="the PCI functions are not known")
    if not gpus:
        return needs.no_nvidia_gpu(host, candidates, "no NVIDIA GPU for this system (none, or all passed through)")
    if host.nvidia.state in (None, "timeout"):
        return Skip(kind="no-evidence", reason="the driver was not asked, or did not answer in time")
    if host.nvidia.state == "absent" and (host.system.nvidia_driver or any(g.driver == "nvidia" for g in gpus)):
        return Skip(kind="no-evidence", reason="the driver is loaded, but its library is not installed here")
    given = host.settings.get("env.NVIDIA_VISIBLE_DEVICES", "none") not in ("", "none", "void")
    given = host.nvidia.state == "ok" or (host.nvidia.state == "error" and (given or any(g.visible for g in gpus)))
    skip = Skip(kind="no-evidence", reason="in a container, and no GPU is known to have been handed to it")
    return skip if host.system.container and not given else None
