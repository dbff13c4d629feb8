"""Where ``measure copy`` copies from, and when it refuses to."""

from typing import Any

import msgspec
import pytest

from hostdoctor.errors import HostdoctorError, MeasureError, SourceError, UnknownNodeError, UsageError
from hostdoctor.facts import Allowed, Core, Host, MemoryGroup, NumaNode
from hostdoctor.measure.copies_model import Settings
from hostdoctor.measure.copies_plan import (
    Plan,
    load_cpus,
    plan_copies,
    refuse_shared,
    second_stream_cpus,
    settings_of,
    users_of,
)
from tests.support.build import host, slot
from tests.support.build_memory import node

MIB = 1 << 20
ALLOWED = Allowed(cpus="0-15", mems="0-1")


def settings(**changes: Any) -> Settings:
    given: dict[str, Any] = {
        "pairs": 0,
        "copies_per_run": 1000,
        "buffer_bytes": 0,
        "sizes_bytes": (16 << 10, 2 * MIB),
        "memories": ("pinned", "pageable"),
    }
    return Settings(**(given | changes))


def two_sockets(near: int | None = 0, **more: Any) -> Host:
    given: dict[str, Any] = {"allowed": ALLOWED, "is_live": True}
    return host([slot(0, 0x15, numa_node=near)], **(given | more))


def roles(plan: Plan) -> dict[str, tuple[int, int]]:
    return {cell.role: (cell.cpu_node, cell.memory_node) for cell in plan.cells}


