"""HD401, HD403, HD404, HD408, HD409."""

from typing import Any

import pytest

from hostdoctor.diagnosis.api import Check
from hostdoctor.facts import BlockDevice, Gap, Host, NvmeQueue, System
from tests.support.build_memory import drive, fires, gap, judge, load, node, queue, quiet, two_nodes

nvme_irq_off_node = load("nvme", "nvme_irq_off_node")
nvme_numa_unknown = load("nvme", "nvme_numa_unknown")
nvme_queues_span_nodes = load("nvme", "nvme_queues_span_nodes")
nvme_scheduler = load("nvme", "nvme_scheduler")
virtual_disk = load("nvme", "virtual_disk")

EVERY_CHECK = [nvme_numa_unknown, nvme_queues_span_nodes, nvme_irq_off_node, nvme_scheduler, virtual_disk]


@pytest.mark.parametrize("function", EVERY_CHECK)
def test_no_drive_is_not_applicable(function: Check) -> None:
    assert quiet(function, two_nodes()) == "not-applicable"


def minus_one(index: int) -> Gap:
    return gap(f"nvme[{index}].numa_node", "sysfs", "the kernel was not told (-1)")


def lost(*extra_gaps: Gap, **more: Any) -> Host:
    """A two-node host with nvme0 on node 0 and nvme1 at -1."""
    drives = (drive("nvme0"), drive("nvme1", numa_node=None))
    return two_nodes(nvme=drives, gaps=(minus_one(1), *extra_gaps), **more)


class TestNumaUnknown:
    def test_a_data_drive_on_bare_metal_warns(self) -> None:
        found = fires(nvme_numa_unknown, lost())
        assert found.severity == "warning"
        assert found.subject == "nvme1"
        assert "-1" in found.evidence[0].value
        assert "1 of 2" in found.message

    def test_several_drives_are_one_finding(self) -> None:
        drives = (drive("nvme0", numa_node=None), drive("nvme1", numa_node=None))
        found = fires(nvme_numa_unknown, two_nodes(nvme=drives, gaps=(minus_one(0), minus_one(1))))
        assert found.subject == "nvme0, nvme1"

    def test_the_boot_drive_is_information(self) -> None:
        root = BlockDevice(name="nvme1n1", holds=("/", "/boot/efi", "swap"))
        assert fires(nvme_numa_unknown, lost(block_devices=(root,))).severity == "info"
        other = BlockDevice(name="nvme1n1", holds=("/data",))
        assert fires(nvme_numa_unknown, lost(block_devices=(other,))).severity == "warning"

    @pytest.mark.parametrize("system", [System(virtualization="kvm"), System(container="kubepods")])
    def test_a_guest_or_container_cannot_mend_it(self, system: System) -> None:
        found = fires(nvme_numa_unknown, lost(system=system))
        assert found.severity == "info"
        assert found.remedy.risk == "none"

    def test_bare_metal_has_to_be_known(self) -> None:
        unsure = gap("system.virtualization", "/proc/cpuinfo", "no source could tell")
        assert fires(nvme_numa_unknown, lost(unsure)).severity == "info"

    def test_a_source_that_cannot_tell_is_no_minus_one(self) -> None:
        untold = gap("nvme[0].numa_node", "nvme list", "not printed")
        for gaps in ((), (untold,)):
            host = two_nodes(nvme=(drive(numa_node=None),), gaps=gaps)
            assert quiet(nvme_numa_unknown, host) == "no-evidence"

    def test_fabrics_and_drives_without_a_driver_have_no_node_to_know(self) -> None:
        drives = (drive("nvme0", bdf=None, transport="tcp", numa_node=None), drive(None, numa_node=None))
        assert quiet(nvme_numa_unknown, two_nodes(nvme=drives, gaps=(minus_one(0), minus_one(1)))) is None

    def test_a_drive_that_only_lspci_lists_is_no_evidence_without_its_node(self) -> None:
        host = two_nodes(nvme=(drive(), drive(None, numa_node=None)))
        assert quiet(nvme_numa_unknown, host) == "no-evidence"

    def test_known_nodes_pass(self) -> None:
        assert quiet(nvme_numa_unknown, two_nodes(nvme=(drive(), drive("nvme1", numa_node=1)))) is None

    def test_one_cpu_node_needs_no_node(self) -> None:
        nodes = (node(0, "0-7"), node(1, "", 96, kind="gpu-memory"))
        host = Host(numa_nodes=nodes, nvme=(drive(numa_node=None),), gaps=(minus_one(0),))
        assert quiet(nvme_numa_unknown, host) == "not-applicable"


