"""HD303, HD307, HD308, HD311: a plan of pinned memory against nodes, control groups, /dev/shm and overcommit."""

from typing import Any

import pytest

from hostdoctor.diagnosis import Ask, MemoryPlan
from hostdoctor.facts import Gpu, Host, HostMemory, MemoryGroup, MemoryZone, NodeMemory, Place
from tests.support.build_memory import GIB, fires, load, node, quiet

near_node_short_of_memory = load("memory", "near_node_short_of_memory")
container_memory_limit = load("memory", "container_memory_limit")
shm_too_small = load("memory", "shm_too_small")
overcommit_strict = load("memory", "overcommit_strict")


def filled(id: int, cpus: str, free_gib: int, **more: Any) -> Any:
    """Return a 512 GiB node with so much free and nothing cached."""
    zone = MemoryZone(
        name="Normal",
        managed_bytes=512 * GIB,
        free_bytes=free_gib * GIB,
        min_bytes=0,
        low_bytes=0,
        high_bytes=0,
        reserve_bytes=0,
        file_bytes=0,
    )
    memory = NodeMemory(active_file_bytes=0, inactive_file_bytes=0, kreclaimable_bytes=0, zones=(zone,))
    return node(id, cpus, memory=memory, **more)


def gpu(index: int, near: int | None) -> Gpu:
    return Gpu(index=index, numa_node=near, numa_nodes=() if near is None else (near,))


GPUS = (gpu(0, 0), gpu(1, 0), gpu(2, 1), gpu(3, 1))


def host(free: tuple[int, int] = (400, 400), **more: Any) -> Host:
    nodes = (filled(0, "0-3", free[0]), filled(1, "4-7", free[1]))
    given: dict[str, Any] = {"numa_nodes": nodes, "gpus": GPUS}
    return Host(**(given | more))


def plan(weights_gib: int = 0, kv_gib: int = 0, **more: Any) -> Ask:
    return Ask(memory=MemoryPlan(weights_bytes=weights_gib * GIB, kv_bytes=kv_gib * GIB), **more)


class TestNearNode:
    def test_the_ranks_of_a_node_take_more_than_it_has(self) -> None:
        found = fires(near_node_short_of_memory, host((99, 400)), plan(weights_gib=10, kv_gib=160))
        assert (found.subject, found.severity) == ("node 0", "warning")
        assert "node 0 has 99.0 GiB, the plan puts 100.0 GiB there" in found.message
        assert found.remedy.scope == "process"

    def test_both_nodes_are_one_finding(self) -> None:
        found = fires(near_node_short_of_memory, host((10, 10)), plan(kv_gib=100))
        assert found.subject == "node 0, node 1"

    def test_each_engine_has_its_own_pool(self) -> None:
        assert fires(near_node_short_of_memory, host((99, 400)), plan(kv_gib=100, tp=2)).subject == "node 0"
        assert quiet(near_node_short_of_memory, host((99, 400)), plan(kv_gib=100)) is None

    def test_exactly_what_there_is_passes(self) -> None:
        assert quiet(near_node_short_of_memory, host((100, 100)), plan(kv_gib=200)) is None

    def test_no_plan_no_gpu_no_word(self) -> None:
        assert quiet(near_node_short_of_memory, host()) == "no-plan"
        assert quiet(near_node_short_of_memory, host(gpus=()), plan(kv_gib=1)) == "not-applicable"

    def test_what_is_not_known_is_no_pass(self) -> None:
        unknown = (gpu(0, None), gpu(1, 1))
        assert quiet(near_node_short_of_memory, host(gpus=unknown), plan(kv_gib=1)) == "no-evidence"
        bare = (node(0, "0-3"), node(1, "4-7"))
        assert quiet(near_node_short_of_memory, host(numa_nodes=bare), plan(kv_gib=1)) == "no-evidence"


def group(path: str = "/pod", **more: Any) -> MemoryGroup:
    given: dict[str, Any] = {"charged_bytes": 0, "active_file_bytes": 0, "inactive_file_bytes": 0}
    sizes = {f"{key}_bytes": value * GIB for key, value in more.items() if key != "version"}
    return MemoryGroup(path=path, folder=f"/sys/fs/cgroup{path}", version=more.get("version", 2), **(given | sizes))


