"""Several texts about one host are one host: joined by address, index and name, each difference kept."""

from typing import Any

import pytest

from hostdoctor.diagnosis import Ask
from hostdoctor.diagnosis.runner import diagnose
from hostdoctor.facts import GapKind, Host
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.texts import TextSource
from hostdoctor.sources.tree import MemoryTree
from hostdoctor.survey import survey

TREE = """\
-[0000:15]---01.0-[16-1a]----00.0-[17-1a]--+-00.0-[18]----00.0  NVIDIA Corporation GH100 [H100 SXM5 80GB]
                                           +-01.0-[19]----00.0  Mellanox Technologies MT2910 Family [ConnectX-7]
                                           \\-02.0-[1a]----00.0  Samsung Electronics Co Ltd NVMe SSD Controller PM1743
"""
NVME_JSON = '{"Devices":[{"Subsystems":[{"Controllers":[{"Controller":"nvme3","ModelNumber":"EXAMPLE SSD","Address":\
"0000:1a:00.0","Transport":"pcie","Namespaces":[{"NameSpace":"nvme3n1","NSID":1}]}],"Namespaces":[]}]}]}'
INTERRUPTS = """\
            CPU0       CPU1
  98:          9          0 IR-PCI-MSIX-0000:1a:00.0    0-edge      nvme3q0
  99:          5          0 IR-PCI-MSIX-0000:1a:00.0    1-edge      nvme3q1
 100:          0          7 IR-PCI-MSIX-0000:1a:00.0    2-edge      nvme3q2
"""
NUMACTL = """\
available: 2 nodes (0-1)
node 0 cpus: 0 1 2 3
node 0 size: 8000 MB
node 0 free: 700 MB
node 1 cpus: 4 5 6 7
node 1 size: 8000 MB
node 1 free: 700 MB
node distances:
node   0   1
  0:  10  21
  1:  21  10
"""
VERBOSE = """\
18:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)
\tNUMA node: 0
\tKernel driver in use: nvidia
"""


def host_of(*texts: str) -> Host:
    return survey(TextSource([(f"text {i}", text) for i, text in enumerate(texts)]))