class TestQueuesSpanNodes:
    def test_fewer_queues_than_cpus_is_normal_and_said_so(self) -> None:
        host = two_nodes(nvme=(drive(queues=(queue(1, "0-1"), queue(2, "2-5"), queue(3, "6-7"))),))
        found = fires(nvme_queues_span_nodes, host)
        assert found.severity == "info"
        assert "nvme0 1 of 3" in found.message
        assert "normal" in found.message
        assert found.evidence[0].value == "queue 2: 2-5"

    def test_enough_queues_are_not_called_normal(self) -> None:
        queues = tuple(queue(i + 1, f"{i},{(i + 4) % 8}") for i in range(8))
        assert "normal" not in fires(nvme_queues_span_nodes, two_nodes(nvme=(drive(queues=queues),))).message

    def test_drives_are_one_finding(self) -> None:
        wide = (queue(1, "0-7"),)
        host = two_nodes(nvme=(drive("nvme0", queues=wide), drive("nvme1", queues=wide)))
        assert fires(nvme_queues_span_nodes, host).subject == "nvme0, nvme1"

    def test_offline_cpus_belong_to_no_node(self) -> None:
        host = two_nodes(nvme=(drive(queues=(queue(1, "0-3,8-11"), queue(2, "4-7,12-15"))),))
        assert quiet(nvme_queues_span_nodes, host) is None

    @pytest.mark.parametrize("queues", [(), (queue(1, None),)])
    def test_unknown_lists_are_no_evidence(self, queues: tuple[NvmeQueue, ...]) -> None:
        assert quiet(nvme_queues_span_nodes, two_nodes(nvme=(drive(queues=queues),))) == "no-evidence"


@pytest.mark.parametrize("function", [nvme_queues_span_nodes, nvme_irq_off_node])
@pytest.mark.parametrize(("cpus", "irq_cpus"), [("foo", "0-3"), ("0-3", "3-0"), ("\x1b", "-1")])
def test_a_queue_whose_cpus_are_no_list_is_not_judged(function: Check, cpus: str, irq_cpus: str) -> None:
    judge(function, two_nodes(nvme=(drive(queues=(queue(1, cpus, irq_cpus),)),)))
    host = Host(numa_nodes=(node(0, "foo"), node(1, "4-7")), nvme=(drive(queues=(queue(1, "0-3", "5"),)),))
    judge(function, host)


class TestIrqOffNode:
    def test_managed_is_information(self) -> None:
        host = two_nodes(nvme=(drive(queues=(queue(1, "0-3", "5"),), queues_irq_managed=True),))
        found = fires(nvme_irq_off_node, host)
        assert found.severity == "info"
        assert found.evidence[0].source == "/proc/irq/101/effective_affinity_list"
        assert found.evidence[0].value.startswith("5;")
        assert "smp_affinity" not in found.remedy.text

    def test_not_managed_warns(self) -> None:
        host = two_nodes(nvme=(drive(queues=(queue(1, "0-3", "5"),), queues_irq_managed=False),))
        found = fires(nvme_irq_off_node, host)
        assert found.severity == "warning"
        assert "irqbalance" in found.remedy.text

    def test_unknown_management_is_not_unmanaged(self) -> None:
        assert fires(nvme_irq_off_node, two_nodes(nvme=(drive(queues=(queue(1, "0-3", "5"),)),))).severity == "info"

    def test_a_neighbour_on_the_same_node_is_information(self) -> None:
        host = two_nodes(nvme=(drive(queues=(queue(1, "0-1", "2"),), queues_irq_managed=False),))
        assert fires(nvme_irq_off_node, host).severity == "info"

    def test_a_container_cannot_move_it(self) -> None:
        drives = (drive(queues=(queue(1, "0-3", "5"),), queues_irq_managed=False),)
        assert fires(nvme_irq_off_node, two_nodes(nvme=drives, system=System(container="docker"))).severity == "info"

    def test_both_kinds_are_two_causes(self) -> None:
        queues = (queue(1, "0-3", "5"),)
        drives = tuple(drive(f"nvme{i}", queues=queues, queues_irq_managed=bool(i)) for i in range(2))
        findings, _ = judge(nvme_irq_off_node, two_nodes(nvme=drives))
        assert [f.severity for f in findings] == ["warning", "info"]

    def test_inside_the_list_passes(self) -> None:
        queues = (queue(1, "0-3", "2"), queue(2, "4-7", "4"))
        assert quiet(nvme_irq_off_node, two_nodes(nvme=(drive(queues=queues),))) is None

    def test_a_queue_of_offline_cpus_is_shut_down(self) -> None:
        assert quiet(nvme_irq_off_node, two_nodes(nvme=(drive(queues=(queue(1, "8-11", "0"),)),))) is None

    def test_unknown_is_no_evidence(self) -> None:
        queues = (queue(1, "0-3"), queue(2, None, "0"))
        assert quiet(nvme_irq_off_node, two_nodes(nvme=(drive(queues=queues),))) == "no-evidence"


