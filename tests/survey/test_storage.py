"""From a path to the disks below it, and from a disk to what it holds."""

import time
from typing import Any

import pytest

from hostdoctor.facts import Place
from hostdoctor.sources.base import Space
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import MemoryTree
from hostdoctor.survey.storage import read_holders, read_mounts, read_places

INFO = "/proc/self/mountinfo"
BLOCK = "/sys/devices/pci0000:00/0000:00:01.0/nvme/nvme{0}/nvme{0}n1"


class Tree:
    """A host with block devices only: NVMe drives, partitions, an md or dm over them, a SATA disk."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.links: dict[str, str] = {}

    def disk(self, name: str, numbers: str, folder: str, *partitions: str) -> "Tree":
        self._device(name, numbers, folder)
        self.links[f"/sys/block/{name}"] = folder
        for i, partition in enumerate(partitions, start=1):
            major, _, minor = numbers.partition(":")
            self._device(partition, f"{major}:{int(minor) + i}", f"{folder}/{partition}")
            self.files[f"{folder}/{partition}/partition"] = f"{i}\n"
        return self

    def over(self, name: str, numbers: str, *members: str, dm: str = "") -> "Tree":
        folder = f"/sys/devices/virtual/block/{name}"
        self.disk(name, numbers, folder)
        for member in members:
            self.links[f"{folder}/slaves/{member}"] = self.links[f"/sys/class/block/{member}"]
        if dm:
            self.files[f"{folder}/dm/name"] = dm + "\n"
        return self

    def text(self, path: str, *rows: str) -> "Tree":
        self.files[path] = "".join(row + "\n" for row in rows)
        return self

    def source(self) -> RootSource:
        return RootSource(MemoryTree({path: text.encode() for path, text in self.files.items()}, self.links), "test")

    def _device(self, name: str, numbers: str, folder: str) -> None:
        self.files[f"{folder}/dev"] = numbers + "\n"
        self.links[f"/sys/class/block/{name}"] = folder
        self.links[f"/sys/dev/block/{numbers}"] = folder


def drives(count: int = 2) -> Tree:
    tree = Tree()
    for i in range(count):
        tree.disk(f"nvme{i}n1", f"259:{10 * i}", BLOCK.format(i), f"nvme{i}n1p1", f"nvme{i}n1p2")
    return tree


def row(
    point: str, device: str, filesystem: str = "xfs", numbers: str = "259:1", root: str = "/", tags: str = ""
) -> str:
    return f"31 1 {numbers} {root} {point} rw,noatime {tags}- {filesystem} {device} rw"


def disks(tree: Tree, path: str = "/models") -> tuple[str, ...]:
    (place,) = read_places(tree.source(), (path,))
    return place.disks


class TestMounts:
    def test_mountinfo_with_and_without_tags(self) -> None:
        tree = Tree().text(INFO, row("/a", "/dev/sda1", tags="shared:1 master:2 "), row("/b\\040c", "tmpfs", "tmpfs"))
        assert [(m.point, m.filesystem, m.device, m.numbers) for m in read_mounts(tree.source())] == [
            ("/a", "xfs", "/dev/sda1", "259:1"),
            ("/b c", "tmpfs", "tmpfs", "259:1"),
        ]

    def test_mounts_where_there_is_no_mountinfo(self) -> None:
        tree = Tree().text("/proc/mounts", "/dev/sda1 / ext4 rw 0 0", "proc /proc proc rw 0 0", "damaged")
        assert [mount.point for mount in read_mounts(tree.source())] == ["/", "/proc"]

    @pytest.mark.parametrize("text", ["", "31 1 8:1 / /", "- - - - - -", "a b c d e f - xfs", " - "])
    def test_damaged_rows_are_left_out(self, text: str) -> None:
        assert read_mounts(Tree().text(INFO, text).source()) == ()


class TestDisks:
    def test_a_partition(self) -> None:
        assert disks(drives().text(INFO, row("/models", "/dev/nvme1n1p2"))) == ("nvme1n1",)

    def test_a_name_alone_tells_an_nvme_partition(self) -> None:
        assert disks(Tree().text("/proc/mounts", "/dev/nvme3n1p1 /models xfs rw 0 0")) == ("nvme3n1",)

    def test_a_raid_over_partitions(self) -> None:
        tree = drives().over("md0", "9:0", "nvme0n1p2", "nvme1n1p2")
        assert disks(tree.text(INFO, row("/models", "/dev/md0", numbers="9:0"))) == ("nvme0n1", "nvme1n1")

    def test_an_encrypted_volume_on_a_raid(self) -> None:
        tree = drives().over("md0", "9:0", "nvme0n1", "nvme1n1")
        tree.over("dm-0", "253:0", "md0", dm="luks").over("dm-1", "253:1", "dm-0", dm="vg-models")
        assert disks(tree.text(INFO, row("/models", "/dev/mapper/vg-models"))) == ("nvme0n1", "nvme1n1")

    @pytest.mark.parametrize("device", ["/dev/root", "/dev/disk/by-uuid/1234-ABCD", "/dev/mapper/unknown"])
    def test_another_name_is_found_by_its_numbers(self, device: str) -> None:
        assert disks(drives().text(INFO, row("/models", device, numbers="259:1"))) == ("nvme0n1",)

    def test_a_sata_partition(self) -> None:
        tree = Tree().disk("sda", "8:0", "/sys/devices/pci0000:00/0000:00:17.0/ata1/block/sda", "sda1")
        assert disks(tree.text(INFO, row("/models", "/dev/sda1", numbers="8:1"))) == ("sda",)

    def test_every_device_of_a_btrfs(self) -> None:
        tree = drives()
        for name in ("nvme0n1p1", "nvme1n1"):
            tree.links[f"/sys/fs/btrfs/6f1d/devices/{name}"] = tree.links[f"/sys/class/block/{name}"]
        tree.text(INFO, row("/models", "/dev/nvme1n1", "btrfs", numbers="0:44"))
        assert disks(tree) == ("nvme0n1", "nvme1n1")

    @pytest.mark.parametrize(
        ("device", "filesystem"), [("tank/models", "zfs"), ("nas:/models", "nfs4"), ("x", "tmpfs")]
    )
    def test_what_is_not_on_a_device_has_no_disks(self, device: str, filesystem: str) -> None:
        (place,) = read_places(Tree().text(INFO, row("/models", device, filesystem)).source(), ("/models",))
        assert (place.filesystem, place.disks) == (filesystem, ())

    def test_an_unknown_device_has_no_disks(self) -> None:
        assert disks(Tree().text(INFO, row("/models", "/dev/vdz", numbers="252:9"))) == ()

    def test_a_circle_of_members_ends(self) -> None:
        tree = drives().over("md0", "9:0", "nvme0n1").over("md1", "9:1", "md0")
        for i in range(200):
            tree.links[f"/sys/devices/virtual/block/md0/slaves/md{1 + i}"] = "/sys/devices/virtual/block/md1"
            tree.links[f"/sys/class/block/md{1 + i}"] = tree.links[f"/sys/block/md{1 + i}"] = (
                "/sys/devices/virtual/block/md0"
            )
        began = time.process_time()
        assert disks(tree.text(INFO, row("/models", "/dev/md1", numbers="9:1"))) == ("nvme0n1",)
        assert time.process_time() - began < 5


class TestPlaces:
    def test_the_deepest_and_last_mount_counts(self) -> None:
        tree = drives().text(
            INFO,
            row("/", "/dev/nvme0n1p2"),
            row("/models", "/dev/nvme0n1p1"),
            row("/models", "/dev/nvme1n1"),
            row("/models-old", "/dev/nvme0n1p1"),
        )
        assert disks(tree, "/models/llama") == ("nvme1n1",)
        assert disks(tree, "/modelsx") == ("nvme0n1",)
        assert disks(tree, "/") == ("nvme0n1",)

    def test_links_are_followed(self) -> None:
        tree = drives().text(INFO, row("/", "/dev/nvme0n1"), row("/raid", "/dev/nvme1n1"))
        tree.links |= {"/models": "/raid/models", "/raid/models": "v2", "/loop": "/loop"}
        assert disks(tree, "/models/llama") == ("nvme1n1",)
        assert disks(tree, "/loop") == ("nvme0n1",)

    def test_without_mounts_nothing_is_known(self) -> None:
        assert read_places(Tree().source(), ("/a", "/b", "/a")) == (Place(path="/a"), Place(path="/b"))

    def test_the_room_is_asked_behind_the_links(self) -> None:
        asked: list[str] = []
        tree = drives().text(INFO, row("/", "/dev/nvme0n1"))
        tree.links["/kv"] = "/data/kv"
        source: Any = tree.source()

        def statvfs(path: str) -> Space:
            asked.append(path)
            return Space(size_bytes=9, free_bytes=3, available_bytes=2)

        source.statvfs = statvfs
        (place,) = read_places(source, ("/kv",))
        assert asked == ["/data/kv"]
        assert (place.path, place.size_bytes, place.free_bytes, place.available_bytes) == ("/kv", 9, 3, 2)

    def test_a_capture_does_not_tell_the_room(self) -> None:
        (place,) = read_places(drives().text(INFO, row("/", "/dev/nvme0n1")).source(), ("/kv",))
        assert place.size_bytes is None


class TestHolders:
    def test_mounts_and_swap_by_disk(self) -> None:
        tree = drives(3).over("md0", "9:0", "nvme0n1p2", "nvme1n1p2")
        tree.text(INFO, row("/", "/dev/md0"), row("/boot/efi", "/dev/nvme0n1p1"), row("/etc/hosts", "/dev/md0"))
        tree.text(
            "/proc/swaps", "Filename Type Size Used Priority", "/dev/nvme2n1p1 partition 1 0 -2", "/swap file 1 0 -3"
        )
        assert read_holders(tree.source()) == {
            "nvme0n1": {"/", "/boot/efi", "/etc/hosts", "swap"},
            "nvme1n1": {"/", "/etc/hosts", "swap"},
            "nvme2n1": {"swap"},
        }

    def test_ten_thousand_mounts_of_one_device_are_looked_up_once(self) -> None:
        tree = drives().over("dm-0", "253:0", "nvme0n1", dm="root")
        tree.text(INFO, *(row(f"/pod/{i}", "/dev/mapper/root") for i in range(10_000)))
        began = time.process_time()
        assert len(read_holders(tree.source())["nvme0n1"]) == 10_000
        assert time.process_time() - began < 5
