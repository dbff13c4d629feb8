from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.diagnosis.needs import nvme
from hostdoctor.facts import Host

NETWORK, LOCAL, EMULATED = "network disk of the cloud", "local disk handed out by the cloud", "emulated disk"
# How such disks name themselves: the first words of the model, in small letters; the first match counts.
MODELS = {
    "amazon elastic block": NETWORK,
    "amazon ec2 nvme": LOCAL,
    "msft nvme accelerator": NETWORK,
    "microsoft nvme direct disk": LOCAL,
    "nvme_card-pd": NETWORK,
    "nvme_card": LOCAL,
    "alibaba cloud elastic block": NETWORK,
    "qemu nvme": EMULATED,
    "vmware virtual nvme": EMULATED,
    "orcl-vbox-nvme": EMULATED,
}


@check("HD409", "virtual-disk", "info", needs=(nvme,))
def virtual_disk(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Name drives that are a cloud's or a hypervisor's disks, to which no spec sheet applies.

    ## What it checks
    The model names of NVMe controllers against those that clouds and hypervisors give their disks.

    ## Why it matters
    Latency and bandwidth come from a network, a quota or an emulator. A cloud's local disk is lost when it is stopped.

    ## Remedy
    Plan a cold tier with measured p99 under the real load and the volume's own limits, not with a drive's data sheet.

    ## References
    - https://docs.aws.amazon.com/ebs/latest/userguide/nvme-ebs-volumes.html
    - https://learn.microsoft.com/azure/virtual-machines/nvme-overview
    """
    if all(drive.model is None for drive in host.nvme):
        yield Skip(kind="no-evidence", reason="no drive's model is known")
    found = [(str(drive.name or drive.bdf), drive.model, _kind(drive.model or "")) for drive in host.nvme]
    found = [row for row in found if row[2]]
    if found:
        counts = {kind: sum(k == kind for _, _, k in found) for _, _, kind in found}
        yield finding(
            ", ".join(name for name, _, _ in found),
            "No spec sheet applies: " + ", ".join(f"{count} × {kind}" for kind, count in counts.items()),
            "info",
            evidence=[(f"nvme list, model of {name}", model) for name, model, _ in found],
            remedy=Remedy(
                text="Plan with its p99 under your own load (fio, read-only) and the volume's limits.",
                undo="None needed.",
                verify="The measured p99 holds at peak hours.",
            ),
        )


def _kind(model: str) -> str | None:
    return next((kind for start, kind in MODELS.items() if model.strip().lower().startswith(start)), None)
