"""Which processes are looked at, what of them is known, and when their memory is."""

from typing import Any

import pytest

from hostdoctor.facts import Host, NumaNode, NvidiaDriver, Process, ProcessMemory
from hostdoctor.sources.recording import RecordingSource
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import MemoryTree
from hostdoctor.survey.details import with_details
from hostdoctor.survey.process_memory import with_memory
from hostdoctor.survey.processes import CHECK_LIMIT_BYTES, GIB, MAX_PROCESSES, PS_LIMIT_BYTES, gpu_users, read_processes
from hostdoctor.survey.samples import read_counters, take_samples
from tests.support.processes import Running, mapping, process_files, stat

MIB = 1 << 20
NODES = (NumaNode(id=0, cpus="0-3"), NumaNode(id=1, cpus="4-7"))
HOST = Host(is_live=True, numa_nodes=NODES, nvidia=NvidiaDriver(state="ok"))
GROUP = "/sys/fs/cgroup/engine.slice"
NUMA_STAT = f"anon N0={MIB} N1=0\nfile N0=0 N1={4 * MIB}\nshmem N0=0 N1={3 * MIB}\n"


def alone(pid: int) -> dict[str, str]:
    """A version 2 group that holds one process."""
    return {f"{GROUP}/cgroup.procs": f"{pid}\n", f"{GROUP}/memory.numa_stat": NUMA_STAT}


def only(source: Running, limit_bytes: int | None = PS_LIMIT_BYTES) -> Process:
    (process,), gaps = read_processes(source, {7: (0,)}, limit_bytes)
    assert gaps == ()
    return process


def reason(source: Running, limit_bytes: int | None = PS_LIMIT_BYTES, fact: str = ".memory") -> str:
    _, (gap,) = read_processes(source, {7: (0,)}, limit_bytes)
    assert gap.fact == f"processes[7]{fact}"
    return gap.reason


class TestWhoUsesGpus:
    def test_the_driver_lists_them_by_gpu(self) -> None:
        source = Running({}, {0: [7, 9], 1: [9], 2: []})
        assert gpu_users(source) == ({7: (0,), 9: (0, 1)}, ())

    @pytest.mark.parametrize("pids", [None, "7", [True], [0], [-1], [1 << 40], ["7"]])
    def test_what_is_no_list_of_pids_is_none(self, pids: Any) -> None:
        assert gpu_users(Running({}, {0: pids})) == ({}, ())

    def test_no_driver_no_users(self) -> None:
        assert gpu_users(Running({}, None)) == ({}, ())