class TestContainerLimit:
    def test_a_limit_below_the_plan(self) -> None:
        found = fires(container_memory_limit, host(memory_groups=(group(max=64),)), plan(kv_gib=65))
        assert found.subject == "cgroup /pod memory.max"
        assert found.evidence[0].source == "/sys/fs/cgroup/pod/memory.max"

    def test_page_cache_can_be_given_back(self) -> None:
        full = group(max=100, charged=100, active_file=50, inactive_file=30)
        assert quiet(container_memory_limit, host(memory_groups=(full,)), plan(kv_gib=80)) is None
        assert fires(container_memory_limit, host(memory_groups=(full,)), plan(kv_gib=81))

    def test_shared_memory_cannot(self) -> None:
        pinned = group(max=100, charged=90)  # all of it shmem, which memory.stat counts in "file"
        assert (
            "leaves 10.0 GiB" in fires(container_memory_limit, host(memory_groups=(pinned,)), plan(kv_gib=11)).message
        )

    def test_the_tightest_of_all_ancestors_counts(self) -> None:
        groups = (group("/a/b", max=200), group("/a", high=50), group("/", max=500))
        found = fires(container_memory_limit, host(memory_groups=groups), plan(kv_gib=51))
        assert found.subject == "cgroup /a memory.high"

    def test_version_1_is_named_by_its_file(self) -> None:
        found = fires(container_memory_limit, host(memory_groups=(group(max=1, version=1),)), plan(kv_gib=2))
        assert found.subject == "cgroup /pod memory.limit_in_bytes"

    def test_weights_count_for_each_gpu(self) -> None:
        assert fires(container_memory_limit, host(memory_groups=(group(max=39),)), plan(weights_gib=10))

    @pytest.mark.parametrize(("groups", "kind"), [((), "no-evidence"), ((group(),), None)])
    def test_no_limit_passes_and_no_group_is_no_pass(self, groups: tuple[MemoryGroup, ...], kind: str | None) -> None:
        assert quiet(container_memory_limit, host(memory_groups=groups), plan(kv_gib=900)) == kind

    def test_an_unknown_charge_is_no_pass(self) -> None:
        lost = MemoryGroup(path="/pod", folder="/f", version=2, max_bytes=GIB)
        assert quiet(container_memory_limit, host(memory_groups=(lost,)), plan(kv_gib=900)) == "no-evidence"
        assert quiet(container_memory_limit, host(memory_groups=(group(max=1),))) == "no-plan"


def shm(size: float | None, available: float | None = None) -> HostMemory:
    bytes_of = [None if part is None else int(part * GIB) for part in (size, available)]
    place = Place(path="/dev/shm", mount_point="/dev/shm", size_bytes=bytes_of[0], available_bytes=bytes_of[1])
    return HostMemory(shm=place)


class TestShm:
    def test_a_containers_64_mib_are_too_small_for_queues(self) -> None:
        found = fires(shm_too_small, host(memory=shm(0.0625)), Ask(tp=2))
        assert "needs 0.9 GiB (KV pool, 6 message queues)" in found.message

    def test_a_pool_larger_than_the_room(self) -> None:
        assert fires(shm_too_small, host(memory=shm(100, 50)), plan(kv_gib=51)).severity == "warning"

    def test_every_engine_has_its_pool_there(self) -> None:
        assert fires(shm_too_small, host(memory=shm(100)), plan(kv_gib=60, tp=2))
        assert quiet(shm_too_small, host(memory=shm(100)), plan(kv_gib=60)) is None

    def test_weights_need_no_room_there(self) -> None:
        assert quiet(shm_too_small, host(memory=shm(1)), plan(weights_gib=400)) == "no-plan"

    def test_unknown_is_no_pass(self) -> None:
        assert quiet(shm_too_small, host(memory=shm(None)), Ask(tp=2)) == "no-evidence"
        assert quiet(shm_too_small, host(), Ask(tp=2)) == "no-evidence"
        assert quiet(shm_too_small, host(memory=shm(0.0625)), Ask(tp=1)) == "no-plan"


def committed(mode: str | None, limit: int | None = 100, used: int | None = 40) -> Host:
    sizes = [None if part is None else part * GIB for part in (limit, used)]
    memory = HostMemory(commit_limit_bytes=sizes[0], committed_bytes=sizes[1])
    return host(memory=memory, settings={} if mode is None else {"vm.overcommit_memory": mode})


class TestOvercommit:
    def test_strict_and_too_little(self) -> None:
        found = fires(overcommit_strict, committed("2"), plan(kv_gib=61))
        assert "leaves 60.0 GiB, the plan pins 61.0 GiB" in found.message
        assert found.remedy.risk == "oom"

    def test_enough_is_quiet(self) -> None:
        assert quiet(overcommit_strict, committed("2"), plan(kv_gib=60)) is None

    @pytest.mark.parametrize("mode", ["0", "1"])
    def test_the_usual_modes_do_not_bind(self, mode: str) -> None:
        assert quiet(overcommit_strict, committed(mode), plan(kv_gib=900)) is None

    def test_unknown_is_no_pass(self) -> None:
        assert quiet(overcommit_strict, committed(None), plan(kv_gib=1)) == "no-evidence"
        assert quiet(overcommit_strict, committed("2", None), plan(kv_gib=1)) == "no-evidence"
        assert quiet(overcommit_strict, committed("2")) == "no-plan"
