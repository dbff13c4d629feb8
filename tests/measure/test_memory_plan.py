"""Which pairs of nodes are measured, over how much memory, and what is said of the others."""

from typing import Any

import pytest

from hostdoctor.errors import MeasureError
from hostdoctor.facts import Allowed, Core, Host, MemoryGroup, NumaNode
from hostdoctor.measure.memory_plan import MIB, Limits, MemoryPlan, plan_memory, read_limits

GIB = 1 << 30
TWO = (
    NumaNode(
        id=0,
        cpus="0-3,8-11",
        memory_bytes=64 * GIB,
        free_bytes=40 * GIB,
        distances={"0": 10, "1": 21},
        kind="cpu+memory",
    ),
    NumaNode(
        id=1,
        cpus="4-7,12-15",
        memory_bytes=64 * GIB,
        free_bytes=50 * GIB,
        distances={"0": 21, "1": 10},
        kind="cpu+memory",
    ),
)
CXL = NumaNode(id=2, cpus="", memory_bytes=128 * GIB, free_bytes=100 * GIB, kind="memory-only")
HBM = NumaNode(id=3, cpus="", memory_bytes=96 * GIB, free_bytes=90 * GIB, kind="gpu-memory")
CORES = tuple(Core(cpus=f"{i},{i + 8}") for i in range(8))
L3 = Limits(l3_bytes=32 * MIB)


def planned(*nodes: NumaNode, limits: Limits = L3, allowed: Allowed | None = None, **options: Any) -> MemoryPlan:
    host = Host(numa_nodes=nodes, cores=CORES, allowed=allowed or Allowed(cpus="0-15", mems="0-3"))
    return plan_memory(host, limits, **options)


def skipped(plan: MemoryPlan) -> dict[tuple[int, int], str]:
    return {(pair.cpu_node, pair.memory_node): pair.skipped for pair in plan.pairs if pair.skipped}


def test_every_cpu_node_meets_every_memory_node() -> None:
    plan = planned(*TWO, CXL)
    assert [(pair.cpu_node, pair.memory_node) for pair in plan.measured] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 1),
        (1, 2),
    ]
    assert [pair.distance for pair in plan.pairs] == [10, 21, None, 21, 10, None]
    assert (plan.cpu_nodes, plan.memory_nodes) == ((0, 1), (0, 1, 2))
    assert plan.notes == ()


def test_one_thread_a_core() -> None:
    assert planned(*TWO).pairs[0].cpus == (0, 1, 2, 3)
    assert planned(*TWO, threads=2).pairs[-1].cpus == (4, 5)
    assert planned(*TWO, allowed=Allowed(cpus="8-9,4-7", mems="0-1")).pairs[0].cpus == (8, 9)


def test_a_gpus_own_memory_is_left_alone() -> None:
    assert skipped(planned(*TWO, HBM)) == {(0, 3): "node 3 is a GPU's memory", (1, 3): "node 3 is a GPU's memory"}


def test_free_memory_that_is_not_known_is_not_none() -> None:
    untold = NumaNode(id=1, cpus="4-7", memory_bytes=64 * GIB, kind="cpu+memory")
    assert skipped(planned(TWO[0], untold))[0, 1] == "how much of node 1 is free is not known"


def test_what_the_cpuset_leaves_out_is_skipped() -> None:
    plan = planned(*TWO, allowed=Allowed(cpus="0-3", mems="0"))
    assert skipped(plan) == {
        (0, 1): "node 1 is outside this process's cpuset (Mems_allowed_list 0)",
        (1, 0): "no CPU of node 1 may be used (Cpus_allowed_list 0-3)",
        (1, 1): "node 1 is outside this process's cpuset (Mems_allowed_list 0)",
    }
    assert plan.notes == ("only one CPU node may be used: near only",)


def test_one_node_has_near_memory_only() -> None:
    plan = planned(TWO[0])
    assert len(plan.measured) == 1
    assert plan.notes == ("no second CPU node: near only",)
    assert planned(TWO[0], CXL).notes == ("no second CPU node",)


@pytest.mark.parametrize(("l3_mib", "size_mib"), [(32, 1024), (64, 1024), (105, 1680), (300, 4800)])
def test_the_lines_touched_are_four_times_the_last_cache(l3_mib: int, size_mib: int) -> None:
    plan = planned(*TWO, limits=Limits(l3_bytes=l3_mib * MIB))
    assert plan.size_bytes == plan.wanted_bytes == size_mib * MIB
    assert plan.size_bytes // 256 * 64 >= 4 * l3_mib * MIB


