"""What a recording keeps is enough to answer the same questions again, links and reasons too."""

import os
import stat
import zlib
from pathlib import Path

import msgspec
import pytest

from hostdoctor.diagnosis import Ask
from hostdoctor.diagnosis.registry import load_rules
from hostdoctor.diagnosis.runner import diagnose
from hostdoctor.errors import OutputError, SourceError, UsageError
from hostdoctor.facts import Host
from hostdoctor.sources.archive import read_archive
from hostdoctor.sources.base import LSCPU, NUMACTL, Command, NvmlOutput, Output, Source, Space
from hostdoctor.sources.live import LiveSource
from hostdoctor.sources.opening import open_source
from hostdoctor.sources.recording import RecordingSource
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.snapshot import members, snapshot
from hostdoctor.sources.tar_writing import write_archive
from hostdoctor.sources.texts import TextSource
from hostdoctor.sources.tree import DiskTree, MemoryTree
from hostdoctor.survey import survey
from tests.support.hostbuilder import build_files, host_names, load_host, rooted_files
from tests.support.tar_check import extract

WHEN = "2026-01-02T03:04:05+00:00"


def written(recording: RecordingSource, path: Path) -> Path:
    write_archive(path, members(snapshot(recording, "0.0", WHEN)), force=False)
    return path


def captured(source: Source, path: Path) -> Host:
    """Return the host as it was surveyed while it was captured to ``path``."""
    recording = RecordingSource(source)
    host = survey(recording)
    written(recording, path)
    return host


def facts(host: Host) -> Host:
    """Return a host without what differs by nature: where it was read from, and when."""
    return msgspec.structs.replace(host, sources=host.sources[1:], is_live=False)


def built(name: str) -> RootSource:
    files = build_files(load_host(name))
    return RootSource(MemoryTree(rooted_files(files), files.links), name)


@pytest.mark.parametrize("name", host_names())
def test_a_capture_gives_the_same_host_and_report(tmp_path: Path, name: str) -> None:
    host = captured(built(name), tmp_path / "a.tar.gz")
    again = survey(open_source([str(tmp_path / "a.tar.gz")]))
    assert facts(again) == facts(host)
    reports = [diagnose(h, Ask(), load_rules()) for h in (host, again)]
    assert reports[0].results == reports[1].results
    assert reports[0].status == reports[1].status


@pytest.mark.parametrize("name", ["dgx-h100", "pod-2-of-8"])
def test_a_capture_of_a_capture_and_of_its_folder_is_the_same_again(tmp_path: Path, name: str) -> None:
    host = captured(built(name), tmp_path / "a.tar.gz")
    extract(tmp_path / "a.tar.gz", tmp_path / "root")
    for number, again in enumerate((str(tmp_path / "a.tar.gz"), str(tmp_path / "root"))):
        target = tmp_path / f"again{number}.tar.gz"
        assert facts(captured(open_source([again]), target)) == facts(host)
        assert target.read_bytes() == (tmp_path / "a.tar.gz").read_bytes()


def test_a_capture_of_this_machine_gives_the_same_host(tmp_path: Path) -> None:
    host = captured(LiveSource(60.0), tmp_path / "a.tar.gz")
    again = survey(open_source([str(tmp_path / "a.tar.gz")]))
    assert host.is_live
    assert not again.is_live
    assert facts(again) == facts(host)


