"""Whether lists of PCI functions that were pasted can be whole: what a part does not show is unknown, not absent."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostdoctor.facts import Gap, PciDevice
from hostdoctor.survey.texts import Texts

if TYPE_CHECKING:
    from hostdoctor.parsers.hwloc_xml import HwlocTopology

_GPUS_AND_BRIDGES = ("03", "06", "12")  # base classes, see pci_class
_SEARCHED_FOR = ("02", "0108", *_GPUS_AND_BRIDGES)
_BRIDGES = "06"
_PORT = "0604"
_FIRST = "0000:00:00.0"


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
    if kind == "gpus" and any(map(_is_projected, devices)):
        return "Hyper-V and WSL give a guest GPUs that no list of PCI functions names"
    why = _why_part(devices, texts)
    return f"a part of the list of PCI functions: {why}" if why else None


def _is_projected(device: PciDevice) -> bool:
    """Tell Hyper-V's 3D controller, behind which any maker's GPU may be (GPU-PV)."""
    maker = device.vendor_id or (device.name or "").partition(" ")[0]
    return (device.class_code or "").startswith("0302") and maker in ("1414", "Microsoft")


def _why_part(devices: tuple[PciDevice, ...], texts: Texts) -> str | None:
    """Return what shows that a list is not whole; NCCL's, which has what NCCL uses, does not make one whole."""
    shown = {f.bdf for listing in texts.listings for f in listing.functions}
    shown |= {f.bdf for tree in texts.trees for f in tree.functions}
    shown |= {f.bdf for hwloc in texts.hwloc for f in hwloc.functions}
    devices = tuple(device for device in devices if device.bdf in shown)
    if len(devices) == 1:
        return "one alone"
    if not texts.trees and all(map(_is_cut, texts.hwloc)):
        why = _why_begins_late(devices) or _why_picked(devices) if texts.listings else "the end of the XML is missing"
        if why:
            return why
    if all(device.class_code is None or device.class_code.startswith(_GPUS_AND_BRIDGES) for device in devices):
        return "GPUs and bridges alone"
    return None


def _is_cut(hwloc: "HwlocTopology") -> bool:
    return any(gap.fact.startswith("source:") for gap in hwloc.gaps)


def _why_begins_late(devices: tuple[PciDevice, ...]) -> str | None:
    """Return what shows that functions before these are left out: lspci's own list begins on a root bus.

    That is with 0000:00:00.0, or, of functions that a hypervisor passes through, with the first of another domain.
    hwloc leaves out what it has no use for.
    """
    if all(device.bdf.split(":")[-2] != "00" for device in devices):
        return "none is on a root bus"
    passed_through = not any(
        device.bdf.startswith("0000:") or (device.class_code or "").startswith(_BRIDGES) for device in devices
    )
    if any(device.bdf == _FIRST or (passed_through and device.bdf.endswith(":00:00.0")) for device in devices):
        return None
    return f"{_FIRST} is not in it"


def _why_picked(devices: tuple[PciDevice, ...]) -> str | None:
    """Return what shows that others than these are left out: nothing is behind a bridge, or nothing is of other use.

    What a hypervisor passes through alone is such a list even when whole: grep leaves the same.
    """
    buses = {device.bdf[:-5] for device in devices if (device.class_code or "").startswith(_PORT)}
    if buses and all(device.bdf[:-5] in buses for device in devices):
        return "none is behind a bridge"
    if all((device.class_code or "").startswith(_SEARCHED_FOR) for device in devices):
        return "GPUs, NICs, drives and bridges alone"
    return None


def _without_class(devices: tuple[PciDevice, ...], texts: Texts) -> int:
    """Count the functions of which no list tells the class, also in words that have no one code."""
    told = {f.bdf for listing in texts.listings for f in listing.functions if f.class_code or f.class_name}
    told |= {f.bdf for hwloc in texts.hwloc for f in hwloc.functions}
    return sum(device.class_code is None and device.bdf not in told for device in devices)