def four_nodes() -> tuple[NumaNode, ...]:
    """Return two packages of two nodes each: 0 and 1, 2 and 3; 3 is a hop nearer to 0 than 2 is."""
    distances = {"0": 10, "1": 12, "2": 32, "3": 30}
    more: dict[str, Any] = {"distances": distances, "kind": "cpu+memory"}
    return tuple(node(i, f"{4 * i}-{4 * i + 3}", package=i // 2, **more) for i in range(4))


def test_near_and_far_memory_and_cpus_and_near_once_more() -> None:
    plan = plan_copies(two_sockets(), 0, settings())
    assert roles(plan) == {
        "near": (0, 0),
        "far": (1, 1),
        "far-memory": (0, 1),
        "far-cpu": (1, 0),
        "near-again": (0, 0),
    }
    assert (plan.gpu.near_node, plan.gpu.far_node, plan.gpu.distance) == (0, 1, 21)
    assert {node: cpu in plan.cpus[node] for node, cpu in plan.cpu.items()} == {0: True, 1: True}
    assert plan.path == ("0000:15:01.0", "0000:16:00.0")


def test_the_control_is_measured_at_the_other_end_of_the_order() -> None:
    plan = plan_copies(two_sockets(), 0, settings())
    assert (plan.cells[0].role, plan.cells[1].role, plan.cells[-1].role) == ("near", "far", "near-again")


def test_far_is_the_farthest_node_on_the_other_package() -> None:
    given = two_sockets(numa_nodes=four_nodes(), allowed=Allowed(cpus="0-15", mems="0-3"))
    assert plan_copies(given, 0, settings()).gpu.far_node == 2


def test_nodes_without_cpus_or_memory_are_never_far() -> None:
    gpu_memory = node(2, "", kind="gpu-memory", distances={"0": 80})
    given = two_sockets()
    given = msgspec.structs.replace(given, numa_nodes=(*given.numa_nodes, gpu_memory))
    assert plan_copies(given, 0, settings()).gpu.far_node == 1


def test_of_a_cpuset_only_its_cpus_are_used() -> None:
    plan = plan_copies(two_sockets(allowed=Allowed(cpus="3-4,8,15", mems="0-1")), 0, settings())
    assert plan.cpus == {0: {3, 4}, 1: {8, 15}}


def refused(error: type[HostdoctorError], given: Host, *words: str, assume: int | None = None, **changes: Any) -> None:
    with pytest.raises(error) as raised:
        plan_copies(given, 0, settings(**changes), assume)
    for word in words:
        assert word in str(raised.value)


def test_captures_cannot_be_measured() -> None:
    refused(SourceError, two_sockets(is_live=False), "only the running host")


def test_one_cpu_node_offers_near_alone() -> None:
    one = two_sockets(numa_nodes=(node(0, "0-7", kind="cpu+memory"), node(1, "", kind="memory-only")))
    refused(MeasureError, one, "node 0 is the only node with CPUs and memory", "--near-only")
    assert roles(plan_copies(one, 0, settings(near_only=True))) == {"near": (0, 0), "near-again": (0, 0)}


@pytest.mark.parametrize(
    ("allowed", "words"),
    [
        (Allowed(cpus="0-7", mems="0-1"), "node 1: its CPUs are not in this process's cpuset (Cpus_allowed_list 0-7)"),
        (Allowed(cpus="0-15", mems="0"), "node 1: its memory is not in this process's cpuset (Mems_allowed_list 0)"),
    ],
)
def test_a_far_node_outside_the_cpuset_offers_near_alone(allowed: Allowed, words: str) -> None:
    refused(MeasureError, two_sockets(allowed=allowed), words, "--near-only")
    assert plan_copies(two_sockets(allowed=allowed), 0, settings(near_only=True)).gpu.far_node is None


def test_a_gpu_whose_node_nobody_knows_wants_to_be_told() -> None:
    unknown = two_sockets(near=None)
    refused(UnknownNodeError, unknown, "GPU0", "--assume-node N")
    plan = plan_copies(unknown, 0, settings(), 1)
    assert (plan.gpu.near_node, plan.gpu.far_node, plan.gpu.assumed_node) == (1, 0, True)


def test_near_every_node_is_not_known() -> None:
    refused(
        UnknownNodeError,
        two_sockets(
            near=None,
        ),
        "not known",
    )
    every = host([slot(0, 0x15, numa_node=None, numa_nodes=(0, 1))], is_live=True, allowed=ALLOWED)
    refused(UnknownNodeError, every, "--assume-node N")


def test_an_assumption_that_contradicts_the_host_is_refused() -> None:
    refused(UsageError, two_sockets(), "GPU0 is known to be near node 0", assume=1)
    refused(UsageError, two_sockets(near=None), "known: 0, 1", assume=5)


def test_a_gpu_without_an_address_cannot_be_asked_for() -> None:
    given = two_sockets()
    gpu = msgspec.structs.replace(given.gpus[0], bdf=None)
    refused(MeasureError, msgspec.structs.replace(given, gpus=(gpu,)), "PCI address is not known")


def test_buffers_take_a_sixteenth_of_the_free_memory_of_the_poorer_node() -> None:
    nodes = tuple(node(i, f"{8 * i}-{8 * i + 7}", kind="cpu+memory", free_bytes=(i + 1) * 1024 * MIB) for i in (0, 1))
    plan = plan_copies(two_sockets(numa_nodes=nodes), 0, settings())
    assert plan.settings.buffer_bytes == 64 * MIB
    assert any("caches may hold part of them" in note for note in plan.notes)


def test_a_control_group_limits_all_buffers_together() -> None:
    def limited(**changes: Any) -> Plan:
        group = MemoryGroup(
            path="/a", folder="/g", version=2, max_bytes=1024 * MIB, charged_bytes=0, active_file_bytes=0,
            inactive_file_bytes=0,
        )  # fmt: skip
        return plan_copies(msgspec.structs.replace(two_sockets(), memory_groups=(group,)), 0, settings(**changes))

    alone = limited(memories=("pinned",))
    assert alone.settings.buffer_bytes == 128 * MIB  # half of it for two nodes' processes with two buffers each
    assert any("as the control group allows few" in note for note in alone.notes)
    assert limited(memories=("pinned",), contend=True).settings.buffer_bytes == 20 * MIB
    with pytest.raises(MeasureError, match="no room for buffers of 256 MiB: the control group still allows 1024 MiB"):
        limited(buffer_bytes=256 * MIB)


def test_buffers_hold_the_largest_copy() -> None:
    plan = plan_copies(two_sockets(), 0, settings(buffer_bytes=2 * MIB, sizes_bytes=(8 * MIB,)))
    assert plan.settings.buffer_bytes == 8 * MIB


def test_there_are_as_many_pairs_as_verdicts_need() -> None:
    assert plan_copies(two_sockets(), 0, settings()).settings.pairs == 12
    sizes = tuple(1 << (10 + i) for i in range(20))
    plan = plan_copies(two_sockets(), 0, settings(sizes_bytes=sizes, contend=True))
    assert len([s for s in settings_of(plan.settings) if s.loop != "bandwidth"]) == 320
    assert plan.settings.pairs == 14  # 2^14 sign patterns tell 320 comparisons at 5 % apart
    few = plan_copies(two_sockets(), 0, settings(pairs=3))
    assert few.settings.pairs == 3
    assert any("3 pairs are too few for verdicts on 16 settings: 10" in note for note in few.notes)


def test_what_contends_runs_beside_the_copying_thread() -> None:
    plan = plan_copies(two_sockets(), 0, settings(contend=True))
    near = plan.gpu.near_node

    def beside(*cpus: int) -> tuple[tuple[int, ...], frozenset[int]]:
        of = msgspec.structs.replace(plan, cpus={near: frozenset(cpus)}, cpu={near: cpus[0]})
        return load_cpus(of, near), second_stream_cpus(of, near)

    assert beside(8, 0, 1, 2, 3, 4, 5) == ((0, 1, 2, 3), frozenset({4, 5}))
    assert beside(8, 0, 1) == ((0, 1), frozenset({0, 1}))  # the loads' before the copying thread's
    assert beside(8) == ((), frozenset({8}))


def test_what_contends_leaves_the_copying_core_to_it_where_there_are_others() -> None:
    cores = tuple(Core(cpus=f"{i},{i + 8}") for i in range(8))
    plan = plan_copies(
        two_sockets(
            cores=cores, numa_nodes=(node(0, "0-15"), node(1, "16-23")), allowed=Allowed(cpus="0-23", mems="0-1")
        ),
        0,
        settings(),
    )
    assert plan.cpu[0] == 8
    assert load_cpus(plan, 0) == (1, 2, 3, 4)  # 0 is a thread of the same core
    assert second_stream_cpus(plan, 0) == frozenset({5, 6, 7, *range(9, 16)})
    few = msgspec.structs.replace(plan, cpus={0: frozenset({0, 1, 8, 9})})
    assert (load_cpus(few, 0), second_stream_cpus(few, 0)) == ((1, 9, 0), frozenset({1, 9}))
    one = msgspec.structs.replace(plan, cpus={0: frozenset({0, 8})})
    assert (load_cpus(one, 0), second_stream_cpus(one, 0)) == ((0,), frozenset({0}))


def test_a_gpu_in_use_is_refused_by_name() -> None:
    with pytest.raises(MeasureError, match=r"GPU0 is in use by process 7 \(python3\), 9: .*--force"):
        refuse_shared("GPU0", {9: "", 7: "python3"}, force=False)
    assert refuse_shared("GPU0", {7: "python3"}, force=True) == "GPU0 was in use by process 7 (python3)"
    assert refuse_shared("GPU0", {}, force=False) is None


@pytest.mark.parametrize(
    ("document", "users"),
    [
        (None, None),
        ({"gpus": [{"bdf": "00000000:16:00.0", "processes": [7, 9]}]}, (7, 9)),
        ({"gpus": [{"bdf": "00000000:26:00.0", "processes": [7]}]}, None),
        ({"gpus": [{"bdf": "00000000:16:00.0", "processes": None}]}, None),
        ({"gpus": [{"bdf": "00000000:16:00.0"}]}, None),
    ],
)
def test_users_of_a_gpu_are_the_drivers_word(document: Any, users: Any) -> None:
    assert users_of(document, "0000:16:00.0") == users
