"""What pasted lists of PCI functions do not show: unknown where they may be a part, none where they are whole."""

from pathlib import Path

import pytest

from hostdoctor.diagnosis.api import Ask
from hostdoctor.diagnosis.registry import load_rules
from hostdoctor.diagnosis.report import CheckResult, Report
from hostdoctor.diagnosis.runner import diagnose
from hostdoctor.errors import PlacementError, UnknownNodeError
from hostdoctor.facts import Host
from hostdoctor.outputs.nagios import perfdata
from hostdoctor.outputs.prometheus import render_prometheus
from hostdoctor.outputs.report_metrics import Made, report_families
from hostdoctor.outputs.words import counts
from hostdoctor.placement.selection import select
from hostdoctor.sources.opening import open_source
from hostdoctor.sources.texts import TextSource
from hostdoctor.survey import survey
from tests.support.render_hwloc import bridge, function, holder, node, topology

HOST_BRIDGE = "00:00.0 Host bridge [0600]: Intel Corporation Ice Lake Memory Map/VT-d [8086:09a2] (rev 04)\n"
PORT = "16:02.0 PCI bridge [0604]: Intel Corporation Device [8086:347a] (rev 04)\n"
GPU = "17:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 PCIe] [10de:2331] (rev a1)\n"
OTHER_GPU = GPU.replace("17:", "65:")
NIC = "31:00.0 Ethernet controller [0200]: Mellanox Technologies MT2910 Family [ConnectX-7] [15b3:1021]\n"
DRIVE = "4b:00.0 Non-Volatile memory controller [0108]: Samsung Electronics Co Ltd PM9A3 [144d:a80a]\n"
SATA = "00:17.0 SATA controller: Intel Corporation C620 Series SATA Controller (rev 09)\n"
WORDY = "00:05.2 Encryption controller: Intel Corporation Device 4940\n"
PASSED_THROUGH = GPU.replace("17:00.0", "0001:00:00.0")
ARM_PORT = "0004:00:00.0 PCI bridge [0604]: NVIDIA Corporation Device [10de:22b8]\n"
CONNECTX3 = "81:00.0 Network controller: Mellanox Technologies MT27500 Family [ConnectX-3]\n"
WIFI = "02:00.0 Network controller: Intel Corporation Wi-Fi 6 AX200 (rev 1a)\n"
USB = "0008:01:00.0 USB controller: ASMedia Technology Inc. Device 2142\n"
SOUND = "0001:00:00.1 Audio device: NVIDIA Corporation AD102 High Definition Audio Controller (rev a1)\n"
VIRTUAL_NIC = NIC.replace("31:00.0", "a2c1:00:02.0")

