"""Experiments in the two-socket guest put threads and pages where they say. Times in the guest mean nothing."""

import json
from typing import Any

import jsonschema
import msgspec
import pytest

from tests.lab.results import Guest
from tests.support.write_schemas import FOLDER

pytestmark = [pytest.mark.lab, pytest.mark.long]

NODE_CPUS = {0: "0-3", 1: "4-7"}
BUFFER_PAGES = (16 << 20) // 4096


class Watched(msgspec.Struct, frozen=True):
    """How an experiment ended and what was seen of it from outside."""

    status: int
    out: str
    err: str
    affinities: list[str]
    bound: dict[str, dict[str, int]]
    fio: list[tuple[str, str]]
    rose: dict[str, dict[str, int]]

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.out)
        return document


def watched(guest: Guest, scenario: str, run: str) -> Watched:
    ran = guest.run(scenario, run)
    assert ran.status == 0, ran.err
    told = msgspec.json.decode(ran.out, type=Watched)
    assert told.status == 0, told.err
    return told


def cells(document: dict[str, Any]) -> dict[tuple[int, int], dict[str, Any]]:
    return {(cell["cpu_node"], cell["memory_node"]): cell for cell in document["cells"]}


@pytest.fixture(scope="session")
def memory(guest: Guest) -> Watched:
    return watched(guest, "measure", "memory")


def test_every_cpu_node_is_measured_against_every_memory_node(memory: Watched) -> None:
    found = cells(memory.document)
    assert sorted(found) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]  # node 2 has memory alone
    for cell in found.values():
        assert cell["skipped"] is None
        assert cell["latency"]["p50_of_batch_means_ns"] > 0
        assert all(cell[operation]["p50_gbytes_per_s"] > 0 for operation in ("read", "write", "copy"))
    assert found[0, 2]["distance"] == 17
    assert found[1, 2]["distance"] == 28


def test_pages_are_where_they_were_bound(memory: Watched) -> None:
    """Seen by numa_maps from outside, by move_pages from inside."""
    assert memory.bound == {f"bind:{node}": {str(node): BUFFER_PAGES} for node in (0, 1, 2)}
    for buffer in memory.document["buffers"]:
        for when in ("placement_before", "placement_after"):
            placement = buffer[when]
            assert placement["source"] == "move_pages"
            assert placement["pages"] == {str(buffer["node"]): placement["asked"]}
            assert placement["asked"] == placement["total"] == BUFFER_PAGES


def test_no_page_had_to_come_from_elsewhere(memory: Watched) -> None:
    assert all(node["numa_miss"] == 0 == node["numa_foreign"] for node in memory.rose.values()), memory.rose
    assert memory.rose["2"]["numa_hit"] > 0


def test_threads_run_on_the_cpus_of_their_node(memory: Watched) -> None:
    seen = set(memory.affinities) - {"0-7"}  # of threads that wait
    assert seen <= {str(cpu) for cpu in range(8)}
    assert seen & {"0", "1", "2", "3"}
    assert seen & {"4", "5", "6", "7"}
    for (node, _), cell in cells(memory.document).items():
        assert cell["cpus"] == cell["cpus_seen"] == NODE_CPUS[node]


def test_without_machine_code_there_are_differences_only(guest: Guest) -> None:
    document = watched(guest, "measure", "memory-interpreted").document
    assert document["method"] == "interpreted"
    assert document["interpreter_overhead_ns"] > 0
    for (cpu_node, memory_node), cell in cells(document).items():
        assert cell["latency"] is None
        assert (cell["latency_difference"] is None) == (cpu_node == memory_node)


def test_what_the_cpuset_forbids_is_skipped_with_the_reason(guest: Guest) -> None:
    told = watched(guest, "measure-cpuset", "memory")
    found = cells(told.document)
    assert found[0, 0]["skipped"] is None
    assert found[0, 0]["latency"]["p50_of_batch_means_ns"] > 0
    for node in (1, 2):
        assert found[0, node]["skipped"] == f"node {node} is outside this process's cpuset (Mems_allowed_list 0)"
    assert found[1, 0]["skipped"] == "no CPU of node 1 may be used (Cpus_allowed_list 0-3)"
    assert found[1, 0]["latency"] is None
    assert "only one CPU node may be used: near only" in told.document["notes"]
    assert set(told.bound) == {"bind:0"}


def test_fio_reads_from_the_near_and_from_the_far_node(guest: Guest) -> None:
    told = watched(guest, "measure", "nvme-near1")
    document = told.document
    assert document["drive_node"] == 1
    assert [(run["cpu_node"], run["near"]) for run in document["runs"]] == [(1, True), (0, False)]
    assert told.fio == [("bind:0", "0-3"), ("bind:1", "4-7")]
    for run in document["runs"]:
        assert run["failed"] is None
        assert (run["policy_seen"], run["cpus_seen"]) == (f"bind:{run['cpu_node']}", NODE_CPUS[run["cpu_node"]])
        raw = run["raw"]["jobs"][0]["read"]["clat_ns"]
        assert run["latency"]["p99_ns"] == raw["percentile"]["99.000000"]
        assert run["latency"]["samples"] == raw["N"]


@pytest.mark.parametrize(("run", "schema"), [("memory", "measure-memory"), ("nvme-near1", "measure-nvme")])
def test_documents_obey_their_schema(guest: Guest, run: str, schema: str) -> None:
    described = json.loads((FOLDER / f"{schema}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(described)
    jsonschema.validate(watched(guest, "measure", run).document, described)
