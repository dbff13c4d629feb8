"""HD105, HD118: processes that are running."""

from typing import Any

import pytest

from hostdoctor.diagnosis import Ask
from hostdoctor.diagnosis.process_places import place
from hostdoctor.facts import Allowed, Core, Gpu, Host, Process, ProcessMemory, Sample
from tests.support.build import gpu
from tests.support.build_memory import fires, gap, load, node, quiet

gpu_process_memory_far = load("affinity", "gpu_process_memory_far")
engines_share_cores = load("affinity", "engines_share_cores")
MIB = 1 << 20
CARDS = (gpu(0), gpu(1, numa_node=1), gpu(2))
CORES = tuple(Core(cpus=f"{n},{n + 8}", package=n // 4) for n in range(8))


def process(pid: int = 7, *gpus: int, **more: Any) -> Process:
    given: dict[str, Any] = {"name": "python3", "start_ticks": 5, "engine_pid": pid, "memory_source": "numa_maps"}
    return Process(pid=pid, gpus=gpus or (0,), **(given | more))


def host(*processes: Process, cards: tuple[Gpu, ...] = CARDS, **more: Any) -> Host:
    """Two nodes of four cores with two threads each, GPU0 and GPU2 on node 0, GPU1 on node 1."""
    given: dict[str, Any] = {
        "numa_nodes": (node(0, "0-3,8-11"), node(1, "4-7,12-15")),
        "cores": CORES,
        "allowed": Allowed(cpus="0-15", mems="0-1"),
        "is_live": True,
    }
    return Host(gpus=cards, processes=processes, **(given | more))


def reading(*sizes_mib: int, pid: int = 7, start: int = 5) -> dict[str, int]:
    """Shared memory on node 0, node 1, …"""
    return {f"process.{pid}.{start}.shared.{n}": size * MIB for n, size in enumerate(sizes_mib)}


def twice(before: dict[str, int], after: dict[str, int] | None = None) -> tuple[Sample, ...]:
    return (Sample(seconds=10, before=before, after=before if after is None else after),)


class TestGpuProcessMemoryFar:
    def test_pinned_memory_on_the_other_node_both_times(self) -> None:
        found = fires(gpu_process_memory_far, host(process(), samples=twice(reading(0, 200), reading(50, 200))))
        assert (found.subject, found.severity) == ("python3 7", "warning")
        assert "80% of the pinned and shared memory of python3 7 is on other nodes than its GPU0, on" in found.message
        assert "migratepages 7 1 0" in found.remedy.text
        assert "pinned memory cannot be moved" in found.remedy.text
        assert found.evidence[0].value == f"shared bytes by node: {{0: 0, 1: {200 * MIB}}}"

    def test_the_workers_of_one_engine_are_one_finding(self) -> None:
        workers = (process(7), process(8, 2, engine_pid=7))
        given = host(*workers, samples=twice(reading(50, 200) | reading(0, 200, pid=8)))
        found = fires(gpu_process_memory_far, given)
        assert (found.subject, len(found.evidence)) == ("python3 8, python3 7", 4)
        assert "(and that of 1 more of its processes)" in found.message

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (reading(200, 0), reading(200, 0)),
            (reading(0, 200), reading(200, 0)),  # it was on its way
            (reading(200, 0), reading(0, 200)),
            (reading(80, 20), reading(80, 20)),  # a fifth is not more than a fifth
            (reading(1, 40), reading(1, 40)),  # too little to matter
            (reading(0, 0), reading(0, 0)),
        ],
    )
    def test_near_moving_or_little_memory_is_fine(self, before: dict[str, int], after: dict[str, int]) -> None:
        assert quiet(gpu_process_memory_far, host(process(), samples=twice(before, after))) is None

    @pytest.mark.parametrize(
        "user",
        [
            process(7, 0, 1),  # tensor parallel over both nodes
            process(7, name="nv-hostengine"),
            process(7, name="dcgm-exporter"),
            process(7, name="nv-fabricmanage"),
            process(7, 5),  # a GPU that is not known
        ],
    )
    def test_services_and_processes_of_several_nodes_are_left_out(self, user: Process) -> None:
        assert quiet(gpu_process_memory_far, host(user, samples=twice(reading(0, 200)))) == "not-applicable"

    def test_a_gpu_s_own_memory_is_near_it(self) -> None:
        card = gpu(0, memory_numa_node=2)
        nodes = (node(0, "0-3,8-11"), node(1, "4-7,12-15"), node(2, "", kind="gpu-memory"))
        given = host(process(), cards=(card,), numa_nodes=nodes, samples=twice(reading(10, 0, 500)))
        assert quiet(gpu_process_memory_far, given) is None

    def test_memory_without_cpus_is_not_near(self) -> None:
        nodes = (node(0, "0-3,8-11"), node(1, "4-7,12-15"), node(2, ""))
        assert fires(gpu_process_memory_far, host(process(), numa_nodes=nodes, samples=twice(reading(10, 0, 500))))

    def test_a_wide_affinity_alone_is_no_finding(self) -> None:
        given = host(process(cpus="0-15"), samples=twice(reading(200, 0)))
        assert quiet(gpu_process_memory_far, given) is None

    def test_only_processes_on_gpus_in_scope(self) -> None:
        given = host(process(7, 0), process(8, 1), samples=twice(reading(0, 200)))
        assert quiet(gpu_process_memory_far, given, Ask(gpus=(1,))) == "no-evidence"  # 8 was not read
        assert fires(gpu_process_memory_far, given, Ask(gpus=(0,))).subject == "python3 7"

    def test_another_process_with_its_pid_is_not_it(self) -> None:
        given = host(process(), samples=twice(reading(0, 200, start=6)))
        assert quiet(gpu_process_memory_far, given) == "no-evidence"

    def test_each_reason_to_skip(self) -> None:
        assert quiet(gpu_process_memory_far, host(process(), is_live=False)) == "live-only"
        assert quiet(gpu_process_memory_far, host(process(), numa_nodes=(node(0, "0-15"),))) == "not-applicable"
        assert quiet(gpu_process_memory_far, host(process())) == "no-evidence"
        assert quiet(gpu_process_memory_far, host(samples=twice({}))) == "not-applicable"
        hidden = (gap("processes[7].memory", "/proc/7/numa_maps", "20 GiB"),)
        assert quiet(gpu_process_memory_far, host(process(), gaps=hidden, samples=twice({}))) == "no-evidence"
        denied = (gap("processes[7].memory", "/proc/7/numa_maps", "permission denied", "denied"),)
        assert quiet(gpu_process_memory_far, host(process(), gaps=denied, samples=twice({}))) == "needs-root"
        foreign = (gap("processes[9]", "NVML", "another namespace"),)
        assert quiet(gpu_process_memory_far, host(gaps=foreign, samples=twice({}))) == "no-evidence"


