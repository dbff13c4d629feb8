"""PCI functions as sysfs and lspci's listings and trees tell them, joined by address."""

import msgspec

from hostdoctor.facts import Link, PciDevice
from hostdoctor.survey.notes import Notes
from hostdoctor.survey.pci import bdf_key
from hostdoctor.survey.pci_class import CLASS_CODES
from hostdoctor.survey.texts import Texts
from hostdoctor.survey.xml_records import xml_functions


def merge_pci(sysfs: tuple[PciDevice, ...], texts: Texts, notes: Notes) -> tuple[PciDevice, ...]:
    """Return one record a function, in order of address."""
    devices = {device.bdf: device for device in sysfs}
    if texts.listings:
        _merge_listings(devices, texts, notes)
    for tree in texts.trees:
        notes.add(tree.gaps)
        for f in tree.functions:
            told = PciDevice(
                bdf=f.bdf,
                name=f.name,
                vendor_id=f.vendor_id,
                device_id=f.device_id,
                upstream=f.upstream,
                root_complex=f.root_complex,
            )
            _merge(devices, told, notes, ("sysfs", "lspci -tv"))
    _merge_xml(devices, {device.bdf for device in sysfs}, texts, notes)
    return tuple(sorted(devices.values(), key=lambda device: bdf_key(device.bdf)))


def _merge_xml(devices: dict[str, PciDevice], sysfs: set[str], texts: Texts, notes: Notes) -> None:
    """Join the XMLs' functions; where sysfs lists the bus, a function that it lacks is not there."""
    for source, told in xml_functions(texts):
        if sysfs and told.bdf not in sysfs:
            notes.disagree(f"pci_devices[{told.bdf}]", {"sysfs": None, source: told.bdf})
        else:
            _merge(devices, told, notes, ("sysfs" if sysfs else "lspci", source))


def _merge_listings(devices: dict[str, PciDevice], texts: Texts, notes: Notes) -> None:
    from hostdoctor.parsers.lspci_buses import upstream_from_buses

    whole = bool(devices)
    for listing in texts.listings:
        notes.add(gap for gap in listing.gaps if not (whole and gap.fact.endswith(".link")))
        upstream = {} if whole else upstream_from_buses(listing.functions)
        for f in listing.functions:
            chain = upstream.get(f.bdf)
            told = PciDevice(
                bdf=f.bdf,
                name=f.name,
                vendor_id=f.vendor_id,
                device_id=f.device_id,
                class_code=f.class_code or CLASS_CODES.get(f.class_name or ""),
                numa_node=f.numa_node,
                upstream=chain or (),
                root_complex=_root(chain, f.bdf),
                link=f.link,
                driver=f.driver,
            )
            _merge(devices, told, notes, ("sysfs" if whole else "lspci (earlier)", "lspci"))


def _root(chain: tuple[str, ...] | None, bdf: str) -> str | None:
    """Return the root complex: the bus of the topmost bridge; None when the chain is not known."""
    if chain is None:
        return None
    return (chain[0] if chain else bdf).rpartition(":")[0]


def _longer(known: str | None, told: str | None) -> str | None:
    """Return a class code, with its last two digits where only the second source tells them (``0604`` ``060400``)."""
    return told if known is None or (told is not None and told.startswith(known)) else known


def _merge(devices: dict[str, PciDevice], told: PciDevice, notes: Notes, sources: tuple[str, str]) -> None:
    known = devices.get(told.bdf)
    if known is None:
        devices[told.bdf] = told
        return
    node = notes.pick(
        f"pci_devices[{told.bdf}].numa_node", dict(zip(sources, (known.numa_node, told.numa_node), strict=True))
    )
    for field in ("width_lanes", "max_width_lanes", "max_speed_gts"):  # the current speed changes by the moment
        values = dict(zip(sources, (getattr(known.link, field), getattr(told.link, field)), strict=True))
        notes.pick(f"pci_devices[{told.bdf}].link.{field}", values)
    devices[told.bdf] = msgspec.structs.replace(
        known,
        name=known.name or told.name,
        vendor_id=known.vendor_id or told.vendor_id,
        device_id=known.device_id or told.device_id,
        class_code=_longer(known.class_code, told.class_code),
        numa_node=node,
        upstream=known.upstream or told.upstream,
        root_complex=known.root_complex or told.root_complex,
        link=known.link if known.link != Link() else told.link,
        driver=known.driver or told.driver,
    )
