"""A file tree answers like the host it was taken from, and nothing in it leads out of it."""

import os
from pathlib import Path

import pytest

from hostdoctor.sources.tree import DiskTree, MemoryTree, Tree, glob


@pytest.fixture(params=["disk", "memory"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    """Two devices; one is reached through the kernel's kind of relative link, one link leads out, one is a circle."""
    files = {"/sys/devices/pci0000:00/0000:00:01.0/vendor": "0x10de\n", "/proc/version": "Linux version 6.1.0 \xff\n"}
    links = {
        "/sys/bus/pci/devices/0000:00:01.0": "../../../devices/pci0000:00/0000:00:01.0",
        "/sys/out": "../../../../../../../../etc",
        "/sys/absolute": "/proc",
        "/sys/loop": "loop",
    }
    if request.param == "memory":
        return MemoryTree({path: text.encode("latin-1") for path, text in files.items()}, links)
    for path, text in files.items():
        (tmp_path / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path[1:]).write_bytes(text.encode("latin-1"))
    for path, target in links.items():
        (tmp_path / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path[1:]).symlink_to(target)
    return DiskTree(str(tmp_path))


def test_a_file_is_read_through_links_in_its_path(tree: Tree) -> None:
    assert tree.read("/sys/bus/pci/devices/0000:00:01.0/vendor") == "0x10de\n"


def test_a_link_is_given_as_a_path_of_the_host(tree: Tree) -> None:
    assert tree.readlink("/sys/bus/pci/devices/0000:00:01.0") == "/sys/devices/pci0000:00/0000:00:01.0"
    assert tree.readlink("/proc/version") is None


def test_undecodable_bytes_are_replaced(tree: Tree) -> None:
    assert tree.read("/proc/version") == "Linux version 6.1.0 \ufffd\n"


def test_links_never_lead_out(tree: Tree) -> None:
    assert tree.read("/sys/out/hostname") is None
    assert tree.read("/sys/out/passwd") is None
    assert "passwd" not in tree.listdir("/sys/out")


def test_a_circle_of_links_ends(tree: Tree) -> None:
    assert tree.read("/sys/loop") is None
    assert tree.listdir("/sys/loop") == ()


def test_what_is_missing_says_so(tree: Tree) -> None:
    assert tree.read("/proc/nothing") is None
    assert tree.why_unreadable("/proc/nothing")[0] == "missing"
    assert tree.listdir("/proc/nothing") == ()


def test_names_are_sorted_and_globbed(tree: Tree) -> None:
    assert glob(tree, "/sys/bus/*/devices/0000:*") == ("/sys/bus/pci/devices/0000:00:01.0",)
    assert glob(tree, "/sys/bus/usb*/devices/*") == ()


def test_procfs_gives_long_files_a_few_rows_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    rows = "".join(f"{irq}: 0 0 nvme0q{irq}\n" for irq in range(300))
    (tmp_path / "proc" / "interrupts").write_text(rows)
    read = os.read
    monkeypatch.setattr("hostdoctor.sources.tree.os.read", lambda descriptor, size: read(descriptor, min(size, 100)))
    assert DiskTree(str(tmp_path)).read("/proc/interrupts") == rows


def test_a_pipe_in_a_fake_root_does_not_hang(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    os.mkfifo(tmp_path / "proc" / "cpuinfo")
    tree = DiskTree(str(tmp_path))
    assert tree.read("/proc/cpuinfo") is None
    assert tree.why_unreadable("/proc/cpuinfo") == ("error", "not a regular file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_denied_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    (tmp_path / "sys" / "secret").write_text("x")
    (tmp_path / "sys" / "secret").chmod(0)
    assert DiskTree(str(tmp_path)).why_unreadable("/sys/secret") == ("denied", "permission denied")


def test_a_name_that_is_not_utf8_is_listed_replaced(tmp_path: Path) -> None:
    odd = os.fsdecode(b"a\xff")
    (tmp_path / odd).write_text("x", encoding="ascii")
    (tmp_path / "link").symlink_to(odd)
    disk = DiskTree(str(tmp_path))
    assert disk.listdir("/") == ("a\ufffd", "link")
    assert disk.readlink("/link") == "/a\ufffd"
    assert disk.read("/link") == "x"
    assert disk.read("/a\ufffd") is None
