"""The described hosts hang together, say what they were meant to say, and read the same through hwloc."""

import io
import json
import os
import posixpath
import shutil
import subprocess  # noqa: TID251  runs lstopo on trees that this test wrote
import tarfile
import time
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from hostdoctor.parsers.cpulist import parse_cpulist
from hostdoctor.sources.base import NvmlOutput
from tests.support.hostbuilder import (
    HostFiles,
    big_description,
    build_files,
    host_names,
    load_host,
    pack,
    rooted_files,
    write_tree,
)
from tests.support.hostbuilder.catalogue import HOSTS
from tests.support.hostbuilder.files import mask, relative

NAMES = host_names()
PCI = "/sys/bus/pci/devices/"
NODES = "/sys/devices/system/node"
EXPECTED = {  # nodes with CPUs, CPUs, GPUs that NVML lists (None: not asked), RDMA devices, NVMe drives
    "aws-p5": (2, 192, 8, 32, 9),
    "azure-ndv5": (2, 96, 8, 9, 8),
    "demo": (2, 192, 8, 9, 4),
    "dgx-h100": (2, 224, 8, 12, 10),
    "gb200-tray": (2, 144, 4, 8, 3),
    "l40s-4": (2, 128, 4, 1, 3),
    "no-gpu-2n": (4, 128, None, 2, 2),
    "oci-h100": (2, 224, 8, 18, 16),
    "pod-2-of-8": (2, 224, 2, 12, 10),
    "sick-2n": (2, 192, 8, 9, 3),
    "workstation": (1, 24, 1, 0, 1),
}
every_host = pytest.mark.parametrize("name", NAMES)


@cache
def built(name: str) -> HostFiles:
    return build_files(load_host(name))


def text(host: HostFiles, path: str) -> str:
    return host.files[path].decode().rstrip("\n")


def target(host: HostFiles, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(link), host.links[link]))


def functions(host: HostFiles) -> dict[str, str]:
    """Return the folder of every PCI function by BDF."""
    return {link[len(PCI) :]: target(host, link) for link in host.links if link.startswith(PCI)}


def node_ids(host: HostFiles) -> list[int]:
    return sorted(parse_cpulist(text(host, f"{NODES}/online")))


def test_every_folder_is_expected() -> None:
    assert sorted(EXPECTED) == NAMES


