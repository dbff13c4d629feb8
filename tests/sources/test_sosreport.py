"""A sosreport, made here by the real tool: the map that it gives is this machine's, as far as both know it."""

import os
import shutil
import subprocess  # noqa: TID251  runs sos
import tarfile
from pathlib import Path

import pytest

from hostdoctor.facts import Host
from hostdoctor.sources.base import LSPCI, LSPCI_TREE, NUMACTL, NVIDIA_SMI_QUERY
from hostdoctor.sources.live import LiveSource
from hostdoctor.sources.opening import open_source
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import DiskTree, MemoryTree
from hostdoctor.survey import survey_map

PLUGINS = "numa,pci,processor,kernel,nvme,block,memory,system"
SETTINGS = ("kernel.numa_balancing", "vm.zone_reclaim_mode", "vm.overcommit_memory")

sos = pytest.mark.sos


@pytest.fixture(scope="module")
def sosreport(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("sos") is None or os.geteuid() != 0:
        pytest.skip("sos is not installed, or this is not root")
    folder = tmp_path_factory.mktemp("sos")
    argv = ["sos", "report", "--batch", "-o", PLUGINS, "--tmp-dir", str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    made = sorted(folder.glob("sosreport-*.tar.*[!5]"))
    if done.returncode != 0 or not made:
        pytest.skip(f"sos made no report: {done.stdout[-300:]}{done.stderr[-300:]}")
    return next(path for path in made if tarfile.is_tarfile(path))


@sos
def test_a_sosreport_gives_the_map_of_this_machine(sosreport: Path, tmp_path: Path) -> None:
    live = survey_map(LiveSource(20))
    with tarfile.open(sosreport) as archive:
        archive.extractall(tmp_path, filter="fully_trusted")
    for name in (sosreport, tmp_path):
        assert_alike(survey_map(open_source([str(name)])), live)


def assert_alike(found: Host, live: Host) -> None:
    assert [(n.id, n.cpus, n.distances, n.package, n.kind) for n in found.numa_nodes] == [
        (n.id, n.cpus, n.distances, n.package, n.kind) for n in live.numa_nodes
    ]
    assert [(d.bdf, d.vendor_id, d.device_id, d.root_complex, d.upstream) for d in found.pci_devices] == [
        (d.bdf, d.vendor_id, d.device_id, d.root_complex, d.upstream) for d in live.pci_devices
    ]
    classes = {d.bdf: d.class_code or "" for d in live.pci_devices}
    told = {d.bdf: d.class_code or "" for d in found.pci_devices}
    # lspci leaves out the last two digits where they are 00 and have no name (a host bridge)
    assert {bdf: code[: len(told[bdf])] for bdf, code in classes.items()} == told
    assert {code[4:] for bdf, code in classes.items() if len(told[bdf]) == 4} <= {"00"}
    assert [(g.bdf, g.link) for g in found.gpus] == [(g.bdf, g.link) for g in live.gpus]
    assert {n.bdf for n in live.nics} == {n.bdf for n in found.nics}
    assert (found.system.hostname, found.system.kernel) == (live.system.hostname, live.system.kernel)
    assert (found.system.cpu_model, found.system.packages) == (live.system.cpu_model, live.system.packages)
    for name in SETTINGS:
        assert found.settings.get(name) == live.settings.get(name)
    assert found.cores == live.cores
    assert not found.disagreements


def tree(**files: str) -> RootSource:
    return RootSource(MemoryTree({path: text.encode() for path, text in files.items()}, {}), "sos")


def test_settings_without_files_come_from_sysctl() -> None:
    source = tree(
        **{
            "/sos_commands/kernel/sysctl_-a": "kernel.hostname = gpu7\nkernel.numa_balancing = 1\nkernel.x = a = b\n",
            "/proc/sys/kernel/numa_balancing": "0\n",
        }
    )
    assert source.read("/proc/sys/kernel/hostname") == "gpu7\n"
    assert source.read("/proc/sys/kernel/numa_balancing") == "0\n"
    assert source.read("/proc/sys/kernel/x") == "a = b\n"
    assert source.read("/proc/sys/vm/none") is None


def test_names_of_outputs_vary() -> None:
    folder = "/sos_commands"
    source = tree(
        **{
            f"{folder}/pci/lspci_-nntv": "-[0000:00]-",
            f"{folder}/pci/lspci_-nnvv": "00:00.0",
            f"{folder}/pci/lspci_-tv": "-[0000:00]-",
            f"{folder}/numa/numactl_-H": "available: 1 nodes",
            f"{folder}/nvidia/nvidia-smi_-q": "NVSMI LOG",
            f"{folder}/nvidia/nvidia-smi_-q_-d_ECC": "NVSMI LOG",
        }
    )
    assert [output.source for output in source.run(LSPCI)] == ["sos:sos_commands/pci/lspci_-nnvv"]
    assert len(source.run(LSPCI_TREE)) == 2
    assert len(source.run(NUMACTL)) == 1
    assert len(source.run(NVIDIA_SMI_QUERY)) == 1


def test_absolute_links_stay_inside_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "sys/devices/pci0000:00/0000:00:01.0"
    folder.mkdir(parents=True)
    (folder / "vendor").write_text("0x10de\n", encoding="ascii")
    devices = tmp_path / "sys/bus/pci/devices"
    devices.mkdir(parents=True)
    (devices / "0000:00:01.0").symlink_to("/sys/devices/pci0000:00/0000:00:01.0")
    (devices / "0000:00:02.0").symlink_to("/etc")
    disk = DiskTree(str(tmp_path))
    assert disk.read("/sys/bus/pci/devices/0000:00:01.0/vendor") == "0x10de\n"
    assert disk.read("/sys/bus/pci/devices/0000:00:02.0/passwd") is None
