"""HD103, HD109, HD112, HD113, HD114, HD116."""

from typing import Any

import msgspec
import pytest

from hostdoctor.diagnosis import Ask
from hostdoctor.facts import Allowed, Cgroup, Host, Path, Sample, System
from tests.support.build import METAL, gpu, host, nic, nodes
from tests.support.build_memory import fires, gap, judge, load, node, quiet

tp_set_spans_nodes = load("affinity", "tp_set_spans_nodes")
nic_missing_near_gpu = load("affinity", "nic_missing_near_gpu")
isolated_cpus_overlap = load("affinity", "isolated_cpus_overlap")
numa_binding_forbidden = load("affinity", "numa_binding_forbidden")
cpu_quota_throttled = load("affinity", "cpu_quota_throttled")
cpu_steal = load("affinity", "cpu_steal")

MATRIX = ("this host", "nvidia-smi topo -m")
KVM = System(architecture="x86_64", virtualization="kvm")
POD = System(architecture="x86_64", container="kubepods")


def sample(seconds: float = 10.0, **counters: tuple[int, int]) -> Sample:
    """Return two readings; ``__`` in a name stands for a dot."""
    told = {name.replace("__", "."): values for name, values in counters.items()}
    return Sample(
        seconds=seconds,
        before={name: a for name, (a, _) in told.items()},
        after={name: b for name, (_, b) in told.items()},
    )


def pairs(kind: str, count: int) -> tuple[Path, ...]:
    return tuple(Path(a=f"GPU{a}", b=f"GPU{b}", kind=kind) for b in range(count) for a in range(b))


