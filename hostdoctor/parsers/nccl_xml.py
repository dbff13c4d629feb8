"""NCCL's topology XML: ``NCCL_TOPO_DUMP_FILE``, or a file that somebody wrote for ``NCCL_TOPO_FILE`` (version 1).

What it does not tell, though it looks so (src/graph/xml.cc):

- The chain of bridges: it goes up two at a time, so that root ports and switches' downstream ports are missing.
- Link speeds: a GPU's is NVML's current one in newer versions and, in older ones with the same spelling, the lower of
  its own and its port's maximum; 16 GT/s x16 stands for unknown; other devices have the lower maximum; and many files
  were written or tuned by hand. Neither the current nor the greatest value of a device can be had from that: the
  records keep what the file says, and the survey takes nothing of it. A missing value is better than a wrong one.
- The function of a NIC: ports and virtual functions of an adapter are put under its first function.
- All nodes: those without a GPU or NIC in use are left out.

Bridges that clouds make up (``ffff:ff:01.0``, vendor 0xffff) are no PCI functions. Host hashes and GUIDs are dropped.
"""

import re
from collections.abc import Mapping

import msgspec

from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact, Gap
from hostdoctor.parsers.bdf import canonical_bdf
from hostdoctor.parsers.bitmap import bitmap_cpulist, parse_bitmap
from hostdoctor.parsers.xml_events import read_xml

MAX_FUNCTIONS = 1 << 12  # those without a GPU or NIC below them are left out
MAX_LINKS = 36  # NVLinks of a GPU; the newest have 18
_SPEED = re.compile(r"(\d{1,3}(?:\.\d)?) GT/s")
_NAME = re.compile(r"[\w.:-]{1,64}")  # "mlx5_0+mlx5_1" is a device that NCCL makes of two
_ARCHITECTURES = {"x86_64": "x86_64", "arm64": "aarch64"}  # it says ppc64 for ppc64le too
_SWITCH_CLASS = "0x0680"


class NcclNode(Fact, frozen=True, kw_only=True):
    """A NUMA node with something in use. ``cpus`` is None where masks are empty or contradict each other."""

    id: int
    cpus: str | None = None


class NcclFunction(Fact, frozen=True, kw_only=True):
    """A PCI function. ``switches`` are the bridges above it that the file shows, the uppermost first.

    ``link_speed_gts`` and ``link_width_lanes`` are what NCCL reckons with.
    """

    bdf: str
    class_code: str | None = None
    vendor_id: str | None = None
    device_id: str | None = None
    numa_node: int | None = None
    switches: tuple[str, ...] = ()
    link_speed_gts: float | None = None
    link_width_lanes: int | None = None


class NcclGpu(Fact, frozen=True, kw_only=True):
    """A GPU in use. ``index`` is NVML's; ``nvlinks`` maps peers, GPUs or switches, to how many links go there."""

    index: int | None = None
    bdf: str | None = None
    numa_node: int | None = None
    nvlinks: dict[str, int] = msgspec.field(default_factory=dict)
    nvswitch_links: int = 0
    c2c: bool = False


class NcclNet(Fact, frozen=True, kw_only=True):
    """A network device. ``bdf`` is that of the function under which the file puts it, None for no PCI device."""

    name: str
    bdf: str | None = None
    numa_node: int | None = None


class NcclTopology(Fact, frozen=True, kw_only=True):
    """What NCCL uses of a host."""

    nodes: tuple[NcclNode, ...] = ()
    functions: tuple[NcclFunction, ...] = ()
    gpus: tuple[NcclGpu, ...] = ()
    nets: tuple[NcclNet, ...] = ()
    architecture: str | None = None
    gaps: tuple[Gap, ...] = ()


def parse_nccl_xml(text: str, source: str = "NCCL topology XML") -> NcclTopology:
    """Return what an NCCL topology XML tells, also one whose tail is missing.

    Raises ParseError where the text is none, is not well-formed XML, is of another version, shows no CPU, or shows
    several hosts (dumps of multi-node NVLink systems do).
    """
    found = _Collector(source)
    whole = read_xml(text, source, "system", found)
    if not found.saw_cpu:
        raise ParseError(source, 0, "", "no <cpu> in this topology")
    if len(found.hosts) > 1:
        raise ParseError(source, 0, "", f"{len(found.hosts)} hosts in one topology")
    nodes, doubtful = _nodes(found.masks)
    gaps = [
        Gap(fact=f"numa_nodes[{node}].cpus", source=source, reason="the file gives the same CPUs to several nodes")
        for node in doubtful
    ]
    if not whole:
        reason = "the end of the file is missing"
        gaps.append(Gap(fact="source:nccl-xml", source=source, reason=reason, kind="unreadable"))
    return NcclTopology(
        nodes=nodes,
        functions=tuple(found.functions.values()),
        gpus=tuple(gpu for gpu in map(_gpu, found.gpus) if gpu.index is not None or gpu.bdf is not None),
        nets=tuple(found.nets.values()),
        architecture=found.architectures.pop() if len(found.architectures) == 1 else None,
        gaps=tuple(gaps),
    )


