"""HD301, HD302, HD305, HD306, HD315."""

import pytest

from hostdoctor.facts import Gpu, Host, HugePages, NumaNode, Sample, System
from tests.support.build_memory import fires, load, node, quiet, two_nodes

asymmetric_distances = load("memory", "asymmetric_distances")
hugepages_lopsided = load("memory", "hugepages_lopsided")
numa_balancing_on = load("memory", "numa_balancing_on")
unbalanced_node_memory = load("memory", "unbalanced_node_memory")
zone_reclaim_on = load("memory", "zone_reclaim_on")

BALANCING = "kernel.numa_balancing"
MIB = 1 << 20


def sample(before: int, after: int) -> Sample:
    key = "vmstat.numa_hint_faults"
    return Sample(seconds=2.0, before={key: before}, after={key: after})


class TestNumaBalancing:
    def test_on_is_information_and_binding_comes_first(self) -> None:
        found = fires(numa_balancing_on, two_nodes(settings={BALANCING: "1"}))
        assert found.severity == "info"
        assert found.evidence[0].value == "1"
        assert found.remedy.text.startswith("Bind")
        assert found.remedy.scope == "process"

    def test_rising_faults_are_quoted_and_stay_information(self) -> None:
        found = fires(numa_balancing_on, two_nodes(settings={BALANCING: "1"}, samples=(sample(10, 52),)))
        assert found.severity == "info"
        assert found.evidence[1].value == "+42"
        assert "just now" in found.message

    def test_a_sample_without_the_counter_or_without_a_rise_says_nothing(self) -> None:
        still = (sample(10, 10), Sample(seconds=0.0, before={}, after={}))
        assert "just now" not in fires(numa_balancing_on, two_nodes(settings={BALANCING: "1"}, samples=still)).message

    @pytest.mark.parametrize("mode", ["2", "3"])
    def test_memory_tiering_is_never_to_be_turned_off(self, mode: str) -> None:
        host = two_nodes(settings={BALANCING: mode})
        if mode == "2":
            assert quiet(numa_balancing_on, host) == "not-applicable"
        else:
            text = fires(numa_balancing_on, host).remedy.text
            assert "Leave the setting" in text
            assert "off" not in text

    @pytest.mark.parametrize(
        ("settings", "kind"), [({BALANCING: "0"}, None), ({}, "no-evidence"), ({BALANCING: "-1"}, "no-evidence")]
    )
    def test_off_passes_and_unknown_is_no_pass(self, settings: dict[str, str], kind: str | None) -> None:
        assert quiet(numa_balancing_on, two_nodes(settings=settings)) == kind

    def test_one_cpu_node_with_gpu_memory_nodes_is_not_judged(self) -> None:
        grace = (node(0, "0-71", 480), node(1, "", 96, kind="gpu-memory"))
        assert quiet(numa_balancing_on, Host(numa_nodes=grace, settings={BALANCING: "1"})) == "not-applicable"

    def test_unknown_nodes_are_no_evidence(self) -> None:
        assert quiet(numa_balancing_on, Host(settings={BALANCING: "1"})) == "no-evidence"


class TestZoneReclaim:
    @pytest.mark.parametrize("mode", ["1", "3", "7"])
    def test_any_mode_but_zero_warns(self, mode: str) -> None:
        found = fires(zone_reclaim_on, two_nodes(settings={"vm.zone_reclaim_mode": mode}))
        assert found.severity == "warning"
        assert found.evidence[0].value == mode
        assert found.remedy.scope == "host"
        assert "sysctl -w" not in found.remedy.text

    def test_zero_passes(self) -> None:
        assert quiet(zone_reclaim_on, two_nodes(settings={"vm.zone_reclaim_mode": "0"})) is None

    @pytest.mark.parametrize("settings", [{}, {"vm.zone_reclaim_mode": ""}, {"vm.zone_reclaim_mode": "error"}])
    def test_unknown_is_no_evidence(self, settings: dict[str, str]) -> None:
        assert quiet(zone_reclaim_on, two_nodes(settings=settings)) == "no-evidence"

    def test_one_node_has_nothing_to_spill_to(self) -> None:
        host = Host(numa_nodes=(node(0, "0-7"),), settings={"vm.zone_reclaim_mode": "1"})
        assert quiet(zone_reclaim_on, host) == "not-applicable"

    def test_unknown_nodes_do_not_hide_the_value(self) -> None:
        assert fires(zone_reclaim_on, Host(settings={"vm.zone_reclaim_mode": "1"})).severity == "warning"


