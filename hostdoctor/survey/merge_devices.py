"""NICs, NVMe controllers and their queues as sysfs, lspci, the matrix, ``nvme list`` and interrupts tell them."""

import re
from collections.abc import Iterable

import msgspec

from hostdoctor.facts import Nic, NvmeController, PciDevice
from hostdoctor.sources.base import Source
from hostdoctor.survey.devices import placed, with_interrupts
from hostdoctor.survey.notes import Notes
from hostdoctor.survey.texts import Texts

# lspci -tv prints no class: what a name says plainly is taken, the rest stays a plain PCI function.
_NIC_NAME = re.compile(r"ConnectX|Elastic (?:Fabric|Network) Adapter|\bEthernet\b|InfiniBand", re.IGNORECASE)
_NVME_NAME = re.compile(r"\bNVMe\b|NVM Express|Non-Volatile memory controller")
_NOT_A_DEVICE = re.compile(r"\bbridge\b|\bswitch\b|\bport\b|\bDMA\b|management", re.IGNORECASE)


def nics_from_listing(devices: Iterable[PciDevice]) -> tuple[Nic, ...]:
    """Return the network functions of a text, which names no network device."""
    return tuple(placed(Nic(), d) for d in devices if _is(d, "02", _NIC_NAME))


def nvme_from_listing(devices: Iterable[PciDevice]) -> tuple[NvmeController, ...]:
    """Return the NVMe functions of a text, which names no controller."""
    return tuple(placed(NvmeController(transport="pcie"), d) for d in devices if _is(d, "0108", _NVME_NAME))


def merge_nics(nics: tuple[Nic, ...], texts: Texts) -> tuple[Nic, ...]:
    """Return the NICs with the matrix's labels; its NICs that no other source knows are added with what it tells."""
    if not texts.matrices:
        return nics
    named = {nic.name: nic for nic in nics if nic.name}
    labels: dict[str, str] = {}
    unknown: list[Nic] = []
    for row in texts.matrices[0].nics:
        if row.name in named:
            labels[row.name] = row.label
        else:
            unknown.append(Nic(name=row.name, label=row.label, rdma=True))
    known = (msgspec.structs.replace(nic, label=labels.get(nic.name or "")) for nic in nics)
    return (*known, *unknown)


def merge_nvme(
    controllers: tuple[NvmeController, ...], texts: Texts, source: Source, notes: Notes
) -> tuple[NvmeController, ...]:
    """Return the controllers with models and namespaces from ``nvme list`` and interrupts from /proc/interrupts."""
    by_name = {c.name: c for c in controllers if c.name}
    nameless = [c for c in controllers if not c.name]
    for listed in texts.nvme_lists:
        notes.add(gap for gap in listed.gaps if not controllers)
        for drive in listed.drives:
            if drive.controller is None:
                continue
            known = by_name.get(drive.controller) or NvmeController(name=drive.controller)
            by_name[drive.controller] = msgspec.structs.replace(
                known,
                bdf=known.bdf or drive.bdf,
                model=known.model or drive.model,
                firmware=known.firmware or drive.firmware,
                transport=known.transport or drive.transport,
                namespaces=known.namespaces or drive.namespaces,
            )
    irqs = _irqs(texts, notes)
    for name in sorted({name for name, _ in irqs} - by_name.keys()):
        by_name[name] = NvmeController(name=name)
    named = sorted(by_name.values(), key=lambda c: int(re.sub(r"\D", "", c.name or "") or 0))
    return (*with_interrupts(tuple(named), irqs, source), *nameless)


def _irqs(texts: Texts, notes: Notes) -> dict[tuple[str, int], int]:
    """Map (controller, queue) to its interrupt; the first text that tells it counts."""
    found: dict[tuple[str, int], int] = {}
    for table in texts.interrupts:
        notes.add(table.gaps)
        for vector in table.vectors:
            found.setdefault((vector.controller, vector.queue), vector.irq)
    return found


def _is(device: PciDevice, class_prefix: str, name: re.Pattern[str]) -> bool:
    if device.class_code is not None:
        return device.class_code.startswith(class_prefix)
    return bool(name.search(device.name or "")) and not _NOT_A_DEVICE.search(device.name or "")