LISTS = {
    "whole, with all": (HOST_BRIDGE + PORT + GPU + NIC + DRIVE, "1 GPU, 1 NIC, 1 NVMe drive"),
    "whole, without drives": (HOST_BRIDGE + SATA + GPU + NIC, "1 GPU, 1 NIC, 0 NVMe drives"),
    "whole, in words that have no code": (HOST_BRIDGE + SATA + WORDY, "0 GPUs, 0 NICs, 0 NVMe drives"),
    "what a hypervisor passes through": (PASSED_THROUGH + VIRTUAL_NIC + SOUND, "1 GPU, 1 NIC, 0 NVMe drives"),
    "what a hypervisor passes through, or grep leaves": (PASSED_THROUGH + VIRTUAL_NIC, "1 GPU, 1 NIC"),
    "GPUs, NICs and bridges of NVIDIA (grep)": (
        ARM_PORT.replace("0004:", "0000:") + NIC.replace("31:", "0000:01:") + ARM_PORT,
        "1 NIC",
    ),
    "one GPU (-s)": (GPU, "1 GPU"),
    "one drive (-s)": (DRIVE, "1 NVMe drive"),
    "one host bridge (-s)": (HOST_BRIDGE, "no device told"),
    "one vendor (-d 10de:)": (GPU + OTHER_GPU, "2 GPUs"),
    "one vendor, passed through": (PASSED_THROUGH + PASSED_THROUGH.replace("0001:", "0002:"), "2 GPUs"),
    "no root bus (grep)": (GPU + NIC, "1 GPU, 1 NIC"),
    "bridges alone (grep)": (HOST_BRIDGE + PORT, "no device told"),
    "the first lines (head)": (HOST_BRIDGE + PORT.replace("16:", "00:") + SATA, "no device told"),
    "chipsets of two sockets (grep)": (HOST_BRIDGE + PORT.replace("16:", "00:") + SATA + PORT, "no device told"),
    "the last lines (tail)": (SATA + PORT + GPU, "1 GPU"),
    "a guest's devices (grep)": (GPU.replace("17:00", "00:1e") + NIC.replace("31:00", "00:05"), "1 GPU, 1 NIC"),
    "a guest's drives (-d ::0108)": (
        DRIVE.replace("4b:00", "00:04") + DRIVE.replace("4b:00", "00:1f"),
        "2 NVMe drives",
    ),
    "one domain of several (-s)": (ARM_PORT + DRIVE.replace("4b:", "0004:01:"), "1 NVMe drive"),
    "domains of an ARM server": (
        ARM_PORT.replace("0004:", "0000:") + ARM_PORT + DRIVE.replace("4b:", "0004:01:") + USB,
        "0 GPUs, 0 NICs, 1 NVMe drive",
    ),
    "a domain of five digits alone": (
        SATA + HOST_BRIDGE.replace("00:00.0", "10000:00:00.0"),
        "no device told",
    ),
    "whole, with InfiniBand cards": (
        HOST_BRIDGE + SATA + CONNECTX3 + CONNECTX3.replace("81:00.0 Network", "82:00.0 Network") + WIFI,
        "0 GPUs, 2 NICs, 0 NVMe drives",
    ),
    "whole, in numbers (-n)": (
        "00:00.0 0600: 8086:09a2\n00:17.0 0106: 8086:a182\n43:00.0 0c06: 1077:7322\n81:00.0 0280: 15b3:1003\n",
        "0 GPUs, 2 NICs, 0 NVMe drives",
    ),
    "a guest of WSL": (
        "0f5a:00:00.0 3D controller: Microsoft Corporation Basic Render Driver\n"
        "1b2c:00:00.0 System peripheral: Red Hat, Inc. Virtio file system (rev 01)\n",
        "0 NICs, 0 NVMe drives",
    ),
    "a tree without names (-t)": ("-[0000:00]-+-00.0\n           \\-01.0-[01]----00.0\n", "no device told"),
    "a tree of numbers (-tn)": (
        "-[0000:00]-+-00.0  8086:09a2\n           \\-01.0-[01]----00.0  10de:2331\n",
        "no device told",
    ),
    "a tree of names (-tv)": (
        "-[0000:00]-+-00.0  Intel Corporation Ice Lake Memory Map\n"
        "           \\-01.0-[01]----00.0  NVIDIA Corporation GH100 [H100 PCIe]\n",
        "1 GPU",
    ),
}


def lstopo(*functions: str) -> str:
    """Return hwloc's XML of one socket with these functions behind a host bridge."""
    package = holder("Package", range(8), node(0, range(8)), nodeset="0x1")
    return topology("2.0", range(8), [0], package + bridge("0000:[00-ff]", "".join(functions)))


LISTS |= {
    "lstopo of GPUs alone": (lstopo(function("0000:17:00.0", "0302 [10de:2331]")), "1 GPU, 1 NUMA node"),
    "lstopo": (
        lstopo(function("0000:17:00.0", "0302 [10de:2331]"), function("0000:18:00.0", "0106 [8086:a182]")),
        "1 GPU, 1 NUMA node, 0 NICs, 0 NVMe drives",
    ),
}


WHOLE = LISTS["lstopo"][0]
LISTS["lstopo cut off"] = (WHOLE[: WHOLE.rindex("</object>")], "1 GPU, 1 NUMA node")

NCCL = """<system version="1">
  <cpu numaid="0" affinity="000000ff" arch="x86_64">
    <pci busid="0000:17:00.0" class="0x030200" vendor="0x10de" device="0x2331"><gpu dev="0" sm="90" rank="0"/></pci>
    <nic><net name="mlx5_0" dev="0" speed="400000" port="1" gdr="1"/></nic>
  </cpu>
</system>
"""


def host_of(*texts: str) -> Host:
    return survey(TextSource([("pasted", text) for text in texts]))


@pytest.mark.parametrize("name", LISTS)
def test_only_a_whole_list_counts_none(name: str) -> None:
    text, words = LISTS[name]
    assert counts(host_of(text)) == words


def test_the_reason_is_told() -> None:
    gaps = {gap.fact: gap.reason for gap in host_of(GPU + NIC).gaps}
    assert gaps["nvme"] == "a part of the list of PCI functions: none is on a root bus"
    assert "nics" not in gaps


def test_what_nccl_uses_makes_no_list_whole() -> None:
    used = NCCL.replace("0000:17:", "0002:00:").replace("<nic>", '<pci busid="0101:00:00.0" class="0x020700"/><nic>')
    assert counts(host_of(PASSED_THROUGH, used)) == "2 GPUs, 1 NUMA node, 2 NICs"