def test_a_buffer_whose_lines_the_cache_may_hold_is_said() -> None:
    limits = Limits(l3_bytes=32 * MIB)
    (note,) = planned(*TWO, limits=limits, size_bytes=32 * MIB).notes
    assert note.startswith("the lines touched are 8 MiB a node, less than 4 times the last cache (32 MiB)")
    assert planned(*TWO, limits=limits, size_bytes=512 * MIB).notes == ()


def test_an_unknown_cache_is_said() -> None:
    assert "last cache is not told" in planned(*TWO, limits=Limits()).notes[0]


def test_never_more_than_half_of_what_is_free() -> None:
    small = NumaNode(id=1, cpus="4-7", memory_bytes=64 * GIB, free_bytes=GIB, kind="cpu+memory")
    plan = planned(TWO[0], small)
    assert plan.size_bytes == 512 * MIB
    assert plan.notes == ("512 MiB a node where 1024 MiB were wanted: half of node 1's free memory",)


def test_a_full_node_does_not_shrink_the_others() -> None:
    full = NumaNode(id=1, cpus="4-7", memory_bytes=64 * GIB, free_bytes=100 * MIB, kind="cpu+memory")
    plan = planned(TWO[0], full)
    assert plan.size_bytes == GIB
    why = "node 1 has 100 MiB free, of which half may be used: not 1024 MiB"
    assert skipped(plan) == {(0, 1): why, (1, 1): why}


def test_a_size_that_was_asked_for_is_kept_or_refused() -> None:
    small = NumaNode(id=1, cpus="4-7", memory_bytes=64 * GIB, free_bytes=GIB, kind="cpu+memory")
    plan = planned(TWO[0], small, size_bytes=600 * MIB)
    assert plan.size_bytes == 600 * MIB
    assert skipped(plan)[0, 1] == "node 1 has 1024 MiB free, of which half may be used: not 600 MiB"
    with pytest.raises(MeasureError, match="nothing can be measured: node 0 has 40960 MiB free"):
        planned(TWO[0], size_bytes=30 * GIB)


def test_a_control_group_limits_all_buffers_together() -> None:
    plan = planned(*TWO, limits=Limits(l3_bytes=32 * MIB, cgroup_bytes=2 * GIB))
    assert plan.size_bytes == 512 * MIB
    assert "half of what the control group still allows" in plan.notes[0]
    with pytest.raises(MeasureError, match="no room to measure in"):
        planned(*TWO, limits=Limits(cgroup_bytes=-5))


def test_a_chain_that_would_take_long_to_shuffle_is_shorter() -> None:
    plan = planned(*TWO, limits=Limits(l3_bytes=300 * MIB, most_lines=4 << 20))
    assert plan.size_bytes == GIB
    assert plan.notes[0] == "1024 MiB a node where 4800 MiB were wanted: a chain that is shuffled without numpy"


def test_a_host_whose_nodes_are_not_known() -> None:
    with pytest.raises(MeasureError, match="no NUMA node with CPUs and none with memory is known"):
        planned()


class Files:
    """A source of a few files."""

    def __init__(self, **files: str) -> None:
        self._files = files

    def read(self, path: str) -> str | None:
        return self._files.get(path)


def group(version: Any = 2, **told: int) -> MemoryGroup:
    return MemoryGroup(path="/a", folder="/g", version=version, **told)


FILES = {"active_file_bytes": 30, "inactive_file_bytes": 50}


@pytest.mark.parametrize(
    ("groups", "room"),
    [
        ((group(max_bytes=1000, charged_bytes=400, **FILES),), 680),  # its files can be given back
        ((group(high_bytes=900, charged_bytes=400, **FILES),), 580),
        ((group(version=1, max_bytes=700, charged_bytes=400, **FILES),), 380),
        ((group(max_bytes=1000, charged_bytes=400, **FILES), group(max_bytes=500, charged_bytes=400, **FILES)), 180),
        ((group(max_bytes=100, charged_bytes=400, **FILES),), 0),
        ((group(charged_bytes=400, **FILES),), None),
        ((group(max_bytes=1000),), None),
        ((), None),
    ],
)
def test_the_room_of_the_control_groups(groups: tuple[MemoryGroup, ...], room: int | None) -> None:
    source: Any = Files()
    assert read_limits(source, Host(memory_groups=groups), fast_shuffle=True).cgroup_bytes == room


@pytest.mark.parametrize(
    ("text", "size"), [("32768K\n", 32 * MIB), ("", None), ("32768", None), ("x K", None), ("9" * 30 + "K", None)]
)
def test_the_size_of_the_last_cache(text: str, size: int | None) -> None:
    source: Any = Files(**{"/sys/devices/system/cpu/cpu0/cache/index3/size": text})
    limits = read_limits(source, Host(), fast_shuffle=False)
    assert limits.l3_bytes == size
    assert limits.most_lines is not None