class TestEnginesShareCores:
    def test_two_engines_on_the_same_cores(self) -> None:
        found = fires(engines_share_cores, host(process(7, cpus="0-1"), process(9, 2, cpus="1-2", name="llama-server")))
        assert (found.subject, found.severity) == ("llama-server 9, python3 7", "warning")
        assert "the same CPUs 1" in found.message
        assert {seen.value for seen in found.evidence} == {"0-1", "1-2"}

    def test_three_on_one_set_are_one_finding(self) -> None:
        found = fires(engines_share_cores, host(*(process(pid, cpus="0-1") for pid in (7, 8, 9))))
        assert found.subject == "python3 7, python3 8, python3 9"

    def test_whole_nodes_are_shared_while_the_cores_last(self) -> None:
        two = (process(7, cpus="0-3,8-11"), process(9, 2, cpus="0-3,8-11"))
        assert fires(engines_share_cores, host(*two))  # four cores for twice three
        wide = tuple(Core(cpus=str(n), package=0) for n in range(8))
        roomy = (node(0, "0-7"), node(1, "8-15"))
        both = (process(7, cpus="0-7"), process(9, 2, cpus="0-7"))
        assert quiet(engines_share_cores, host(*both, numa_nodes=roomy, cores=wide)) is None

    def test_a_node_without_its_isolated_cpus_is_shared_as_a_whole_one(self) -> None:
        wide = tuple(Core(cpus=str(n), package=0) for n in range(16))
        both = (process(7, cpus="0-13"), process(9, 2, cpus="0-13"))
        roomy: dict[str, Any] = {"numa_nodes": (node(0, "0-15"), node(1, "16-31")), "cores": wide}
        quietly = host(*both, settings={"cpu.nohz_full": "14-15"}, **roomy)
        assert quiet(engines_share_cores, quietly) is None
        assert fires(engines_share_cores, host(*both, **roomy))

    def test_pods_share_their_pool(self) -> None:
        pods = [process(pid, cpus="0-6", cgroup=f"/kubepods/pod{pid}") for pid in (7, 9)]
        assert quiet(engines_share_cores, host(*pods)) is None

    @pytest.mark.parametrize(
        "two",
        [
            (process(7, cpus="0-1"), process(9, cpus="2-3")),
            (process(7, cpus="0-15"), process(9, cpus="0-1")),  # the first is not bound
            (process(7, cpus="0-1"), process(9, cpus="0-1", engine_pid=7)),  # workers of one engine
            (process(7, cpus="0-1"), process(9, cpus="0-1", name="dcgm-exporter")),
        ],
    )
    def test_quiet(self, two: tuple[Process, Process]) -> None:
        assert quiet(engines_share_cores, host(*two)) is None

    def test_nothing_bound_or_not_live_is_a_skip(self) -> None:
        assert quiet(engines_share_cores, host(process(cpus="0-15"), process(9))) == "not-applicable"
        assert quiet(engines_share_cores, host(process(cpus="0-1"), is_live=False)) == "live-only"