class TestUnbalancedMemory:
    def test_a_missing_dimm_warns_with_both_sizes(self) -> None:
        found = fires(unbalanced_node_memory, Host(numa_nodes=(node(0, "0-3", 512), node(1, "4-7", 448))))
        assert found.severity == "warning"
        assert found.subject == "node 1"
        assert "node 0 512.0 GiB" in found.message
        assert "node 1 448.0 GiB" in found.message
        assert found.evidence[1].value == f"{448 * 1024} MB"
        assert "64.0 GiB" in found.effect

    @pytest.mark.parametrize("smaller", [512.0, 503.7, 461.0])
    def test_up_to_ten_percent_is_the_firmware_share(self, smaller: float) -> None:
        assert quiet(unbalanced_node_memory, Host(numa_nodes=(node(0, "0-3"), node(1, "4-7", smaller)))) is None

    def test_a_virtual_machine_is_the_hypervisors_choice(self) -> None:
        nodes = (node(0, "0-3", 512), node(1, "4-7", 128))
        host = Host(numa_nodes=nodes, system=System(virtualization="kvm"))
        assert fires(unbalanced_node_memory, host).severity == "info"

    def test_nodes_without_cpus_are_not_compared(self) -> None:
        gpu_memory, cxl = node(2, "", 96, kind="gpu-memory"), node(3, "", 16, kind="memory-only")
        assert quiet(unbalanced_node_memory, Host(numa_nodes=(node(0, "0-3"), node(1, "4-7"), gpu_memory, cxl))) is None

    def test_unknown_memory_is_no_evidence(self) -> None:
        host = Host(numa_nodes=(node(0, "0-3"), node(1, "4-7", None)))
        assert quiet(unbalanced_node_memory, host) == "no-evidence"

    def test_known_nodes_that_differ_count_in_spite_of_an_unknown_one(self) -> None:
        nodes = (node(0, "0-3"), node(1, "4-7", 256), node(2, "8-11", None))
        assert fires(unbalanced_node_memory, Host(numa_nodes=nodes)).subject == "node 1"

    def test_a_near_node_without_memory_is_left_to_hd104(self) -> None:
        nodes = (node(0, "0-3"), node(1, "4-7", 0), node(2, "8-11"))
        near = Host(numa_nodes=nodes, gpus=(Gpu(index=0, numa_node=1, numa_nodes=(1,)),))
        assert quiet(unbalanced_node_memory, near) is None
        assert fires(unbalanced_node_memory, Host(numa_nodes=nodes)).subject == "node 1"


def pages(total: int, free: int | None, size: int = 2 * MIB) -> HugePages:
    return HugePages(size_bytes=size, total=total, free=free)


def with_pages(*pools: tuple[HugePages, ...]) -> Host:
    return Host(numa_nodes=tuple(node(i, f"{4 * i}-{4 * i + 3}", 64, hugepages=p) for i, p in enumerate(pools)))


