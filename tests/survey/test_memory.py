"""Node memory from the kernel's files: pages become bytes by the page size that the evidence gives."""

import pytest

from hostdoctor.budget.available import node_available
from hostdoctor.facts import Host
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import MemoryTree
from hostdoctor.survey import survey
from tests.support.hostbuilder import build_files, load_host, rooted_files

NODE0 = "/sys/devices/system/node/node0"
MEMINFO, VMSTAT, ZONEINFO = f"{NODE0}/meminfo", f"{NODE0}/vmstat", "/proc/zoneinfo"


def surveyed(name: str, **files: str | None) -> Host:
    """Return a built host with files replaced, by ``zoneinfo``, ``meminfo`` and ``vmstat``."""
    built = build_files(load_host(name))
    tree = dict(rooted_files(built))
    for key, text in files.items():
        path = {"zoneinfo": ZONEINFO, "meminfo": MEMINFO, "vmstat": VMSTAT}[key]
        if text is None:
            del tree[path]
        else:
            tree[path] = text.encode()
    return survey(RootSource(MemoryTree(tree, built.links), name))


def reasons(host: Host, fact: str) -> list[str]:
    return [gap.reason for gap in host.gaps if gap.fact == fact]


def test_pages_are_4_kib_where_managed_pages_make_up_the_total() -> None:
    host = surveyed("dgx-h100")
    assert host.system.page_size_bytes == 4096
    for node in host.numa_nodes:
        assert node.memory is not None
        assert node.memory_bytes is not None
        managed = sum(zone.managed_bytes for zone in node.memory.zones)
        assert managed == pytest.approx(node.memory_bytes, rel=1e-6)
        available = node_available(node).pinnable_bytes
        assert available is not None
        assert node.free_bytes is not None
        assert 0.5 * node.free_bytes < available < node.memory_bytes


def test_pages_are_64_kib_on_grace_and_gpu_memory_is_not_pinnable() -> None:
    host = surveyed("gb200-tray")
    assert host.system.page_size_bytes == 65536
    gpu_node = next(node for node in host.numa_nodes if node.kind == "gpu-memory" and node.memory_bytes)
    told = node_available(gpu_node)
    assert told.available_bytes is not None
    assert gpu_node.memory is not None
    assert {zone.name for zone in gpu_node.memory.zones} == {"Movable"}
    assert told.available_bytes > 0.5 * (gpu_node.memory_bytes or 0)
    assert told.pinnable_bytes == 0


def test_pages_that_drivers_hold_are_counted_on_their_node() -> None:
    host = surveyed("dgx-h100", vmstat="nr_free_pages 9\nnr_foll_pin_acquired 700\nnr_foll_pin_released 200\n")
    assert [node.memory and node.memory.pinned_bytes for node in host.numa_nodes] == [500 * 4096, None]


def test_no_page_size_is_guessed() -> None:
    zones = next(t for p, t in rooted_files(build_files(load_host("dgx-h100"))).items() if p == ZONEINFO)
    text = (zones if isinstance(zones, str) else zones.decode()).replace("managed  3840", "managed  999999999")
    host = surveyed("dgx-h100", zoneinfo=text)
    assert host.system.page_size_bytes is None
    assert reasons(host, "system.page_size_bytes")
    assert node_available(host.numa_nodes[0]).reason == "the zones of node 0 or the page size are not known"


def test_no_zones_no_figure() -> None:
    host = surveyed("dgx-h100", zoneinfo=None)
    assert reasons(host, "numa_nodes.memory.zones")
    assert node_available(host.numa_nodes[0]).available_bytes is None


def test_broken_files_are_gaps_that_quote_the_line() -> None:
    host = surveyed("dgx-h100", zoneinfo="nonsense\n", meminfo="Node 0 MemTotal: 9 kB\nnonsense\n")
    assert "nonsense" in reasons(host, "numa_nodes.memory.zones")[0]
    assert "line 2" in reasons(host, "numa_nodes[0].memory")[0]
    assert host.numa_nodes[0].memory is None