@every_host
def test_manifest_states_where_it_comes_from(name: str) -> None:
    manifest = json.loads((HOSTS / name / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["provenance"] in ("constructed", "captured")
    assert manifest["shape"]
    assert manifest["from"]


@every_host
def test_counts(name: str) -> None:
    host = built(name)
    with_cpus = [i for i in node_ids(host) if text(host, f"{NODES}/node{i}/cpulist")]
    cpus = parse_cpulist(text(host, "/sys/devices/system/cpu/online"))
    gpus = len(host.nvml["document"]["gpus"]) if host.nvml else None
    classes = [sum(1 for link in host.links if link.startswith(f"/sys/class/{c}/")) for c in ("infiniband", "nvme")]
    assert (len(with_cpus), len(cpus), gpus, *classes) == EXPECTED[name]


@every_host
def test_every_link_resolves_inside(name: str) -> None:
    host = built(name)
    folders = {""}
    for path in (*host.files, *host.links):
        while path not in folders:
            folders.add(path)
            path = path.rpartition("/")[0]
    dangling = [link for link in host.links if target(host, link) not in folders]
    assert dangling == []


@every_host
def test_node_cpulists_partition_the_cpus(name: str) -> None:
    host = built(name)
    lists = [parse_cpulist(text(host, f"{NODES}/node{i}/cpulist")) for i in node_ids(host)]
    assert sum(map(len, lists)) == len(frozenset().union(*lists))
    assert frozenset().union(*lists) == parse_cpulist(text(host, "/sys/devices/system/cpu/online"))


@every_host
def test_distances_are_a_square_with_ten_on_the_diagonal(name: str) -> None:
    host = built(name)
    rows = [[int(x) for x in text(host, f"{NODES}/node{i}/distance").split()] for i in node_ids(host)]
    assert {len(row) for row in rows} == {len(rows)}
    assert {row[i] for i, row in enumerate(rows)} == {10}
    assert rows == [list(column) for column in zip(*rows, strict=True)]


@every_host
def test_local_cpulist_is_its_nodes(name: str) -> None:
    host = built(name)
    everything = text(host, "/sys/devices/system/cpu/online")
    for bdf, folder in functions(host).items():
        node = int(text(host, f"{folder}/numa_node"))
        near = everything if node < 0 else text(host, f"{NODES}/node{node}/cpulist")
        assert text(host, f"{folder}/local_cpulist") == near, bdf


@every_host
def test_both_ends_of_a_link_agree(name: str) -> None:
    host = built(name)
    for folder in functions(host).values():
        above = posixpath.dirname(folder)
        faces_down = text(host, f"{above}/class") == "0x060400" if f"{above}/class" in host.files else False
        is_downstream = faces_down and not _is_upstream_port(host, above)
        is_virtual = f"{folder}/physfn" in host.links
        if not is_downstream or is_virtual or f"{folder}/current_link_width" not in host.files:
            continue
        for value in ("current_link_width", "current_link_speed"):
            if text(host, f"{above}/max_link_speed") != "Unknown":
                assert text(host, f"{above}/{value}") == text(host, f"{folder}/{value}"), folder


def _is_upstream_port(host: HostFiles, folder: str) -> bool:
    below = [path for path in functions(host).values() if posixpath.dirname(path) == folder]
    return bool(below) and all(text(host, f"{path}/class") == "0x060400" for path in below)


@every_host
def test_queues_cover_the_cpus_once_and_interrupts_match(name: str) -> None:
    host = built(name)
    cpus = parse_cpulist(text(host, "/sys/devices/system/cpu/online"))
    drives: dict[str, list[frozenset[int]]] = {}
    for path, data in host.files.items():
        if path.endswith("/cpu_list"):
            drives.setdefault(path.split("/mq/")[0], []).append(parse_cpulist(data.decode()))
    assert len(drives) == EXPECTED[name][4]
    for folder, queues in drives.items():
        assert frozenset().union(*queues) == cpus, folder
        assert sum(map(len, queues)) == len(cpus), folder
    rows = text(host, "/proc/interrupts").splitlines()
    width = len(rows[0].split())
    for row in rows[1:]:
        irq, cells = row.partition(":")[0].strip(), row.partition(":")[2].split()
        if "nvme" in row:
            landed = [i for i, cell in enumerate(cells[:width]) if cell != "0"]
            assert landed == [int(text(host, f"/proc/irq/{irq}/effective_affinity_list"))]


@every_host
def test_nvml_answer_has_the_readers_shape(name: str) -> None:
    host = built(name)
    if host.nvml is None:
        return
    answer = msgspec.convert(host.nvml, NvmlOutput)
    assert answer.state == "ok"
    for gpu in (answer.document or {})["gpus"]:
        assert f"{gpu['bdf'][4:].lower()}" in functions(host)


@every_host
def test_build_is_fast_and_repeatable(name: str) -> None:
    description = load_host(name)
    start = time.process_time()
    again = build_files(description)
    assert time.process_time() - start < 1.0  # ten times what is meant, for a loaded machine
    assert again == built(name)


def test_packages_see_what_was_packed() -> None:
    host = built("workstation")
    data = pack(host)
    assert data == pack(build_files(load_host("workstation")))
    assert "/hostdoctor/nvml.json" in rooted_files(host)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        names = archive.getnames()
        link = archive.getmember("sys/bus/pci/devices/0000:01:00.0")
    assert "sos_commands/nvidia/nvidia-smi_topo_-m" in names
    assert "sos_commands/numa/numactl_--hardware" in names
    assert "hostdoctor/nvml.json" in names
    assert link.linkname == "../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0"


def test_written_tree_is_the_built_one(tmp_path: Path) -> None:
    host = built("workstation")
    write_tree(host, tmp_path)
    assert (tmp_path / "sys/class/nvme/nvme0/model").read_bytes() == host.files[f"{_drive(host)}/model"]
    assert (tmp_path / "sys/block/nvme0n1").readlink() == Path(host.links["/sys/block/nvme0n1"])


def _drive(host: HostFiles) -> str:
    return target(host, "/sys/class/nvme/nvme0")


def test_big_host_has_the_asked_numbers() -> None:
    host = build_files(big_description())
    found = functions(host)
    classes = [text(host, f"{folder}/class") for folder in found.values()]
    assert len(found) == 4096
    assert classes.count("0x030200") == 16
    assert classes.count("0x010802") == 64
    assert text(host, "/sys/devices/system/cpu/online") == "0-511"


def test_files_and_absent_paths_come_last() -> None:
    changes = {"files": {"/proc/sys/vm/zone_reclaim_mode": "1"}, "absent": ["/sys/class/dmi", "/proc/interrupts"]}
    host = build_files(load_host("workstation") | changes)
    assert text(host, "/proc/sys/vm/zone_reclaim_mode") == "1"
    assert "/proc/interrupts" not in host.files
    assert [path for path in host.files if "/dmi/" in path] == []


def test_driver_error_is_nvmls_answer() -> None:
    nvidia = {"driver": "570.133.20", "error": "Driver/library version mismatch"}
    host = build_files(load_host("l40s-4") | {"nvidia": nvidia})
    assert host.nvml == {"document": None, "state": "error", "reason": "Driver/library version mismatch"}
    assert "nvidia-smi topo -m" not in host.commands


def test_two_devices_with_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="one name"):
        build_files(load_host("dgx-h100") | {"override": {"0000:21:00.0": {"name": "nvme3"}}})


def test_override_of_nothing_is_refused() -> None:
    with pytest.raises(KeyError, match="0000:99:1f"):
        build_files(load_host("workstation") | {"override": {"0000:99:1f.0": {"width": 8}}})


def test_unknown_field_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="colour"):
        build_files(load_host("workstation") | {"colour": "red"})


