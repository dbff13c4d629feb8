"""What the elements of an hwloc XML are, collected in one pass: NUMA nodes, PCI functions with OS devices, distances.

All that is there per CPU (caches, cores, PUs) is passed over.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from hostdoctor.errors import ParseError

MAX_NODES = 1024  # the kernel's MAX_NUMNODES
MAX_FUNCTIONS = 1 << 16
_KEPT = frozenset(("NUMANode", "PCIDev", "Bridge", "OSDev"))
# Infos that are facts; serial numbers and hardware addresses stand beside them.
_INFOS = frozenset(
    (
        *("HostName", "OSRelease", "Architecture", "CPUModel", "CPU Model", "DMISysVendor", "DMIProductName"),
        *("PCIVendor", "PCIDevice", "GPUModel", "NVIDIAUUID", "Model", "Revision", "DAXDevice"),
    )
)
_MATRICES = ("distances2", "distances")
_VALUES = ("indexes", "u64values")


@dataclass(eq=False, slots=True)
class Element:
    """An ``<object>`` and the one around it; ``children`` are the OS devices of a PCI function.

    ``is_whole``: its end was seen.
    """

    kind: str
    attributes: dict[str, str]
    parent: "Element | None"
    infos: dict[str, str] = field(default_factory=dict)
    children: list["Element"] = field(default_factory=list)
    is_whole: bool = False

    def above(self) -> "Iterator[Element]":
        """Yield the objects around it, the nearest first."""
        at = self.parent
        while at is not None:
            yield at
            at = at.parent


@dataclass(eq=False, slots=True)
class Matrix:
    """A ``<distances2>``, or version 1's ``<distances>`` in the object ``owner``; values as they are written."""

    attributes: dict[str, str]
    owner: Element | None
    indexes: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)


class Collector:
    """Takes the events of one document."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at: Element | None = None
        self._matrix: Matrix | None = None
        self._values: list[str] | None = None
        self.version = ""
        self.machine: Element | None = None
        self.infos: dict[str, str] = {}
        self.nodes: list[Element] = []
        self.functions: list[Element] = []
        self.packages: dict[str, Element] = {}
        self.matrices: list[Matrix] = []
        self.has_nvlinks = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Take a start tag."""
        if tag == "object":
            self._object(attributes)
        elif tag == "info":
            self._info(attributes.get("name", ""), attributes.get("value", ""))
        elif tag in _MATRICES:
            self._matrix = Matrix(attributes, self._at)
            self.matrices.append(self._matrix)
        elif self._matrix is not None:
            self._part(tag, attributes)
        elif tag == "distances2hetero":
            self.has_nvlinks |= attributes.get("name") == "NVLinkBandwidth"
        elif tag == "topology":
            self.version = attributes.get("version", "1")

    def end(self, tag: str) -> None:
        """Take an end tag."""
        if tag == "object" and self._at is not None:
            self._at.is_whole = True
            self._at = self._at.parent
        elif tag in _MATRICES:
            self._matrix = None
        elif tag in _VALUES:
            self._values = None

    def text(self, data: str) -> None:
        """Take characters between tags: numbers, which no element splits."""
        if self._values is not None:
            self._values.extend(data.split())

    def _object(self, attributes: dict[str, str]) -> None:
        kind = attributes.get("type", "")
        self._at = Element(kind, attributes, self._at)
        if self.machine is None:
            self.machine = self._at
        if kind in _KEPT:
            self._keep(self._at)
        elif kind in ("Package", "Socket"):
            self.packages.setdefault(attributes.get("os_index") or f"unnumbered {len(self.packages)}", self._at)

    def _keep(self, element: Element) -> None:
        if element.kind == "NUMANode":
            if len(self.nodes) == MAX_NODES:
                raise ParseError(self._source, 0, "", f"more than {MAX_NODES} NUMA nodes")
            self.nodes.append(element)
        elif element.kind == "OSDev":
            if element.parent is not None and element.parent.kind == "PCIDev":
                element.parent.children.append(element)
        elif "pci_busid" in element.attributes:
            if len(self.functions) == MAX_FUNCTIONS:
                raise ParseError(self._source, 0, "", f"more than {MAX_FUNCTIONS} PCI functions")
            self.functions.append(element)

    def _info(self, name: str, value: str) -> None:
        if name in _INFOS and value.strip():
            infos = self.infos if self._at is None or self._at is self.machine else self._at.infos
            infos.setdefault(name, value.strip())

    def _part(self, tag: str, attributes: dict[str, str]) -> None:
        if self._matrix is None:
            return
        if tag == "indexes":
            self._values = self._matrix.indexes
        elif tag == "u64values":
            self._values = self._matrix.values
        elif tag == "latency":
            self._matrix.values.append(attributes.get("value", ""))
