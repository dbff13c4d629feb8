"""Names that are not UTF-8, terminals that are not UTF-8, and names that would steer a terminal."""

import io
import json
import os
import subprocess  # noqa: TID251  real encodings of a real standard output
import sys
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostdoctor.diagnosis import Ask
from hostdoctor.diagnosis.registry import load_rules
from hostdoctor.diagnosis.runner import diagnose
from hostdoctor.facts import Disagreement, Gap, Gpu, Host, Nic, NumaNode, NvmeController
from hostdoctor.facts import Path as GpuPath
from hostdoctor.outputs.report_text import render_report
from hostdoctor.outputs.style import Style
from hostdoctor.outputs.topo_text import render_topo
from tests.cli.support import hostdoctor
from tests.support.hostbuilder import build_files, load_host, write_tree

EVIL = "\x1b[31m\u202e"


@pytest.fixture
def odd_root(tmp_path: Path) -> Path:
    """A host whose network interface and whose driver have names that are not UTF-8, in a folder of such a name."""
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/h\xff"))
    write_tree(build_files(load_host("workstation")), root)
    device = min((root / "sys/bus/pci/devices").iterdir()).resolve()
    odd = os.fsdecode(b"eth\xff")
    (device / "net" / odd).mkdir(parents=True)
    (root / "sys/class/net" / odd).symlink_to(device / "net" / odd)
    (device / "class").write_text("0x020000\n", encoding="ascii")
    (device / "driver").unlink(missing_ok=True)
    (device / "driver").symlink_to(os.fsdecode(b"/sys/bus/pci/drivers/drv\xfe"))
    return root


@pytest.mark.parametrize("command", ["check", "topo"])
def test_names_that_are_not_utf8_are_shown_replaced(command: str, odd_root: Path) -> None:
    ran = hostdoctor(command, "--from", str(odd_root), "--format", "json")
    assert ran.status != 70, ran.err
    document = json.loads(ran.out)
    host = document["host"] if command == "check" else document
    assert any(device["driver"] == "drv\ufffd" for device in host["pci_devices"])
    assert host["sources"][0].endswith("h\ufffd")


def test_archives_hold_such_names_too(tmp_path: Path) -> None:
    base, odd = "sys/devices/pci0000:00/0000:00:01.0", os.fsdecode(b"eth\xff")
    files = {f"{base}/class": "0x020000\n", f"{base}/vendor": "0x15b3\n", f"{base}/device": "0x1021\n"}
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, text in {**files, f"{base}/net/{odd}/address": "x"}.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
        link = tarfile.TarInfo("sys/bus/pci/devices/0000:00:01.0")
        link.type, link.linkname = tarfile.SYMTYPE, "../../../devices/pci0000:00/0000:00:01.0"
        archive.addfile(link)
        link.name, link.linkname = f"sys/class/net/{odd}", f"../../../{base}/net/{odd}"
        archive.addfile(link)
        link.name, link.linkname = f"{base}/net/{odd}/device", "../.."
        archive.addfile(link)
    host = json.loads(hostdoctor("topo", "--from", str(tmp_path / "a.tar"), "--format", "json").out)
    assert host["nics"][0]["netdevs"] == ["eth\ufffd"]


def test_a_text_in_a_file_of_such_a_name(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt")
    Path(path).write_text("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-31\t0\n", encoding="ascii")
    ran = hostdoctor("topo", "--from", path, "--format", "json")
    assert (ran.status, json.loads(ran.out)["gpus"][0]["cpus"]) == (0, "0-31")


def test_a_variable_that_is_not_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "CUDA_VISIBLE_DEVICES", os.fsdecode(b"\xff"))
    ran = hostdoctor("check", "--quick", "--format", "json")
    assert json.loads(ran.out)["host"]["settings"]["env.CUDA_VISIBLE_DEVICES"] == "\ufffd"


def test_a_stated_path_that_is_not_utf8_is_refused() -> None:
    ran = hostdoctor("check", "--demo", "--model-path", os.fsdecode(b"/m\xff"))
    assert (ran.status, "not a UTF-8 name" in ran.err) == (64, True)


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-8"])
@pytest.mark.parametrize("command", ["topo", "check"])
def test_another_encoding_still_gets_the_map(encoding: str, command: str) -> None:
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    arguments = [sys.executable, "-m", "hostdoctor", command, "--demo"]
    ran = subprocess.run(arguments, capture_output=True, env=environment, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0 if command == "topo" else 2, b"")
    assert b"demo: 8 GPUs, 2 NUMA nodes" in ran.stdout


@pytest.mark.parametrize("option", [("--timeout", "nan"), ("--timeout", "inf"), ("--sample", "nan")])
def test_what_is_no_time_is_refused(option: tuple[str, str]) -> None:
    assert hostdoctor("check", "--demo", *option).status == 64


def evil(text: str) -> str:
    return text + EVIL


@pytest.fixture
def evil_host() -> Host:
    """A host whose every text would recolour and reverse a terminal."""
    place: dict[str, Any] = {"root_complex": evil("0000:00"), "upstream": (evil("0000:00:01.0"), evil("0000:01:00.0"))}
    gap = Gap(fact=evil("gpus"), source=evil("NVML"), reason=evil("lost"))
    nic = Nic(name=evil("mlx5_0"), label=evil("NIC0"), netdevs=(evil("eth0"),), bdf=evil("0000:02:00.0"), **place)
    return Host(
        numa_nodes=(NumaNode(id=0, cpus=evil("0-3"), distances={evil("1"): 20}),),
        gpus=(Gpu(index=0, name=evil("H100"), bdf=evil("0000:03:00.0"), **place), Gpu(index=1)),
        nics=(nic, msgspec.structs.replace(nic, name=evil("mlx5_1"))),
        nvme=(NvmeController(name=evil("nvme0"), model=evil("SSD"), bdf=evil("0000:04:00.0"), **place),),
        paths=(
            GpuPath(a="GPU0", b="GPU1", kind=evil("NV18")),
            GpuPath(a="GPU0", b=evil("NIC0"), kind="PIX"),
        ),
        gaps=(gap,),
        disagreements=(Disagreement(fact=evil("gpus[0]"), values={evil("sysfs"): evil("1")}),),
        sources=(evil("a"),),
    )


def steers(text: str) -> bool:
    return any(character in text for character in EVIL.replace("[31m", ""))


def test_no_text_of_a_machine_steers_the_terminal_in_the_map(evil_host: Host) -> None:
    assert not steers(render_topo(evil_host, Style()))


def test_nor_in_the_report(evil_host: Host) -> None:
    report = diagnose(evil_host, Ask(), load_rules())
    assert not steers(render_report(report, Style(), show_all=True))