@pytest.mark.parametrize(
    ("path", "to", "expected"),
    [
        ("/sys/bus/pci/devices/x", "/sys/devices/pci0000:00/x", "../../../devices/pci0000:00/x"),
        ("/sys/devices/a/nvme/nvme0/device", "/sys/devices/a", "../../../a"),
        ("/sys/devices/system/cpu/cpu0/node0", "/sys/devices/system/node/node0", "../../node/node0"),
    ],
)
def test_relative_links_are_the_kernels(path: str, to: str, expected: str) -> None:
    assert relative(path, to) == expected


@pytest.mark.parametrize(
    ("ids", "bits", "expected"),
    [((0, 1), 2, "3"), ((32,), 64, "00000001,00000000"), ((0,), 36, "0,00000001"), ((), 8, "00")],
)
def test_masks_are_the_kernels(ids: tuple[int, ...], bits: int, expected: str) -> None:
    assert mask(ids, bits) == expected


# --- what each host is there to show -------------------------------------------------------------------------------


def value(name: str, bdf: str, attribute: str) -> str:
    host = built(name)
    return text(host, f"{functions(host)[bdf]}/{attribute}")


def test_sick_host_is_sick() -> None:
    assert value("sick-2n", "0000:2b:00.0", "current_link_width") == "8"
    assert value("sick-2n", "0000:2b:00.0", "max_link_width") == "16"
    assert value("sick-2n", "0000:bc:00.0", "numa_node") == "-1"
    assert value("sick-2n", "0000:db:00.0", "numa_node") == "-1"
    assert value("sick-2n", "0000:5a:01.0", "current_link_width") == "4"
    paths = functions(built("sick-2n"))
    assert "/0000:5a:01.0/" in paths["0000:5d:00.0"]
    assert "/0000:5a:01.0/" in paths["0000:5e:00.0"]
    assert text(built("sick-2n"), "/proc/sys/vm/zone_reclaim_mode") == "1"


def test_demo_has_its_findings() -> None:
    host = built("demo")
    assert value("demo", "0000:aa:00.0", "current_link_width") == "8"
    shared = [functions(host)[bdf] for bdf in ("0000:4c:00.0", "0000:4d:00.0", "0000:4e:00.0")]
    assert {path.split("/")[4] for path in shared} == {"0000:48:01.0"}
    assert text(host, "/proc/sys/kernel/numa_balancing") == "1"


def test_pod_sees_two_gpus_of_its_node_and_no_host_interfaces() -> None:
    host = built("pod-2-of-8")
    status = text(host, "/proc/self/status")
    assert "Cpus_allowed_list:\t64-79,176-191\n" in status
    assert "Mems_allowed_list:\t1" in status
    assert len(functions(host)) == len(functions(built("dgx-h100")))
    assert [link for link in host.links if link.startswith("/sys/class/net/")] == ["/sys/class/net/lo"]
    gpus = {path.split("/")[5] for path in host.files if path.startswith("/proc/driver/nvidia/gpus/")}
    assert gpus == {"0000:9d:00.0", "0000:c3:00.0"}
    document: dict[str, Any] = (host.nvml or {})["document"]
    uuids = ",".join(gpu["uuid"] for gpu in document["gpus"])
    assert f"NVIDIA_VISIBLE_DEVICES={uuids}\0" in text(host, "/proc/self/environ")


def test_gb200_memory_nodes() -> None:
    host = built("gb200-tray")
    assert text(host, f"{NODES}/has_cpu") == "0-1"
    assert text(host, f"{NODES}/has_memory") == "0-2,10,18,26"
    assert text(host, f"{NODES}/has_normal_memory") == "0-1"
    assert text(host, f"{NODES}/node2/distance").split()[:11] == ["80", "120", "10", *["11"] * 7, "40"]
    assert (host.nvml or {})["document"]["gpus"][3]["memory_node"] == 26


