from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.diagnosis.drift import Drift, drifts
from hostdoctor.facts import Host

_EFFECTS = {
    "gone": "what was placed on it runs elsewhere or not at all",
    "narrower": "copies over that link are slower by the lanes that are missing",
    "elsewhere": "bindings made for the former node are now far",
    "reordered": "device lists by index (CUDA_VISIBLE_DEVICES=0,1) name other GPUs than before",
    "smaller": "budgets made for the former size no longer fit",
    "new": "none: it is not watched for drift yet",
}
_HARMLESS = "new"


@check("HD904", "map-drifted", "warning")
def map_drifted(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find what differs from the map that was accepted for this host.

    ## What it checks
    The agent keeps the first map that it surveyed, until `hostdoctor agent accept-baseline` replaces it. Against that
    map: a GPU that is gone (critical), a NIC or drive that is gone, a narrower PCIe link, another NUMA node, another
    order of the GPUs that are left, a node with more than 1 % less memory (warnings); a new device (information).
    A card is known by its UUID wherever it is plugged in, else by its address.

    ## Why it matters
    Firmware updates, failing cards and service visits change hosts without a word. Launch scripts, budgets and
    bindings were made for the host as it was.

    ## Remedy
    Find out who or what changed it. If the change is meant, accept the new map.

    ## References
    - https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables (CUDA_DEVICE_ORDER)
    """
    if host.baseline is None:
        yield Skip(kind="no-evidence", reason="no map was accepted for this host: the agent keeps one")
        return
    if not host.pci_devices:
        yield Skip(kind="no-evidence", reason="PCI functions are not known")
        return
    for drift in drifts(host, host.baseline):
        yield finding(
            ", ".join(drift.subjects),
            drift.message,
            drift.severity,
            evidence=drift.evidence,
            effect=_EFFECTS[drift.kind],
            remedy=_remedy(drift, host.baseline.accepted_at),
        )


def _remedy(drift: Drift, accepted_at: str) -> Remedy:
    meant = "If the change is meant: hostdoctor agent accept-baseline."
    look = "" if drift.kind == _HARMLESS else "Look in the kernel's log and the BMC's event log for what happened. "
    return Remedy(
        text=f"{look}{meant}",
        undo=f"None needed: the map of {accepted_at} stays until another is accepted.",
        verify="the agent's log says that HD904 cleared.",
    )
