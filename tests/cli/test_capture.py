"""``hostdoctor capture``: one file, whole or not at all, and what ``--from`` makes of it."""

import json
import os
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hostdoctor.sources.base import LSPCI, Command, Output, Source
from hostdoctor.sources.opening import open_source
from tests.cli.support import hostdoctor

Root = Callable[[str], str]


def facts(command: str, source: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(hostdoctor(command, "--from", source, "--format", "json").out)
    host = document.get("host", document)
    host["sources"] = host["sources"][1:]
    return document


@pytest.mark.parametrize("name", ["dgx-h100", "sick-2n"])
@pytest.mark.parametrize("command", ["topo", "check"])
def test_a_capture_of_a_root_says_the_same(root_of: Root, tmp_path: Path, name: str, command: str) -> None:
    target = tmp_path / "host.tar.gz"
    ran = hostdoctor("capture", "-o", str(target), "--from", root_of(name))
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith(f"{target}: ")
    assert "not redacted: host name, serials, UUIDs and addresses are in it" in ran.out
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert facts(command, str(target)) == facts(command, root_of(name))


def test_a_redacted_capture_says_what_was_replaced(root_of: Root, tmp_path: Path) -> None:
    target = tmp_path / "host.tar.gz"
    ran = hostdoctor("capture", "--output", str(target), "--redact", "--from", root_of("dgx-h100"))
    assert ran.status == 0
    assert "replaced: 1 host names, " in ran.out
    assert facts("topo", str(target))["system"]["hostname"] == "host1"


def test_a_capture_of_this_machine_gives_the_same_map(tmp_path: Path) -> None:
    target = tmp_path / "host.tar.gz"
    assert hostdoctor("capture", "-o", str(target)).status == 0
    live, again = json.loads(hostdoctor("topo", "--format", "json").out), facts("topo", str(target))
    live["sources"] = live["sources"][1:]
    for host in (live, again):
        del host["is_live"], host["block_devices"], host["memory"], host["memory_groups"]
        for node in host["numa_nodes"]:
            del node["free_bytes"], node["memory"]
        for drive in host["nvme"]:
            del drive["queues"]
    assert again == live


def test_an_existing_file_is_replaced_only_when_forced(root_of: Root, tmp_path: Path) -> None:
    target = tmp_path / "host.tar.gz"
    target.write_text("mine")
    arguments = ("capture", "-o", str(target), "--from", root_of("workstation"))
    ran = hostdoctor(*arguments)
    assert (ran.status, ran.out, ran.err) == (64, "", f"hostdoctor: {target}: exists already (--force replaces it)\n")
    assert target.read_text() == "mine"
    assert hostdoctor(*arguments, "--force").status == 0
    assert target.read_bytes()[:2] == b"\x1f\x8b"


@pytest.mark.parametrize(
    "target",
    [
        None,
        "",
        ".",
        "none/host.tar.gz",
        "/dev/null",
        "/proc/self/host.tar.gz",
        "-",
        "a.txt/b",
        "a\nb/c",
        "n" * 256,
    ],
    ids=lambda t: repr(t),
)
def test_a_bad_target_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str | None) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("available: 1 nodes (0)\nnode 0 cpus: 0 1\nnode 0 size: 9 MB\nnode 0 free: 1 MB\n")
    options = () if target is None else ("-o", target)
    ran = hostdoctor("capture", *options, "--from", "a.txt", "--force")
    assert ran.out == ""
    assert ran.err.count("\n") == 1
    assert "internal error" not in ran.err
    assert ran.status == (3 if target in ("/proc/self/host.tar.gz", "n" * 256) else 64)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_what_a_planned_path_lies_on_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "host.tar.gz"
    assert hostdoctor("capture", "-o", str(target), "--kv-path", str(tmp_path)).status == 0
    ran = hostdoctor("check", "--from", str(target), "--kv-path", str(tmp_path), "--format", "json")
    (place,) = json.loads(ran.out)["host"]["places"]
    assert place["mount_point"] is not None
    assert place["size_bytes"] == os.statvfs(tmp_path).f_blocks * os.statvfs(tmp_path).f_frsize
    missing = hostdoctor("capture", "-o", str(tmp_path / "b"), "--model-path", str(tmp_path / "none"))
    assert (missing.status, missing.err.count("\n")) == (64, 1)


def test_what_holds_nothing_is_not_captured(tmp_path: Path) -> None:
    (tmp_path / "bare" / "sys" / "bus").mkdir(parents=True)
    (tmp_path / "bare" / "proc").mkdir()
    ran = hostdoctor("capture", "-o", str(tmp_path / "a.tar.gz"), "--from", str(tmp_path / "bare"))
    assert (ran.status, ran.out, ran.err.count("\n")) == (3, "", 1)
    assert not (tmp_path / "a.tar.gz").exists()


