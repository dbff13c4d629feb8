"""``hostdoctor ps``: what it asks, prints and ends with; tests/live and tests/lab have it look at real processes."""

import json
import os

import jsonschema
import msgspec
import pytest

from hostdoctor.cli.ps import look, status_of
from hostdoctor.diagnosis.process_places import Placement, ProcessReport
from hostdoctor.errors import SourceError, UsageError
from hostdoctor.facts import Gap, Gpu, Host, NumaNode, NvidiaDriver, Process, ProcessMemory
from hostdoctor.outputs.ps_text import render_processes
from hostdoctor.outputs.style import Style
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import MemoryTree
from tests.cli.support import hostdoctor
from tests.support import write_schemas
from tests.support.processes import Running, mapping, process_files

GPUS = tuple(Gpu(index=n, uuid=f"GPU-{n}", numa_node=n, numa_nodes=(n,)) for n in (0, 1))
NODES = (NumaNode(id=0, cpus="0-3"), NumaNode(id=1, cpus="4-7"))
HOST = Host(is_live=True, numa_nodes=NODES, gpus=GPUS, nvidia=NvidiaDriver(state="ok"))
LOST = Gpu(index=None, bdf="0000:03:00.0")


def running() -> Running:
    """PID 7 is where its GPU0 is, the memory of 8 is not where its GPU1 is, 9 uses both."""
    files = {
        **process_files(7, "near", maps=mapping(0, 200), cpus="0-3"),
        **process_files(8, "far", maps=mapping(0, 200), cpus="4-7", cpu=4),
        **process_files(9, "both", maps=mapping(0, 100) + mapping(1, 100), cpus="0-7"),
    }
    return Running(files, {0: [7, 9], 1: [8, 9]})


def verdicts(report: ProcessReport) -> dict[int, str]:
    return {placement.process.pid: placement.verdict for placement in report.processes}


def test_every_process_that_the_driver_lists() -> None:
    report = look(running(), HOST, (), "", None, deep=False)
    assert verdicts(report) == {7: "ok", 8: "memory-far", 9: "spans-nodes"}
    assert [placement.nodes for placement in report.processes] == [(0,), (1,), (0, 1)]
    assert (report.gaps, status_of(report)) == ((), 1)


def test_those_on_some_gpus_alone() -> None:
    report = look(running(), HOST, (), "GPU-0", None, deep=False)
    assert verdicts(report) == {7: "ok", 9: "spans-nodes"}
    assert status_of(report) == 0


@pytest.mark.parametrize(
    ("gpus", "node", "verdict"), [("", None, "ok"), ("1", None, "memory-far"), ("", 1, "memory-far"), ("", 0, "ok")]
)
def test_a_named_process_against_its_gpus_or_what_it_is_meant_for(gpus: str, node: int | None, verdict: str) -> None:
    assert verdicts(look(running(), HOST, (7,), gpus, node, deep=False)) == {7: verdict}


def test_a_named_process_without_a_gpu_has_no_place_to_be() -> None:
    source = Running(process_files(7, maps=mapping(0, 200)), None)
    report = look(source, HOST, (7,), "", None, deep=False)
    assert verdicts(report) == {7: "unknown"}
    assert "--node" in report.processes[0].reasons[0]
    assert status_of(report) == 3


def test_the_size_limit_is_lifted_by_deep() -> None:
    files = process_files(7, maps=mapping(0, 200), rss_kib=65 << 20)
    shallow = look(Running(files, {0: [7]}), HOST, (), "", None, deep=False)
    assert (verdicts(shallow), status_of(shallow)) == ({7: "unknown"}, 3)
    assert "--deep" in shallow.processes[0].reasons[0]
    assert [gap.fact for gap in shallow.gaps] == ["processes[7].memory"]
    assert verdicts(look(Running(files, {0: [7]}), HOST, (), "", None, deep=True)) == {7: "ok"}


def test_what_a_user_may_not_see_does_not_hide_the_rest() -> None:
    source = running()
    source.hidden = {8}
    source.show()
    report = look(source, HOST, (), "", None, deep=False)
    assert verdicts(report) == {7: "ok", 8: "unknown", 9: "spans-nodes"}
    assert [(gap.fact, gap.kind) for gap in report.gaps] == [("processes[8].memory", "denied")]
    assert status_of(report) == 0


def test_processes_that_end_are_gaps() -> None:
    report = look(running(), HOST, (7, 4242), "", None, deep=False)
    assert (verdicts(report), report.gaps[0].fact, status_of(report)) == ({7: "ok"}, "processes[4242]", 0)
    gone = look(Running({}, {0: [7]}), HOST, (), "", None, deep=False)
    assert (verdicts(gone), status_of(gone)) == ({}, 3)


def test_in_a_container_the_driver_s_pids_are_another_s() -> None:
    source = running()
    source.links["/proc/self/ns/pid"] = "/proc/self/ns/pid:[4026532001]"
    source.show()
    report = look(source, HOST, (), "", None, deep=False)
    assert ([gap.fact for gap in report.gaps], status_of(report)) == ([f"processes[{n}]" for n in (7, 8, 9)], 3)
    named = look(source, HOST, (7,), "1", None, deep=False)
    assert (verdicts(named), named.gaps) == ({7: "memory-far"}, ())


def test_no_process_is_fine() -> None:
    report = look(Running({}, {0: []}), HOST, (), "", None, deep=False)
    assert (status_of(report), render_processes(report, Style())) == (0, "No process uses a GPU.\n")