class TestTpSetSpansNodes:
    def four(self, kind: str = "SYS", sources: tuple[str, ...] = MATRIX, **more: Any) -> Host:
        cards = [gpu(i, f"0000:{i + 1:02x}:00.0", numa_node=i // 2, **more) for i in range(4)]
        return host(cards, paths=pairs(kind, 4), sources=sources)

    def test_over_sys_without_nvlink_is_a_warning(self) -> None:
        found = fires(tp_set_spans_nodes, self.four(), Ask(tp=4))
        assert (found.subject, found.severity) == ("GPU0, GPU1, GPU2, GPU3", "warning")
        assert "GPU0-GPU3 on nodes 0, 1 (pairs joined by SYS alone" in found.message
        assert "--numa-bind-nodes" in found.remedy.text

    def test_with_nvlink_it_is_information(self) -> None:
        assert fires(tp_set_spans_nodes, self.four("NV18"), Ask(tp=4)).severity == "info"

    def test_a_path_from_the_pci_tree_does_not_rule_nvlink_out(self) -> None:
        derived = ("this host", "lspci in topo.txt")
        assert fires(tp_set_spans_nodes, self.four(sources=derived), Ask(tp=4)).severity == "info"
        assert fires(tp_set_spans_nodes, self.four(sources=derived, nvlinks=0), Ask(tp=4)).severity == "warning"

    def test_a_saved_matrix_counts(self) -> None:
        saved = ("x:sos_commands/nvidia/nvidia-smi_topo_-m",)
        assert fires(tp_set_spans_nodes, self.four(sources=saved), Ask(tp=4)).severity == "warning"

    def test_nodes_of_one_package_are_near(self) -> None:
        one = tuple(msgspec.structs.replace(n, package=0) for n in nodes(2))
        given = msgspec.structs.replace(self.four(), numa_nodes=one)
        assert fires(tp_set_spans_nodes, given, Ask(tp=4)).severity == "info"

    def test_a_matrix_alone_tells_it_too(self) -> None:
        given = msgspec.structs.replace(self.four(), numa_nodes=(), pci_devices=())
        assert fires(tp_set_spans_nodes, given, Ask(tp=4)).severity == "warning"

    def test_sets_follow_the_order_asked_for(self) -> None:
        assert quiet(tp_set_spans_nodes, self.four(), Ask(tp=2)) is None
        assert fires(tp_set_spans_nodes, self.four(), Ask(tp=2, gpus=(0, 2, 1, 3))).subject == "GPU0, GPU2, GPU1, GPU3"

    def test_what_is_left_over_forms_no_set(self) -> None:
        assert quiet(tp_set_spans_nodes, self.four(), Ask(tp=2, gpus=(0, 1, 2))) is None

    def test_a_gpu_near_two_of_four_nodes_joins_either(self) -> None:
        both = gpu(1, numa_node=None, numa_nodes=(0, 1))
        assert quiet(tp_set_spans_nodes, host([gpu(0), both], numa_nodes=nodes(4)), Ask(tp=2)) is None

    def test_gpus_said_to_be_near_every_node_are_not_known_to_share_one(self) -> None:
        cards = [gpu(i, numa_node=None, numa_nodes=(0, 1)) for i in range(2)]
        assert quiet(tp_set_spans_nodes, host(cards), Ask(tp=2)) == "no-evidence"
        assert quiet(tp_set_spans_nodes, host(cards, numa_nodes=()), Ask(tp=2)) == "no-evidence"

    @pytest.mark.parametrize(
        ("given", "ask", "kind"),
        [
            (host([gpu(0), gpu(1, numa_node=1)]), Ask(), "no-plan"),
            (host([gpu(0), gpu(1, numa_node=1)]), Ask(tp=1), "no-plan"),
            (host([gpu(0), gpu(1, numa_node=None)]), Ask(tp=2), "no-evidence"),
            (host([gpu(0), gpu(1)], numa_nodes=nodes(1)), Ask(tp=2), "not-applicable"),
        ],
    )
    def test_quiet(self, given: Host, ask: Ask, kind: str) -> None:
        assert quiet(tp_set_spans_nodes, given, ask) == kind


class TestNicMissingNearGpu:
    def three(self, *kinds: str, **more: Any) -> Host:
        """GPUs whose best way to a NIC is of these kinds, all of one model."""
        nics = tuple(nic(f"mlx5_{i}", f"0000:a{i}:00.0", rdma=True, label=f"NIC{i}") for i in range(len(kinds)))
        near = [Path(a=f"GPU{i}", b=f"NIC{i}", kind=kind) for i, kind in enumerate(kinds)]
        far = [Path(a=f"GPU{i}", b=f"NIC{j}", kind="SYS") for i in range(len(kinds)) for j in range(i)]
        cards = [gpu(i, f"0000:{i + 1:02x}:00.0", **more) for i in range(len(kinds))]
        return host(cards, nics=nics, paths=(*near, *far))

    def test_a_gpu_without_its_nic_is_named_with_the_nearest(self) -> None:
        found = fires(nic_missing_near_gpu, self.three("PIX", "PXB", "NODE"))
        assert (found.subject, found.severity) == ("GPU2", "warning")
        assert "as GPU0, GPU1 have (GPU2 NODE to NIC2)" in found.message
        assert [seen.value for seen in found.evidence] == ["PIX to NIC0", "PXB to NIC1", "NODE to NIC2"]

    def test_siblings_outside_the_question_count(self) -> None:
        assert fires(nic_missing_near_gpu, self.three("PIX", "SYS"), Ask(gpus=(1,))).subject == "GPU1"
        assert quiet(nic_missing_near_gpu, self.three("PIX", "SYS"), Ask(gpus=(0,))) is None

    def test_a_board_without_near_nics_is_quiet(self) -> None:
        assert quiet(nic_missing_near_gpu, self.three("NODE", "SYS")) is None
        assert quiet(nic_missing_near_gpu, self.three("PIX", "PIX")) is None

    def test_another_model_is_no_sibling(self) -> None:
        given = self.three("PIX", "NODE")
        other = msgspec.structs.replace(given.gpus[1], name="NVIDIA A2")
        assert quiet(nic_missing_near_gpu, msgspec.structs.replace(given, gpus=(given.gpus[0], other))) is None

    def test_without_paths_or_nics_there_is_no_verdict(self) -> None:
        assert quiet(nic_missing_near_gpu, msgspec.structs.replace(self.three("PIX"), paths=())) == "no-evidence"
        assert quiet(nic_missing_near_gpu, host([gpu(0)], nics=(nic("eno1", "0000:a0:00.0"),))) == "not-applicable"


class TestIsolatedCpusOverlap:
    def isolated(self, isolated: str = "2-3", system: System | None = None, **more: Any) -> Host:
        settings = {"cpu.isolated": isolated, "cpu.nohz_full": more.pop("nohz_full", "")}
        more.setdefault("allowed", Allowed(cpus="0-1,4-15"))
        return host([gpu(0)], settings=settings, system=system or METAL, **more)

    def test_isolated_cpus_of_the_near_node(self) -> None:
        found = fires(isolated_cpus_overlap, self.isolated())
        assert (found.subject, found.severity) == ("GPU0", "warning")
        assert "2 of 8 CPUs near GPU0 are isolated (isolcpus 2-3)" in found.message
        assert found.evidence[0].source == "/sys/devices/system/cpu/isolated"

    def test_nohz_full_counts_too(self) -> None:
        assert "nohz_full 4-7" in fires(isolated_cpus_overlap, self.isolated("", nohz_full="4-7")).message

    def test_one_node_counts_whole(self) -> None:
        assert fires(isolated_cpus_overlap, self.isolated("7", numa_nodes=nodes(1)))

    @pytest.mark.parametrize("isolated", ["", "8-15"])
    def test_none_or_elsewhere_is_quiet(self, isolated: str) -> None:
        assert quiet(isolated_cpus_overlap, self.isolated(isolated)) is None

    def test_in_a_container_only_its_own_cpus_count(self) -> None:
        assert quiet(isolated_cpus_overlap, self.isolated(system=POD, allowed=Allowed(cpus="4-7"))) is None
        assert fires(isolated_cpus_overlap, self.isolated(system=POD, allowed=Allowed(cpus="0-3")))

    def test_not_told(self) -> None:
        assert quiet(isolated_cpus_overlap, host([gpu(0)])) == "no-evidence"
        lost = host([gpu(0, numa_node=None)], settings={"cpu.isolated": "2-3"})
        assert quiet(isolated_cpus_overlap, lost) == "no-evidence"


class TestNumaBindingForbidden:
    WITHOUT = (gap("source:numactl", "numactl --hardware", "numactl: command not found", "missing"),)

    def tried(self, answer: str | None, **more: Any) -> Host:
        settings = {} if answer is None else {"probe.set_mempolicy": answer}
        return host([gpu(0)], settings=settings, is_live=True, **more)

    def test_a_refusal_is_information(self) -> None:
        found = fires(numa_binding_forbidden, self.tried("EPERM"))
        assert found.severity == "info"
        assert "refuses set_mempolicy (EPERM)" in found.message
        assert "SYS_NICE" in found.remedy.text

    def test_and_a_warning_when_a_binding_was_asked_for(self) -> None:
        assert fires(numa_binding_forbidden, self.tried("killed by SIGSYS"), Ask(bind=True)).severity == "warning"

    def test_a_missing_numactl(self) -> None:
        found = fires(numa_binding_forbidden, self.tried("permitted", gaps=self.WITHOUT))
        assert "numactl is not installed" in found.message
        assert "refuses" not in found.message

    def test_quiet(self) -> None:
        assert quiet(numa_binding_forbidden, self.tried("permitted")) is None
        assert quiet(numa_binding_forbidden, self.tried(None)) == "no-evidence"
        assert quiet(numa_binding_forbidden, host([gpu(0)])) == "live-only"
        assert quiet(numa_binding_forbidden, self.tried("EPERM", numa_nodes=nodes(1))) == "not-applicable"


class TestCpuQuotaThrottled:
    OPEN = Cgroup(path="/", folder="/sys/fs/cgroup", cpu_limited=False)
    POD = Cgroup(path="/pod", folder="/sys/fs/cgroup/pod", cpu_limited=True, cpu_limit_cpus=8.0)

    def read(self, by: int, seconds: float = 10.0) -> Sample:
        name = "cgroup./pod.nr_throttled"
        return Sample(seconds=seconds, before={name: 100}, after={name: 100 + by})

    def test_a_rise_is_a_warning(self) -> None:
        found = fires(cpu_quota_throttled, Host(cgroups=(self.POD, self.OPEN), samples=(self.read(42),)))
        assert (found.subject, found.severity) == ("/pod", "warning")
        assert "stopped by its CPU quota 42 times in 10 s" in found.message
        assert "+42 in 10.0 s" in [seen.value for seen in found.evidence]

    @pytest.mark.parametrize(
        ("samples", "word"), [((), "--sample 10"), ((0, 10.0), "not stopped"), ((5, 1.0), "--sam")]
    )
    def test_an_idle_or_unread_quota_is_information(self, samples: Any, word: str) -> None:
        taken = (self.read(*samples),) if samples else ()
        found = fires(cpu_quota_throttled, Host(cgroups=(self.POD,), samples=taken))
        assert found.severity == "info"
        assert "CPU quota of 8 CPUs" in found.message
        assert word in found.message

    def test_the_tightest_of_several_is_told(self) -> None:
        outer = Cgroup(path="/", folder="/sys/fs/cgroup", cpu_limited=True, cpu_limit_cpus=2.5)
        assert fires(cpu_quota_throttled, Host(cgroups=(self.POD, outer))).subject == "/"

    def test_a_counter_that_fell_was_reset(self) -> None:
        assert fires(cpu_quota_throttled, Host(cgroups=(self.POD,), samples=(self.read(-5),))).severity == "info"

    def test_quiet(self) -> None:
        assert quiet(cpu_quota_throttled, Host(cgroups=(self.OPEN,))) is None
        assert quiet(cpu_quota_throttled, Host()) == "no-evidence"


class TestCpuSteal:
    def guest(self, steal: int, seconds: float = 10.0, **more: Any) -> Host:
        given = {"cpu0__steal": (50, 50 + steal), "cpu0__total": (9000, 10000)}
        given |= {"cpu1__steal": (0, 0), "cpu1__total": (0, 1000), "cpu9__steal": (0, 900), "cpu9__total": (0, 1000)}
        taken = sample(seconds, **given)
        more.setdefault("system", KVM)
        return Host(allowed=Allowed(cpus="0-1"), numa_nodes=(node(0, "0-9"),), samples=(taken,), is_live=True, **more)

    def test_more_than_one_per_cent_of_the_allowed_cpus(self) -> None:
        found = fires(cpu_steal, self.guest(50))
        assert found.severity == "warning"
        assert "2.5% of the time of CPUs 0-1" in found.message
        assert found.evidence[0].value == "+50 of 2000 ticks in 10.0 s"

    def test_one_per_cent_is_quiet(self) -> None:
        assert quiet(cpu_steal, self.guest(20)) is None

    def test_what_others_cpus_lose_does_not_count(self) -> None:
        assert quiet(cpu_steal, self.guest(0)) is None

    @pytest.mark.parametrize(
        ("given", "kind"),
        [
            (Host(system=KVM), "live-only"),
            (Host(system=KVM, is_live=True), "no-evidence"),
            (Host(), "not-applicable"),
            (Host(gaps=(gap("system.virtualization", "/proc/cpuinfo", "no source could tell"),)), "live-only"),
        ],
    )
    def test_without_a_sample(self, given: Host, kind: str) -> None:
        assert quiet(cpu_steal, given) == kind

    def test_a_short_sample_is_not_judged(self) -> None:
        _, skips = judge(cpu_steal, self.guest(500, seconds=3.0))
        assert skips[0].reason == "the counters that were read twice do not suffice: --sample 10 or longer"
