"""The described hosts as hwloc's lstopo sees them: its XML gives the same map as their sysfs files, or less of it."""

from functools import cache
from pathlib import Path

import pytest

from hostdoctor.facts import Host
from hostdoctor.sources.opening import open_source
from hostdoctor.sources.texts import TextSource
from hostdoctor.survey import survey
from tests.support.hostbuilder import build_files, host_names, load_host, write_tree
from tests.support.lstopo import WAYS, differences, lstopo_xml


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hosts")


@cache
def root_of(name: str, folder: Path) -> Path:
    write_tree(build_files(load_host(name)), folder / name)
    return folder / name


@cache
def from_sysfs(root: Path) -> Host:
    return survey(open_source([str(root)]))


@cache
def from_xml(root: Path, way: str) -> Host:
    return survey(TextSource([("host.xml", lstopo_xml(root, *WAYS[way]))]))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", host_names())
def test_lstopo_xml_tells_what_sysfs_tells_or_less(name: str, way: str, folder: Path) -> None:
    root = root_of(name, folder)
    assert differences(from_sysfs(root), from_xml(root, way)) == []


@pytest.mark.parametrize("name", host_names())
def test_lstopo_xml_tells_most(name: str, folder: Path) -> None:
    root = root_of(name, folder)
    sysfs, xml = from_sysfs(root), from_xml(root, "all devices")
    shown = {node.id: node.cpus for node in sysfs.numa_nodes if node.id in {n.id for n in xml.numa_nodes}}
    assert {node.id: node.cpus for node in xml.numa_nodes} == shown
    assert {device.bdf for device in xml.pci_devices} == {device.bdf for device in sysfs.pci_devices}
    assert {gpu.bdf: gpu.upstream for gpu in xml.gpus} == {g.bdf: g.upstream for g in sysfs.gpus if g.bdf is not None}
    placed = {d.bdf for d in xml.pci_devices if d.numa_node is not None}
    assert {d.bdf for d in sysfs.pci_devices if d.numa_node is not None} <= placed


def test_this_machine() -> None:
    """Live, but by files alone: what lstopo asks the processor for is not in question."""
    assert differences(from_sysfs(Path("/")), from_xml(Path("/"), "all devices")) == []