def report_on(*texts: str) -> Report:
    return diagnose(host_of(*texts), Ask(), load_rules())


def result_of(check: str, *texts: str) -> CheckResult:
    return next(result for result in report_on(*texts).results if result.id == check)


@pytest.mark.parametrize("check", ["HD501", "HD506"])
@pytest.mark.parametrize("text", [GPU, DRIVE, NCCL, HOST_BRIDGE + SATA + GPU.replace(" [10de:2331]", "")])
def test_gpus_whose_driver_nobody_told_may_be_nvidia_gpus(check: str, text: str) -> None:
    assert result_of(check, text).skip_kind == "no-evidence"


def test_without_gpus_the_driver_is_not_applicable() -> None:
    assert result_of("HD501", HOST_BRIDGE + SATA).skip_kind == "not-applicable"


def test_nics_that_nccl_names_may_be_rdma_nics() -> None:
    assert result_of("HD109", NCCL).reason == "no RDMA NIC known: which NICs can do RDMA is not known"


@pytest.mark.parametrize(("text", "error"), [(DRIVE, UnknownNodeError), (HOST_BRIDGE + SATA, PlacementError)])
def test_nothing_is_placed_and_the_reason_is_true(text: str, error: type[PlacementError]) -> None:
    with pytest.raises(PlacementError) as raised:
        select(host_of(text), "", environ_devices=None, environ_order=None)
    assert type(raised.value) is error


@pytest.mark.parametrize(("text", "kind"), [(GPU, "no-evidence"), (HOST_BRIDGE + SATA + GPU, "not-applicable")])
def test_what_may_be_there_is_not_called_not_applicable(text: str, kind: str) -> None:
    asked = ("HD109", "HD401", "HD403")
    assert [result.skip_kind for result in report_on(text).results if result.id in asked] == [kind] * len(asked)


def test_nics_that_are_known_by_address_alone_may_be_rdma_nics() -> None:
    (result,) = (result for result in report_on(HOST_BRIDGE + GPU + NIC).results if result.id == "HD109")
    assert result.skip_kind == "no-evidence"
    assert result.reason == "no RDMA NIC known: what the NICs are called is not known"


@pytest.mark.parametrize(("text", "gpus", "row"), [(DRIVE, "U", False), (HOST_BRIDGE + SATA + DRIVE, "0", True)])
def test_monitors_are_not_told_a_number_that_nobody_knows(text: str, gpus: str, row: bool) -> None:
    report = report_on(text)
    assert f" gpus={gpus} nodes=U" in perfdata(report)
    rows = render_prometheus(report_families(report, Made(version="0")))
    assert ("\nhostdoctor_gpus 0\n" in rows, "\nhostdoctor_gpus_in_scope 0\n" in rows) == (row, row)


NARROW = """\
00:00.0 Host bridge: Intel Corporation Device 09a2
00:02.0 PCI bridge: Intel Corporation Device 347a (prog-if 00 [Normal decode])
	Bus: primary=00, secondary=01, subordinate=01, sec-latency=0
	LnkCap:	Port #0, Speed 32GT/s, Width x16, ASPM not supported
	LnkSta:	Speed 32GT/s, Width x8 (downgraded)
01:00.0 3D controller: NVIDIA Corporation GH100 [H100 PCIe] (rev a1)
	LnkCap:	Port #0, Speed 32GT/s, Width x16, ASPM not supported
	LnkSta:	Speed 32GT/s, Width x8 (downgraded)
"""


def test_evidence_names_who_told_it_where_no_sysfs_was_read() -> None:
    (found,) = result_of("HD201", NARROW).findings
    assert (found.evidence[0].source, found.evidence[0].value) == (
        "pasted, for /sys/bus/pci/devices/0000:01:00.0/current_link_width",
        "8",
    )


def test_evidence_names_who_told_it_where_sysfs_has_nodes_alone(tmp_path: Path) -> None:
    node = tmp_path / "host/sys/devices/system/node"
    (node / "node0").mkdir(parents=True)
    (node / "online").write_text("0\n")
    (node / "node0/cpulist").write_text("0-7\n")
    (tmp_path / "lspci.txt").write_text(NARROW)
    host = survey(open_source([str(tmp_path / "host"), str(tmp_path / "lspci.txt")]))
    assert [node.cpus for node in host.numa_nodes] == ["0-7"]
    (result,) = (result for result in diagnose(host, Ask(), load_rules()).results if result.id == "HD201")
    assert result.findings[0].evidence[0].source == (
        f"{tmp_path}/host, {tmp_path}/lspci.txt, for /sys/bus/pci/devices/0000:01:00.0/current_link_width"
    )
