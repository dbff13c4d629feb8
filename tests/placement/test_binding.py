"""Where a command that uses some GPUs goes: facts about whole hosts, about odd nodes and narrow CPU sets."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.errors import PlacementError, UnknownNodeError, UsageError
from hostdoctor.facts import Allowed, Core, Disagreement, Gpu, Host, NumaNode, System
from hostdoctor.parsers.cpulist import format_cpulist, parse_cpulist
from hostdoctor.placement.binding import bind
from hostdoctor.placement.model import Binding
from hostdoctor.placement.selection import select
from tests.placement.hosts import bound
from tests.support.build import gpu, host
from tests.support.build_memory import gap, node

WHOLE = Allowed(cpus="0-15", mems="0-1")


def far(*ids: int, near: Sequence[int] = (), remote: int = 21) -> dict[str, int]:
    """Distances from the first node to the others; ``near`` ones are 12 away."""
    return {str(i): 10 if i == ids[0] else 12 if i in near else remote for i in ids}


def two(**more: Any) -> Host:
    """Two sockets of four cores with two threads each; GPU0 on node 0, GPU1 on node 1."""
    sockets = (
        node(0, "0-3,8-11", package=0, kind="cpu+memory", distances=far(0, 1)),
        node(1, "4-7,12-15", package=1, kind="cpu+memory", distances=far(1, 0)),
    )
    cards = [gpu(0, "0000:16:00.0"), gpu(1, "0000:97:00.0", numa_node=1)]
    shape: dict[str, Any] = {
        "numa_nodes": sockets,
        "allowed": WHOLE,
        "cores": tuple(Core(cpus=f"{i},{i + 8}", package=i // 4) for i in range(8)),
    }
    return host(cards, **(shape | more))


def with_nodes(*nodes: NumaNode, cards: Sequence[Gpu] | None = None, **more: Any) -> Host:
    return host(cards or [gpu(0, "0000:16:00.0")], numa_nodes=nodes, **more)


def texts(binding: Binding) -> str:
    return "\n".join(reason.text for reason in binding.reasons)


class TestWholeHosts:
    @pytest.mark.parametrize(
        ("name", "gpus", "nodes", "cpus", "cores"),
        [
            ("dgx-h100", "0", (0,), "0-55,112-167", 56),
            ("dgx-h100", "4,5,6,7", (1,), "56-111,168-223", 56),
            ("gb200-tray", "2", (1,), "72-143", 72),
            ("aws-p5", "0", (0,), "0-47,96-143", 48),
            ("azure-ndv5", "7", (1,), "48-95", 48),
            ("oci-h100", "3", (0,), "0-55,112-167", 56),
            ("workstation", "0", (0,), "0-23", 12),
            ("sick-2n", "4", (1,), "48-95,144-191", 48),
        ],
    )
    def test_one_node(self, name: str, gpus: str, nodes: tuple[int, ...], cpus: str, cores: int) -> None:
        found = bound(name, gpus)
        assert (found.nodes, found.mems, found.cpus, found.physical_cores) == (nodes, nodes, cpus, cores)
        assert (found.whole_nodes, found.limits_cpus, found.spans, found.assumed) == (True, True, False, False)
        assert found.warnings == ()

    def test_cpus_numbered_alternately(self) -> None:
        found = bound("l40s-4", "2,3")
        assert parse_cpulist(found.cpus) == frozenset(range(1, 128, 2))
        assert parse_cpulist(found.smt_siblings or "") == frozenset(range(65, 128, 2))
        assert found.whole_nodes

    def test_the_pod_gets_its_share_of_the_node(self) -> None:
        found = bound("pod-2-of-8")
        assert (found.nodes, found.mems, found.cpus) == ((1,), (1,), "64-79,176-191")
        assert (found.physical_cores, found.smt_siblings, found.whole_nodes) == (16, "176-191", False)
        assert [reason.value for reason in found.reasons if reason.source == "/proc/self/status Cpus_allowed_list"] == [
            "64-79,176-191"
        ]

    def test_all_gpus_of_two_sockets_span_and_each_rank_knows_its_node(self) -> None:
        found = bound("dgx-h100", "7,0")
        assert found.spans
        assert [(rank.gpu, rank.nodes, rank.mems, rank.cpus) for rank in found.ranks] == [
            ("GPU7", (1,), (1,), "56-111,168-223"),
            ("GPU0", (0,), (0,), "0-55,112-167"),
        ]
        assert (found.nodes, found.cpus) == ((0, 1), "0-223")

    def test_the_memory_of_grace_gpus_is_never_a_place(self) -> None:
        found = bound("gb200-tray")
        assert (found.nodes, found.mems) == ((0, 1), (0, 1))
        assert bound("gb200-tray", "0", policy="interleave").mems == (0, 1)
        assert bound("gb200-tray", "0", arm="far").nodes == (1,)

    def test_evidence_is_quoted(self) -> None:
        reason = bound("dgx-h100", "4").reasons[0]
        assert reason.text == "GPU4 is near node 1"
        assert (reason.source, reason.value) == ("/sys/bus/pci/devices/0000:9d:00.0/numa_node", "1")


class TestUnknownNode:
    def test_the_sick_host_refuses_with_what_the_matrix_said(self) -> None:
        with pytest.raises(UnknownNodeError, match=r"GPU6: NUMA node unknown \(.*topo.*N/A\).*--assume-node N") as seen:
            bound("sick-2n", "6")
        assert seen.value.exit_status == 3

    def test_an_assumption_is_used_for_it_alone_and_said_aloud(self) -> None:
        found = bound("sick-2n", "0,6", assume_node=1)
        assert [rank.nodes for rank in found.ranks] == [(0,), (1,)]
        assert found.assumed
        assert found.warnings == ("GPU6: node 1 was assumed (--assume-node), no source tells it",)

    @pytest.mark.parametrize("node_id", [2, -1, 99])
    def test_an_assumed_node_must_exist(self, node_id: int) -> None:
        with pytest.raises(UsageError, match=r"no such node with CPUs and memory \(known: 0, 1\)"):
            bound("sick-2n", "6", assume_node=node_id)

    def test_an_assumed_node_must_have_cpus(self) -> None:
        with pytest.raises(UsageError, match="known: 0, 1"):
            bound("gb200-tray", "0", assume_node=2)

    def test_an_assumption_against_what_is_known_is_refused(self) -> None:
        with pytest.raises(UsageError, match="GPU0 is known to be near node 0"):
            bound("dgx-h100", "0", assume_node=1)
        assert not bound("dgx-h100", "0", assume_node=0).assumed

    def test_in_a_guest_only_the_hypervisor_knows(self) -> None:
        on = two(system=System(virtualization="kvm"))
        on = msgspec.structs.replace(on, gpus=(gpu(0, numa_node=None),))
        with pytest.raises(UnknownNodeError, match="hypervisor"):
            bound(on)

    def test_with_one_cpu_node_there_is_nothing_to_choose(self) -> None:
        cards = [gpu(0, numa_node=None)]
        on = with_nodes(node(0, "0-7"), node(1, "", kind="memory-only"), cards=cards)
        found = bound(on)
        assert (found.nodes, found.assumed) == ((0,), False)
        assert "node 0 is the only one with CPUs: nothing to choose" in texts(found)

    def test_a_node_whose_cpus_are_not_told_may_be_another_choice(self) -> None:
        with pytest.raises(UnknownNodeError):
            bound(with_nodes(node(0, "0-7"), node(1, None), cards=[gpu(0, numa_node=None)]))

    def test_without_any_node_known(self) -> None:
        with pytest.raises(UnknownNodeError, match="CPUs of node 0 are not known"):
            bound(with_nodes())
        with pytest.raises(UnknownNodeError, match="NUMA node unknown"):
            bound(with_nodes(cards=[gpu(0, numa_node=None)]))

    def test_a_matrix_alone_tells_the_cpus_of_a_gpus_node(self) -> None:
        cards = [gpu(0, cpus="0-7"), gpu(1, numa_node=1, cpus="8-15"), gpu(2, numa_node=None)]
        found = bound(with_nodes(cards=cards), "1")
        assert (found.nodes, found.cpus, found.whole_nodes) == ((1,), "8-15", False)
        assert ("CPU affinity of its GPUs", "8-15") in [(r.source, r.value) for r in found.reasons]
        assert any("CPUs of node 1 are known from GPUs alone" in warning for warning in found.warnings)
        both = bound(with_nodes(cards=cards[:2]), "all").warnings
        assert [warning[:17] for warning in both if "from GPUs alone" in warning] == ["CPUs of nodes 0-1"]

    def test_a_matrix_alone_does_not_list_every_node(self) -> None:
        cards = [gpu(0, cpus="0-7"), gpu(1, numa_node=None)]
        with pytest.raises(UnknownNodeError, match="GPU1: NUMA node unknown"):
            bound(with_nodes(cards=cards))

    @pytest.mark.parametrize("cpus", ["0-15", "4-11"])
    def test_nodes_that_share_cpus_in_a_matrix_are_no_nodes(self, cpus: str) -> None:
        cards = [gpu(0, cpus="0-7"), gpu(1, numa_node=1, cpus=cpus)]
        with pytest.raises(UnknownNodeError, match="CPUs of node 0 are not known"):
            bound(with_nodes(cards=cards))

    def test_a_node_known_to_have_no_cpus_gets_none_from_a_gpu(self) -> None:
        nodes = (node(0, "", distances={"0": 10, "1": 20}), node(1, "0-7"))
        assert bound(with_nodes(*nodes, cards=[gpu(0, cpus="0-7")])).nodes == (1,)

    def test_gap_reasons_are_quoted(self) -> None:
        gaps = (gap("gpus[0].numa_node", "sysfs", "the kernel was not told (-1)"),)
        on = msgspec.structs.replace(two(gaps=gaps), gpus=(gpu(0, numa_node=None),))
        with pytest.raises(UnknownNodeError, match=r"sysfs: the kernel was not told \(-1\)"):
            bound(on)

    def test_the_gpus_own_memory_tells_its_socket(self) -> None:
        nodes = (
            node(0, "0-7", distances=far(0, 1, 2)),
            node(1, "8-15", distances=far(1, 0, 2)),
            node(2, "", 90, kind="gpu-memory", distances={"0": 120, "1": 80, "2": 10}),
        )
        card = gpu(0, numa_node=None, memory_numa_node=2)
        assert bound(with_nodes(*nodes, cards=[card])).nodes == (1,)
        alike = msgspec.structs.replace(nodes[2], distances={"0": 80, "1": 80, "2": 10})
        with pytest.raises(UnknownNodeError):
            bound(with_nodes(nodes[0], nodes[1], alike, cards=[card]))

    def test_disagreeing_sources_are_quoted(self) -> None:
        on = two(disagreements=(Disagreement(fact="gpus[0].numa_node", values={"sysfs": 0, "NVML": 1}),))
        found = bound(on, "0")
        assert found.nodes == (0,)
        assert "/sys/bus/pci/devices/0000:16:00.0/numa_node 0" in found.warnings[0]
        assert "NVML: numa_node of GPU0 1" in found.warnings[0]
        assert bound(on, "1").warnings == ()


class TestNodesThatLackSomething:
    def nodes(self, lacking: NumaNode) -> tuple[NumaNode, ...]:
        return (
            lacking,
            node(1, "0-7", distances=far(1, 0, 2)),
            node(2, "8-15", distances=far(2, 0, 1)),
        )

    @pytest.mark.parametrize(
        ("lacking", "what"),
        [
            (node(0, "", kind="memory-only", distances={"0": 10, "1": 30, "2": 20}), "CPUs"),
            (node(0, "16-23", 0, kind="cpu-only", distances={"0": 10, "1": 30, "2": 20}), "memory"),
            (node(0, "", 0, kind="empty", distances={"0": 10, "1": 30, "2": 20}), "CPUs or memory"),
            (node(0, "", 90, kind="gpu-memory", distances={"0": 10, "1": 30, "2": 20}), "CPUs"),
        ],
    )
    def test_the_nearest_with_both_is_taken(self, lacking: NumaNode, what: str) -> None:
        found = bound(with_nodes(*self.nodes(lacking)))
        assert (found.nodes, found.mems, found.cpus) == ((2,), (2,), "8-15")
        text = f"GPU0: node 0 near it has no {what}; node 2 is the nearest with both (distance 20)"
        assert text in texts(found)
        assert text in found.warnings

    def test_equally_near_ones_by_lowest_id(self) -> None:
        lacking = node(0, "", distances={"0": 10, "1": 20, "2": 20})
        assert bound(with_nodes(*self.nodes(lacking))).nodes == (1,)

    def test_unknown_distances_are_no_guess(self) -> None:
        with pytest.raises(UnknownNodeError, match="how far the others are is not told"):
            bound(with_nodes(*self.nodes(node(0, ""))))

    def test_a_single_node_with_both_needs_no_distance(self) -> None:
        assert bound(with_nodes(node(0, ""), node(1, "0-7"))).nodes == (1,)

    def test_no_node_with_both(self) -> None:
        with pytest.raises(PlacementError, match="no node is known to have both") as caught:
            bound(with_nodes(node(0, ""), node(1, "0-7", 0)))
        assert caught.value.exit_status == 2

    def test_numbers_with_holes(self) -> None:
        nodes = (node(0, "0-7", distances=far(0, 8)), node(8, "8-15", distances=far(8, 0)))
        on = with_nodes(*nodes, cards=[gpu(0, numa_node=8)])
        assert (bound(on).nodes, bound(on).cpus) == ((8,), "8-15")
        assert bound(on, arm="far").nodes == (0,)
        with pytest.raises(UsageError, match="known: 0, 8"):
            bound(on, assume_node=1)


class TestSubNuma:
    def host(self, **more: Any) -> Host:
        """Four nodes, two on each package; GPU0 is near both of the first package."""
        near = {0: (1,), 1: (0,), 2: (3,), 3: (2,)}
        nodes = [
            node(
                i,
                f"{i * 4}-{i * 4 + 3}",
                package=i // 2,
                distances=far(i, *(j for j in range(4) if j != i), near=near[i]),
            )
            for i in range(4)
        ]
        cards = [gpu(0, numa_node=None, numa_nodes=(0, 1)), gpu(1, numa_node=2)]
        return with_nodes(*nodes, cards=cards, **more)

    def test_a_gpu_near_several_nodes_is_bound_to_all(self) -> None:
        found = bound(self.host(), "0")
        assert (found.nodes, found.mems, found.cpus, found.spans) == ((0, 1), (0, 1), "0-7", False)

    def test_the_far_arm_is_on_the_other_package(self) -> None:
        found = bound(self.host(), "1", arm="far")
        assert found.nodes == (0,)
        assert "the far arm is node 0 (distance 21)" in texts(found)

    def test_what_the_cpuset_leaves_of_the_near_nodes(self) -> None:
        found = bound(self.host(allowed=Allowed(cpus="4-9", mems="0-3")), "0")
        assert (found.nodes, found.cpus) == ((1,), "4-7")
        assert any("leaves out node 0" in warning for warning in found.warnings)

    def test_a_far_arm_on_the_same_package_is_doubtful(self) -> None:
        found = bound(self.host(allowed=Allowed(cpus="0-15", mems="2-3")), "1", arm="far")
        assert found.nodes == (3,)
        assert "far arm: node 3 is on the same package as node 2" in found.warnings

    def test_near_every_node_is_near_none(self) -> None:
        host = with_nodes(node(0, "0-3"), node(1, "4-7"), cards=[gpu(0, numa_node=None, numa_nodes=(0, 1))])
        with pytest.raises(UnknownNodeError, match="the sources name every node: nodes 0-1"):
            bound(host)
        assert bound(host, assume_node=1).nodes == (1,)

    def test_a_near_node_without_cpus_is_dropped_beside_a_whole_one(self) -> None:
        card = gpu(0, numa_node=None, numa_nodes=(0, 1))
        found = bound(with_nodes(node(0, "0-3"), node(1, ""), node(2, "4-7"), cards=[card]))
        assert found.nodes == (0,)
        assert "GPU0: node 1 is near but has no CPUs" in found.warnings


class TestCpuSet:
    @pytest.mark.parametrize(
        ("allowed", "message"),
        [
            (Allowed(cpus="4-7", mems="0-1"), "Cpus_allowed_list 4-7"),
            (Allowed(cpus="0-15", mems="1"), "Mems_allowed_list 1"),
            (Allowed(cpus="0-15", mems=""), "Mems_allowed_list"),
        ],
    )
    def test_a_cpuset_that_leaves_out_the_node_is_refused(self, allowed: Allowed, message: str) -> None:
        for policy in ("bind", "preferred", "interleave", "auto"):
            with pytest.raises(PlacementError, match=rf"{message}.*node 0.*HD106") as caught:
                bound(two(allowed=allowed), "0", policy=policy)
            assert caught.value.exit_status == 2

    def test_a_part_of_the_node_is_enough(self) -> None:
        found = bound(two(allowed=Allowed(cpus="2-5,10-13", mems="0-1")), "0")
        assert (found.cpus, found.whole_nodes, found.physical_cores) == ("2-3,10-11", False, 2)

    def test_a_cpu_set_that_was_not_told_is_said(self) -> None:
        assert any("CPU set was not told" in warning for warning in bound(two(allowed=Allowed())).warnings)

    def test_isolated_cpus_are_left_out_unless_asked_for(self) -> None:
        on = two(settings={"cpu.isolated": "0-1,8-9", "cpu.nohz_full": "2"})
        found = bound(on, "0")
        assert (found.cpus, found.whole_nodes) == ("3,10-11", False)
        assert ("/sys/devices/system/cpu/isolated", "0-1,8-9") in [(r.source, r.value) for r in found.reasons]
        whole = bound(on, "0", use_isolated=True)
        assert (whole.cpus, whole.whole_nodes) == ("0-3,8-11", True)

    def test_only_isolated_cpus_on_the_node(self) -> None:
        with pytest.raises(PlacementError, match=r"isolated.*--use-isolated"):
            bound(two(settings={"cpu.isolated": "0-3,8-11"}), "0")

    def test_outside_a_container_the_mask_lacks_isolated_cpus_and_numactl_widens_it(self) -> None:
        allowed = Allowed(cpus="2-7,10-15", mems="0-1")
        settings = {"cpu.isolated": "0-1,8-9"}
        assert bound(two(allowed=allowed, settings=settings), "0", use_isolated=True).cpus == "0-3,8-11"
        inside = two(allowed=allowed, settings=settings, system=System(container="docker"))
        assert bound(inside, "0", use_isolated=True).cpus == "2-3,10-11"


class TestPolicy:
    @pytest.mark.parametrize("policy", ["bind", "preferred"])
    def test_as_asked(self, policy: str) -> None:
        found = bound(two(), "0", policy=policy, fits={0: False})
        assert (found.policy, found.mems) == (policy, (0,))

    @pytest.mark.parametrize(
        ("fits", "policy", "text"),
        [
            ({0: True}, "bind", "the memory asked for fits the node"),
            ({0: False}, "preferred", "node 0 has no room for it"),
            ({0: None}, "bind", "could not be told; --policy preferred spills"),
            ({}, "bind", "could not be told"),
            ({1: False}, "bind", "could not be told"),
        ],
    )
    def test_auto_by_what_fits(self, fits: dict[int, bool | None], policy: str, text: str) -> None:
        found = bound(two(), "0", policy="auto", fits=fits)
        assert found.policy == policy
        assert text in texts(found)

    def test_one_node_that_is_too_small_is_enough_to_spill(self) -> None:
        assert bound(two(), policy="auto", fits={0: True, 1: False}).policy == "preferred"

    def test_interleave_spreads_over_the_nodes_or_over_all_that_may_be_used(self) -> None:
        found = bound(two(), "0", policy="interleave")
        assert (found.nodes, found.mems, found.ranks[0].mems) == ((0,), (0, 1), (0, 1))
        narrow = bound(two(allowed=Allowed(cpus="0-15", mems="0")), "0", policy="interleave")
        assert narrow.mems == (0,)
        assert any("nothing is spread" in warning for warning in narrow.warnings)


class TestFarArm:
    def test_each_rank_goes_to_the_other_socket(self) -> None:
        found = bound(two(), arm="far")
        assert [rank.nodes for rank in found.ranks] == [(1,), (0,)]
        assert found.arm == "far"

    @pytest.mark.parametrize("name", ["workstation", "pod-2-of-8"])
    def test_without_a_second_node_it_is_refused(self, name: str) -> None:
        with pytest.raises(PlacementError, match="no far arm") as caught:
            bound(name, arm="far")
        assert caught.value.exit_status == 2

    def test_distances_choose_among_several(self) -> None:
        nodes = [node(i, f"{i}", package=i, distances={"0": 10 + i, "1": 20, "2": 31, "3": 25}) for i in range(4)]
        assert bound(with_nodes(*nodes), arm="far").nodes == (2,)
        told_nothing = [node(i, f"{i}") for i in range(4)]
        with pytest.raises(UnknownNodeError, match="not told"):
            bound(with_nodes(*told_nothing), arm="far")

    def test_another_package_comes_before_a_greater_distance(self) -> None:
        nodes = [node(i, f"{i}", package=i // 2, distances={"0": 10, "1": 40, "2": 20, "3": 30}) for i in range(4)]
        assert bound(with_nodes(*nodes), arm="far").nodes == (3,)

    def test_of_two_nodes_the_other_is_far_whatever_the_distance(self) -> None:
        assert bound(with_nodes(node(0, "0-3"), node(1, "4-7")), arm="far").nodes == (1,)


class TestCores:
    def test_too_few_on_the_node_while_the_caller_has_more(self) -> None:
        found = bound(two(allowed=Allowed(cpus="2-3,10-11,4-7,12-15", mems="0-1")), "0")
        assert (found.physical_cores, found.limits_cpus, found.cpus) == (2, False, "2-3,10-11")
        assert any("2 physical cores in the binding, 3 wanted (HD115), 6 may be used" in w for w in found.warnings)

    def test_too_few_everywhere(self) -> None:
        found = bound(two(allowed=Allowed(cpus="0,8", mems="0-1")), "0")
        assert (found.physical_cores, found.limits_cpus) == (1, True)
        assert any("the caller may use no more" in warning for warning in found.warnings)

    def test_further_servers_want_further_cores(self) -> None:
        assert bound(two(), "0", extra_processes=1).limits_cpus
        assert not bound(two(), "0", extra_processes=2).limits_cpus

    def test_hardware_threads_are_no_cores(self) -> None:
        assert (bound(two(), "0").physical_cores, bound(two(), "0").smt_siblings) == (4, "8-11")

    def test_a_second_thread_alone_is_no_sibling(self) -> None:
        assert bound(two(allowed=Allowed(cpus="8-11", mems="0-1")), "0").smt_siblings == ""

    @pytest.mark.parametrize("cores", [(), (Core(cpus="0,8"),)])
    def test_cores_not_known_are_not_none(self, cores: tuple[Core, ...]) -> None:
        found = bound(two(cores=cores), "0")
        assert (found.physical_cores, found.smt_siblings, found.limits_cpus) == (None, None, True)
        assert found.warnings == ()


cpu_ids = st.frozensets(st.integers(0, 23), max_size=24)


@st.composite
def hosts(draw: st.DrawFn) -> Host:
    """Up to four nodes, some without CPUs or memory, GPUs on any of them or nowhere, any CPU set."""
    ids = sorted(draw(st.sets(st.sampled_from([0, 1, 2, 3, 8]), min_size=1, max_size=4)))
    owner = draw(st.lists(st.sampled_from(ids), min_size=24, max_size=24))
    distances = draw(st.booleans())
    nodes = [
        node(
            i,
            "" if draw(st.integers(0, 3)) == 0 else format_cpulist(cpu for cpu, at in enumerate(owner) if at == i),
            draw(st.sampled_from([0, 64, 64, 64])),
            distances={str(j): 10 if i == j else draw(st.integers(11, 40)) for j in ids} if distances else {},
        )
        for i in ids
    ]
    cards = [gpu(i, f"0000:{i + 16:02x}:00.0", numa_node=draw(st.sampled_from([*ids, None]))) for i in range(3)]
    allowed = Allowed(
        cpus=draw(st.none() | cpu_ids.map(format_cpulist)),
        mems=draw(st.none() | st.frozensets(st.sampled_from(ids)).map(format_cpulist)),
    )
    settings = {"cpu.isolated": format_cpulist(draw(st.frozensets(st.integers(0, 23), max_size=4)))}
    return host(cards, numa_nodes=tuple(nodes), allowed=allowed, settings=settings)


@given(
    hosts(),
    st.permutations([0, 1, 2]),
    st.sampled_from(["auto", "bind", "preferred", "interleave"]),
    st.sampled_from(["near", "far"]),
    st.booleans(),
)
def test_a_binding_stays_within_what_may_be_used(
    on: Host, order: list[int], policy: Any, arm: Any, use_isolated: bool
) -> None:
    selection = select(on, ",".join(map(str, order)), environ_devices=None, environ_order=None)
    try:
        found = bind(on, selection, policy=policy, arm=arm, use_isolated=use_isolated, assume_node=None)
    except PlacementError:
        return
    by_id = {record.id: record for record in on.numa_nodes}
    online = {i: parse_cpulist(record.cpus or "") for i, record in by_id.items()}
    allowed = parse_cpulist(on.allowed.cpus) if on.allowed.cpus is not None else frozenset(range(24))
    isolated = parse_cpulist(on.settings["cpu.isolated"])
    mems = parse_cpulist(on.allowed.mems) if on.allowed.mems is not None else frozenset(by_id)
    assert [rank.gpu for rank in found.ranks] == [f"GPU{i}" for i in order]
    for nodes, cpus in [(found.nodes, found.cpus), *((rank.nodes, rank.cpus) for rank in found.ranks)]:
        bound_cpus = parse_cpulist(cpus)
        assert bound_cpus
        assert bound_cpus <= frozenset().union(*(online[i] for i in nodes))
        assert bound_cpus <= (allowed | isolated if use_isolated else allowed - isolated)
        assert all(online[i] and by_id[i].memory_bytes for i in nodes)
        assert frozenset(nodes) <= mems
    assert all(by_id[i].memory_bytes for i in found.mems)
    assert frozenset(found.mems) <= mems
    assert found.whole_nodes == (parse_cpulist(found.cpus) == frozenset().union(*(online[i] for i in found.nodes)))


@given(hosts(), st.sampled_from(["near", "far"]))
def test_known_nodes_are_never_given_up_silently(on: Host, arm: Any) -> None:
    """What is bound near a GPU is its own node wherever that has CPUs and memory."""
    try:
        found = bound(on, arm=arm)
    except PlacementError:
        return
    whole = {record.id for record in on.numa_nodes if record.cpus and record.memory_bytes}
    for rank, card in zip(found.ranks, on.gpus, strict=True):
        if card.numa_node in whole:
            assert (rank.nodes == (card.numa_node,)) == (arm == "near")
