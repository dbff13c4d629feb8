"""PCI functions in an hwloc XML: where they are, and their devices in the operating system."""

import re
from collections.abc import Iterable

from hostdoctor.facts import Fact
from hostdoctor.parsers.bdf import canonical_bdf
from hostdoctor.parsers.hwloc_nodes import Nodes
from hostdoctor.parsers.hwloc_objects import Collector, Element
from hostdoctor.parsers.hwloc_values import all_cpus, integer

_PCI_TYPE = re.compile(r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\]")
_BUSES = re.compile(r"([0-9a-f]{4,8}):\[([0-9a-f]{2})-[0-9a-f]{2}\]")
_NVML = re.compile(r"nvml(\d{1,3})")
_NAMESPACE = re.compile(r"nvme\d{1,5}(?:c\d{1,5})?n\d{1,5}")
# Kinds of OS devices: numbers up to version 2, bits since 3.
_NETWORK, _RDMA = {False: (2, 3), True: (16, 32)}, {False: (3,), True: (32,)}


class HwlocFunction(Fact, frozen=True, kw_only=True):
    """A PCI function and its devices in the operating system.

    ``numa_nodes`` are the nodes whose CPUs are near it. ``root_complex`` is None, and ``upstream`` empty, where the
    file leaves bridges out. ``gpu_index`` is NVML's.
    """

    bdf: str
    name: str | None = None
    vendor_id: str | None = None
    device_id: str | None = None
    class_code: str | None = None
    numa_nodes: tuple[int, ...] = ()
    upstream: tuple[str, ...] = ()
    root_complex: str | None = None
    gpu_index: int | None = None
    gpu_name: str | None = None
    gpu_uuid: str | None = None
    netdevs: tuple[str, ...] = ()
    rdma_devices: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    drive_model: str | None = None
    drive_firmware: str | None = None


def read_functions(found: Collector, nodes: Nodes) -> Iterable[HwlocFunction]:
    """Yield every function whose element is whole, once."""
    is_v3 = found.version.startswith("3")
    buses = _Buses()
    seen: set[str] = set()
    for element in found.functions:
        bdf = canonical_bdf(element.attributes["pci_busid"])
        if bdf is not None and bdf not in seen and element.is_whole:
            seen.add(bdf)
            yield _function(bdf, element, _near(element, nodes), buses.around(element), is_v3)


def _function(bdf: str, element: Element, near: tuple[int, ...], bus: "_Bus | None", is_v3: bool) -> HwlocFunction:
    class_code, vendor_id, device_id = _pci_type(element.attributes.get("pci_type", ""))
    names = (element.infos.get("PCIVendor"), element.infos.get("PCIDevice"))
    devices = {child.attributes.get("name", ""): child for child in element.children}
    gpu = _gpu(devices)
    drives = [name for name in devices if _NAMESPACE.fullmatch(name)]
    return HwlocFunction(
        bdf=bdf,
        name=" ".join(name for name in names if name) or None,
        vendor_id=vendor_id,
        device_id=device_id,
        class_code=class_code,
        numa_nodes=near,
        upstream=bus.upstream if bus else (),
        root_complex=bus.root_complex if bus else None,
        gpu_index=next((int(match[1]) for name in devices if (match := _NVML.fullmatch(name))), None),
        gpu_name=gpu.get("GPUModel"),
        gpu_uuid=gpu.get("NVIDIAUUID"),
        netdevs=_of_type(devices, _NETWORK[is_v3], but=_RDMA[is_v3]),
        rdma_devices=_of_type(devices, _RDMA[is_v3]),
        namespaces=tuple(drives),
        drive_model=next((devices[name].infos.get("Model") for name in drives), None),
        drive_firmware=next((devices[name].infos.get("Revision") for name in drives), None),
    )


def _gpu(devices: dict[str, Element]) -> dict[str, str]:
    """Return the infos of a GPU's devices, NVML's before CUDA's and the others'."""
    infos: dict[str, str] = {}
    for name in sorted(devices, key=lambda name: not name.startswith("nvml")):
        if "." not in name:  # nvml0.1 is a slice of one
            infos = devices[name].infos | infos
    return infos


def _of_type(devices: dict[str, Element], kinds: Iterable[int], but: Iterable[int] = ()) -> tuple[str, ...]:
    def is_one(element: Element, among: Iterable[int]) -> bool:
        kind = integer(element.attributes.get("osdev_type"), 6)
        return kind is not None and any(kind == k or (k >= 16 and kind & k) for k in among)

    return tuple(
        name for name, element in devices.items() if name and is_one(element, kinds) and not is_one(element, but)
    )


def _near(element: Element, nodes: Nodes) -> tuple[int, ...]:
    """Return the nodes of the nearest object around a function that has CPUs."""
    holder = next((above for above in element.above() if "cpuset" in above.attributes), None)
    return nodes.near(all_cpus(holder) or 0) if holder else ()


class _Bus(Fact, frozen=True, kw_only=True):
    """Where a bridge leads: the bus below it, and the bridges down to it, root port first."""

    address: str
    upstream: tuple[str, ...]
    root_complex: str


class _Buses:
    """The buses of a topology, each followed up once.

    hwloc leaves out bridges whose configuration space it could not read, and all of them when asked to: a chain
    counts when it ends at a host bridge and every bridge is on the bus of the one above it.
    """

    def __init__(self) -> None:
        self._known: dict[int, _Bus | None] = {}

    def around(self, element: Element) -> _Bus | None:
        """Return the bus on which a function is."""
        parent = element.parent
        if parent is None or parent.kind != "Bridge":
            return None
        if id(parent) not in self._known:
            self._known[id(parent)] = self._below(parent)
        bus = self._known[id(parent)]
        bdf = canonical_bdf(element.attributes.get("pci_busid", "")) or ""
        return bus if bus is not None and bdf.rpartition(":")[0] == bus.address else None

    def _below(self, bridge: Element) -> _Bus | None:
        match = _BUSES.fullmatch(bridge.attributes.get("bridge_pci", ""))
        if match is None:
            return None
        address = f"{int(match[1], 16):04x}:{match[2]}"
        bdf = canonical_bdf(bridge.attributes.get("pci_busid", ""))
        if bdf is None:
            is_host = "pci_busid" not in bridge.attributes
            return _Bus(address=address, upstream=(), root_complex=address) if is_host else None
        above = self.around(bridge)
        if above is None:
            return None
        return _Bus(address=address, upstream=(*above.upstream, bdf), root_complex=above.root_complex)


def _pci_type(text: str) -> tuple[str | None, str | None, str | None]:
    """Return class, vendor and device; all zeros is a configuration space that could not be read."""
    match = _PCI_TYPE.match(text.lower())
    if match is None or match[2] in ("0000", "ffff"):
        return None, None, None
    return match[1], match[2], match[3]
