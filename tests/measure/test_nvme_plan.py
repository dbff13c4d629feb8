"""What is read, from which CPU nodes, in which order, by which command."""

import os
from pathlib import Path
from typing import Any

import pytest

from hostdoctor.errors import MeasureError, UsageError
from hostdoctor.facts import Allowed, Host, NumaNode, NvmeController, Place
from hostdoctor.measure.nvme import asked_bytes, elsewhere_notes
from hostdoctor.measure.nvme_plan import (
    Arm,
    Target,
    arms_of,
    disks_of,
    drive_target,
    file_target,
    fio_command,
    readings,
)

GIB = 1 << 30
NODES = (
    NumaNode(id=0, cpus="0-3", memory_bytes=GIB),
    NumaNode(id=1, cpus="4-7", memory_bytes=GIB),
    NumaNode(id=2, cpus="", memory_bytes=GIB),
)
DRIVES = (
    NvmeController(name="nvme0", numa_node=1, namespaces=("nvme0n1", "nvme0n2")),
    NvmeController(name="nvme1", namespaces=("nvme1n1",)),
    NvmeController(name="nvme2", numa_node=0),
)
HOST = Host(numa_nodes=NODES, nvme=DRIVES)


def arms(node: int | None, **host: Any) -> tuple[list[tuple[int, bool | None]], tuple[str, ...]]:
    found, notes = arms_of(Host(numa_nodes=host.pop("nodes", NODES), **host), Target(path="/dev/nvme0n1", node=node))
    return [(arm.cpu_node, arm.near) for arm in found], notes


def test_the_near_node_comes_first() -> None:
    assert arms(1) == ([(1, True), (0, False)], ())
    assert arms(0) == ([(0, True), (1, False)], ())


def test_a_drive_of_unknown_node_is_near_to_nobody() -> None:
    found, notes = arms(None)
    assert found == [(0, None), (1, None)]
    assert notes == ("the NUMA node of the drive is not known: which CPUs are near cannot be told",)


def test_a_node_outside_the_cpuset_is_left_out_with_the_reason() -> None:
    found, notes = arms(1, allowed=Allowed(cpus="0-3", mems="0-1"))
    assert found == [(0, False)]
    assert notes == (
        "not from node 1: none of its CPUs may be used (Cpus_allowed_list 0-3)",
        "the drive is at node 1, whose CPUs cannot read here: far only",
    )
    found, notes = arms(1, allowed=Allowed(cpus="0-7", mems="1"))
    assert found == [(1, True)]
    assert notes == (
        "not from node 0: its memory may not be used (Mems_allowed_list 1)",
        "no second CPU node: near only",
    )


def test_a_node_without_memory_cannot_read() -> None:
    found, notes = arms(0, nodes=(NODES[0], NumaNode(id=1, cpus="4-7", memory_bytes=0)))
    assert found == [(0, True)]
    assert notes[0] == "not from node 1: it has no memory"


def test_one_node_is_near_only() -> None:
    assert arms(0, nodes=NODES[:1]) == ([(0, True)], ("no second CPU node: near only",))


def test_no_node_is_refused() -> None:
    with pytest.raises(MeasureError, match="no CPU node to read from: none is known on this host"):
        arms(0, nodes=())


def test_turns_are_near_far_far_near() -> None:
    near, far = Arm(cpu_node=1, near=True), Arm(cpu_node=0, near=False)
    runs = readings((near, far), repeats=2)
    assert len(runs) == 2 * 3 * 2 * 2
    assert [run.arm.cpu_node for run in runs[:4]] == [1, 0, 0, 1]
    assert {(run.block_bytes, run.queue_depth) for run in runs} == {
        (size, depth) for size in (16384, 131072) for depth in (1, 8, 32)
    }


def test_fio_only_reads_and_makes_nothing() -> None:
    (run,) = readings((Arm(cpu_node=1, near=True),), 1, [16], [8])
    words = fio_command(Target(path="/data/a:b\\c"), run, 5)
    assert {"--readonly", "--rw=randread", "--allow_file_create=0", "--direct=1", "--iodepth=8"} <= set(words)
    assert {"--numa_cpu_nodes=1", "--numa_mem_policy=bind:1", "--bs=16384", "--runtime=5"} <= set(words)
    assert "--filename=/data/a\\:b\\c" in words


def test_a_drive_by_its_name_or_its_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: True)
    monkeypatch.setattr(os.path, "exists", lambda _: True)
    told = drive_target(HOST, "nvme0")
    assert (told.path, told.disk, told.drive, told.node) == ("/dev/nvme0n1", "nvme0n1", "nvme0", 1)
    assert told.notes == ("nvme0 has 2 namespaces: nvme0n1 is read",)
    assert drive_target(HOST, "nvme0n2") == Target(path="/dev/nvme0n2", disk="nvme0n2", drive="nvme0", node=1)
    assert drive_target(HOST, "nvme1").node is None
    assert disks_of(HOST, "nvme0") == ("nvme0n1", "nvme0n2")