class TestFacts:
    def test_what_the_kernel_says_of_a_process(self) -> None:
        status = (
            "Uid:\t1000\t0\t0\t0\nNSpid:\t7\t31\nVmLck:\t 8 kB\nVmPin:\t 4 kB\nVmRSS:\t 2048 kB\nRssShmem:\t 1024 kB\n"
            "Cpus_allowed_list:\t0-1,4\nMems_allowed_list:\t1\n"
        )
        process = only(Running(process_files(7, "vllm serve", status=status, start=812)))
        assert process == Process(
            pid=7,
            name="vllm serve",
            gpus=(0,),
            container_pid=31,
            user_id=1000,
            start_ticks=812,
            engine_pid=7,
            cpus="0-1,4",
            mems="1",
            threads=1,
            rss_bytes=2 * MIB,
            rss_shared_bytes=MIB,
            pinned_bytes=4096,
            locked_bytes=8192,
            cgroup="/engine.slice",
            memory_source="numa_maps",
        )

    def test_nothing_reads_numa_maps_until_asked(self) -> None:
        source = Running(process_files(7, maps=mapping(1, 1)))
        only(source)
        assert source.opened == ["/proc/self/stat"]

    def test_workers_belong_to_the_program_below_the_shell(self) -> None:
        files = {
            "/proc/2/stat": stat(2, "bash"),
            "/proc/3/stat": stat(3, "vllm", 2),
            **process_files(7, parent=3),
            **process_files(8, parent=2),
        }
        found, _ = read_processes(Running(files), {7: (0,), 8: (1,)}, None)
        assert [process.engine_pid for process in found] == [3, 8]

    def test_ancestors_in_a_circle_end(self) -> None:
        files = {"/proc/3/stat": stat(3, "a", 4), "/proc/4/stat": stat(4, "b", 3), **process_files(7, parent=3)}
        assert only(Running(files)).engine_pid == 4

    def test_a_process_that_is_gone_is_a_gap(self) -> None:
        assert reason(Running({}), fact="").startswith("no such process")
        dead = process_files(7) | {"/proc/7/stat": stat(7, "x", state="Z")}
        assert reason(Running(dead), fact="").startswith("no such process")

    def test_more_than_can_be_looked_at_is_a_gap(self) -> None:
        users = dict.fromkeys(range(2, MAX_PROCESSES + 9), (0,))
        found, gaps = read_processes(Running(process_files(7)), users, None)
        assert [process.pid for process in found] == [7]
        assert [gap.reason for gap in gaps if gap.fact == "processes"] == ["7 more than hostdoctor looks at"]

    def test_what_is_not_told_is_unknown(self) -> None:
        source = Running({"/proc/7/stat": stat(7, "kthread")})
        (process,), (gap,) = read_processes(source, {7: ()}, None)
        assert (process.cpus, process.rss_bytes, process.user_id, process.memory_source) == (None, None, None, None)
        assert "no VmRSS" in gap.reason

    def test_in_another_pid_namespace_a_pid_is_believed_only_with_a_gpu_open(self) -> None:
        source = Running(process_files(7), {0: [7]})
        source.links["/proc/self/ns/pid"] = "/proc/self/ns/pid:[4026532001]"
        source.show()
        users, (gap,) = gpu_users(source)
        assert (users, gap.fact) == ({}, "processes[7]")
        assert "another namespace" in gap.reason
        source.links["/proc/7/fd/9"] = "/dev/nvidia0"
        source.show()
        assert gpu_users(source) == ({7: (0,)}, ())

    def test_captures_have_no_processes(self) -> None:
        files = process_files(7)
        captured = RootSource(MemoryTree({path: text.encode() for path, text in files.items()}, {}), "capture")
        for source in (captured, RecordingSource(Running(files))):
            assert read_processes(source, {7: (0,)}, None) == ((), ())

    def test_the_survey_has_those_of_the_driver(self) -> None:
        host = with_details(Running(process_files(7), {0: [7], 1: [99]}), HOST, ())
        assert [(process.pid, process.gpus, process.memory) for process in host.processes] == [(7, (0,), ())]
        assert [gap.fact for gap in host.gaps if gap.fact.startswith("processes")] == ["processes[99]"]


