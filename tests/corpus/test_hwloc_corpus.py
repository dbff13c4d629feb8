"""Gathered roots of real machines: the map equals their sysfs files, and what hwloc's lstopo makes of them."""

import re
import tarfile
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from hostdoctor.facts import Host
from hostdoctor.parsers.cpulist import format_cpulist, parse_cpulist
from hostdoctor.sources.opening import open_source
from hostdoctor.sources.texts import TextSource
from hostdoctor.survey import survey
from tests.support.corpus import corpus, corpus_names
from tests.support.lstopo import WAYS, differences, lstopo_xml

TARS = [name for name in corpus_names("hwloc") if name.endswith(".tar.bz2")]
# Where hwloc itself merges, hides or ignores: overlapping CPU maps, 32-bit domains, nodes without memory.
MERGED_BY_HWLOC = {"8em64t-2s2ca2c-buggynuma.tar.bz2"}
HIDES_DOMAINS = {"2pa-pcidomain32bits.tar.bz2"}
GIB, KIB = 1 << 30, 1024

pytestmark = [pytest.mark.corpus, pytest.mark.skipif(not TARS, reason="no corpus")]


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Extract every tar once; map its name to its root."""
    found: dict[str, Path] = {}
    for name in TARS:
        target = tmp_path_factory.mktemp("hwloc")
        with tarfile.open(corpus("hwloc", name)) as archive:
            archive.extractall(target, filter="tar")
        found[name] = next(path.parent.parent.parent for path in target.glob("*/sys/devices/system"))
    return found


def host_of(roots: dict[str, Path], name: str) -> Host:
    return survey(open_source([str(roots[name])]))


@pytest.mark.parametrize("name", TARS)
def test_nodes_equal_the_sysfs_files(roots: dict[str, Path], name: str) -> None:
    folder = roots[name] / "sys/devices/system/node"
    expected = {}
    for path in folder.glob("node[0-9]*"):
        meminfo = (path / "meminfo").read_text()
        memory = re.search(r"MemTotal:\s+(\d+) kB", meminfo)
        assert memory
        expected[int(path.name[4:])] = (kernel_cpus(path), int(memory.group(1)) * KIB)
    host = host_of(roots, name)
    assert {node.id: (node.cpus, node.memory_bytes) for node in host.numa_nodes} == expected


@pytest.mark.parametrize("name", TARS)
def test_distances_equal_the_sysfs_files(roots: dict[str, Path], name: str) -> None:
    folder = roots[name] / "sys/devices/system/node"
    host = host_of(roots, name)
    for node in host.numa_nodes:
        path = folder / f"node{node.id}" / "distance"
        if path.is_file():
            assert list(node.distances.values()) == [int(value) for value in path.read_text().split()]
            assert list(node.distances) == [str(other.id) for other in host.numa_nodes]


@pytest.mark.parametrize("name", TARS)
def test_every_pci_function_is_listed_with_its_node(roots: dict[str, Path], name: str) -> None:
    folder = roots[name] / "sys/bus/pci/devices"
    expected = {}
    for path in folder.glob("*"):
        node = path / "numa_node"
        value = int(node.read_text()) if node.is_file() else -1
        expected[path.name] = value if value >= 0 else None
    assert {device.bdf: device.numa_node for device in host_of(roots, name).pci_devices} == expected


@pytest.mark.parametrize("name", sorted(set(TARS) - MERGED_BY_HWLOC))
def test_nodes_equal_lstopo(roots: dict[str, Path], name: str) -> None:
    topology = lstopo(roots[name])
    expected = {}
    for node in topology.iter("object"):
        if node.get("type") == "NUMANode":
            memory = int(node.get("local_memory") or 0)
            expected[int(node.attrib["os_index"])] = (mask_cpus(node.attrib["complete_cpuset"]), memory)
    told = {n.id: (parse_cpulist(n.cpus or ""), n.memory_bytes) for n in host_of(roots, name).numa_nodes}
    cpuless = {node for node, (cpus, _) in told.items() if not cpus}  # hwloc shows their nearest CPUs instead
    assert {i: told[i] for i in expected.keys() - cpuless} == {i: expected[i] for i in expected.keys() - cpuless}
    assert {i: told[i][1] for i in expected.keys() & cpuless} == {i: expected[i][1] for i in expected.keys() & cpuless}
    assert all(not told[i][1] or not told[i][0] for i in told.keys() - expected.keys())


@pytest.mark.parametrize("name", sorted(set(TARS) - MERGED_BY_HWLOC - HIDES_DOMAINS))
def test_pci_localities_equal_lstopo(roots: dict[str, Path], name: str) -> None:
    topology = lstopo(roots[name])
    host = host_of(roots, name)
    node_cpus = {node.id: parse_cpulist(node.cpus or "") for node in host.numa_nodes}
    everything = frozenset[int]().union(*node_cpus.values())
    devices = {device.bdf: device for device in host.pci_devices}
    differing = {}
    for bdf, locality in pci_localities(topology):
        device = devices[bdf]
        if device.numa_node is None:
            continue
        cpus = node_cpus[device.numa_node]
        if locality not in (cpus, everything) and not cpus <= locality:
            differing[bdf] = (format_cpulist(locality), format_cpulist(cpus))
    assert differing == {}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", sorted(set(TARS) - MERGED_BY_HWLOC))
def test_lstopo_xml_tells_what_sysfs_tells_or_less(roots: dict[str, Path], name: str, way: str) -> None:
    text = lstopo_xml(roots[name], *WAYS[way])
    assert differences(host_of(roots, name), survey(TextSource([("host.xml", text)]))) == []


def kernel_cpus(node: Path) -> str:
    """Return a node's CPUs from its bitmap, by arithmetic of its own."""
    words = (node / "cpumap").read_text().strip().split(",")
    bits = int("".join(word.zfill(8) for word in words), 16)
    return format_cpulist(i for i in range(bits.bit_length()) if bits & (1 << i))


def lstopo(root: Path) -> ET.Element:
    return ET.fromstring(lstopo_xml(root, "--whole-io", "--disallowed"))


def mask_cpus(mask: str) -> frozenset[int]:
    """Return the ids of hwloc's bitmap: comma-separated 32-bit words, an empty word is zero, 0xf...f is infinite."""
    words = mask.split(",")
    bits = 0
    for word in words:
        bits = bits << 32 | int(word or "0", 16)
    return frozenset(i for i in range(bits.bit_length()) if bits >> i & 1)


def pci_localities(topology: ET.Element) -> list[tuple[str, frozenset[int]]]:
    """Return each PCI function with the CPUs of the nearest object above it that has some."""
    found = []

    def walk(element: ET.Element, cpus: frozenset[int]) -> None:
        here = mask_cpus(element.get("complete_cpuset") or "") if element.get("complete_cpuset") else cpus
        if element.get("type") in ("PCIDev", "Bridge") and element.get("pci_busid"):
            found.append((element.get("pci_busid") or "", here))
        for child in element:
            walk(child, here)

    walk(topology, frozenset())
    return found
