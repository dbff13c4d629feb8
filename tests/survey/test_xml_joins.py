"""What hwloc's and NCCL's XML add to a host, alone, beside each other and beside sysfs."""

import pytest

from hostdoctor.facts import Host
from hostdoctor.sources.combined import CombinedSource
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.texts import TextSource
from hostdoctor.sources.tree import MemoryTree
from hostdoctor.survey import survey
from tests.parsers.test_nccl_xml import DUMP
from tests.support.hostbuilder import build_files, load_host, rooted_files
from tests.support.render_hwloc import function, node, os_device, topology, two_sockets

MATRIX = """\
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV18\t8-15,24-31\t1\t\tN/A
GPU1\tNV18\t X \t0-7,16-23\t0\t\tN/A
"""


def host_of(*texts: str) -> Host:
    return survey(TextSource([(f"text{i}", text) for i, text in enumerate(texts)]))


def beside(name: str, *texts: str) -> Host:
    files = build_files(load_host(name))
    root = RootSource(MemoryTree(rooted_files(files), files.links), name)
    return survey(CombinedSource([root, TextSource([(f"text{i}", text) for i, text in enumerate(texts)])]))


def test_a_host_of_lstopo_alone() -> None:
    host = host_of(two_sockets("3.0"))
    assert [(n.id, n.kind, n.package) for n in host.numa_nodes] == [(0, "cpu+memory", 0), (1, "cpu+memory", 1)]
    assert [(g.index, g.bdf, g.numa_node, g.name, g.uuid, g.cpus) for g in host.gpus] == [
        (0, "0000:94:00.0", 1, "NVIDIA H100", "GPU-1", "8-15,24-31"),
        (1, "0000:14:00.0", 0, "NVIDIA H100", "GPU-0", "0-7,16-23"),
    ]
    assert host.gpus[0].root_port == "0000:90:01.0"
    assert [(n.name, n.netdevs, n.rdma, n.numa_node) for n in host.nics] == [
        ("mlx5_0", ("ib0",), True, 0),
        ("mlx5_1", ("ib1",), True, 1),
    ]
    assert [(d.name, d.namespaces, d.model, d.bdf) for d in host.nvme] == [
        ("nvme0", ("nvme0n1",), "PM9A3", "0000:16:00.0"),
        ("nvme1", ("nvme1n1",), "PM9A3", "0000:96:00.0"),
    ]
    kinds = {(path.a, path.b): path.kind for path in host.paths}
    assert kinds[("GPU1", "mlx5_0")] == "PIX"
    assert kinds[("GPU0", "GPU1")] == "SYS"
    assert (host.system.hostname, host.system.packages) == ("gpu7", 2)
    assert host.disagreements == ()
    assert [gap.fact for gap in host.gaps] == ["system.virtualization"]


def test_lstopo_and_a_matrix_are_joined_by_the_drivers_index() -> None:
    host = host_of(MATRIX, two_sockets("2.0"))
    assert [(g.index, g.bdf, g.numa_node) for g in host.gpus] == [(0, "0000:94:00.0", 1), (1, "0000:14:00.0", 0)]
    assert host.disagreements == ()
    assert [(p.a, p.b, p.kind) for p in host.paths] == [("GPU0", "GPU1", "NV18")]


def test_lstopo_and_a_matrix_that_differ() -> None:
    host = host_of(MATRIX.replace("\t1\t\t", "\t0\t\t"), two_sockets("2.0"))
    told = {d.fact: d.values for d in host.disagreements}
    assert told["gpus[0].numa_node"] == {"nvidia-smi topo -m": 0, "lstopo XML": 1}


def test_a_gpu_near_several_nodes() -> None:
    device = function("0000:01:00.0", "0302 [10de:2330]")
    sets = 'cpuset="0x0000000f" complete_cpuset="0x0000000f"'
    group = f'<object type="Group" {sets}>{node(0, (0, 1))}{node(1, (2, 3))}{device}</object>'
    host = host_of(topology("2.0", range(6), range(3), group + node(2, (4, 5))))
    assert (host.gpus[0].numa_node, host.gpus[0].numa_nodes, host.gpus[0].cpus) == (None, (0, 1), "0-3")
    assert host.pci_devices[0].numa_node is None


def test_a_function_that_the_driver_calls_a_gpu_is_one() -> None:
    unread = function("0000:01:00.0", "0000 [0000:0000]", os_device("nvml0", "gpu", "2.0"))
    host = host_of(topology("2.0", range(4), (0,), node(0, range(4)) + unread))
    assert [(g.index, g.bdf, g.numa_node) for g in host.gpus] == [(0, "0000:01:00.0", 0)]