class TestWhatMayTell:
    def test_a_large_process_is_left_alone(self) -> None:
        large = process_files(7, rss_kib=PS_LIMIT_BYTES // 1024 + 4)
        assert "--deep" in reason(Running(large))
        assert "`hostdoctor ps`" in reason(Running(process_files(7, rss_kib=9 * GIB // 1024)), CHECK_LIMIT_BYTES)
        assert only(Running(large), None).memory_source == "numa_maps"
        assert only(Running(process_files(7, rss_kib=PS_LIMIT_BYTES // 1024))).memory_source == "numa_maps"

    def test_its_control_group_tells_when_it_holds_nothing_else(self) -> None:
        large = process_files(7, rss_kib=PS_LIMIT_BYTES // 1024 + 4)
        assert only(Running(large | alone(7))).memory_source == "memory.numa_stat"
        shared = large | alone(7) | {f"{GROUP}/cgroup.procs": "7\n8\n"}
        assert "does not hold it alone" in reason(Running(shared))
        nested = large | alone(7) | {f"{GROUP}/inner/cgroup.procs": ""}
        assert "does not hold it alone" in reason(Running(nested))

    def test_another_user_s_memory_is_denied_but_its_group_tells(self) -> None:
        source = Running(process_files(7))
        source.hidden = {7}
        source.show()
        _, (gap,) = read_processes(source, {7: (0,)}, None)
        assert (gap.kind, "only its user or root" in gap.reason) == ("denied", True)
        source.files |= alone(7)
        source.show()
        assert only(source).memory_source == "memory.numa_stat"

    @pytest.mark.parametrize("cgroup", ["/../sibling", "x"])
    def test_a_group_of_another_namespace_tells_nothing(self, cgroup: str) -> None:
        assert only(Running(process_files(7, cgroup=cgroup))).cgroup is None


class TestMemory:
    def test_memory_and_threads_by_node(self) -> None:
        files = process_files(7, maps=mapping(1, 200) + mapping(0, 3, ""), cpu=2)
        files |= {"/proc/7/task/8/stat": stat(8, "poller", cpu=5), "/proc/7/task/9/stat": "9 (gone"}
        source = Running(files)
        seen, gaps = with_memory(source, only(source), NODES)
        assert seen is not None
        assert gaps == ()
        assert seen.memory == (ProcessMemory(node=0, anon_bytes=3 * MIB), ProcessMemory(node=1, shared_bytes=200 * MIB))
        assert (seen.threads_by_node, seen.policies) == ({"0": 1, "1": 1}, {"default": 203 * MIB})
        assert source.opened.count("/proc/7/numa_maps") == 1

    def test_memory_of_the_control_group(self) -> None:
        source = Running(process_files(7, rss_kib=PS_LIMIT_BYTES // 1024 + 4) | alone(7))
        seen, _ = with_memory(source, only(source), NODES)
        assert seen is not None
        assert seen.memory[1] == ProcessMemory(node=1, shared_bytes=3 * MIB, file_bytes=MIB)
        assert "/proc/7/numa_maps" not in source.opened

    @pytest.mark.parametrize("maps", ["nonsense", mapping(0, 1) + "7f00 default N0=1\n"])
    def test_text_that_is_not_understood_is_a_gap(self, maps: str) -> None:
        source = Running(process_files(7, maps=maps))
        seen, (gap,) = with_memory(source, only(source), NODES)
        assert seen is not None
        assert (seen.memory, gap.fact) == ((), "processes[7].memory")
        assert "line" in gap.reason

    def test_a_reading_that_breaks_off_is_no_part_answer(self) -> None:
        source = Running(process_files(7, maps=mapping(0, 100)))
        source.failing = {"/proc/7/numa_maps"}
        seen, (gap,) = with_memory(source, only(source), NODES)
        assert seen is not None
        assert (seen.memory, "in time" in gap.reason) == ((), True)

    def test_a_process_that_ends_meanwhile_is_a_gap(self) -> None:
        source = Running(process_files(7, maps=mapping(0, 100)))
        process = only(source)
        source.gone = {7}
        seen, (gap,) = with_memory(source, process, NODES)
        assert (seen, gap.reason) == (None, "ended while it was looked at")

    def test_another_process_with_the_same_pid_is_not_it(self) -> None:
        source = Running(process_files(7, maps=mapping(0, 100)))
        process = only(source)
        source.files |= process_files(7, maps=mapping(1, 100), start=9000)
        source.show()
        assert with_memory(source, process, NODES)[0] is None

    @pytest.mark.parametrize(
        "changed", [{"/proc/7/stat": stat(7, "python3", stack=8)}, {"/proc/7/status": "Name:\tpython3\n"}]
    )
    def test_a_program_that_was_replaced_or_let_go_of_its_memory_is_a_gap(self, changed: dict[str, str]) -> None:
        class Changes(Running):
            def read_lines(self, path: str) -> Any:
                lines = super().read_lines(path)
                if path.endswith("numa_maps"):
                    self.files |= changed
                    self.show()
                return lines

        source = Changes(process_files(7, maps=mapping(0, 100)))
        seen, (gap,) = with_memory(source, only(source), NODES)
        assert seen is not None
        assert (seen.memory, "another program" in gap.reason) == ((), True)


class TestSamples:
    def test_shared_memory_is_read_before_and_after(self) -> None:
        files = process_files(7, maps=mapping(1, 200)) | process_files(8, "nv-hostengine", maps=mapping(1, 200))
        source = Running(files)
        processes, _ = read_processes(source, {7: (0,), 8: (0,)}, CHECK_LIMIT_BYTES)

        def wait(_: float) -> None:
            source.files["/proc/7/numa_maps"] = mapping(1, 100) + mapping(0, 100)

        host = Host(is_live=True, processes=processes)
        (sample,) = take_samples(source, host, 1.0, numa_maps=True, wait=wait, clock=iter((0.0, 0.0, 1.0)).__next__)
        assert sample.before == {"process.7.500.shared.1": 200 * MIB}
        assert sample.after == {"process.7.500.shared.0": 100 * MIB, "process.7.500.shared.1": 100 * MIB}

    def test_what_repeats_reads_control_groups_alone(self) -> None:
        large = process_files(7, rss_kib=PS_LIMIT_BYTES // 1024 + 4) | alone(7)
        source = Running(large | process_files(8, maps=mapping(1, 200), cgroup="/other"))
        processes, _ = read_processes(source, {7: (0,), 8: (0,)}, CHECK_LIMIT_BYTES)
        assert [process.memory_source for process in processes] == ["memory.numa_stat", "numa_maps"]
        host = Host(is_live=True, processes=processes)
        assert read_counters(source, host) == {"process.7.500.shared.0": 0, "process.7.500.shared.1": 3 * MIB}
        assert not any(path.endswith("numa_maps") for path in source.opened)
