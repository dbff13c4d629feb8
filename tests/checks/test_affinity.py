"""HD101, HD102, HD104, HD106, HD107, HD110, HD111, HD115, HD117."""

from typing import Any

import msgspec
import pytest

from hostdoctor.diagnosis import Ask
from hostdoctor.diagnosis.sockets import threads_per_socket
from hostdoctor.diagnosis.subjects import brief, cpuset
from hostdoctor.facts import Allowed, Core, Disagreement, Gap, Host, NumaNode, Path, PciDevice, System
from tests.support.build import METAL, Switch, gpu, host, link, nodes, port, slot
from tests.support.build_memory import fires, gap, load, node, quiet

gpu_numa_unknown = load("affinity", "gpu_numa_unknown")
gpu_numa_disagreement = load("affinity", "gpu_numa_disagreement")
gpu_node_without_cpus_or_memory = load("affinity", "gpu_node_without_cpus_or_memory")
cpuset_excludes_gpu_node = load("affinity", "cpuset_excludes_gpu_node")
topology_hidden_by_vm = load("affinity", "topology_hidden_by_vm")
sub_numa_clustering = load("affinity", "sub_numa_clustering")
memory_interleaved_by_bios = load("affinity", "memory_interleaved_by_bios")
too_few_cores = load("affinity", "too_few_cores")
clocksource_slow = load("affinity", "clocksource_slow")

KVM = System(architecture="x86_64", packages=1, virtualization="kvm")


def minus_one(index: int) -> Gap:
    return gap(f"gpus[{index}].numa_node", "sysfs", "the kernel was not told (-1)")


def grace() -> tuple[NumaNode, ...]:
    """Two Grace CPUs and the memory of four GPUs as nodes without CPUs."""
    own = (node(i, "", 186, kind="gpu-memory") for i in range(2, 6))
    return (node(0, "0-71", 480, package=0), node(1, "72-143", 480, package=1), *own)


