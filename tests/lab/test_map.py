"""The map of the guest is what its hardware is (README.md) and, fact by fact, what its kernel shows."""

import json
from pathlib import Path
from typing import Any

import pytest

from hostdoctor.parsers.cpulist import format_cpulist
from tests.cli.support import hostdoctor
from tests.lab.results import Guest, by, lasting

pytestmark = pytest.mark.lab

STATES = ("plain", "cpus-offline", "bare-metal", "narrow")  # where the kernel shows different things
# What the kernel prints for functions without a link, and for no file at all.
UNTOLD = dict.fromkeys(("", "0", "255", "Unknown"))
NEAR0, NEAR1, NOWHERE = "0000:22:00.0", "0000:a4:00.0", "0000:00:10.0"


def lanes(now: int, speed_gts: float, most: int | None = None, max_speed_gts: float | None = None) -> dict[str, Any]:
    return {
        "width_lanes": now,
        "speed_gts": speed_gts,
        "max_width_lanes": most or now,
        "max_speed_gts": max_speed_gts or speed_gts,
    }


def test_two_sockets_and_a_node_of_memory_alone(guest: Guest) -> None:
    nodes = guest.host("plain")["numa_nodes"]
    assert [(n["id"], n["cpus"], n["kind"], n["package"]) for n in nodes] == [
        (0, "0-3", "cpu+memory", 0),
        (1, "4-7", "cpu+memory", 1),
        (2, "", "memory-only", None),
    ]
    assert [n["distances"] for n in nodes] == [
        {"0": 10, "1": 21, "2": 17},
        {"0": 21, "1": 10, "2": 28},
        {"0": 17, "1": 28, "2": 10},
    ]


def test_offline_cpus_leave_their_node(guest: Guest) -> None:
    assert [n["cpus"] for n in guest.host("cpus-offline")["numa_nodes"]] == ["0-3", "4-5", ""]
    assert by(guest.host("cpus-offline")["gpus"], "index")[1]["cpus"] == "4-5"


@pytest.mark.parametrize("state", STATES)
def test_nodes_are_the_kernels(guest: Guest, state: str) -> None:
    kernel = guest.kernel(state)["nodes"]
    nodes = guest.host(state)["numa_nodes"]
    assert {
        str(n["id"]): {
            "cpus": n["cpus"],
            "distances": list(n["distances"].values()),
            "memory_kib": n["memory_bytes"] // 1024,
        }
        for n in nodes
    } == kernel


def test_a_gpu_on_each_node_below_its_own_root_complex(guest: Guest) -> None:
    gpus = guest.host("plain")["gpus"]
    assert [
        (g["index"], g["bdf"], g["numa_node"], g["numa_nodes"], g["cpus"], g["root_complex"], g["root_port"])
        for g in gpus
    ] == [
        (0, "0000:21:00.0", 0, [0], "0-3", "0000:20", "0000:20:00.0"),
        (1, "0000:a3:00.0", 1, [1], "4-7", "0000:a0", "0000:a0:00.0"),
    ]
    assert [g["upstream"] for g in gpus] == [["0000:20:00.0"], ["0000:a0:00.0", "0000:a1:00.0", "0000:a2:00.0"]]
    assert [g["memory_numa_node"] for g in gpus] == [None, None]
    assert guest.host("plain")["paths"] == [{"a": "GPU0", "b": "GPU1", "kind": "SYS"}]


def test_the_link_at_every_hop(guest: Guest) -> None:
    host = guest.host("plain")
    links = {bdf: device["link"] for bdf, device in by(host["pci_devices"], "bdf").items()}
    assert links["0000:20:00.0"] == links["0000:21:00.0"] == lanes(16, 32.0)
    assert links["0000:a0:00.0"] == lanes(8, 16.0)
    assert links["0000:a1:00.0"] == lanes(8, 16.0, 16, 32.0)
    assert links["0000:a2:00.0"] == links["0000:a3:00.0"] == lanes(16, 32.0)
    assert [gpu["link"] for gpu in host["gpus"]] == [lanes(16, 32.0), lanes(16, 32.0)]