def matrix(*rows: tuple[str, str], kind: str = "NV18") -> str:
    """Return a matrix of GPUs, each with its CPUs and its node's cell."""
    labels = [f"GPU{i}" for i in range(len(rows))]
    lines = ["\t" + "\t".join(labels) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"]
    for i, (cpus, node) in enumerate(rows):
        cells = [" X " if i == j else kind for j in range(len(rows))]
        lines.append("\t".join([labels[i], *cells, cpus, node, "", "N/A"]))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("texts", [(TREE, NVME_JSON), (NVME_JSON, TREE), (TREE + "\n" + NVME_JSON,)])
def test_a_drive_in_lspci_and_nvme_list_is_one(texts: tuple[str, ...]) -> None:
    (drive,) = host_of(*texts).nvme
    assert (drive.name, drive.bdf, drive.model) == ("nvme3", "0000:1a:00.0", "EXAMPLE SSD")
    assert (drive.root_complex, drive.root_port) == ("0000:15", "0000:15:01.0")


def test_interrupts_name_the_drive_by_address() -> None:
    (drive,) = host_of(TREE, INTERRUPTS).nvme
    assert (drive.name, drive.root_port) == ("nvme3", "0000:15:01.0")
    assert [(queue.id, queue.irq) for queue in drive.queues] == [(1, 99), (2, 100)]


def test_a_node_told_by_lspci_is_not_called_sysfs() -> None:
    host = host_of(VERBOSE, matrix(("4-7", "1")))
    assert [(d.fact, d.values) for d in host.disagreements] == [
        ("gpus[0].numa_node", {"lspci": 0, "nvidia-smi topo -m": 1})
    ]
    assert host.gpus[0].numa_node == 0


def test_a_second_matrix_that_differs_is_kept() -> None:
    first, second = matrix(("0-3", "0"), ("4-7", "1")), matrix(("0-3", "0"), ("0-3", "0"), kind="PHB")
    found: dict[str, Any] = {d.fact: d.values for d in host_of(first, second).disagreements}
    assert found["gpus[1].numa_node"] == {"nvidia-smi topo -m": 1, "nvidia-smi topo -m (2)": 0}
    assert found["paths[GPU0,GPU1]"] == {"nvidia-smi topo -m": "NV18", "nvidia-smi topo -m (2)": "PHB"}


def test_the_same_matrix_twice_is_no_disagreement() -> None:
    text = matrix(("0-3", "0"), ("4-7", "1"))
    assert host_of(text, text).disagreements == ()


def test_near_cpus_tell_the_node_where_the_matrix_does_not() -> None:
    old = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSOC\t0-3\nGPU1\tSOC\t X \t4-7\n"
    host = host_of(old, NUMACTL)
    assert [gpu.numa_node for gpu in host.gpus] == [0, 1]
    assert host.paths[0].kind == "SYS"


def test_every_cpu_node_named_means_nobody_knows() -> None:
    host = host_of(matrix(("0-7", "0-1")), VERBOSE, NUMACTL)
    assert (host.gpus[0].numa_node, host.disagreements) == (0, ())
    (gpu,) = host_of(matrix(("0-7", "0-1")), NUMACTL).gpus
    assert (gpu.numa_node, gpu.numa_nodes) == (None, (0, 1))


def test_unlike_counts_are_not_joined() -> None:
    host = host_of(TREE, matrix(("0-3", "0"), ("4-7", "1")))
    assert [(gpu.bdf, gpu.numa_node) for gpu in host.gpus] == [(None, 0), (None, 1)]
    assert "1 GPUs on PCI, 2 in the matrix" in next(gap.reason for gap in host.gaps if gap.fact == "gpus")


NAMES = {
    "NVIDIA Corporation GH100 [GH200 120GB / 480GB]": True,
    "NVIDIA Corporation GH100 [H100 NVSwitch]": False,
    "NVIDIA Corporation TU117GL [T1000 8GB]": True,
    "NVIDIA Corporation GA102 High Definition Audio Controller": False,
    "NVIDIA Corporation TU104 USB Type-C UCSI Controller": False,
    "NVIDIA Corporation Device 22bc": False,
    "Mellanox Technologies MT2910 Family [ConnectX-7]": False,
    "ASPEED Technology, Inc. ASPEED Graphics Family": False,
}


@pytest.mark.parametrize("name", NAMES)
def test_a_tree_s_gpu_is_told_by_its_product_name(name: str) -> None:
    host = host_of(f"-[0000:00]-+-01.0-[01]----00.0  {name}\n           \\-1f.0  Example Corp ISA bridge\n")
    assert bool(host.gpus) == NAMES[name]


DISPLAYS = {
    "04:00.0 Display controller: Red Hat, Inc. Virtio 1.0 GPU": False,
    "1a4f:00:00.0 3D controller: Microsoft Corporation Device 008e": False,
    "03:00.0 VGA compatible controller: ASPEED Technology, Inc. ASPEED Graphics Family": False,
    "00:02.0 VGA compatible controller: Intel Corporation UHD Graphics 770": True,
    "05:00.0 Display controller: Advanced Micro Devices, Inc. [AMD/ATI] Aldebaran": True,
    "06:00.0 Processing accelerators: Habana Labs Ltd. HL-2000 AI Training Accelerator": True,
}


@pytest.mark.parametrize("line", DISPLAYS)
def test_a_listing_s_gpu_is_told_by_class_and_maker(line: str) -> None:
    assert bool(host_of(line + "\n00:1f.0 ISA bridge: Intel Corporation Device\n").gpus) == DISPLAYS[line]


def test_an_old_table_s_version_is_not_part_of_the_model() -> None:
    widths = (16, 20, 40, 8, 9, 26, 16, 8)
    cells = ("/dev/nvme0n1", "S1", "EXAMPLE SSD 400", "1.0", "1", "400.09  GB / 400.09  GB", "512   B +  0 B", "FW1")
    names = ("Node", "SN", "Model", "Version", "Namespace", "Usage", "Format", "FW Rev")
    rows = [names, tuple("-" * width for width in widths), cells]
    text = "\n".join(" ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    (drive,) = host_of(text + "\n").nvme
    assert (drive.model, drive.firmware) == ("EXAMPLE SSD 400", "FW1")


def root(files: dict[str, str], links: dict[str, str] | None = None) -> Host:
    """Return the survey of two nodes of four CPUs each, with further files."""
    base = {"/sys/devices/system/node/online": "0-1\n"}
    for node in (0, 1):
        folder = f"/sys/devices/system/node/node{node}"
        base |= {f"{folder}/cpulist": f"{4 * node}-{4 * node + 3}\n", f"{folder}/distance": "10 21\n"}
        base |= {f"{folder}/meminfo": f"Node {node} MemTotal:  8000 kB\nNode {node} MemFree:  10 kB\n"}
    data = {path: text.encode() for path, text in (base | files).items()}
    return survey(RootSource(MemoryTree(data, links or {}), "root"))


def gpu_files(bdf: str, node: str, vendor: str = "0x10de") -> dict[str, str]:
    folder = f"/sys/bus/pci/devices/{bdf}"
    return {
        f"{folder}/vendor": vendor + "\n",
        f"{folder}/device": "0x2330\n",
        f"{folder}/class": "0x030200\n",
        f"{folder}/numa_node": node + "\n",
    }


@pytest.mark.parametrize("node", ["4294967295", "65535", "7", "-1", "", "x"])
def test_a_node_that_the_host_does_not_list_is_unknown(node: str) -> None:
    host = root(gpu_files("0000:01:00.0", node))
    assert (host.gpus[0].numa_node, host.gpus[0].numa_nodes) == (None, ())
    assert any(gap.fact in ("gpus[0].numa_node", "pci_devices[0000:01:00.0].numa_node") for gap in host.gaps)


def test_a_gpu_that_is_passed_through_is_not_numbered() -> None:
    files = gpu_files("0000:01:00.0", "0") | gpu_files("0000:02:00.0", "1")
    host = root(files, {"/sys/bus/pci/devices/0000:01:00.0/driver": "../../../../bus/pci/drivers/vfio-pci"})
    assert [(gpu.bdf, gpu.index) for gpu in host.gpus] == [("0000:02:00.0", 0), ("0000:01:00.0", None)]


def test_listed_nodes_and_cpus_must_be_there() -> None:
    host = root({"/sys/devices/system/node/online": "0-65000\n", "/sys/devices/system/cpu/online": "0-65000\n"})
    assert [node.id for node in host.numa_nodes] == [0, 1]
    assert host.cores == ()


@pytest.mark.parametrize("distance", ["10 ²¹\n", "0 21\n", "10 99999\n", "10\n", "10 2\n"])
def test_distances_that_cannot_be_are_unknown(distance: str) -> None:
    host = root({"/sys/devices/system/node/node0/distance": distance})
    assert host.numa_nodes[0].distances == {}
    assert any(gap.fact == "numa_nodes[0].distances" for gap in host.gaps)


class Denied(MemoryTree):
    """A tree in which what is missing was denied."""

    def why_unreadable(self, path: str) -> tuple[GapKind, str]:
        return "denied", "permission denied"


@pytest.mark.parametrize("hidden", ["class", "vendor", ""])
def test_pci_that_may_not_be_read_is_unknown_not_empty(hidden: str) -> None:
    files = {p: t for p, t in gpu_files("0000:01:00.0", "0").items() if hidden and not p.endswith(hidden)}
    files |= {"/sys/devices/system/node/online": "0\n", "/sys/devices/system/node/node0/cpulist": "0-3\n"}
    host = survey(RootSource(Denied({path: text.encode() for path, text in files.items()}, {}), "root"))
    report = diagnose(host, Ask(), ())
    assert (report.status, "PCI functions cannot be read" in (report.unknown or "")) == ("unknown", True)
