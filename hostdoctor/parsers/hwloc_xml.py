"""hwloc's XML, as ``lstopo --of xml`` writes it, in the formats of hwloc 1, 2 and 3.

NUMA nodes stand around packages in version 1 and beside them since 2; PCI functions stand in the object whose CPUs
are near them. Link speeds (bytes a second) are left out: they tell neither lanes nor GT/s. Serial numbers and
addresses are dropped.
"""

import re
from collections.abc import Iterable

import msgspec

from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact, Gap
from hostdoctor.parsers.bdf import canonical_bdf
from hostdoctor.parsers.bitmap import bitmap_cpulist, bitmap_ids, parse_bitmap
from hostdoctor.parsers.cpulist import format_cpulist
from hostdoctor.parsers.hwloc_distances import node_distances
from hostdoctor.parsers.hwloc_nodes import Cpus, Nodes, is_special, own_cpus
from hostdoctor.parsers.hwloc_objects import Collector, Element
from hostdoctor.parsers.xml_events import read_xml

_PCI_TYPE = re.compile(r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\]")
_BUSES = re.compile(r"([0-9a-f]{4,8}):\[([0-9a-f]{2})-[0-9a-f]{2}\]")
_NVML = re.compile(r"nvml(\d{1,3})")
_NAMESPACE = re.compile(r"nvme\d{1,5}(?:c\d{1,5})?n\d{1,5}")
# Kinds of OS devices: numbers up to version 2, bits since 3.
_NETWORK, _RDMA = {False: (2, 3), True: (16, 32)}, {False: (3,), True: (32,)}


class HwlocNode(Fact, frozen=True, kw_only=True):
    """A NUMA node. ``cpus`` is ``""`` for a node without CPUs, None where hwloc's sets do not tell whose they are."""

    id: int
    cpus: str | None = None
    memory_bytes: int | None = None
    distances: dict[str, int] = msgspec.field(default_factory=dict)
    package: int | None = None


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


class HwlocTopology(Fact, frozen=True, kw_only=True):
    """A host as hwloc saw it. ``packages`` is None where hwloc hid CPUs from who made the file."""

    nodes: tuple[HwlocNode, ...] = ()
    functions: tuple[HwlocFunction, ...] = ()
    hostname: str | None = None
    kernel: str | None = None
    architecture: str | None = None
    cpu_model: str | None = None
    packages: int | None = None
    gaps: tuple[Gap, ...] = ()


def parse_hwloc_xml(text: str, source: str = "lstopo XML") -> HwlocTopology:
    """Return the topology of an hwloc XML, also of one whose tail is missing.

    Raises ParseError where the text is none, is not well-formed XML, or shows no machine.
    """
    found = Collector(source)
    whole = read_xml(text, source, "topology", found)
    machine = found.machine
    if machine is None or machine.kind not in ("Machine", "System"):
        raise ParseError(source, 0, machine.kind if machine else "", "no machine in this topology")
    if found.version.split(".")[0] not in ("1", "2", "3"):
        raise ParseError(source, 0, found.version, "unknown version of hwloc's XML")
    elements = _by_id(found.nodes, source)
    hidden = sorted(_hidden(machine) - elements.keys())
    nodes = own_cpus(
        {node: _cpus(element) for node, element in elements.items()},
        frozenset(node for node, element in elements.items() if _is_special(element)),
        Cpus(_mask(machine, "cpuset") or 0, _cpus(machine) or 0),
        frozenset(_all_nodes(machine) - elements.keys()),
    )
    distances = node_distances(found.matrices, list(elements), found.nodes, machine) if whole else {}
    return HwlocTopology(
        nodes=tuple(_node(node, element, nodes, distances) for node, element in sorted(elements.items())),
        functions=tuple(_functions(found, nodes)),
        hostname=found.infos.get("HostName"),
        kernel=found.infos.get("OSRelease"),
        architecture=found.infos.get("Architecture"),
        cpu_model=_cpu_model(found),
        packages=len(found.packages) or None if whole and _all_cpus(machine) else None,
        gaps=tuple(_gaps(source, whole, hidden, elements, nodes)),
    )


def _gaps(source: str, whole: bool, hidden: list[int], elements: dict[int, Element], nodes: Nodes) -> Iterable[Gap]:
    if not whole:
        yield Gap(fact="source:hwloc-xml", source=source, reason="the end of the file is missing", kind="unreadable")
    if hidden:
        reason = f"hidden from who made the file: {format_cpulist(hidden)}"
        yield Gap(fact="numa_nodes", source=source, reason=reason)
    for node in sorted(elements.keys() - nodes.owners.keys() - nodes.without):
        reason = "hwloc shows the CPUs near a node, which may be another node's"
        yield Gap(fact=f"numa_nodes[{node}].cpus", source=source, reason=reason)


