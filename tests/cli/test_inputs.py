"""What ``--from`` takes, what it refuses, and with which status."""

import io
import json
import os
import shutil
import subprocess  # noqa: TID251  runs the command line with fewer rights
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hostdoctor.cli.app import COMMANDS
from tests.cli.support import hostdoctor
from tests.support.hostbuilder import build_files, load_host, pack

Root = Callable[[str], str]

MATRIX = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV4\t0-31\t0\nGPU1\tNV4\t X \t32-63\t1\n"
NUMACTL = (
    "available: 2 nodes (0-1)\nnode 0 cpus: 0 1\nnode 0 size: 1000 MB\nnode 0 free: 10 MB\nnode 1 cpus: 2 3\n"
    "node 1 size: 1000 MB\nnode 1 free: 10 MB\nnode distances:\nnode   0   1 \n  0:  10  21 \n  1:  21  10 \n"
)


def topo(*names: str) -> dict[str, object]:
    ran = hostdoctor("topo", *(part for name in names for part in ("--from", name)), "--format", "json")
    assert ran.status == 0, ran.err
    document = json.loads(ran.out)
    assert isinstance(document, dict)
    return document


def test_a_folder_and_its_archive_give_the_same_host(root_of: Root, tmp_path: Path) -> None:
    archive = tmp_path / "dgx.tar.gz"
    archive.write_bytes(pack(build_files(load_host("dgx-h100"))))
    a, b = topo(root_of("dgx-h100")), topo(str(archive))
    assert {k: v for k, v in a.items() if k != "sources"} == {k: v for k, v in b.items() if k != "sources"}


def test_loose_texts_are_joined(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(MATRIX)
    (tmp_path / "b.txt").write_text(NUMACTL)
    host = topo(str(tmp_path / "a.txt"), str(tmp_path / "b.txt"))
    assert [gpu["numa_node"] for gpu in host["gpus"]] == [0, 1]  # type: ignore[attr-defined]
    assert [node["memory_bytes"] for node in host["numa_nodes"]] == [1000 << 20] * 2  # type: ignore[attr-defined]
    assert host["paths"] == [{"a": "GPU0", "b": "GPU1", "kind": "NV4"}]


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((MATRIX + "\n" + NUMACTL).encode())))
    assert len(topo("-")["gpus"]) == 2  # type: ignore[arg-type]


def test_nothing_of_this_machine_leaks_into_a_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(MATRIX)
    system = topo(str(tmp_path / "a.txt"))["system"]
    assert isinstance(system, dict)
    assert set(system.values()) == {None}


def bad_inputs(folder: Path) -> dict[str, tuple[str, int]]:
    """Map a case to what is given and the status it must end with."""
    (folder / "empty").mkdir()
    (folder / "bare" / "sys").mkdir(parents=True)
    (folder / "bare" / "proc").mkdir()
    (folder / "unknown").mkdir()
    (folder / "unknown" / "notes.txt").write_text("hello")
    (folder / "prose.txt").write_text("nothing that we know\n" * 5)
    (folder / "zero").write_bytes(b"")
    (folder / "blank").write_bytes(b" \n" * 9)
    (folder / "noise").write_bytes(bytes(range(256)) * 64)
    (folder / "cut.tar.gz").write_bytes(pack(build_files(load_host("workstation")))[:2000])
    (folder / "fake.tar.gz").write_bytes(b"\x1f\x8b" + b"junk" * 200)
    with tarfile.open(folder / "other.tar", "w") as archive:
        archive.add(folder / "prose.txt", "docs/prose.txt")
    os.mkfifo(folder / "pipe")
    return {
        "missing file": (str(folder / "nowhere"), 64),
        "empty folder": (str(folder / "empty"), 3),
        "folder with empty sys and proc": (str(folder / "bare"), 3),
        "folder with nothing known": (str(folder / "unknown"), 3),
        "prose": (str(folder / "prose.txt"), 3),
        "empty file": (str(folder / "zero"), 3),
        "blank file": (str(folder / "blank"), 3),
        "noise": (str(folder / "noise"), 3),
        "cut archive": (str(folder / "cut.tar.gz"), 3),
        "not an archive": (str(folder / "fake.tar.gz"), 3),
        "archive of something else": (str(folder / "other.tar"), 3),
        "pipe": (str(folder / "pipe"), 3),
        "device": ("/dev/zero", 3),
    }


