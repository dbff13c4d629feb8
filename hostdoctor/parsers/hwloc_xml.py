"""hwloc's XML, as ``lstopo --of xml`` writes it, in the formats of hwloc 1, 2 and 3.

NUMA nodes stand around packages in version 1 and beside them since 2; PCI functions stand in the object whose CPUs
are near them. Link speeds (bytes a second) are left out: they tell neither lanes nor GT/s. Serial numbers and
addresses are dropped.
"""

from collections.abc import Iterable

import msgspec

from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact, Gap
from hostdoctor.parsers.bitmap import bitmap_cpulist, bitmap_ids
from hostdoctor.parsers.cpulist import format_cpulist
from hostdoctor.parsers.hwloc_distances import node_distances
from hostdoctor.parsers.hwloc_functions import HwlocFunction, read_functions
from hostdoctor.parsers.hwloc_nodes import Cpus, Nodes, is_special, own_cpus
from hostdoctor.parsers.hwloc_objects import Collector, Element
from hostdoctor.parsers.hwloc_values import all_cpus, integer, mask
from hostdoctor.parsers.xml_events import read_xml


class HwlocNode(Fact, frozen=True, kw_only=True):
    """A NUMA node. ``cpus`` is ``""`` for a node without CPUs, None where hwloc's sets do not tell whose they are."""

    id: int
    cpus: str | None = None
    memory_bytes: int | None = None
    distances: dict[str, int] = msgspec.field(default_factory=dict)
    package: int | None = None


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
        {node: all_cpus(element) for node, element in elements.items()},
        frozenset(node for node, element in elements.items() if _is_special(element)),
        Cpus(mask(machine, "cpuset") or 0, all_cpus(machine) or 0),
        frozenset(_all_nodes(machine) - elements.keys()),
    )
    distances = node_distances(found.matrices, list(elements), found.nodes, machine) if whole else {}
    return HwlocTopology(
        nodes=tuple(_node(node, element, nodes, distances) for node, element in sorted(elements.items())),
        functions=tuple(read_functions(found, nodes)),
        hostname=found.infos.get("HostName"),
        kernel=found.infos.get("OSRelease"),
        architecture=found.infos.get("Architecture"),
        cpu_model=_cpu_model(found),
        packages=len(found.packages) or None if whole and _all_cpus(machine) else None,
        gaps=(*_gaps(source, whole, hidden, elements, nodes), *_nvlink_gaps(source, found.has_nvlinks)),
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


def _nvlink_gaps(source: str, has_nvlinks: bool) -> Iterable[Gap]:
    if has_nvlinks:
        yield Gap(fact="paths", source=source, reason="its NVLinks are not read: paths between GPUs are those over PCI")


def _by_id(elements: Iterable[Element], source: str) -> dict[int, Element]:
    found: dict[int, Element] = {}
    for element in elements:
        number = integer(element.attributes.get("os_index"), 6)
        if number is None or number in found:
            raise ParseError(source, 0, element.attributes.get("os_index", ""), "a NUMA node's number")
        found[number] = element
    return found


def _node(node: int, element: Element, nodes: Nodes, distances: dict[int, dict[str, int]]) -> HwlocNode:
    cpus = bitmap_cpulist(nodes.owners[node]) if node in nodes.owners else None
    return HwlocNode(
        id=node,
        cpus="" if node in nodes.without else cpus,
        memory_bytes=integer(element.attributes.get("local_memory"), 18) or None,
        distances=distances.get(node, {}),
        package=_package(element) if cpus else None,
    )


def _package(element: Element) -> int | None:
    """Return the package around a node; None where it is the node that is around packages."""
    around = next((above for above in element.above() if above.kind in ("Package", "Socket")), None)
    return integer(around.attributes.get("os_index"), 6) if around else None


def _all_cpus(machine: Element) -> bool:
    return mask(machine, "cpuset") == all_cpus(machine) and not _hidden(machine)


def _all_nodes(machine: Element) -> set[int]:
    return set(bitmap_ids((mask(machine, "nodeset") or 0) | (mask(machine, "complete_nodeset") or 0)))


def _hidden(machine: Element) -> set[int]:
    shown, there = mask(machine, "nodeset"), mask(machine, "complete_nodeset")
    return set(bitmap_ids(there & ~shown)) if shown is not None and there is not None else set()


def _is_special(element: Element) -> bool:
    return is_special(element.attributes.get("subtype", ""), is_dax="DAXDevice" in element.infos)


def _cpu_model(found: Collector) -> str | None:
    models = {package.infos.get("CPUModel") for package in found.packages.values()} or {None}
    only = models.pop() if len(models) == 1 else None
    return only or found.infos.get("CPUModel")