def _by_id(elements: Iterable[Element], source: str) -> dict[int, Element]:
    found: dict[int, Element] = {}
    for element in elements:
        number = _integer(element.attributes.get("os_index"), 6)
        if number is None or number in found:
            raise ParseError(source, 0, element.attributes.get("os_index", ""), "a NUMA node's number")
        found[number] = element
    return found


def _node(node: int, element: Element, nodes: Nodes, distances: dict[int, dict[str, int]]) -> HwlocNode:
    cpus = bitmap_cpulist(nodes.owners[node]) if node in nodes.owners else None
    return HwlocNode(
        id=node,
        cpus="" if node in nodes.without else cpus,
        memory_bytes=_integer(element.attributes.get("local_memory"), 18) or None,
        distances=distances.get(node, {}),
        package=_package(element) if cpus else None,
    )


def _package(element: Element) -> int | None:
    """Return the package around a node; None where it is the node that is around packages."""
    around = next((above for above in element.above() if above.kind in ("Package", "Socket")), None)
    return _integer(around.attributes.get("os_index"), 6) if around else None


def _functions(found: Collector, nodes: Nodes) -> Iterable[HwlocFunction]:
    is_v3 = found.version.startswith("3")
    seen: set[str] = set()
    for element in found.functions:
        bdf = canonical_bdf(element.attributes["pci_busid"])
        if bdf is not None and bdf not in seen and element.is_whole:
            seen.add(bdf)
            yield _function(bdf, element, _near(element, nodes), is_v3)


def _function(bdf: str, element: Element, near: tuple[int, ...], is_v3: bool) -> HwlocFunction:
    class_code, vendor_id, device_id = _pci_type(element.attributes.get("pci_type", ""))
    names = (element.infos.get("PCIVendor"), element.infos.get("PCIDevice"))
    upstream, root_complex = _position(element)
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
        upstream=upstream,
        root_complex=root_complex,
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
        kind = _integer(element.attributes.get("osdev_type"), 6)
        return kind is not None and any(kind == k or (k >= 16 and kind & k) for k in among)

    return tuple(
        name for name, element in devices.items() if name and is_one(element, kinds) and not is_one(element, but)
    )


def _near(element: Element, nodes: Nodes) -> tuple[int, ...]:
    """Return the nodes of the nearest object around a function that has CPUs."""
    holder = next((above for above in element.above() if "cpuset" in above.attributes), None)
    return nodes.near(_cpus(holder) or 0) if holder else ()


def _position(element: Element) -> tuple[tuple[str, ...], str | None]:
    """Return the bridges above a function, root port first, and its root complex.

    Both need the host bridge, and every bridge to be on the bus of the one above it: hwloc leaves out bridges whose
    configuration space it could not read, and all of them when asked to.
    """
    chain = [above for above in reversed(element.above()) if above.kind == "Bridge"]
    buses = [_BUSES.fullmatch(bridge.attributes.get("bridge_pci", "")) for bridge in chain]
    secondary = [f"{int(match[1], 16):04x}:{match[2]}" if match else "" for match in buses]
    below = [canonical_bdf(hop.attributes.get("pci_busid", "")) or "" for hop in (*chain[1:], element)]
    if not chain or "pci_busid" in chain[0].attributes or secondary != [bdf.rpartition(":")[0] for bdf in below]:
        return (), None
    return tuple(below[:-1]), secondary[0]


def _pci_type(text: str) -> tuple[str | None, str | None, str | None]:
    """Return class, vendor and device; all zeros is a configuration space that could not be read."""
    match = _PCI_TYPE.match(text.lower())
    if match is None or match[2] in ("0000", "ffff"):
        return None, None, None
    return match[1], match[2], match[3]


def _cpus(element: Element) -> int | None:
    """Return an object's CPUs, those that were hidden from who made the file included."""
    cpus = _mask(element, "complete_cpuset")
    return _mask(element, "cpuset") if cpus is None else cpus


def _all_cpus(machine: Element) -> bool:
    return _mask(machine, "cpuset") == _cpus(machine) and not _hidden(machine)


def _all_nodes(machine: Element) -> set[int]:
    return set(bitmap_ids((_mask(machine, "nodeset") or 0) | (_mask(machine, "complete_nodeset") or 0)))


def _hidden(machine: Element) -> set[int]:
    shown, there = _mask(machine, "nodeset"), _mask(machine, "complete_nodeset")
    return set(bitmap_ids(there & ~shown)) if shown is not None and there is not None else set()


def _mask(element: Element, name: str) -> int | None:
    try:
        return parse_bitmap(element.attributes[name])
    except (KeyError, ParseError):
        return None


def _is_special(element: Element) -> bool:
    return is_special(element.attributes.get("subtype", ""), is_dax="DAXDevice" in element.infos)


def _cpu_model(found: Collector) -> str | None:
    models = {package.infos.get("CPUModel") for package in found.packages.values()} or {None}
    only = models.pop() if len(models) == 1 else None
    return only or found.infos.get("CPUModel")


def _integer(text: str | None, digits: int) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= digits else None