def _denied(path: str) -> bool:
    return path.endswith(("meminfo", "cpulist"))


class Denied:
    """A live host of which an ordinary user sees less than root."""

    is_live = True
    label = "this host"

    def __init__(self, source: Source) -> None:
        self._source = source

    def read(self, path: str) -> str | None:
        return None if _denied(path) else self._source.read(path)

    def why_unreadable(self, path: str) -> tuple[str, str]:
        return ("denied", "permission denied") if _denied(path) else self._source.why_unreadable(path)

    def run(self, command: Command) -> tuple[Output, ...]:
        text = "0000:00:01.0 Host bridge [0600]: X [8086:1234]\n\tCapabilities: <access denied>\n"
        return (Output(source=command.label, text=text),) if command == LSPCI else ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


@pytest.mark.parametrize("user", [0, 1000])
def test_an_ordinary_user_is_told_what_root_would_add(
    root_of: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int
) -> None:
    source = Denied(open_source([root_of("l40s-4")]))
    monkeypatch.setattr("hostdoctor.cli.capture.open_evidence", lambda *_, **__: source)
    monkeypatch.setattr("hostdoctor.cli.capture.os.geteuid", lambda: user)
    ran = hostdoctor("capture", "-o", str(tmp_path / "a.tar.gz"))
    assert ran.status == 0
    lines = ran.err.splitlines()
    if user == 0:
        assert lines == []
    else:
        assert len(lines) == 3
        assert lines[0].startswith("root would add /proc/meminfo, /sys/devices/")
        assert lines[0].endswith(" more (permission denied)")
        assert lines[1].startswith("root would add the rest of the configuration space of ")
        assert lines[2] == "root would add the capabilities that lspci -D -nn -v shows it"
    gaps = {gap["fact"]: gap for gap in facts("topo", str(tmp_path / "a.tar.gz"))["gaps"]}
    assert gaps["numa_nodes[0].memory_bytes"]["reason"] == "permission denied"


def kept(target: Path, name: str) -> Any:
    with tarfile.open(target) as archive:
        found = archive.extractfile(name) if name in archive.getnames() else None
        return None if found is None else json.load(found)


@pytest.mark.parametrize("options", [(), ("--redact",)])
def test_this_machines_cpu_is_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str]) -> None:
    (tmp_path / "cpuinfo.py").write_text("def get_cpu_info(): return {'brand_raw': 'Chip of 10.11.12.13', 'flags': []}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    target, again = tmp_path / "host.tar.gz", tmp_path / "again.tar.gz"
    assert hostdoctor("capture", "-o", str(target), *options).status == 0
    told = kept(target, "hostdoctor/cpu.json")
    assert (told["brand"] == "Chip of 10.11.12.13") == (not options)
    assert told["brand"].startswith("Chip of ")
    assert hostdoctor("capture", "-o", str(again), "--from", str(target)).status == 0
    assert kept(again, "hostdoctor/cpu.json") == told


def test_what_keeps_it_from_being_described_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo.py").write_text("raise ModuleNotFoundError('no py-cpuinfo')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    target = tmp_path / "host.tar.gz"
    ran = hostdoctor("capture", "-o", str(target))
    assert ran.status == 0
    assert "cpu" not in ran.err
    assert kept(target, "hostdoctor/cpu.json") is None
    note = kept(target, "hostdoctor/manifest.json")["errors"]["/hostdoctor/cpu.json"]
    assert note == ["error", "exit status 1: ModuleNotFoundError: no py-cpuinfo"]


def test_a_root_is_captured_without_this_machines_cpu(root_of: Root, tmp_path: Path) -> None:
    target = tmp_path / "host.tar.gz"
    assert hostdoctor("capture", "-o", str(target), "--from", root_of("workstation")).status == 0
    assert kept(target, "hostdoctor/cpu.json") is None
    assert "/hostdoctor/cpu.json" not in kept(target, "hostdoctor/manifest.json")["errors"]


def test_a_name_of_odd_characters_is_shown_in_one_line(
    root_of: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = hostdoctor("capture", "-o", "a\x1b[2J\nb", "--from", root_of("workstation"))
    assert (ran.status, ran.out.count("\n")) == (0, 1)
    assert ran.out.startswith("a?[2J b: ")


def test_a_link_is_never_written_through(root_of: Root, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("victim")
    for victim in (None, "mine"):
        if victim is not None:
            (tmp_path / "victim").write_text(victim)
        for force in ((), ("--force",)):
            ran = hostdoctor("capture", "-o", str(tmp_path / "link"), *force, "--from", root_of("workstation"))
            assert (ran.status, ran.err.count("\n")) == (64, 1)
        assert (tmp_path / "victim").exists() == (victim is not None)
    assert (tmp_path / "victim").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "victim"]