def test_a_host_of_nccl_alone() -> None:
    host = host_of(DUMP)
    assert [(n.id, n.cpus, n.memory_bytes, n.kind) for n in host.numa_nodes] == [
        (0, "0-15,48-63", None, None),
        (1, "16-47,64-95", None, None),
    ]
    assert [(g.index, g.bdf, g.numa_node, g.c2c, g.upstream) for g in host.gpus] == [
        (0, "0000:98:00.0", 1, True, ()),
        (1, "0000:18:00.0", 0, None, ()),
    ]
    assert [(n.name, n.bdf, n.numa_node) for n in host.nics] == [
        ("mlx5_0", None, 0),
        ("mlx5_1", None, 0),
        ("eth0", None, None),
    ]
    assert {(p.a, p.b, p.kind) for p in host.paths} == {
        ("GPU0", "GPU1", "NV18"),
        ("GPU0", "mlx5_0", "SYS"),
        ("GPU0", "mlx5_1", "SYS"),
        ("GPU1", "mlx5_0", "PIX"),
        ("GPU1", "mlx5_1", "PIX"),
        ("mlx5_0", "mlx5_1", "PIX"),
    }
    facts = [gap.fact for gap in host.gaps]
    addresses = [f"nics[{i}].bdf" for i in range(3)]
    assert facts == ["numa_nodes", *addresses, "nics[2].numa_node", "nvme", "system.virtualization"]


LINKED = '<nvlink target="{}" count="{}" tclass="0x030200"/>'


@pytest.mark.parametrize(("there", "back", "kinds"), [(12, 12, ["NV12"]), (12, 8, []), (0, 12, [])])
def test_nvlinks_from_one_to_the_other(there: int, back: int, kinds: list[str]) -> None:
    links = (("0001:00:00.0", "0002:00:00.0", there), ("0002:00:00.0", "0001:00:00.0", back))
    gpus = "".join(
        f'<pci busid="{a}" class="0x030200"><gpu dev="{i}">{LINKED.format(b, count)}</gpu></pci>'
        for i, (a, b, count) in enumerate(links)
    )
    host = host_of(f'<system version="1"><cpu numaid="0" affinity="ff">{gpus}</cpu></system>')
    assert [path.kind for path in host.paths] == kinds


def test_a_sole_network_device_has_its_address() -> None:
    host = host_of(DUMP.replace("mlx5_1", "not a name"))
    assert [(n.name, n.bdf) for n in host.nics if n.numa_node == 0] == [("mlx5_0", "0000:19:00.0")]


def test_nccl_and_lstopo_that_differ() -> None:
    """The NCCL file is of the same addresses on the other node."""
    gpus = '<pci busid="0000:14:00.0" class="0x030200"/>'
    nccl = f'<system version="1"><cpu numaid="1" affinity="ff00ff00">{gpus}</cpu></system>'
    host = host_of(two_sockets("3.0"), nccl)
    told = {d.fact: d.values for d in host.disagreements}
    assert told["gpus[1].numa_node"] == {"lstopo XML": 0, "NCCL topology XML": 1}
    assert host.gpus[1].numa_node == 0


def test_sysfs_counts_before_any_xml() -> None:
    gpu = '<pci busid="0000:1b:00.0" class="0x030200"/>'
    host = beside("dgx-h100", f'<system version="1"><cpu numaid="1" affinity="1">{gpu}</cpu></system>')
    plain = beside_nothing("dgx-h100")
    assert host.gpus == plain.gpus
    assert host.pci_devices == plain.pci_devices
    assert [n.cpus for n in host.numa_nodes] == [n.cpus for n in plain.numa_nodes]
    index = next(i for i, g in enumerate(host.gpus) if g.bdf == "0000:1b:00.0")
    assert {"numa_nodes[1].cpus", f"gpus[{index}].numa_node"} <= {d.fact for d in host.disagreements}


def beside_nothing(name: str) -> Host:
    files = build_files(load_host(name))
    return survey(RootSource(MemoryTree(rooted_files(files), files.links), name))


def test_what_sysfs_does_not_list_is_not_there() -> None:
    host = beside("dgx-h100", DUMP.replace("0000:98:00.0", "0000:77:00.0"))
    assert "0000:77:00.0" not in {d.bdf for d in host.pci_devices}
    assert "0000:77:00.0" not in {gpu.bdf for gpu in host.gpus}
    told = {d.fact: d.values for d in host.disagreements}
    assert told["pci_devices[0000:77:00.0]"] == {"sysfs": None, "NCCL topology XML": "0000:77:00.0"}


@pytest.mark.parametrize("text", [two_sockets("3.0")[:-300], DUMP[:-60]])
def test_a_missing_tail_is_said(text: str) -> None:
    assert any("end of the file" in gap.reason for gap in host_of(text).gaps)


def test_a_file_that_is_refused_is_said() -> None:
    host = host_of(DUMP.replace("</pci>", "", 1))
    assert [(g.fact, g.kind) for g in host.gaps if g.fact.startswith("source")] == [("source:nccl-xml", "unreadable")]
    assert host.gpus == ()
