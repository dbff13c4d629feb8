"""GPUs among the PCI functions: by class, with the driver's own files, numbered as the driver would."""

import msgspec

from hostdoctor.facts import Gpu, PciDevice
from hostdoctor.parsers.cpulist import format_cpulist
from hostdoctor.sources.base import Source
from hostdoctor.survey.gpu_records import Seen, Told
from hostdoctor.survey.pci import by_bdf, device_path
from hostdoctor.survey.pci_class import is_nvidia
from hostdoctor.survey.values import ids, integer
from hostdoctor.survey.xml_records import GpuHint

PASSED_THROUGH = ("vfio-pci", "pci-stub")  # not the driver's to number


def from_pci(source: Source, device: PciDevice, listed: int | None, *, is_in_sysfs: bool) -> Seen:
    """Return a GPU of the bus; ``listed`` is the node that lspci shows."""
    base = device_path(source, device.bdf)
    text = source.read(f"{base}/numa_node")
    node = integer(text)
    # beside a numa_node of -1, local_cpulist names every CPU: it says nothing
    local = ids(source.read(f"{base}/local_cpulist")) if node is not None or text is None else None
    driver = _driver_file(source, device, "information")
    gpu = msgspec.structs.replace(
        _placed(device), name=driver.get("Model") or device.name, uuid=_uuid(driver.get("GPU UUID"))
    )
    memory_node = integer(_driver_file(source, device, "numa_status").get("Node"))
    cpus = format_cpulist(local) if local else None
    own = Told(nodes=() if node is None else (node,), cpus=cpus, memory_node=memory_node)
    told = {"sysfs": own} if is_in_sysfs or own != Told() else {}
    if node is None and listed is not None:
        told["lspci"] = Told(nodes=(listed,))
    return Seen(gpu=gpu, told=told, device=device)


def only_hinted(seen: list[Seen], devices: tuple[PciDevice, ...], hints: list[GpuHint]) -> list[Seen]:
    """Return the functions that an XML calls GPUs and whose class, as far as known, does not."""
    known = {s.gpu.bdf for s in seen}
    functions = by_bdf(devices)
    found = [functions[h.bdf] for h in hints if h.certain and h.bdf in functions and h.bdf not in known]
    return [Seen(gpu=_placed(device), told={}, device=device) for device in dict.fromkeys(found)]


def _placed(device: PciDevice) -> Gpu:
    return Gpu(
        name=device.name,
        bdf=device.bdf,
        link=device.link,
        root_complex=device.root_complex,
        root_port=device.upstream[0] if device.upstream else None,
        upstream=device.upstream,
        driver=device.driver,
    )


def number_by_hints(seen: list[Seen], hints: list[GpuHint]) -> None:
    """Give the driver's own indices where an XML has them; the driver does not show the other GPUs."""
    told: dict[str, int] = {}
    for hint in hints:
        if hint.index is not None and hint.index not in told.values():
            told.setdefault(hint.bdf, hint.index)
    if told:
        for s in seen:
            s.gpu = msgspec.structs.replace(s.gpu, index=told.get(s.gpu.bdf or ""))


def name_by_hints(seen: list[Seen], hints: list[GpuHint]) -> None:
    """Give the driver's names, UUIDs and chip-to-chip links from XMLs where NVML was not asked."""
    by_address = {s.gpu.bdf: s for s in seen if "NVML" not in s.told}
    for hint in hints:
        if (s := by_address.get(hint.bdf)) is None:
            continue
        from_pci = s.device is not None and s.gpu.name == s.device.name
        s.gpu = msgspec.structs.replace(
            s.gpu,
            name=hint.name if hint.name and from_pci else s.gpu.name,
            uuid=s.gpu.uuid or hint.uuid,
            c2c=s.gpu.c2c or hint.c2c or None,
        )


def place_by_hints(seen: list[Seen], hints: list[GpuHint]) -> None:
    """Add what the XMLs tell of where GPUs are, behind all other sources."""
    by_address = {s.gpu.bdf: s for s in seen if s.gpu.bdf is not None}
    for hint in hints:
        if hint.nodes and (s := by_address.get(hint.bdf)) is not None:
            s.told.setdefault(hint.source, Told(nodes=hint.nodes))


def _driver_file(source: Source, device: PciDevice, name: str) -> dict[str, str]:
    """Return the fields of ``/proc/driver/nvidia/gpus/<bdf>/{information,numa_status}`` (``Model: …``, ``Node: 2``)."""
    text = source.read(f"/proc/driver/nvidia/gpus/{device.bdf}/{name}") or ""
    rows = (row.partition(":") for row in text.splitlines())
    return {key.strip(): value.strip() for key, colon, value in rows if colon}


def _uuid(text: str | None) -> str | None:
    """Return a UUID; the driver prints question marks until it knows it."""
    return text if text and "?" not in text else None


def number_by_address(seen: list[Seen]) -> None:
    """Give the indices that the driver would, in order of address: to NVIDIA's where there are any, else to all."""
    nvidia = [s for s in seen if s.device is not None and is_nvidia(s.device)]
    driven = [s for s in nvidia if s.gpu.driver not in PASSED_THROUGH]
    for index, s in enumerate(driven if nvidia else seen):
        s.gpu = msgspec.structs.replace(s.gpu, index=index)