@pytest.mark.parametrize("command", ["check", "topo"])
def test_bad_input_is_one_clear_line(tmp_path: Path, command: str) -> None:
    found = {}
    for case, (name, status) in bad_inputs(tmp_path).items():
        ran = hostdoctor(command, "--from", name)
        assert (ran.out, ran.err.count("\n")) == ("", 1), case
        assert "internal error" not in ran.err, case
        found[case] = (ran.status, status)
    assert {case: pair for case, pair in found.items() if pair[0] != pair[1]} == {}


def test_roots_of_two_hosts_are_not_one(root_of: Root) -> None:
    ran = hostdoctor("topo", "--from", root_of("demo"), "--from", root_of("workstation"))
    assert (ran.status, ran.out, ran.err.count("\n")) == (64, "", 1)


def test_a_link_to_the_real_root_is_the_root(tmp_path: Path) -> None:
    (tmp_path / "r").symlink_to("/")
    through, direct = topo(str(tmp_path / "r")), topo("/")
    assert through["system"] == direct["system"]
    assert through["pci_devices"] == direct["pci_devices"]


def test_a_text_that_names_no_device_says_so(tmp_path: Path) -> None:
    (tmp_path / "irq.txt").write_text(
        "           CPU0       CPU1\n  0:         37          0  IR-IO-APIC   2-edge      timer\n"
    )
    ran = hostdoctor("topo", "--from", str(tmp_path / "irq.txt"))
    assert (ran.status, ran.out) == (3, "")
    assert ran.err.endswith("nothing could be established: it names no NUMA node and no GPU, NIC or drive\n")


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        (("check", "--nope"), "hostdoctor check --help"),
        (("topo", "--gpus", "0"), "hostdoctor topo --help"),
        (("capture",), "hostdoctor capture --help"),
        (("nope",), "hostdoctor --help"),
        (("--nope",), "hostdoctor --help"),
    ],
)
def test_usage_points_to_the_command_s_own_help(arguments: tuple[str, ...], where: str) -> None:
    ran = hostdoctor(*arguments)
    assert (ran.status, ran.err.endswith(f" (see {where})\n")) == (64, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "--demo", "--gpus", ""),
        ("ps", "--gpus", " "),
        ("budget", "--demo", "--gpus", ""),
        ("run", "--gpus", "", "--", "true"),
        ("wrap", "--demo", "--gpus=", "--", "true"),
    ],
    ids=" ".join,
)
def test_an_unset_variable_does_not_mean_all_gpus(arguments: tuple[str, ...]) -> None:
    ran = hostdoctor(*arguments)
    assert (ran.status, ran.out, ran.err) == (64, "", "hostdoctor: --gpus: names no GPU (leave it out, or say all)\n")


def test_help_lists_the_commands_in_full_and_offers_nothing_else() -> None:
    listed = " ".join(hostdoctor("--help").out.split())
    assert "Print the map alone: nodes, root complexes, GPUs, NICs, NVMe drives." in listed
    assert all("completion" not in hostdoctor(name, "--help").out for name in COMMANDS)


def without_rights(*words: str) -> tuple[int, str]:
    """Run the command line as one who may not search what another user locked; root loses that right for it."""
    drop = "-dac_override,-dac_read_search"
    setpriv = shutil.which("setpriv")
    if os.geteuid() == 0 and setpriv is None:
        pytest.skip("setpriv (util-linux) is not installed")
    first = [str(setpriv), f"--bounding-set={drop}", f"--inh-caps={drop}"] if os.geteuid() == 0 else []
    command = [*first, sys.executable, "-m", "hostdoctor", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def lock(folder: Path) -> Path:
    folder.mkdir()
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
    folder.chmod(0o700 if os.geteuid() == 0 else 0)
    return folder


def test_a_locked_folder_beside_a_root_does_not_hide_it(root_of: Root, tmp_path: Path) -> None:

    folder = tmp_path / "evidence"
    shutil.copytree(root_of("workstation"), folder / "host", symlinks=True)
    for place in (folder, folder / "host"):
        lock(place / "locked")
    for named in (folder, folder / "host"):
        status, out = without_rights("topo", "--from", str(named))
        assert (status, "1 GPU" in out) == (0, True), out


def test_what_may_not_be_searched_is_one_line(tmp_path: Path) -> None:
    locked = lock(tmp_path / "locked")
    cases = {
        ("topo", "--from", str(locked)): 3,
        ("topo", "--from", str(locked / "x")): 3,
        ("capture", "--quick", "-o", str(locked / "x.tar.gz")): 3,
        ("check", "--quick", "--model-path", str(locked / "x")): 64,
        ("check", "--demo", "--checks-dir", str(locked / "x")): 64,
    }
    for words, expected in cases.items():
        status, said = without_rights(*words)
        assert (status, said.count("\n")) == (expected, 1), said
        assert "ermission denied" in said or "owned by" in said