def memory(*anon_shared_mib: tuple[int, int]) -> tuple[ProcessMemory, ...]:
    return tuple(
        ProcessMemory(node=n, anon_bytes=anon * MIB, shared_bytes=shared * MIB)
        for n, (anon, shared) in enumerate(anon_shared_mib)
    )


class TestPlacement:
    """What ps says of one process."""

    def verdict(self, seen: Process, given: Host | None = None, named: tuple[int, ...] = ()) -> str:
        return place(given or host(), seen, named).verdict

    def test_near_is_ok(self) -> None:
        placed = place(host(), process(memory=memory((100, 200), (0, 0)), cpus="0-3"))
        assert (placed.verdict, placed.local_share, placed.shared_local_share) == ("ok", 1.0, 1.0)
        assert (placed.nodes, placed.remedy) == ((0,), None)

    def test_shared_memory_is_judged_by_itself(self) -> None:
        placed = place(host(), process(memory=memory((900, 0), (0, 100)), cpus="0-3"))
        assert (placed.verdict, placed.local_share, placed.shared_local_share) == ("memory-far", 0.9, 0.0)
        assert "100% of its pinned and shared memory" in placed.reasons[0]
        assert "hostdoctor run --gpus 0" in (placed.remedy or "")

    def test_private_memory_counts_too(self) -> None:
        placed = place(host(), process(memory=memory((0, 0), (200, 0)), cpus="0-3"))
        assert (placed.verdict, placed.shared_local_share) == ("memory-far", None)

    def test_files_do_not(self) -> None:
        cached = (ProcessMemory(node=0, anon_bytes=100 * MIB), ProcessMemory(node=1, file_bytes=900 * MIB))
        placed = place(host(), process(memory=cached, cpus="0-3"))
        assert (placed.verdict, placed.local_share) == ("ok", 0.1)

    def test_cpus_that_are_all_elsewhere(self) -> None:
        assert self.verdict(process(memory=memory((100, 0)), cpus="4-7")) == "cpus-far"
        assert self.verdict(process(cpus="4-7")) == "cpus-far"
        assert self.verdict(process(memory=memory((100, 0)), cpus="0-15")) == "ok"
        both = place(host(), process(memory=memory((0, 0), (0, 100)), cpus="4-7"))
        assert (both.verdict, len(both.reasons)) == ("memory-far", 2)

    def test_without_a_place_there_is_no_verdict(self) -> None:
        assert self.verdict(process(7, 0, 1, memory=memory((0, 0), (0, 500)))) == "spans-nodes"
        assert self.verdict(process(cpus="0-3")) == "unknown"
        assert self.verdict(process(memory=memory((1, 1))), host(cards=(gpu(0, numa_node=None),))) == "unknown"
        assert self.verdict(Process(pid=7, memory=memory((1, 1)))) == "unknown"
        assert self.verdict(process(name="nv-hostengine", memory=memory((0, 0), (0, 500)))) == "not-judged"
        assert self.verdict(process(memory=memory((1, 1))), host(numa_nodes=(node(0, "0-15"),))) == "ok"

    def test_a_named_node_stands_for_the_gpus(self) -> None:
        far = process(memory=memory((0, 0), (0, 500)), cpus="4-7")
        assert (self.verdict(far), self.verdict(far, named=(1,))) == ("memory-far", "ok")

    def test_a_node_where_nothing_can_live_is_no_home(self) -> None:
        apart = {"0": 10, "1": 30, "2": 20}
        for lacking in (node(0, "", 90, distances=apart), node(0, "0-3,8-11", 0, distances=apart)):
            three = host(numa_nodes=(lacking, node(1, "4-7"), node(2, "12-15")))
            near = place(three, process(memory=memory((0, 0), (0, 0), (0, 500)), cpus="12-15"))
            assert (near.nodes, near.verdict) == ((2,), "ok")
            far = place(three, process(memory=memory((0, 0), (0, 500), (0, 0)), cpus="4-7"))
            assert (far.verdict, "--cpunodebind=2 --membind=2" in (far.remedy or "")) == ("memory-far", True)

    def test_a_home_that_distances_do_not_tell_is_not_known(self) -> None:
        untold = host(numa_nodes=(node(0, ""), node(1, "4-7"), node(2, "12-15")))
        assert self.verdict(process(memory=memory((0, 0), (0, 500)), cpus="4-7"), untold) == "unknown"

    def test_a_gpu_near_every_node_is_near_none(self) -> None:
        vague = host(cards=(gpu(0, numa_nodes=(0, 1)),))
        assert self.verdict(process(memory=memory((0, 0), (0, 500))), vague) == "unknown"
        assert quiet(gpu_process_memory_far, host(process(), cards=vague.gpus, samples=twice(reading(0, 200))))

    def test_gpus_near_the_same_two_nodes_have_both_for_a_home(self) -> None:
        quarters = (node(0, "0-3"), node(1, "4-7"), node(2, "8-11"), node(3, "12-15"))
        cards = (gpu(0, numa_nodes=(0, 1)), gpu(1, numa_nodes=(0, 1)), gpu(2, numa_node=2, numa_nodes=(2, 3)))
        snc = host(cards=cards, numa_nodes=quarters)
        assert self.verdict(process(7, 0, 1, memory=memory((0, 100), (0, 100))), snc) == "ok"
        assert self.verdict(process(7, 0, 2, memory=memory((0, 100), (0, 100))), snc) == "spans-nodes"
        far = place(snc, process(memory=memory((0, 0), (0, 0), (0, 500))))
        assert (far.verdict, far.nodes) == ("memory-far", (0, 1))
        assert "--cpunodebind=0-1 --membind=0-1" in (far.remedy or "")
        assert "migratepages 7 2 0-1" in (far.remedy or "")

    def test_why_memory_is_not_known_is_said(self) -> None:
        assert place(host(), process(cpus="0-3"), (), "90 GiB").reasons == ("90 GiB",)