def test_dgx_addresses_and_matrix() -> None:
    host = built("dgx-h100")
    gpus = [gpu["bdf"][-8:].lower() for gpu in (host.nvml or {})["document"]["gpus"]]
    assert gpus == [f":{bus}:00.0" for bus in ("1b", "43", "52", "61", "9d", "c3", "d1", "df")]
    rdma = {
        link.rpartition("/")[2]: target(host, link).split("/")[-3] for link in host.links if "/class/infini" in link
    }
    assert rdma["mlx5_0"] == "0000:18:00.0"
    assert rdma["mlx5_2"] == "0000:29:00.1"
    assert rdma["mlx5_11"] == "0000:dc:00.0"
    rows = [line.split("\t") for line in host.commands["nvidia-smi topo -m"].splitlines()]
    assert rows[1][1:10] == [" X ", *["NV18"] * 7, "PXB"]
    assert rows[1][-4:] == ["0-55,112-167", "0", "", "N/A"]
    assert rows[10][10:12] == [" X ", "PIX"]


def test_driver_shows_six_runs_of_cpus() -> None:
    rows = [line.split("\t") for line in built("l40s-4").commands["nvidia-smi topo -m"].splitlines()]
    assert rows[1][-4:] == ["0,2,4,6,8,10", "0", "", "N/A"]


def test_only_node_is_what_the_driver_names() -> None:
    host = built("workstation")
    assert value("workstation", "0000:01:00.0", "numa_node") == "-1"
    assert (host.nvml or {})["document"]["gpus"][0]["node_affinity"] == [0]


def test_multipath_queues_lie_on_the_hidden_path() -> None:
    host = built("l40s-4")
    block = target(host, "/sys/block/nvme0n1")
    assert block == "/sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1"
    assert f"{target(host, '/sys/class/nvme/nvme0')}/nvme0c0n1/mq/0/cpu_list" in host.files
    assert f"{block}/mq/0/cpu_list" not in host.files


def test_azure_functions_are_far_down_and_in_domains_of_their_own() -> None:
    host = built("azure-ndv5")
    path = functions(host)["000c:00:00.0"]
    assert path.startswith("/sys/devices/LNXSYSTM:00/")
    assert path.endswith("/pci000c:00/000c:00:00.0")
    assert posixpath.dirname(path).endswith("pci000c:00")


def test_aws_virtual_links_are_unknown() -> None:
    assert value("aws-p5", "0000:44:00.0", "current_link_speed") == "Unknown"
    assert value("aws-p5", "0000:53:00.0", "current_link_width") == "16"
    assert value("aws-p5", "0000:00:04.0", "numa_node") == "-1"


# --- hwloc -----------------------------------------------------------------------------------------------------------

LSTOPO = shutil.which("lstopo-no-graphics")


@pytest.mark.skipif(LSTOPO is None, reason="lstopo-no-graphics (Debian: hwloc-nox) is not installed")
@every_host
def test_hwloc_sees_the_same(name: str, tmp_path: Path) -> None:
    host = built(name)
    write_tree(host, tmp_path)
    root = _lstopo(tmp_path)
    objects = list(root.iter("object"))
    by_type: dict[str, list[dict[str, str]]] = {}
    for item in objects:
        by_type.setdefault(item.attrib["type"], []).append(item.attrib)
    nodes = {int(node["os_index"]): node for node in by_type["NUMANode"]}
    assert sorted(nodes) == node_ids(host)
    for number, node in nodes.items():
        cpus = parse_cpulist(text(host, f"{NODES}/node{number}/cpulist"))
        assert _bits(node["cpuset"]) == cpus or not cpus  # hwloc says which CPUs a node without any is near
        kib = next(line for line in text(host, f"{NODES}/node{number}/meminfo").splitlines() if "MemTotal" in line)
        assert int(node.get("local_memory", "0")) == int(kib.split()[3]) * 1024
    assert len(by_type["PU"]) == EXPECTED[name][1]
    bridges = {item["pci_busid"] for item in by_type.get("Bridge", ()) if "pci_busid" in item}
    devices = {item["pci_busid"] for item in by_type.get("PCIDev", ())}
    assert bridges | devices == set(functions(host))
    assert bridges == {b for b, folder in functions(host).items() if text(host, f"{folder}/class") == "0x060400"}


def _lstopo(root: Path) -> ElementTree.Element:
    environment = {"HWLOC_FSROOT": str(root), "HWLOC_THISSYSTEM": "0", "PATH": os.environ.get("PATH", "")}
    environment["HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES"] = "1"
    environment["HWLOC_COMPONENTS"] = "-x86"  # or it mixes in what this machine's processor says
    command = (str(LSTOPO), "--filter", "io:all", "--filter", "bridge:all", "--of", "xml", "-")
    done = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=60)
    return ElementTree.fromstring(done.stdout)


def _bits(text: str) -> frozenset[int]:
    """Return the ids in hwloc's ``0xf...,0x0000ff``, words of 32 bits, the highest first."""
    words = [int(word, 16) if word else 0 for word in text.split(",")]
    value = sum(word << 32 * i for i, word in enumerate(reversed(words)))
    return frozenset(i for i in range(value.bit_length()) if value >> i & 1)
