"""NICs, NVMe controllers and their queues as sysfs, lspci, the matrix, ``nvme list`` and interrupts tell them."""

import re
from collections.abc import Iterable

import msgspec

from hostdoctor.facts import Nic, NvmeController, PciDevice
from hostdoctor.sources.base import Source
from hostdoctor.survey.devices import NIC_CLASSES, placed, with_interrupts
from hostdoctor.survey.notes import Notes
from hostdoctor.survey.texts import Texts

# lspci -tv prints no class: what a name says plainly is taken, the rest stays a plain PCI function.
_NIC_NAME = re.compile(
    r"ConnectX|Elastic (?:Fabric|Network) Adapter|\bEthernet\b|InfiniBand|Omni-Path|\bGbE\b|Network (?:Connec|devic)",
    re.IGNORECASE,
)
_MELLANOX = ("15b3", "Mellanox")  # by id or by the first word of its name
_NVME_NAME = re.compile(r"\bNVMe\b|NVM Express|Non-Volatile memory controller")
_NOT_A_DEVICE = re.compile(r"\bbridge\b|\bswitch\b|\bport\b|\bDMA\b|management", re.IGNORECASE)


def nics_from_listing(devices: Iterable[PciDevice]) -> tuple[Nic, ...]:
    """Return the network functions of a text, which names no network device."""
    return tuple(placed(Nic(), d) for d in devices if _is(d, NIC_CLASSES, _NIC_NAME) or _is_infiniband(d))


def nvme_from_listing(devices: Iterable[PciDevice]) -> tuple[NvmeController, ...]:
    """Return the NVMe functions of a text, which names no controller."""
    return tuple(placed(NvmeController(transport="pcie"), d) for d in devices if _is(d, ("0108",), _NVME_NAME))


def merge_nics(nics: tuple[Nic, ...], virtual: tuple[Nic, ...], texts: Texts, notes: Notes) -> tuple[Nic, ...]:
    """Return the NICs with the matrix's labels; its NICs that no other source knows are added with what it tells.

    ``virtual`` are virtual functions: they count only where the matrix names them.
    """
    if not texts.matrices:
        return nics
    labels = {row.name: row.label for row in texts.matrices[0].nics if row.name}
    named = [nic for nic in (*nics, *(v for v in virtual if v.name in labels)) if nic.name]
    known = {nic.name for nic in named}
    unknown = [
        Nic(name=row.name, label=row.label, rdma=True) for row in texts.matrices[0].nics if row.name not in known
    ]
    nameless = [nic for nic in nics if not nic.name]
    if unknown and nameless:
        reason = f"{len(unknown)} in the matrix, {len(nameless)} without a name on PCI: which is which is not known"
        notes.gap("nics", "nvidia-smi topo -m", reason)
    return (*(msgspec.structs.replace(nic, label=labels.get(nic.name or "")) for nic in named), *nameless, *unknown)


def merge_nvme(
    controllers: tuple[NvmeController, ...],
    devices: dict[str, PciDevice],
    texts: Texts,
    source: Source,
    notes: Notes,
) -> tuple[NvmeController, ...]:
    """Return the controllers with models and namespaces from ``nvme list`` and interrupts from /proc/interrupts."""
    found = _Controllers(controllers, devices)
    for listed in texts.nvme_lists:
        notes.add(gap for gap in listed.gaps if not controllers)
        for drive in listed.drives:
            known = found.take(drive.controller, drive.bdf)
            found.put(
                msgspec.structs.replace(
                    known,
                    model=known.model or drive.model,
                    firmware=known.firmware or drive.firmware,
                    transport=known.transport or drive.transport,
                    namespaces=known.namespaces or drive.namespaces,
                )
            )
    irqs = _irqs(texts, notes)
    addresses = {vector.controller: vector.bdf for table in texts.interrupts for vector in table.vectors if vector.bdf}
    names = sorted({name for name, _ in irqs})
    for name in found.without_doubt(names, addresses, notes):
        found.put(found.take(name, addresses.get(name)))
    return with_interrupts(found.in_order(), irqs, source)


class _Controllers:
    """The controllers so far, found by name or by PCI address."""

    def __init__(self, controllers: Iterable[NvmeController], devices: dict[str, PciDevice]) -> None:
        self._found = list(controllers)
        self._devices = devices

    def take(self, name: str | None, bdf: str | None) -> NvmeController:
        """Take out the controller of this name or address, or a new one; both are kept on it."""
        match = next((c for c in self._found if name and c.name == name), None)
        match = match or next((c for c in self._found if bdf and c.bdf == bdf and not (c.name and name)), None)
        if match is not None:
            self._found.remove(match)
        controller = match or NvmeController()
        controller = msgspec.structs.replace(controller, name=controller.name or name, bdf=controller.bdf or bdf)
        if controller.root_complex is None and controller.bdf in self._devices:
            return placed(controller, self._devices[controller.bdf])
        return controller

    def without_doubt(self, names: list[str], addresses: dict[str, str], notes: Notes) -> list[str]:
        """Return the names that are known, told with an address, or the only one for the only drive without a name."""
        known = {controller.name for controller in self._found}
        open_names = [name for name in names if name not in known and name not in addresses]
        nameless = [controller for controller in self._found if controller.name is None]
        if not open_names or not nameless:
            return names
        if len(open_names) == len(nameless) == 1:
            addresses[open_names[0]] = nameless[0].bdf or ""
            return names
        reason = f"{len(open_names)} names, {len(nameless)} drives without a name on PCI: which is which is not known"
        notes.gap("nvme", "/proc/interrupts", reason)
        return [name for name in names if name not in open_names]

    def put(self, controller: NvmeController) -> None:
        """Put a controller back."""
        self._found.append(controller)

    def in_order(self) -> tuple[NvmeController, ...]:
        """Return the controllers by number, the nameless last."""
        return tuple(sorted(self._found, key=lambda c: (c.name is None, int(re.sub(r"\D", "", c.name or "") or 0))))


def _irqs(texts: Texts, notes: Notes) -> dict[tuple[str, int], int]:
    """Map (controller, queue) to its interrupt; the first text that tells it counts."""
    found: dict[tuple[str, int], int] = {}
    for table in texts.interrupts:
        notes.add(table.gaps)
        for vector in table.vectors:
            found.setdefault((vector.controller, vector.queue), vector.irq)
    return found


def _is_infiniband(device: PciDevice) -> bool:
    """Tell a network adapter of a class that InfiniBand's shares with others: 0280 is mostly Wi-Fi."""
    code, maker = device.class_code or "", device.vendor_id or (device.name or "").partition(" ")[0]
    return code.startswith("0c06") or (code.startswith("0280") and maker in _MELLANOX)


def _is(device: PciDevice, classes: tuple[str, ...], name: re.Pattern[str]) -> bool:
    if device.class_code is not None:
        return device.class_code.startswith(classes)
    return bool(name.search(device.name or "")) and not _NOT_A_DEVICE.search(device.name or "")