def test_drives_are_where_they_are(guest: Guest) -> None:
    drives = by(guest.host("plain")["nvme"], "bdf")
    assert {bdf: (d["numa_node"], d["root_complex"], d["upstream"]) for bdf, d in drives.items()} == {
        NEAR0: (0, "0000:20", ["0000:20:01.0"]),
        NEAR1: (1, "0000:a0", ["0000:a0:00.0", "0000:a1:00.0", "0000:a2:01.0"]),
        NOWHERE: (None, "0000:00", []),
    }
    assert drives[NEAR0]["link"] == lanes(4, 16.0, 4, 32.0)
    assert by(guest.host("plain")["pci_devices"], "bdf")["0000:20:01.0"]["link"] == lanes(4, 16.0)
    kernel = guest.kernel("plain")["nvme"]
    assert {bdf: (d["name"], d["namespaces"]) for bdf, d in drives.items()} == {
        bdf: (d["name"], d["namespaces"]) for bdf, d in kernel.items()
    }


def test_an_unknown_node_is_a_gap_with_the_kernels_own_word(guest: Guest) -> None:
    host = guest.host("plain")
    position = [drive["bdf"] for drive in host["nvme"]].index(NOWHERE)
    gap = by(host["gaps"], "fact")[f"nvme[{position}].numa_node"]
    assert gap["source"] == f"/sys/bus/pci/devices/{NOWHERE}/numa_node"
    assert gap["reason"].startswith("-1")


def test_four_queues_for_eight_cpus(guest: Guest) -> None:
    drives = by(guest.host("plain")["nvme"], "bdf")
    assert {bdf: len(d["queues"]) for bdf, d in drives.items()} == {NEAR0: 4, NEAR1: 8, NOWHERE: 1}
    assert sorted(queue["cpus"] for queue in drives[NEAR0]["queues"]) == ["0-1", "2-3", "4-5", "6-7"]
    assert drives[NEAR0]["queues_irq_managed"] is True


@pytest.mark.parametrize("state", STATES)
def test_queues_and_their_interrupts_are_the_kernels(guest: Guest, state: str) -> None:
    kernel = guest.kernel(state)["nvme"]
    for bdf, drive in by(guest.host(state)["nvme"], "bdf").items():
        told = {str(q["id"]): {"cpus": q["cpus"], "irq": q["irq"], "irq_cpus": q["irq_cpus"]} for q in drive["queues"]}
        shown = kernel[bdf]["queues"]
        assert told == {queue: values | {"cpus": format_cpulist(values["cpus"])} for queue, values in shown.items()}
        assert all(values["irq"] and values["irq_cpus"] for values in told.values())


@pytest.mark.parametrize("state", STATES)
def test_every_function_is_the_kernels(guest: Guest, state: str) -> None:
    kernel = guest.kernel(state)["pci"]
    devices = by(guest.host(state)["pci_devices"], "bdf")
    assert devices.keys() == kernel.keys()
    for bdf, shown in kernel.items():
        told = devices[bdf]
        assert told["numa_node"] == (None if shown["numa_node"] == -1 else shown["numa_node"])
        assert (told["root_complex"], told["upstream"]) == (shown["root_complex"], shown["upstream"])
        assert [f"0x{told[name]}" for name in ("vendor_id", "device_id", "class_code")] == shown["ids"]
        assert told["driver"] == shown["driver"]
        assert _spelled(told["link"]) == [UNTOLD.get(text, text.removesuffix(" PCIe")) for text in shown["link"]]


def _spelled(link: dict[str, Any]) -> list[str | None]:
    """Spell a link as the kernel does."""
    spelling = {"width_lanes": "{}", "speed_gts": "{} GT/s", "max_width_lanes": "{}", "max_speed_gts": "{} GT/s"}
    return [None if link[field] is None else spelt.format(link[field]) for field, spelt in spelling.items()]