def disk(name: str, scheduler: str | None, iostats: bool | None = True) -> BlockDevice:
    return BlockDevice(name=name, scheduler=scheduler, iostats=iostats)


class TestScheduler:
    def test_a_scheduler_is_named(self) -> None:
        host = two_nodes(nvme=(drive(),), block_devices=(disk("nvme0n1", "mq-deadline"), disk("nvme1n1", "none")))
        found = fires(nvme_scheduler, host)
        assert found.severity == "info"
        assert found.subject == "nvme0n1"
        assert found.evidence[0].value == "mq-deadline"

    def test_iostats_off_is_another_cause(self) -> None:
        findings, _ = judge(nvme_scheduler, two_nodes(nvme=(drive(),), block_devices=(disk("nvme0n1", "bfq", False),)))
        assert [f.message.split()[0] for f in findings] == ["NVMe", "I/O"]

    def test_the_path_below_multipath_counts(self) -> None:
        host = two_nodes(nvme=(drive(),), block_devices=(disk("nvme0n1", None), disk("nvme0c0n1", "kyber")))
        assert fires(nvme_scheduler, host).subject == "nvme0c0n1"

    def test_none_passes_and_other_disks_are_not_judged(self) -> None:
        host = two_nodes(nvme=(drive(),), block_devices=(disk("nvme0n1", "none"), disk("sda", "bfq", False)))
        assert quiet(nvme_scheduler, host) is None

    @pytest.mark.parametrize("disks", [(), (disk("nvme0n1", None, None),)])
    def test_unknown_is_no_evidence(self, disks: tuple[BlockDevice, ...]) -> None:
        assert quiet(nvme_scheduler, two_nodes(nvme=(drive(),), block_devices=disks)) == "no-evidence"


class TestVirtualDisk:
    @pytest.mark.parametrize(
        ("model", "word"),
        [
            ("Amazon Elastic Block Store", "network"),
            ("Amazon EC2 NVMe Instance Storage", "local"),
            ("MSFT NVMe Accelerator v1.0", "network"),
            ("Microsoft NVMe Direct Disk v2", "local"),
            ("nvme_card-pd", "network"),
            ("nvme_card", "local"),
            ("Alibaba Cloud Elastic Block Storage     ", "network"),
            ("QEMU NVMe Ctrl", "emulated"),
            ("VMware Virtual NVMe Disk", "emulated"),
            ("ORCL-VBOX-NVME-VER12", "emulated"),
        ],
    )
    def test_models(self, model: str, word: str) -> None:
        found = fires(virtual_disk, Host(nvme=(drive(model=model),)))
        assert found.severity == "info"
        assert word in found.message
        assert found.evidence[0].value == model

    def test_all_drives_are_one_line(self) -> None:
        store = [drive(f"nvme{i}", model="Amazon EC2 NVMe Instance Storage") for i in (1, 2)]
        found = fires(virtual_disk, Host(nvme=(drive(model="Amazon Elastic Block Store"), *store)))
        assert found.subject == "nvme0, nvme1, nvme2"
        assert "1 × network disk of the cloud, 2 × local disk" in found.message

    @pytest.mark.parametrize("model", ["SAMSUNG MZQL23T8HCLS-00A07", "7335943:ICDPC5ED2ORA6.4T", "Linux", "INTEL QEMU"])
    def test_real_drives_pass(self, model: str) -> None:
        assert quiet(virtual_disk, Host(nvme=(drive(model=model),))) is None

    def test_unknown_model_is_no_evidence(self) -> None:
        assert quiet(virtual_disk, Host(nvme=(drive(model=None), drive(None)))) == "no-evidence"