class _Collector:
    """Takes the events of one document."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._node: int | None = None
        self._pci: list[str | None] = []
        self.saw_cpu = False
        self.hosts: set[str] = set()
        self.architectures: set[str] = set()
        self.masks: dict[int, int | None] = {}
        self.functions: dict[str, NcclFunction] = {}
        self.gpus: list[tuple[dict[str, str], str | None, int | None, list[dict[str, str]]]] = []
        self.nets: dict[str, NcclNet] = {}

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Take a start tag."""
        take = {"system": self._system, "cpu": self._cpu, "pci": self._function, "gpu": self._gpu, "net": self._net}
        if tag in take:
            take[tag](attributes)
        elif tag in ("nvlink", "c2c") and self.gpus:
            self.gpus[-1][3].append(attributes | {"": tag})

    def end(self, tag: str) -> None:
        """Take an end tag."""
        if tag == "pci" and self._pci:
            self._pci.pop()
        elif tag == "cpu":
            self._node = None

    def text(self, data: str) -> None:
        """Take characters between tags: there are none that mean something."""

    def _system(self, attributes: Mapping[str, str]) -> None:
        if attributes.get("version") != "1":
            raise ParseError(self._source, 0, attributes.get("version", ""), "unknown version of NCCL's XML")

    def _cpu(self, attributes: Mapping[str, str]) -> None:
        self.saw_cpu = True
        self._node = _number(attributes.get("numaid"), 4)
        if "host_hash" in attributes:
            self.hosts.add(attributes["host_hash"])
        if (architecture := _ARCHITECTURES.get(attributes.get("arch", ""))) is not None:
            self.architectures.add(architecture)
        if self._node is None:
            return
        if self._node in self.masks:
            raise ParseError(self._source, 0, str(self._node), "a NUMA node's number")
        self.masks[self._node] = _mask(attributes.get("affinity", ""))

    def _function(self, attributes: Mapping[str, str]) -> None:
        bdf = None if _is_made_up(attributes) else canonical_bdf(attributes.get("busid", ""))
        if bdf is not None and len(self.functions) < MAX_FUNCTIONS:
            self.functions.setdefault(
                bdf,
                NcclFunction(
                    bdf=bdf,
                    class_code=_hex(attributes.get("class"), 6),
                    vendor_id=_hex(attributes.get("vendor"), 4),
                    device_id=_hex(attributes.get("device"), 4),
                    numa_node=self._node,
                    switches=tuple(above for above in self._pci if above is not None),
                    link_speed_gts=_speed(attributes.get("link_speed", "")),
                    link_width_lanes=_number(attributes.get("link_width"), 2) or None,
                ),
            )
        self._pci.append(bdf)

    def _gpu(self, attributes: dict[str, str]) -> None:
        self.gpus.append((attributes, self._pci[-1] if self._pci else None, self._node, []))

    def _net(self, attributes: Mapping[str, str]) -> None:
        name = attributes.get("name", "")
        if _NAME.fullmatch(name) is None or attributes.get("coll") == "1":
            return
        bdf = self._pci[-1] if self._pci else None
        # What is no PCI device NCCL hangs on the first CPU there is.
        self.nets.setdefault(name, NcclNet(name=name, bdf=bdf, numa_node=self._node if self._pci else None))


def _gpu(found: tuple[dict[str, str], str | None, int | None, list[dict[str, str]]]) -> NcclGpu:
    attributes, bdf, node, links = found
    peers: dict[str, int] = {}
    switched = 0
    for link in links:
        count = _number(link.get("count"), 2) or 0
        if link[""] != "nvlink" or not 0 < count <= MAX_LINKS:
            continue
        peer = canonical_bdf(link.get("target", ""))
        if link.get("tclass", "").startswith(_SWITCH_CLASS):
            switched += count
        elif peer is not None:
            peers[peer] = peers.get(peer, 0) + count
    return NcclGpu(
        index=_number(attributes.get("dev"), 3),
        bdf=bdf,
        numa_node=node,
        nvlinks=peers,
        nvswitch_links=switched,
        c2c=any(link[""] == "c2c" for link in links),
    )


def _nodes(masks: Mapping[int, int | None]) -> tuple[tuple[NcclNode, ...], list[int]]:
    """Return the nodes with their CPUs, and those whose CPUs another node has too."""
    seen = shared = 0
    for mask in masks.values():
        shared |= seen & (mask or 0)
        seen |= mask or 0
    doubtful = sorted(node for node, mask in masks.items() if mask and mask & shared)
    nodes = (
        NcclNode(id=node, cpus=bitmap_cpulist(mask) if mask and node not in doubtful else None)
        for node, mask in sorted(masks.items())
    )
    return tuple(nodes), doubtful


def _is_made_up(attributes: Mapping[str, str]) -> bool:
    is_bridge = attributes.get("class", "").startswith("0x06")
    made_up = attributes.get("vendor", "").lower() in ("0xffff", "0x0000")
    return attributes.get("busid", "").lower().startswith("ffff:ff:") or (is_bridge and made_up)


def _mask(text: str) -> int | None:
    try:
        return parse_bitmap(text) or None
    except ParseError:
        return None


def _hex(text: str | None, digits: int) -> str | None:
    """Return hexadecimal digits without 0x; a class cut short (``0x03``), zeros and ones are None."""
    value = (text or "").lower().removeprefix("0x")
    if len(value) != digits or not set(value) <= set("0123456789abcdef") or set(value) in ({"0"}, {"f"}):
        return None
    return value


def _speed(text: str) -> float | None:
    match = _SPEED.match(text)
    return float(match[1]) or None if match else None


def _number(text: str | None, digits: int) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= digits else None