def test_gpu_stand_ins_have_error_counters(guest: Guest) -> None:
    for gpu in guest.host("plain")["gpus"]:
        files = guest.kernel("plain")["pci"][gpu["bdf"]]["files"]
        assert {"aer_dev_correctable", "aer_dev_fatal", "aer_dev_nonfatal"} <= set(files)


def test_the_machine_itself(guest: Guest) -> None:
    system = guest.host("plain")["system"]
    assert (system["hostname"], system["packages"], system["virtualization"]) == ("lab", 2, "kvm")
    assert system["container"] is None
    assert guest.host("bare-metal")["system"]["virtualization"] is None
    assert len(guest.host("plain")["cores"]) == 8


def test_real_tools_agree_with_the_kernel(guest: Guest) -> None:
    for state in STATES:
        host = guest.host(state)
        assert {"numactl --hardware", "lspci -D -nn -v", "lscpu"} <= set(host["sources"])
        assert host["disagreements"] == []
    assert "node 1 cpus: 4 5\n" in guest.run("cpus-offline", "numactl").out


def test_topo_prints_what_check_saw(guest: Guest) -> None:
    assert lasting(guest.run("plain", "topo").document) == lasting(guest.host("plain"))


def test_the_tree_as_text(guest: Guest) -> None:
    ran = guest.run("plain", "topo-text")
    drives = {bdf: drive["name"] for bdf, drive in by(guest.host("plain")["nvme"], "bdf").items()}
    assert (ran.status, ran.err) == (0, "")
    for line in (
        "lab: 2 GPUs, 3 NUMA nodes, 0 NICs, 3 NVMe drives, under kvm",
        "NUMA node 2: no CPUs, 0.2 GiB, memory-only, distance to 0:17, 1:28",
        f"   └─ 0000:a0:00.0 > 0000:a1:00.0 [x8 16 GT/s]  shared by GPU1, {drives[NEAR1]}",
        f"   └─ {drives[NEAR0]} QEMU NVMe Ctrl, {NEAR0} [x4 16 of 32 GT/s], behind 0000:20:01.0 [x4 16 GT/s]",
        f"   └─ {drives[NOWHERE]} QEMU NVMe Ctrl, {NOWHERE}",
    ):
        assert line in ran.out.splitlines()


def test_pasted_outputs_of_the_guest_give_its_map(guest: Guest, tmp_path: Path) -> None:
    live = guest.host("plain")
    files = []
    for tool in ("numactl", "lspci", "lspci-tree", "lscpu", "interrupts"):
        files += ["--from", str(tmp_path / tool)]
        (tmp_path / tool).write_text(guest.run("plain", tool).out, encoding="utf-8")
    ran = hostdoctor("topo", "--format", "json", *files)
    assert ran.status == 0, ran.err
    pasted = lasting(json.loads(ran.out))
    for node, real in zip(pasted["numa_nodes"], live["numa_nodes"], strict=True):
        assert {key: node[key] for key in ("id", "cpus", "distances", "kind")} == {
            key: real[key] for key in ("id", "cpus", "distances", "kind")
        }
        assert node["memory_bytes"] == real["memory_bytes"] >> 20 << 20
    for field in ("bdf", "numa_node", "root_complex", "upstream", "cpus"):
        assert [gpu[field] for gpu in pasted["gpus"]] == [gpu[field] for gpu in live["gpus"]]
    places = {bdf: (d["numa_node"], d["upstream"]) for bdf, d in by(pasted["pci_devices"], "bdf").items()}
    assert places == {bdf: (d["numa_node"], d["upstream"]) for bdf, d in by(live["pci_devices"], "bdf").items()}
    # this kernel's interrupts name no addresses: three drives, never six, and it is said that they cannot be told apart
    assert sorted(d["bdf"] for d in pasted["nvme"]) == sorted(d["bdf"] for d in live["nvme"])
    assert "3 names, 3 drives without a name on PCI" in next(g["reason"] for g in pasted["gaps"] if g["fact"] == "nvme")