def test_what_cannot_be_asked_is_refused() -> None:
    captured = RootSource(MemoryTree({}, {}), "capture")
    with pytest.raises(SourceError, match="only the running host"):
        look(captured, HOST, (7,), "", None, deep=False)
    with pytest.raises(SourceError, match="--pid"):
        look(Running({}, None), Host(numa_nodes=NODES), (), "", None, deep=False)
    with pytest.raises(UsageError, match="no NUMA node 9"):
        look(running(), HOST, (7,), "", 9, deep=False)
    beside = msgspec.structs.replace(HOST, numa_nodes=(*NODES, NumaNode(id=2, cpus="", kind="gpu-memory")))
    with pytest.raises(UsageError, match="NUMA node 2 has no CPUs"):
        look(running(), beside, (7,), "", 2, deep=False)
    with pytest.raises(UsageError, match="the driver does not show"):
        look(running(), Host(numa_nodes=NODES, gpus=(LOST,)), (7,), "0000:03:00.0", None, deep=False)


@pytest.mark.parametrize(
    "words",
    [("--node", "0"), ("--pid", "1", "--gpus", "0", "--node", "0"), ("--pid", "0"), ("--pid", "x"), ("--from", "x")],
)
def test_what_makes_no_sense_is_usage(words: tuple[str, ...]) -> None:
    ran = hostdoctor("ps", *words)
    assert (ran.status, ran.out, ran.err.count("\n")) == (64, "", 1)


def test_the_text_says_where_why_and_what_to_do() -> None:
    text = render_processes(look(running(), HOST, (), "", None, deep=False), Style())
    head, near, *_ = text.splitlines()
    assert " ".join(head.split()) == "PID COMMAND GPUS NODE CPUS MEMORY LOCAL SHARED SHARED LOCAL VERDICT"
    assert near.split() == ["7", "near", "0", "0", "0-3", "200.0", "MiB", "100%", "200.0", "MiB", "100%", "ok"]
    assert "    100% of its pinned and shared memory is on other nodes\n" in text
    assert "    node 0: 0.0 MiB private, 200.0 MiB shared, 0.0 MiB files; 0 threads ran last\n" in text
    assert "    node 1: 0.0 MiB private, 0.0 MiB shared, 0.0 MiB files; 1 thread ran last\n" in text
    assert text.count("do: Restart it bound to its GPUs' node (`hostdoctor run --gpus 1 -- …`, or `numactl") == 1
    assert "migratepages 8 0 1" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("width", [40, 60, 72, 80, 100])
def test_the_table_fits_the_terminal(width: int) -> None:
    report = look(running(), HOST, (), "", None, deep=False)
    text = render_processes(report, Style(width=width))
    assert all(len(line) <= max(width, 56) for line in text.splitlines())
    rows = [row.split() for row in text.splitlines()[1:]]
    assert [row[-1] for row in rows if row[1:2] in (["near"], ["far"])] == ["ok", "far"]


def test_colour_marks_the_verdict_alone() -> None:
    text = render_processes(look(running(), HOST, (8,), "", None, deep=False), Style(colour=True))
    assert "\x1b[33mmemory far\x1b[0m" in text


def test_details_that_matter_are_named_and_hostile_names_are_harmless() -> None:
    process = Process(
        pid=7,
        name="x\x1b[2Jy",
        container_pid=31,
        pinned_bytes=1 << 20,
        locked_bytes=1 << 20,
        memory_source="memory.numa_stat",
        cpus=",".join(str(n) for n in range(0, 64, 2)),
        memory=(ProcessMemory(node=0, anon_bytes=30 << 30),),
        policies={"interleave:0-1": 30 << 30, "default": 5},
    )
    gaps = (Gap(fact="processes[9]", source="NVML", reason="another namespace"),)
    text = render_processes(ProcessReport(processes=(Placement(process=process),), gaps=gaps), Style())
    assert "\x1b" not in text
    notes = "PID 31 in its container; read from memory.numa_stat; policy interleave:0-1 for 30.0 GiB;"
    assert f"    {notes} 1.0 MiB pinned otherwise (VmPin); 1.0 MiB locked (VmLck)\n" in text
    assert "not known: processes[9] (NVML: another namespace)" in text
    assert "…" in text


def test_the_running_test_itself_obeys_the_schema() -> None:
    ran = hostdoctor("ps", "--pid", str(os.getpid()), "--pid", "999999999", "--node", "0", "--format", "json")
    document = json.loads(ran.out)
    jsonschema.validate(document, json.loads((write_schemas.FOLDER / "processes.schema.json").read_text()))
    (placement,) = document["processes"]
    assert placement["process"]["pid"] == os.getpid()
    assert placement["process"]["memory"]
    assert sum(placement["process"]["threads_by_node"].values()) >= 1
    assert [gap["fact"] for gap in document["gaps"]] == ["processes[999999999]"]
    assert ran.err == ""


def test_without_a_driver_a_process_has_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostdoctor.sources.live.start_nvml", lambda timeout_s: _Absent())
    ran = hostdoctor("ps")
    assert (ran.status, ran.out, ran.err.count("\n")) == (3, "", 1)
    assert "--pid" in ran.err


class _Absent:
    def wait(self) -> object:
        from hostdoctor.sources.commands import Completed

        return Completed(text='{"state": "absent", "reason": "no library"}\n', reason="status 1", kind="error")
