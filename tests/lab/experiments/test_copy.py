"""``measure copy`` in the guest, whose CUDA driver is a double that asks the kernel where memory and CPU are."""

import json
from typing import Any

import pytest

from tests.lab.copies import BUFFER_MIB
from tests.lab.results import Guest
from tests.support.nvml_double import compiler

pytestmark = [
    pytest.mark.lab,
    pytest.mark.long,
    pytest.mark.skipif(compiler() is None, reason="no C compiler here: the CUDA double cannot be built"),
]

PAGES = BUFFER_MIB << 8


def measured(guest: Guest, name: str) -> dict[str, Any]:
    ran = guest.run("copies", name)
    assert (ran.status, ran.err) == (0, ""), ran.err
    return ran.document


def verdicts(document: dict[str, Any], cell: str, statistic: str, loop: str = "closed") -> list[dict[str, Any]]:
    """Return what was said of a cell against near."""
    return [
        comparison
        for result in document["results"]
        if result["setting"]["loop"] == loop
        for comparison in result["comparisons"]
        if (comparison["cell"], comparison["statistic"]) == (cell, statistic)
    ]


def names(found: list[dict[str, Any]]) -> list[str]:
    assert found
    return [comparison["verdict"] for comparison in found]


def test_every_cell_copies_from_where_it_says(guest: Guest) -> None:
    document = measured(guest, "1.0")
    assert (document["gpu"]["near_node"], document["gpu"]["far_node"], document["gpu"]["distance"]) == (0, 1, 21)
    cells = {arm["cell"]["role"]: arm["cell"] for arm in document["results"][0]["arms"]}
    assert {role: (cell["cpu_node"], cell["memory_node"]) for role, cell in cells.items()} == {
        "near": (0, 0),
        "far": (1, 1),
        "far-memory": (0, 1),
        "far-cpu": (1, 0),
        "near-again": (0, 0),
    }
    for place in document["places"]:
        assert place["pages"] == {str(place["memory_node"]): PAGES}
        assert (place["share"], place["share_after"], place["source"]) == (1, 1, "move_pages")
    assert [(copier["cpu_node"], copier["cpus"]) for copier in document["copiers"]] == [(0, "0-3"), (1, "4-7")]
    assert [copier["cpus_seen"] for copier in document["copiers"]] == ["2", "6"]


def test_the_kernel_says_the_same_of_the_processes(guest: Guest) -> None:
    seen = json.loads(guest.run("copies", "placed").out)
    document = json.loads(seen["out"])
    assert len(seen["workers"]) == 2
    for worker, copier in zip(seen["workers"], sorted(document["copiers"], key=lambda c: c["pid"]), strict=True):
        assert worker["pid"] == copier["pid"]
        own = {worker["threads"].pop(str(copier["thread"]))}
        assert own == {copier["cpus_seen"]} == {str(copier["cpu"])}
        assert set(worker["threads"].values()) <= {copier["cpus"]}
        on = [(told["file"], tuple(told["pages"])) for told in worker["buffers"]]
        # shared memory under the thread's policy, and private memory that was bound; of each node
        assert sorted(on) == [(False, ("0",)), (False, ("1",)), (True, ("0",)), (True, ("1",))]
        assert {told["policy"] for told in worker["buffers"] if not told["file"]} == {"bind:0", "bind:1"}


def test_a_signal_keeps_what_was_measured_and_leaves_no_process(guest: Guest) -> None:
    seen = json.loads(guest.run("copies", "placed").out)
    assert (seen["status"], seen["left"]) == (130, [])
    document = json.loads(seen["out"])
    assert document["circumstances"]["interrupted"] == "SIGINT"
    assert document["results"]
    assert "ended early by SIGINT" in seen["err"]


def test_memory_that_is_far_by_a_third_is_found_at_the_median(guest: Guest) -> None:
    document = measured(guest, "1.3")
    assert names(verdicts(document, "far", "p50")) == ["near-faster"]
    assert names(verdicts(document, "far-memory", "p50")) == ["near-faster"]
    assert names(verdicts(document, "far", "mean", "bandwidth")) == ["near-faster"]
    for comparison in verdicts(document, "far", "p50"):
        low, high = comparison["paired"]["ratio_ci"]
        assert 1.2 < low < high < 1.4
    tails = verdicts(document, "far", "p99")
    assert all(tail["verdict"] == "near-faster" or tail["paired"]["detectable_ratio"] for tail in tails)


def test_the_cpu_alone_makes_no_difference_where_only_memory_is_slow(guest: Guest) -> None:
    for factor in ("1.3", "2.0"):
        assert names(verdicts(measured(guest, factor), "far-cpu", "p50")) == ["no-measurable-difference"]


def test_memory_that_takes_twice_as_long_is_found_in_the_tail_too(guest: Guest) -> None:
    document = measured(guest, "2.0")
    assert names(verdicts(document, "far", "p50")) == ["near-faster"]
    assert names(verdicts(document, "far", "p99")) == ["near-faster"]


def test_memory_that_is_as_fast_makes_no_measurable_difference(guest: Guest) -> None:
    document = measured(guest, "1.0")
    for cell in ("far", "far-memory", "far-cpu", "near-again"):
        assert names(verdicts(document, cell, "p50")) == ["no-measurable-difference"]
        assert names(verdicts(document, cell, "p99")) == ["no-measurable-difference"]
    assert all(c["paired"]["detectable_ratio"] < 1.3 for c in verdicts(document, "far", "p50"))


def test_contended_copies_run_beside_others(guest: Guest) -> None:
    document = measured(guest, "contended")
    loads = {result["setting"]["load"]: result for result in document["results"]}
    assert loads.keys() == {"idle", "contended"}
    assert {arm["contending_copies"] for arm in loads["idle"]["arms"]} == {None}
    large = [
        r for r in document["results"] if r["setting"]["load"] == "contended" and r["setting"]["loop"] == "bandwidth"
    ]
    assert sum(arm["contending_copies"] for result in large for arm in result["arms"]) > 0
    assert [(copier["cpu"], copier["second_stream_cpus"]) for copier in document["copiers"]] == [(1, "0"), (5, "4")]


def test_no_driver_and_no_far_node_are_told(guest: Guest) -> None:
    bare = guest.run("copies", "no-driver")
    assert (bare.status, bare.out) == (3, "")
    assert "no CUDA driver: libcuda.so.1" in bare.err
    inside = guest.run("copies-cpuset", "copy")
    assert (inside.status, inside.out) == (3, "")
    assert "node 1: its memory is not in this process's cpuset (Mems_allowed_list 0)" in inside.err


def test_a_link_that_stays_slow_while_copying_is_a_finding(guest: Guest) -> None:
    (finding,) = guest.fired("copies-slow-link", "HD203")
    assert "GPU0: PCIe link runs Gen4 while copying, both ends can do Gen5" in finding["message"]
    idle = next(r for r in guest.run("copies-slow-link", "idle").document["results"] if r["id"] == "HD203")
    assert (idle["status"], idle["skip_kind"]) == ("skip", "no-evidence")