def test_the_same_evidence_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        captured(built("l40s-4"), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_capture_of_texts_gives_the_same_host(tmp_path: Path) -> None:
    numactl = "available: 1 nodes (0)\nnode 0 cpus: 0 1\nnode 0 size: 1000 MB\nnode 0 free: 10 MB\n"
    host = captured(TextSource([("a.txt", numactl)]), tmp_path / "a.tar.gz")
    assert facts(survey(open_source([str(tmp_path / "a.tar.gz")]))) == facts(host)


class Stub:
    """A live host of a few files, one of which may not be read and one tool fails."""

    is_live = True
    label = "this host"

    def __init__(self, root: Path) -> None:
        self._tree = DiskTree(str(root))

    def read(self, path: str) -> str | None:
        return None if path.endswith("secret") else self._tree.read(path)

    def why_unreadable(self, path: str) -> tuple[str, str]:
        return ("denied", "permission denied") if path.endswith("secret") else self._tree.why_unreadable(path)

    def read_bytes(self, path: str) -> bytes | None:
        return self._tree.read_bytes(path)

    def statvfs(self, path: str) -> Space | None:
        return Space(size_bytes=3, free_bytes=2, available_bytes=1) if path == "/mnt" else None

    def probe(self, question: str) -> str | None:
        return {"set_mempolicy": "EPERM"}.get(question)

    def listdir(self, path: str) -> tuple[str, ...]:
        return ("null", "sda") if path == "/dev" else self._tree.listdir(path)

    def readlink(self, path: str) -> str | None:
        return self._tree.readlink(path)

    def run(self, command: Command) -> tuple[Output, ...]:
        if command == NUMACTL:
            return (Output(source=command.label, reason="exit status 1: no NUMA", kind="error"),)
        return (Output(source=command.label, text="Architecture: x86_64\n"), Output(source="twice", text="b"))

    def prefetch(self, commands: object) -> None:
        pass

    def environ(self, name: str) -> str | None:
        return {"CUDA_VISIBLE_DEVICES": "0,1", "HOME": "/root"}.get(name)

    def nvml(self) -> NvmlOutput:
        return NvmlOutput(state="absent", reason="libnvidia-ml.so.1: cannot open")


@pytest.fixture
def recording(tmp_path: Path) -> RecordingSource:
    root = tmp_path / "root"
    for path, text in {
        "sys/devices/pci0000:00/0000:00:01.0/numa_node": "0\n",
        "sys/devices/pci0000:00/0000:00:01.0/uevent": "x\n",
        "proc/self/status": "Name:\tpython\n",
        "proc/self/mounts": "proc /proc\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "sys/bus/pci/devices").mkdir(parents=True)
    (root / "sys/class/infiniband").mkdir(parents=True)
    (root / "sys/bus/pci/devices/0000:00:01.0").symlink_to("../../../devices/pci0000:00/0000:00:01.0")
    (root / "sys/class/round").symlink_to("round")
    (root / "proc/mounts").symlink_to("self/mounts")
    return RecordingSource(Stub(root))  # type: ignore[arg-type]


def replayed(recording: RecordingSource, tmp_path: Path) -> Source:
    return open_source([str(written(recording, tmp_path / "a.tar.gz"))])


def test_files_are_kept_where_they_are_and_links_as_links(recording: RecordingSource, tmp_path: Path) -> None:
    link = "/sys/bus/pci/devices/0000:00:01.0"
    assert recording.read(f"{link}/numa_node") == "0\n"
    assert recording.read("/proc/mounts") == "proc /proc\n"
    source = replayed(recording, tmp_path)
    assert source.read(f"{link}/numa_node") == source.read("/sys/devices/pci0000:00/0000:00:01.0/numa_node") == "0\n"
    assert source.readlink(link) == "/sys/devices/pci0000:00/0000:00:01.0"
    root = extract(tmp_path / "a.tar.gz", tmp_path / "out")
    assert (root / link[1:]).readlink() == Path("../../../devices/pci0000:00/0000:00:01.0")
    assert (root / "proc/mounts").readlink() == Path("self/mounts")


def test_listed_names_are_there_and_empty_folders_too(recording: RecordingSource, tmp_path: Path) -> None:
    folders = ("/sys/devices/pci0000:00/0000:00:01.0", "/sys/bus/pci/devices", "/sys/class/infiniband", "/sys/nowhere")
    told = {folder: recording.listdir(folder) for folder in (*folders, "/sys/class")}
    assert told["/sys/devices/pci0000:00/0000:00:01.0"] == ("numa_node", "uevent")
    source = replayed(recording, tmp_path)
    assert {folder: source.listdir(folder) for folder in told} == told
    root = extract(tmp_path / "a.tar.gz", tmp_path / "out")
    assert (root / "sys/class/infiniband").is_dir()
    assert not (root / "sys/nowhere").exists()


def test_reasons_are_replayed(recording: RecordingSource, tmp_path: Path) -> None:
    asked = {path: recording.why_unreadable(path) for path in ("/sys/none", "/sys/class") if not recording.read(path)}
    assert recording.read("/sys/secret") is None
    source = replayed(recording, tmp_path)
    assert {path: source.why_unreadable(path) for path in asked} == asked
    assert source.why_unreadable("/sys/secret") == ("denied", "permission denied")
    assert source.why_unreadable("/sys/never/asked") == ("missing", "not in the capture")


def test_links_in_a_circle_end(recording: RecordingSource, tmp_path: Path) -> None:
    assert recording.read("/sys/class/round/x") is None
    assert recording.readlink("/sys/class/round") == "/sys/class/round"
    assert replayed(recording, tmp_path).readlink("/sys/class/round") == "/sys/class/round"


def test_commands_variables_and_nvml_are_replayed(recording: RecordingSource, tmp_path: Path) -> None:
    told = {command: recording.run(command) for command in (NUMACTL, LSCPU)}
    assert recording.environ("CUDA_VISIBLE_DEVICES") == "0,1"
    assert recording.environ("NVIDIA_VISIBLE_DEVICES") is None
    recording.read("/proc/self/status")
    source = replayed(recording, tmp_path)
    assert {command: source.run(command) for command in told} == told
    assert source.environ("CUDA_VISIBLE_DEVICES") == "0,1"
    assert source.environ("HOME") is None
    assert source.nvml() == recording.nvml()
    root = extract(tmp_path / "a.tar.gz", tmp_path / "out")
    assert (root / "sos_commands/hostdoctor/lscpu").read_text() == "Architecture: x86_64\n"
    assert (root / "proc/self/environ").read_text() == "CUDA_VISIBLE_DEVICES=0,1\0"


def test_bytes_room_and_trials_are_replayed(recording: RecordingSource, tmp_path: Path) -> None:
    path = "/sys/devices/pci0000:00/0000:00:01.0/config"
    (tmp_path / f"root{path}").write_bytes(bytes(range(256)))
    assert recording.read(path) != ""
    assert recording.read_bytes(path) == bytes(range(256))
    assert recording.read_bytes("/sys/none") is None
    assert (recording.statvfs("/mnt"), recording.statvfs("/")) != (None, None)
    assert (recording.probe("set_mempolicy"), recording.probe("other")) == ("EPERM", None)
    source = replayed(recording, tmp_path)
    assert source.read_bytes(path) == bytes(range(256))
    assert source.statvfs("/mnt") == Space(size_bytes=3, free_bytes=2, available_bytes=1)
    assert source.statvfs("/") is None
    assert (source.probe("set_mempolicy"), source.probe("other")) == ("EPERM", None)


def test_device_nodes_are_not_kept(recording: RecordingSource, tmp_path: Path) -> None:
    assert recording.listdir("/dev") == ("null", "sda")
    recording.read("/proc/self/status")
    assert replayed(recording, tmp_path).listdir("/dev") == ()


def test_an_answer_that_changes_is_asked_for_once(recording: RecordingSource, tmp_path: Path) -> None:
    path = tmp_path / "root/proc/self/status"
    first = recording.read("/proc/self/status")
    path.write_text("Name:\tother\n")
    assert recording.read("/proc/self/status") == first


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    tree = MemoryTree({"/hostdoctor/manifest.json": b'{"schema_version": "2"}'}, {})
    with pytest.raises(SourceError, match="a capture of format '2': this hostdoctor reads format 1"):
        RootSource(tree, "a.tar.gz")


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"errors": 3}', b'{"errors": {"/x": ["odd", "y"]}}'])
def test_a_manifest_that_is_not_understood_says_nothing(text: bytes) -> None:
    files = {"/hostdoctor/manifest.json": text, "/hostdoctor/commands.json": text, "/hostdoctor/nvml.json": text}
    source = RootSource(MemoryTree(files, {}), "a.tar.gz")
    assert source.why_unreadable("/x")[0] == "missing"
    assert source.run(NUMACTL) == ()
    assert source.nvml().document is None


# -- the file -----------------------------------------------------------------------------------------------------

ODD = {
    "hostdoctor/manifest.json": b"{}\n",
    "proc/" + "a" * 99: b"1",
    "sys/" + "b" * 101: b"2",
    "sys/" + "/".join(["c" * 40] * 6): b"3",
    "sys/" + "/".join(["d" * 90] * 3): b"4" * 512,
    "sys/ümlaut": "ü".encode(),
    "sys/empty": b"",
    "sys/folder": None,
    "sys/link": "../" * 1 + "e" * 150,
    "sys/short": "empty",
}


def test_odd_names_are_written_as_other_tools_read_them(tmp_path: Path) -> None:
    write_archive(tmp_path / "a", ODD, force=False)
    tree = read_archive(tmp_path / "a")
    root = extract(tmp_path / "a", tmp_path / "out")
    for name, content in ODD.items():
        if isinstance(content, bytes):
            assert tree.read(f"/{name}") == content.decode()
            assert (root / name).read_bytes() == content
        elif content is not None:
            assert (root / name).readlink() == Path(content)
            assert tree.readlink(f"/{name}") == os.path.normpath(f"/sys/{content}")
    assert (root / "sys/folder").is_dir()
    assert "folder" in tree.listdir("/sys")


def test_only_its_owner_may_read_it_and_nothing_else_is_left(tmp_path: Path) -> None:
    write_archive(tmp_path / "a", ODD, force=False)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_an_existing_file_is_kept_unless_forced(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        write_archive(target, ODD, force=False)
    assert target.read_text() == "mine"
    write_archive(target, ODD, force=True)
    assert zlib.decompress(target.read_bytes(), 31)[257:262] == b"ustar"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_what_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    for target in (tmp_path, tmp_path / "none" / "a", tmp_path / "link", Path("/dev/null")):
        with pytest.raises(UsageError):
            write_archive(target, ODD, force=True)
    assert Path("/dev/null").is_char_device()


def test_a_file_that_comes_into_being_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rival(descriptor: int) -> None:
        (tmp_path / "a").write_text("theirs")

    monkeypatch.setattr("hostdoctor.sources.whole_file.os.fsync", rival)
    with pytest.raises(UsageError, match="exists already"):
        write_archive(tmp_path / "a", ODD, force=False)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "theirs")]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), SystemExit(143)])
def test_an_end_on_the_way_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(descriptor: int) -> None:
        raise error

    monkeypatch.setattr("hostdoctor.sources.whole_file.os.fsync", fail)
    with pytest.raises(OutputError if isinstance(error, OSError) else type(error)) as raised:
        write_archive(tmp_path / "a", ODD, force=False)
    if isinstance(error, OSError):
        assert str(raised.value) == f"{tmp_path / 'a'}: not written: No space left on device"
    assert list(tmp_path.iterdir()) == []
