"""Archives from elsewhere are read in memory and within limits; hostile ones are refused in one line."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hostdoctor.errors import SourceError
from hostdoctor.sources import archive as module
from hostdoctor.sources import tar_reading
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


@pytest.mark.parametrize("name", ["proc/self/exe", "run/x", "etc/localtime", "sos_commands/date/x", "var/x"])
@pytest.mark.parametrize("target", ["/etc/passwd", "/", "/proc/cpuinfo", "../..", "no such", "../../sys/none"])
def test_a_link_to_anywhere_on_the_host_gives_nothing_of_this_one(tmp_path: Path, name: str, target: str) -> None:
    def fill(archive: tarfile.TarFile) -> None:
        plain(archive)
        add(archive, f"host1/{name}", b"", type=tarfile.SYMTYPE, linkname=target)

    tree = read_archive(make(tmp_path / "a", fill))
    assert tree.read(f"/{name}") is None
    assert tree.listdir("/sys/devices") == ("system", "x")


@pytest.mark.parametrize("name", ["x", "proc/x", "run/x", "etc/x", "sos_commands/x", "var/log/x", "a/b/x"])
@pytest.mark.parametrize("target", ["../etc/passwd", "a/../../../../b", "/../etc/passwd", "..//./../..", "/x/../../y"])
def test_a_link_that_climbs_above_the_archive_is_refused_wherever_it_stands(
    tmp_path: Path, name: str, target: str
) -> None:
    up = "" if target.startswith("/") else "../" * name.count("/")

    def fill(archive: tarfile.TarFile) -> None:
        add(archive, "sys/devices/system/node/online", b"0-1\n")
        add(archive, name, b"", type=tarfile.SYMTYPE, linkname=up + target)

    with pytest.raises(SourceError, match="leads out of the archive"):
        read_archive(make(tmp_path / "a", fill))


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../etc/passwd", "/../../etc/passwd"])
def test_a_link_of_sysfs_that_leads_out_is_refused(tmp_path: Path, target: str) -> None:
    def fill(archive: tarfile.TarFile) -> None:
        plain(archive)
        add(archive, "host1/sys/shadow", b"", type=tarfile.SYMTYPE, linkname=target)

    with pytest.raises(SourceError, match="leads out of the archive"):
        read_archive(make(tmp_path / "a", fill))


def test_contents_and_names_count_against_one_limit(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="unpacks to more than 80 MiB"):
        read_archive(make(tmp_path / "a", lambda a: add_many(a, 10, bytes(module.MAX_FILE_BYTES)), "w"))


def test_a_member_told_twice_alike_is_one(tmp_path: Path) -> None:
    def fill(archive: tarfile.TarFile) -> None:
        plain(archive)
        plain(archive)

    assert read_archive(make(tmp_path / "a", fill)).read("/sys/devices/x/vendor") == "0x10de\n"


def test_an_empty_folder_is_there(tmp_path: Path) -> None:
    def fill(archive: tarfile.TarFile) -> None:
        plain(archive)
        add(archive, "host1/sys/class/infiniband", b"", type=tarfile.DIRTYPE)

    assert read_archive(make(tmp_path / "a", fill)).listdir("/sys/class") == ("infiniband",)


def test_long_names_of_every_kind_are_read(tmp_path: Path) -> None:
    name = "host1/sys/devices/" + "/".join(["0000:00:01.0"] * 20) + "/" + "n" * 120

    def fill(archive: tarfile.TarFile) -> None:
        plain(archive)
        add(archive, name, b"1")
        add(archive, "host1/sys/link", b"", type=tarfile.SYMTYPE, linkname=name.removeprefix("host1/sys/"))

    for kind in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        path = tmp_path / str(kind)
        with tarfile.open(path, "w:gz", format=kind) as archive:
            fill(archive)
        assert read_archive(path).read("/sys/link") == "1"


def test_a_log_of_many_megabytes_is_skipped(tmp_path: Path) -> None:
    def fill(archive: tarfile.TarFile) -> None:
        add(archive, "sos/sos_commands/logs/journalctl", bytes(range(256)) * (17 << 12))
        add(archive, "sos/var/log/messages", bytes(range(256)) * (17 << 12))
        add(archive, "sos/sos_commands/numa/numactl_--hardware", b"available: 1 nodes (0)\n")

    tree = read_archive(make(tmp_path / "a", fill, "w"))
    assert tree.read("/sos_commands/numa/numactl_--hardware") == "available: 1 nodes (0)\n"
    assert tree.read("/sos_commands/logs/journalctl") is None


def test_too_many_members_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar_reading, "MAX_MEMBERS", 100)
    with pytest.raises(SourceError, match="more than 100 members"):
        read_archive(make(tmp_path / "a", lambda a: add_many(a, 101, b"x")))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_a_half_written_archive_is_refused(tmp_path: Path, share: float) -> None:
    whole = make(tmp_path / "a", lambda a: add_many(a, 50, bytes(range(256)) * 8))
    data = whole.read_bytes()
    whole.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(SourceError, match="unreadable archive"):
        read_archive(whole)


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz"])
def test_an_archive_that_lacks_its_last_bytes_is_refused(tmp_path: Path, mode: str) -> None:
    """Every member is there, and the end mark too: what is cut is the sum that says whether they are right."""
    whole = make(tmp_path / "a", plain, mode)
    data = whole.read_bytes()
    for cut in range(1, 30):
        whole.write_bytes(data[:-cut])
        with pytest.raises(SourceError, match="cut short"):
            read_archive(whole)


def test_an_archive_whose_sum_is_wrong_is_refused(tmp_path: Path) -> None:
    whole = make(tmp_path / "a", plain)
    data = whole.read_bytes()
    for at in range(-8, 0):
        whole.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[len(data) + at + 1 :])
        with pytest.raises(SourceError, match="unreadable archive"):
            read_archive(whole)


def test_what_stands_behind_an_archive_is_not_its_own(tmp_path: Path) -> None:
    for mode in ("w", "w:gz", "w:xz"):
        whole = make(tmp_path / "a", plain, mode)
        whole.write_bytes(whole.read_bytes() + bytes(512) + b"a signature")
        assert read_archive(whole).read("/sys/devices/x/vendor") == "0x10de\n"


def hosts(*folders: str) -> Fill:
    def fill(archive: tarfile.TarFile) -> None:
        for number, folder in enumerate(folders):
            add(archive, f"{folder}/sys/devices/system/node/online", b"0\n")
            add(archive, f"{folder}/proc/sys/kernel/hostname", f"host{number}\n".encode())

    return fill


@pytest.mark.parametrize("folders", [("a", "b"), ("long-name", "b/c", "x"), ("x/a", "x/b"), (".", "./a", "b")])
def test_one_of_several_hosts_is_never_picked(tmp_path: Path, folders: tuple[str, ...]) -> None:
    path = make(tmp_path / "a", hosts(*folders))
    if folders[0] == ".":  # the others lie inside the first
        assert read_archive(path).read("/proc/sys/kernel/hostname") == "host0\n"
        return
    with pytest.raises(SourceError, match="several hosts in one archive"):
        read_archive(path)


def test_the_outermost_root_is_the_host(tmp_path: Path) -> None:
    def fill(archive: tarfile.TarFile) -> None:
        hosts("a/b/c", "host1")(archive)
        add(archive, "notes/run/x")

    assert read_archive(make(tmp_path / "a", fill)).read("/proc/sys/kernel/hostname") == "host1\n"
