"""Archives from elsewhere are read in memory and within limits; hostile ones are refused in one line."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hostdoctor.errors import SourceError
from hostdoctor.sources import archive as module
from hostdoctor.sources.archive import read_archive

Fill = Callable[[tarfile.TarFile], None]


def make(path: Path, fill: Fill, mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        fill(archive)
    return path


def add(archive: tarfile.TarFile, name: str, data: bytes = b"x", **fields: object) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    for field, value in fields.items():
        setattr(member, field, value)
    archive.addfile(member, io.BytesIO(data))


def add_many(archive: tarfile.TarFile, count: int, data: bytes) -> None:
    for i in range(count):
        add(archive, f"sys/{i}", data)


def plain(archive: tarfile.TarFile) -> None:
    add(archive, "host1/sys/devices/system/node/online", b"0-1\n")
    add(archive, "host1/sys/bus/pci/devices/0000:00:00.0", b"", type=tarfile.SYMTYPE, linkname="../../../devices/x")
    add(archive, "host1/sys/devices/x/vendor", b"0x10de\n")


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_root_is_found_below_a_folder_in_every_compression(tmp_path: Path, mode: str) -> None:
    tree = read_archive(make(tmp_path / "a", plain, mode))
    assert tree.read("/sys/devices/system/node/online") == "0-1\n"
    assert tree.read("/sys/bus/pci/devices/0000:00:00.0/vendor") == "0x10de\n"


HOSTILE: dict[str, tuple[Fill, str]] = {
    "traversal": (lambda a: add(a, "sys/../../etc/cron.d/x"), "leads out"),
    "absolute": (lambda a: add(a, "/etc/passwd"), "leads out"),
    "hardlink": (lambda a: add(a, "sys/x", b"", type=tarfile.LNKTYPE, linkname="/etc/shadow"), "neither"),
    "device": (lambda a: add(a, "sys/x", b"", type=tarfile.CHRTYPE, devmajor=1, devminor=5), "neither"),
    "pipe": (lambda a: add(a, "sys/x", b"", type=tarfile.FIFOTYPE), "neither"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_members_are_refused(tmp_path: Path, case: str) -> None:
    fill, reason = HOSTILE[case]
    with pytest.raises(SourceError, match=reason):
        read_archive(make(tmp_path / "a", fill))
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_link_that_leads_out_gives_nothing(tmp_path: Path) -> None:
    def fill(archive: tarfile.TarFile) -> None:
        plain(archive)
        add(archive, "host1/sys/shadow", b"", type=tarfile.SYMTYPE, linkname="/../../../../etc/passwd")

    assert read_archive(make(tmp_path / "a", fill)).read("/sys/shadow") is None


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    def fill(archive: tarfile.TarFile) -> None:
        add_many(archive, 10, bytes(module.MAX_FILE_BYTES))

    with pytest.raises(SourceError, match="unpacks to more than 80 MiB"):
        read_archive(make(tmp_path / "a", fill))


def test_too_many_members_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_MEMBERS", 100)
    with pytest.raises(SourceError, match="more than 100 members"):
        read_archive(make(tmp_path / "a", lambda a: add_many(a, 101, b"x")))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_a_half_written_archive_is_refused(tmp_path: Path, share: float) -> None:
    whole = make(tmp_path / "a", lambda a: add_many(a, 50, bytes(range(256)) * 8))
    data = whole.read_bytes()
    whole.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(SourceError, match="unreadable archive"):
        read_archive(whole)