def tray(**more: Any) -> Host:
    """A GB200 compute tray as NVML tells it."""
    cards = [
        gpu(i, f"{i:04x}:01:00.0", name="NVIDIA GB200", c2c=True, numa_node=i // 2, memory_numa_node=i + 2)
        for i in range(4)
    ]
    return host(cards, numa_nodes=grace(), system=System(architecture="aarch64", packages=2), **more)


class TestGpuNumaUnknown:
    def test_minus_one_on_two_nodes_warns_and_lists_all(self) -> None:
        cards = [slot(0, 0x15, numa_node=None), slot(1, 0x25, numa_node=None), slot(2, 0x35)]
        found = fires(gpu_numa_unknown, host(cards, gaps=(minus_one(0), minus_one(1))))
        assert (found.subject, found.severity) == ("GPU0, GPU1", "warning")
        assert "-1" in found.evidence[0].value
        assert "2 CPU nodes" in found.message
        assert "copy bandwidth" in found.remedy.text

    def test_na_in_the_matrix_of_a_guest_is_information(self) -> None:
        gaps = (gap("gpus[0].numa_node", "nvidia-smi topo -m", "N/A"),)
        found = fires(gpu_numa_unknown, host([gpu(0, numa_node=None)], gaps=gaps, system=KVM))
        assert found.severity == "info"
        assert "hypervisor" in found.remedy.text
        assert found.evidence[0].value == "N/A"

    def test_no_gap_is_quoted_by_its_path(self) -> None:
        found = fires(gpu_numa_unknown, host([slot(0, 0x15, numa_node=None)]))
        assert found.evidence[0].source == "/sys/bus/pci/devices/0000:16:00.0/numa_node"

    def test_sources_that_name_every_cpu_node_tell_none(self) -> None:
        found = fires(gpu_numa_unknown, host([slot(0, 0x15, numa_node=None, numa_nodes=(0, 1))]))
        assert found.evidence[0].value == "sources name every CPU node (0, 1), which tells none"

    def test_no_source_that_could_tell_is_no_evidence(self) -> None:
        gaps = (gap("gpus[0].numa_node", "nvidia-smi topo -m", "not given", "missing"),)
        assert quiet(gpu_numa_unknown, host([gpu(0, numa_node=None)], gaps=gaps)) == "no-evidence"

    @pytest.mark.parametrize(
        ("given", "kind"),
        [
            (host([slot(0, 0x15)]), None),
            (host([gpu(0, numa_node=None, numa_nodes=(0, 1))], numa_nodes=nodes(4)), None),
            (host([gpu(0, numa_node=None)], numa_nodes=nodes(1)), "not-applicable"),
            (host([gpu(0, numa_node=None)], numa_nodes=()), "no-evidence"),
            (host([gpu(0, numa_node=None, visible=False), gpu(1)]), None),
            (
                host([gpu(0, numa_node=None)], numa_nodes=(node(0, "0-71"), node(1, "", kind="gpu-memory"))),
                "not-applicable",
            ),
            (tray(), None),
            (host(), "not-applicable"),
        ],
    )
    def test_quiet(self, given: Host, kind: str | None) -> None:
        assert quiet(gpu_numa_unknown, given) == kind

    def test_only_the_gpus_asked_for_are_judged(self) -> None:
        given = host([slot(0, 0x15), slot(1, 0x25, numa_node=None)], gaps=(minus_one(1),))
        assert quiet(gpu_numa_unknown, given, Ask(gpus=(0,))) is None
        assert fires(gpu_numa_unknown, given, Ask(gpus=(1,))).subject == "GPU1"


class TestGpuNumaDisagreement:
    def test_all_values_are_quoted_in_one_finding(self) -> None:
        differing = tuple(
            Disagreement(fact=f"gpus[{i}].numa_node", values={"sysfs": 0, "nvidia-smi topo -m": 1}) for i in range(2)
        )
        found = fires(gpu_numa_disagreement, host([slot(0, 0x15), slot(1, 0x25)], disagreements=differing))
        assert (found.subject, found.severity) == ("GPU0, GPU1", "warning")
        assert [(e.source, e.value) for e in found.evidence[:2]] == [
            ("/sys/bus/pci/devices/0000:16:00.0/numa_node", "0"),
            ("nvidia-smi topo -m: numa_node of GPU0", "1"),
        ]

    def test_nodes_and_cpus_of_one_gpu_are_one_cause(self) -> None:
        differing = (
            Disagreement(fact="gpus[0].numa_node", values={"sysfs": 0, "NVML": 1}),
            Disagreement(fact="gpus[0].cpus", values={"sysfs": "0-7", "NVML": "8-15"}),
            Disagreement(fact="pci_devices[0000:16:00.0].numa_node", values={"sysfs": 0, "lspci": 1}),
        )
        assert len(fires(gpu_numa_disagreement, host([slot(0, 0x15)], disagreements=differing)).evidence) == 6

    @pytest.mark.parametrize(
        ("fact", "values", "allowed"),
        [
            ("gpus[0].cpus", {"sysfs": "0-7", "NVML": "0-3"}, "0-3"),
            ("gpus[0].cpus", {"sysfs": "0-7,64-71", "NVML": "0-7"}, None),
            ("gpus[0].numa_node", {"sysfs": 0, "nvidia-smi topo -m": None}, None),
            ("gpus[0].numa_node", {"sysfs": "-1", "nvidia-smi topo -m": "N/A", "NVML": 1}, None),
            ("gpus[0].numa_node", {"sysfs": 0, "NVML": "0"}, None),
            ("gpus[1].numa_node", {"sysfs": 0, "NVML": 1}, None),
            ("nvme[0].numa_node", {"sysfs": 0, "lspci": 1}, None),
        ],
        ids=["not allowed", "offline", "unknown", "only one known", "spelling", "other GPU", "other device"],
    )
    def test_what_does_not_count(self, fact: str, values: dict[str, Any], allowed: str | None) -> None:
        given = host(
            [slot(0, 0x15)],
            disagreements=(Disagreement(fact=fact, values=values),),
            allowed=Allowed(cpus=allowed),
        )
        assert quiet(gpu_numa_disagreement, given) is None

    def test_chip_to_chip_gpus_are_not_judged(self) -> None:
        differing = (Disagreement(fact="gpus[0].cpus", values={"sysfs": "0-71", "hwloc": "72-143"}),)
        assert quiet(gpu_numa_disagreement, tray(disagreements=differing)) is None

    def test_a_port_above_its_own_maximum_is_doubtful(self) -> None:
        below = port("0000:15:01.0", at=msgspec.structs.replace(link(gen=3), max_speed_gts=2.5))
        found = fires(gpu_numa_disagreement, host([slot(0, 0x15, at=link(gen=3)).card], [below]))
        assert (found.subject, found.severity) == ("GPU0", "info")
        assert "0000:15:01.0" in found.message
        assert [e.value for e in found.evidence] == ["8 GT/s", "2.5 GT/s"]

    def test_like_ports_of_a_board_are_one_finding(self) -> None:
        switches = [Switch(bus, uplink=link(16, 8), root=link()) for bus in (0x15, 0x45, 0x75)]
        cards = [switch.gpu(i * 2 + n) for i, switch in enumerate(switches) for n in range(2)]
        found = fires(gpu_numa_disagreement, host(cards, [p for switch in switches for p in switch.ports]))
        assert found.message.startswith("GPU0-GPU5: link of 0000:16:00.0 and 2 like it runs above its stated maximum")
        assert "16 of 8 lanes" in found.message
        assert len(found.evidence) == 6

    @pytest.mark.parametrize("ids", ["1b36:000c", "15ad:07a0"])
    def test_virtual_ports_are_no_doubt(self, ids: str) -> None:
        virtual = port("0000:15:01.0", at=link(16, 1, gen=1), ids=ids)
        assert quiet(gpu_numa_disagreement, host([slot(0, 0x15).card], [virtual])) is None

    def test_nor_is_anything_in_a_guest(self) -> None:
        assert quiet(gpu_numa_disagreement, host([slot(0, 0x15, port_at=link(16, 1))], system=KVM)) is None


class TestNodeWithoutCpusOrMemory:
    def lacking(self, system: System = METAL, **more: Any) -> Host:
        given: dict[str, Any] = {"cpus": "8-15", "memory_gib": 512, "distances": {"0": 21, "1": 10, "2": 31}} | more
        third = node(2, "16-23")
        return host(
            [gpu(0, numa_node=1), gpu(1, numa_node=1)], numa_nodes=(*nodes(1), node(1, **given), third), system=system
        )

    def test_no_memory_is_critical_and_names_the_nearest(self) -> None:
        found = fires(gpu_node_without_cpus_or_memory, self.lacking(memory_gib=0))
        assert (found.subject, found.severity) == ("GPU0, GPU1", "critical")
        assert "node 1 has no memory" in found.message
        assert "node 0 (distance 21)" in found.message

    def test_no_cpus_is_a_warning(self) -> None:
        found = fires(gpu_node_without_cpus_or_memory, self.lacking(cpus=""))
        assert found.severity == "warning"
        assert "no CPUs" in found.message

    def test_by_kind_alone(self) -> None:
        found = fires(gpu_node_without_cpus_or_memory, self.lacking(memory_gib=None, kind="cpu-only"))
        assert found.severity == "critical"
        assert found.evidence[1].value == "not told"

    def test_a_guest_without_memory_is_a_warning(self) -> None:
        assert fires(gpu_node_without_cpus_or_memory, self.lacking(KVM, memory_gib=0)).severity == "warning"

    def test_without_distances_the_candidates_are_named(self) -> None:
        found = fires(gpu_node_without_cpus_or_memory, self.lacking(memory_gib=0, distances={}))
        assert "node 0, node 2 (distances not told)" in found.message

    def test_without_any_usable_node(self) -> None:
        given = host([gpu(0)], numa_nodes=(node(0, "0-7", 0),))
        assert "no other node" in fires(gpu_node_without_cpus_or_memory, given).message

    @pytest.mark.parametrize(
        ("given", "kind"),
        [
            (host([slot(0, 0x15)]), None),
            (tray(), None),
            (host([gpu(0, numa_node=None)]), "no-evidence"),
            (host([gpu(0)], numa_nodes=()), "no-evidence"),
            (host([gpu(0)], numa_nodes=(node(0, None, None), node(1, "0-7"))), None),
            (host([gpu(0, numa_node=None, numa_nodes=(0, 1))], numa_nodes=(node(0, "0-7", 0), node(1, "8-15"))), None),
            (host([gpu(0, numa_node=4)], numa_nodes=(node(0, "0-71"), node(4, "", kind="gpu-memory"))), "no-evidence"),
        ],
        ids=["healthy", "GB200", "node unknown", "nodes unknown", "node's CPUs unknown", "near two", "own memory"],
    )
    def test_quiet(self, given: Host, kind: str | None) -> None:
        assert quiet(gpu_node_without_cpus_or_memory, given) == kind


class TestCpusetExcludesGpuNode:
    CARDS = (gpu(0, numa_node=0), gpu(1, numa_node=1))

    @pytest.mark.parametrize(("cpus", "mems"), [("0-7", "0-1"), ("0-15", "0"), ("2", "0"), (None, "0"), ("0-7", None)])
    def test_the_excluded_node_is_named(self, cpus: str | None, mems: str | None) -> None:
        found = fires(cpuset_excludes_gpu_node, host(self.CARDS, allowed=Allowed(cpus=cpus, mems=mems)))
        assert (found.subject, found.severity) == ("GPU1", "info")
        assert "node 1 of GPU1" in found.message

    @pytest.mark.parametrize(
        ("cards", "allowed", "kind"),
        [
            (CARDS, Allowed(cpus="0-15", mems="0-1"), None),
            (CARDS, Allowed(cpus="7-8", mems="0-1"), None),
            (CARDS, Allowed(), "no-evidence"),
            ((gpu(0, numa_node=None, numa_nodes=(0, 1)),), Allowed(cpus="0-3", mems="0"), None),
            ((gpu(0, numa_node=None),), Allowed(cpus="0-3", mems="0"), None),
        ],
        ids=["everything", "a part of each", "unknown", "near both", "node unknown"],
    )
    def test_quiet(self, cards: Any, allowed: Allowed, kind: str | None) -> None:
        assert quiet(cpuset_excludes_gpu_node, host(cards, allowed=allowed)) == kind

    def test_a_pod_with_two_of_eight_gpus_on_its_own_node_is_quiet(self) -> None:
        cards = [gpu(i, numa_node=i // 4, visible=i < 2) for i in range(8)]
        assert quiet(cpuset_excludes_gpu_node, host(cards, allowed=Allowed(cpus="2-5", mems="0"))) is None


class TestTopologyHiddenByVm:
    def guest(self, count: int, paths: tuple[Path, ...] = (), **more: Any) -> Host:
        given: dict[str, Any] = {"numa_nodes": nodes(1), "system": KVM} | more
        return host([gpu(i, numa_node=None) for i in range(count)], paths=paths, **given)

    def test_eight_gpus_on_one_node(self) -> None:
        flat = tuple(Path(a="GPU0", b=f"GPU{i}", kind="PHB") for i in range(1, 8))
        found = fires(topology_hidden_by_vm, self.guest(8, flat))
        assert found.severity == "info"
        assert "8 GPUs" in found.message
        assert found.evidence[-1].value == "PHB"

    def test_more_cpus_than_a_socket_has_threads(self) -> None:
        big = System(virtualization="kvm", cpu_model="AMD EPYC 7R13 Processor")
        found = fires(topology_hidden_by_vm, self.guest(4, system=big, numa_nodes=nodes(1, cpus=192)))
        assert "192 CPUs" in found.message

    def test_nvlink_does_not_show_the_pcie_side(self) -> None:
        assert fires(topology_hidden_by_vm, self.guest(8, (Path(a="GPU0", b="GPU1", kind="NV18"),)))

    @pytest.mark.parametrize(
        ("count", "more", "kind"),
        [
            (8, {"system": METAL}, "not-applicable"),
            (8, {"numa_nodes": nodes(2)}, None),
            (8, {"numa_nodes": ()}, "no-evidence"),
            (4, {}, None),
            (8, {"paths": (Path(a="GPU0", b="GPU1", kind="PIX"),)}, None),
            (0, {}, "not-applicable"),
        ],
        ids=["bare metal", "two nodes", "nodes unknown", "four GPUs", "a switch shows", "no GPU"],
    )
    def test_quiet(self, count: int, more: dict[str, Any], kind: str | None) -> None:
        assert quiet(topology_hidden_by_vm, self.guest(count, **more)) == kind

    @pytest.mark.parametrize(
        ("model", "threads"),
        [
            ("Intel(R) Xeon(R) Platinum 8480+", 120),
            ("Intel(R) Xeon(R) Platinum 8175M CPU @ 2.50GHz", 56),
            ("Intel Xeon Platinum 8275CL", 56),
            ("Intel(R) Xeon(R) Platinum 9282 CPU @ 2.60GHz", 112),
            ("INTEL(R) XEON(R) PLATINUM 8568Y+", None),
            ("Intel(R) Xeon(R) Gold 6530", 128),
            ("AMD EPYC 7V12 64-Core Processor", 128),
            ("AMD EPYC 9654 96-Core Processor", 256),
            ("AMD EPYC 9575F 64-Core Processor", 384),
            ("AMD EPYC 7551P 32-Core Processor", 64),
            ("Intel Xeon Processor (Icelake)", None),
            ("AMD EPYC-Rome Processor", None),
            (None, None),
        ],
    )
    def test_threads_per_socket(self, model: str | None, threads: int | None) -> None:
        assert threads_per_socket(model) == threads


class TestSubNumaClustering:
    def split(self, packages: int | None = 2, told: bool = True) -> Host:
        four = tuple(node(i, f"{i * 4}-{i * 4 + 3}", 128, package=i // 2 if told else None) for i in range(4))
        cards = [gpu(0, numa_node=0), gpu(1, numa_node=0), gpu(2, numa_node=3)]
        return host(cards, numa_nodes=four, system=System(packages=packages))

    @pytest.mark.parametrize("told", [True, False])
    def test_names_the_near_node_and_its_memory(self, told: bool) -> None:
        found = fires(sub_numa_clustering, self.split(told=told))
        assert found.severity == "info"
        assert found.message == "4 CPU nodes on 2 packages; GPU0, GPU1: node 0 (128 GiB); GPU2: node 3 (128 GiB)"

    def test_packages_unknown(self) -> None:
        assert quiet(sub_numa_clustering, self.split(None, told=False)) == "no-evidence"

    def test_one_package(self) -> None:
        given = host([gpu(0)], numa_nodes=(node(0, "0-3", package=0), node(1, "4-7", package=0)))
        assert "2 CPU nodes on 1 package;" in fires(sub_numa_clustering, given).message

    @pytest.mark.parametrize(
        ("given", "kind"), [(host([slot(0, 0x15)]), None), (tray(), None), (host(), "not-applicable")]
    )
    def test_quiet(self, given: Host, kind: str | None) -> None:
        assert quiet(sub_numa_clustering, given) == kind


class TestMemoryInterleavedByBios:
    def one_node(self, count: int = 1, **more: Any) -> Host:
        given: dict[str, Any] = {"architecture": "x86_64", "packages": 2, "cpu_model": "AMD EPYC 9575F"}
        system = System(**(given | more))
        return host([gpu(i) for i in range(count)], numa_nodes=nodes(1), system=system)

    def test_two_packages_on_one_node(self) -> None:
        found = fires(memory_interleaved_by_bios, self.one_node())
        assert found.severity == "warning"
        assert "NPS1" in found.remedy.text

    @pytest.mark.parametrize("more", [{"virtualization": "kvm"}, {"architecture": "aarch64"}, {"architecture": None}])
    def test_information_where_the_count_of_packages_is_not_hardware(self, more: dict[str, Any]) -> None:
        assert fires(memory_interleaved_by_bios, self.one_node(**more)).severity == "info"

    def test_a_guest_with_hidden_sockets_is_another_checks(self) -> None:
        given = self.one_node(8, virtualization="kvm")
        assert quiet(memory_interleaved_by_bios, given) is None
        assert fires(topology_hidden_by_vm, given)

    @pytest.mark.parametrize(
        ("given", "kind"),
        [
            (host(), None),
            (host(numa_nodes=nodes(1), system=System(packages=1)), None),
            (host(system=System()), "no-evidence"),
            (host(numa_nodes=()), "no-evidence"),
            (tray(), None),
        ],
        ids=["two nodes", "one package", "packages unknown", "nodes unknown", "GB200"],
    )
    def test_quiet(self, given: Host, kind: str | None) -> None:
        assert quiet(memory_interleaved_by_bios, given) == kind


class TestTooFewCores:
    CORES = tuple(Core(cpus=f"{i},{i + 8}", package=i // 4) for i in range(8))

    def test_two_threads_are_one_core(self) -> None:
        given = host([gpu(0), gpu(1)], cores=self.CORES, allowed=Allowed(cpus="0-2,8-10"))
        found = fires(too_few_cores, given)
        assert found.severity == "warning"
        assert found.message.startswith("3 physical cores for 2 GPUs; vLLM needs 4")
        assert found.remedy.scope == "process"

    def test_enough_is_quiet(self) -> None:
        given = host([gpu(0), gpu(1)], cores=self.CORES, allowed=Allowed(cpus="0-3"))
        assert quiet(too_few_cores, given) is None

    def test_only_gpus_in_scope_count(self) -> None:
        cards = [gpu(i, visible=i < 2) for i in range(8)]
        assert quiet(too_few_cores, host(cards, cores=self.CORES, allowed=Allowed(cpus="0-3"))) is None

    def test_all_cores_too_few_is_certain_without_the_allowed_ones(self) -> None:
        found = fires(too_few_cores, host([gpu(i) for i in range(8)], cores=self.CORES))
        assert found.evidence[0].value == "not told"

    @pytest.mark.parametrize(
        ("cores", "allowed"), [((), Allowed(cpus="0-3")), (CORES, Allowed()), (CORES, Allowed(cpus="32"))]
    )
    def test_unknown_is_no_pass(self, cores: tuple[Core, ...], allowed: Allowed) -> None:
        assert quiet(too_few_cores, host([gpu(0)], cores=cores, allowed=allowed)) == "no-evidence"


class TestClocksourceSlow:
    @pytest.mark.parametrize("name", ["hpet", "acpi_pm", "jiffies"])
    def test_slow_ones_on_x86(self, name: str) -> None:
        found = fires(clocksource_slow, Host(system=System(architecture="x86_64", clocksource=name)))
        assert found.severity == "warning"
        assert found.evidence[0].value == name

    @pytest.mark.parametrize(
        ("architecture", "name", "kind"),
        [
            ("x86_64", "tsc", None),
            ("x86_64", "kvm-clock", None),
            ("x86_64", "hyperv_clocksource_tsc_page", None),
            ("aarch64", "jiffies", "not-applicable"),
            ("aarch64", "arch_sys_counter", "not-applicable"),
            (None, "hpet", "no-evidence"),
            ("x86_64", None, "no-evidence"),
        ],
    )
    def test_quiet(self, architecture: str | None, name: str | None, kind: str | None) -> None:
        given = Host(system=System(architecture=architecture, clocksource=name))
        assert quiet(clocksource_slow, given) == kind


class TestSubjects:
    @pytest.mark.parametrize(
        ("labels", "text"),
        [
            (["GPU0", "GPU1", "GPU2", "nvme0"], "GPU0-GPU2, nvme0"),
            (["GPU0", "GPU1"], "GPU0, GPU1"),
            (["GPU0", "GPU2", "GPU3", "GPU4"], "GPU0, GPU2-GPU4"),
            (["nvme1", "nvme2", "0000:01:00.0"], "nvme1, nvme2, 0000:01:00.0"),
            (["1", "2", "3"], "1, 2, 3"),
            ([], ""),
        ],
    )
    def test_brief(self, labels: list[str], text: str) -> None:
        assert brief(labels) == text

    @pytest.mark.parametrize(("text", "ids"), [("0-1,3", {0, 1, 3}), ("", set()), ("N/A", None), (None, None)])
    def test_cpuset(self, text: str | None, ids: set[int] | None) -> None:
        assert cpuset(text) == ids

    def test_pci_records_are_not_needed(self) -> None:
        assert quiet(gpu_numa_disagreement, Host(gpus=(gpu(0),), pci_devices=(PciDevice(bdf="0000:00:00.0"),))) is None
