"""Whether lists of PCI functions that were pasted can be whole: what a part does not show is unknown, not absent."""

from collections.abc import Iterator

from hostdoctor.facts import Gap, PciDevice
from hostdoctor.survey.texts import Texts

_GPUS_AND_BRIDGES = ("03", "06", "12")  # base classes, see pci_class


def unlisted(kind: str, devices: tuple[PciDevice, ...], texts: Texts, source: str) -> Iterator[Gap]:
    """Yield a gap where none of a kind (gpus, nics, nvme) on these lists does not mean that there is none."""
    why = _why(kind, devices, texts)
    if why is not None:
        yield Gap(fact=kind, source=source, reason=why, kind="missing")


def _why(kind: str, devices: tuple[PciDevice, ...], texts: Texts) -> str | None:
    """Return why the lists may lack some; None where they are whole, or there is no list."""
    if not devices:
        return None
    if texts.nccl and not (texts.listings or texts.trees or texts.hwloc):
        return "lists no drives" if kind == "nvme" else "lists those in use"
    untold = _without_class(devices, texts)
    if untold:
        return f"{untold} of {len(devices)} PCI functions without a class: a name alone does not tell what it is"
    why = _why_part(devices, texts)
    return f"a part of the list of PCI functions: {why}" if why else None


def _why_part(devices: tuple[PciDevice, ...], texts: Texts) -> str | None:
    """Return what shows that a list is not whole: lspci's own begins on a root bus, which has number 0.

    That is so also in the domains in which a hypervisor passes functions through.
    hwloc leaves out what it has no use for.
    """
    if len(devices) == 1:
        return "one alone"
    if not texts.trees and not texts.hwloc and all(device.bdf.split(":")[-2] != "00" for device in devices):
        return "none is on a root bus"
    if all(device.class_code is None or device.class_code.startswith(_GPUS_AND_BRIDGES) for device in devices):
        return "GPUs and bridges alone"
    return None


def _without_class(devices: tuple[PciDevice, ...], texts: Texts) -> int:
    """Count the functions of which no list tells the class, also in words that have no one code."""
    told = {f.bdf for listing in texts.listings for f in listing.functions if f.class_code or f.class_name}
    told |= {f.bdf for hwloc in texts.hwloc for f in hwloc.functions}
    return sum(device.class_code is None and device.bdf not in told for device in devices)