def test_names_that_are_not_there() -> None:
    with pytest.raises(UsageError, match=r"no NVMe drive 'nvme7' here \(known: nvme0, nvme1, nvme2\)"):
        drive_target(HOST, "nvme7")
    with pytest.raises(MeasureError, match="nvme2: the drive shows no namespace"):
        drive_target(HOST, "nvme2")


def test_a_part_of_a_disk_is_not_read() -> None:
    with pytest.raises(UsageError, match=r"nvme0n2p1 is a part of nvme0n2: name that, or a big file on it \(--file\)"):
        drive_target(HOST, "nvme0n2p1")
    with pytest.raises(UsageError, match="no NVMe drive 'nvme9n1p1' here"):
        drive_target(HOST, "nvme9n1p1")


def test_a_drive_without_a_device_file() -> None:
    with pytest.raises(MeasureError, match=r"/dev/nvme77n1: no such device file: a container has only"):
        drive_target(Host(nvme=(NvmeController(name="nvme77", namespaces=("nvme77n1",)),)), "nvme77")


def test_a_size_named_twice_is_read_once() -> None:
    assert len(readings((Arm(cpu_node=1, near=True),), 2, [16, 16], [8, 8, 1])) == 4


def test_a_drive_that_may_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "exists", lambda _: True)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(MeasureError, match=r"/dev/nvme1n1: may not be read by you: run as root .*\(--file\)"):
        drive_target(Host(nvme=(NvmeController(name="nvme1", namespaces=("nvme1n1",)),)), "nvme1")


@pytest.fixture
def big(tmp_path: Path) -> Path:
    file = tmp_path / "big"
    file.write_bytes(os.urandom(1 << 20) * 16)
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
    return file


def test_a_file_is_read_at_its_drives_node(big: Path) -> None:
    place = Place(path=str(big), disks=("nvme0n1",))
    told = file_target(Host(nvme=DRIVES, places=(place,)), str(big))
    assert (told.disk, told.drive, told.node) == ("nvme0n1", "nvme0", 1)
    assert told.notes == ("the file has 16 MiB: the drive or what is below it may answer from a cache",)


@pytest.mark.parametrize("disks", [(), ("nvme0n1", "nvme1n1")])
def test_a_file_on_no_disk_or_on_several_has_no_node(big: Path, disks: tuple[str, ...]) -> None:
    told = file_target(Host(nvme=DRIVES, places=(Place(path=str(big), disks=disks),)), str(big))
    assert (told.disk, told.drive, told.node) == (None, None, None)
    assert told.notes[1].startswith(f"the file lies on {len(disks)} disks")


def test_a_file_in_memory_is_on_no_drive(big: Path) -> None:
    with pytest.raises(MeasureError, match=r"lies in memory \(tmpfs\), on no drive"):
        file_target(Host(places=(Place(path=str(big), filesystem="tmpfs"),)), str(big))


@pytest.mark.parametrize("name", ["a;b", "a#b", "a ", "a\nb", "a\x1bb"])
def test_names_that_fio_takes_for_something_else(big: Path, name: str) -> None:
    odd = big.rename(big.with_name(name))
    with pytest.raises(MeasureError, match="fio takes no ; or # in a name"):
        file_target(HOST, str(odd))


def test_reads_that_the_drive_did_not_see_are_said() -> None:
    before, after = ({"block.nvme0n1.read_sectors": sectors} for sectors in (100, 2148))
    assert asked_bytes("nvme0n1", before, after) == 1 << 20
    assert asked_bytes("nvme0n1", {}, {}) is None
    assert asked_bytes(None, before, after) is None
    assert elsewhere_notes([], 6) == ()
    (note,) = elsewhere_notes([(10 << 20, 1 << 20), (900 << 20, 0)], 6)
    assert note.startswith("runs whose reads the drive mostly did not see: 2 of 6 (at worst 0 of 900 MiB)")


def test_files_that_reading_would_not_read(tmp_path: Path) -> None:
    sparse, small = tmp_path / "sparse", tmp_path / "small"
    with sparse.open("wb") as stream:
        stream.truncate(64 << 20)
    small.write_bytes(b"x" * 5000)
    for path, reason in (
        (sparse, "is sparse or compressed"),
        (small, "has 4 KiB: at least 16 MiB are needed"),
        (tmp_path, "is no regular file"),
        (tmp_path / "none", "no such file or directory"),
    ):
        with pytest.raises(MeasureError, match=reason):
            file_target(HOST, str(path))