class TestHugePages:
    def test_reserved_on_one_node_only(self) -> None:
        found = fires(hugepages_lopsided, with_pages((pages(1024, 0),), (pages(0, 0),)))
        assert found.severity == "info"
        assert found.subject == "node 0"
        assert "node 0 2.0 GiB" in found.message
        assert "hugepages-2048kB" in found.evidence[0].source

    def test_unused_and_large_is_one_finding_for_both_nodes(self) -> None:
        found = fires(hugepages_lopsided, with_pages((pages(8192, 8192),), (pages(8192, 8192),)))
        assert found.subject == "node 0, node 1"
        assert "16.0 GiB" in found.message

    def test_unused_large_and_on_one_node_is_still_one_finding(self) -> None:
        assert "Unused" in fires(hugepages_lopsided, with_pages((pages(8192, 8192),), (pages(0, 0),))).message

    def test_one_cpu_node_can_waste_them_too(self) -> None:
        assert "Unused" in fires(hugepages_lopsided, with_pages((pages(8, 8, 1 << 30),))).message

    @pytest.mark.parametrize(
        "host",
        [
            with_pages((pages(0, 0),), (pages(0, 0),)),
            with_pages((pages(8192, 10),), (pages(8192, 10),)),
            with_pages((pages(8192, None),), (pages(8192, None),)),
            with_pages((pages(512, 512),), (pages(512, 512),)),
            with_pages((pages(8, 0, 1 << 30), pages(0, 0)), (pages(8, 0, 1 << 30), pages(0, 0))),
        ],
        ids=["none", "used", "free unknown", "small", "even 1 GiB pages"],
    )
    def test_quiet(self, host: Host) -> None:
        assert quiet(hugepages_lopsided, host) is None

    def test_unknown_on_the_other_node_is_not_zero(self) -> None:
        assert quiet(hugepages_lopsided, with_pages((pages(1024, 0),), ())) is None

    def test_nothing_known_is_no_evidence(self) -> None:
        assert quiet(hugepages_lopsided, two_nodes()) == "no-evidence"

    def test_unknown_memory_is_not_exceeded(self) -> None:
        nodes = (node(0, "0-3", None, hugepages=(pages(8192, 8192),)),)
        assert quiet(hugepages_lopsided, Host(numa_nodes=nodes)) is None

    def test_nodes_without_cpus_are_not_judged(self) -> None:
        cxl = node(1, "", 64, hugepages=(pages(8192, 8192),))
        assert quiet(hugepages_lopsided, Host(numa_nodes=(node(0, "0-3", hugepages=(pages(0, 0),)), cxl))) is None


def with_distances(*rows: dict[str, int]) -> tuple[NumaNode, ...]:
    return tuple(node(i, f"{4 * i}-{4 * i + 3}", distances=row) for i, row in enumerate(rows))


class TestDistances:
    def test_directions_that_differ(self) -> None:
        found = fires(asymmetric_distances, Host(numa_nodes=with_distances({"0": 10, "1": 21}, {"0": 31, "1": 10})))
        assert found.severity == "info"
        assert found.subject == "node 0, node 1"
        assert found.evidence[0].value == "21, 31"

    def test_unreachable(self) -> None:
        assert fires(asymmetric_distances, Host(numa_nodes=with_distances({"0": 10, "1": 255}, {"0": 255, "1": 10})))

    def test_symmetric_passes(self) -> None:
        host = Host(numa_nodes=with_distances({"0": 10, "1": 21}, {"0": 21, "1": 10}))
        assert quiet(asymmetric_distances, host) is None

    def test_gpu_memory_nodes_are_not_judged(self) -> None:
        cpu = with_distances({"0": 10, "1": 40, "2": 80}, {"0": 40, "1": 10, "2": 255})
        gpu = node(2, "", 96, kind="gpu-memory", distances={"0": 70, "1": 255, "2": 10})
        assert quiet(asymmetric_distances, Host(numa_nodes=(*cpu, gpu))) is None

    @pytest.mark.parametrize("rows", [({}, {}), ({"0": 10, "1": 21}, {})])
    def test_untold_is_no_evidence(self, rows: tuple[dict[str, int], ...]) -> None:
        assert quiet(asymmetric_distances, Host(numa_nodes=with_distances(*rows))) == "no-evidence"

    def test_many_pairs_are_counted_not_listed(self) -> None:
        rows = [{str(j): 10 if i == j else 20 + i for j in range(8)} for i in range(8)]
        found = fires(asymmetric_distances, Host(numa_nodes=with_distances(*rows)))
        assert "22 more pairs" in found.message
        assert len(found.evidence) == 6
