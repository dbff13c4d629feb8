"""``compare`` on two sockets: each arm's threads and pages are where it says, by the workload's own account too."""

import json
from typing import Any

import pytest

from tests.lab.results import Guest
from tests.lab.walking import SIZE_BYTES

pytestmark = [pytest.mark.lab, pytest.mark.long]

WHERE = {"near": ("0-3", "0"), "far": ("4-7", "1")}
PAIRS = 6


@pytest.fixture(scope="module")
def document(guest: Guest) -> dict[str, Any]:
    """Return what the experiment printed."""
    ran = guest.run("compare", "near-far")
    assert ran.status == 0, ran.err
    return ran.document


def test_every_run_was_made_in_turns(document: dict[str, Any]) -> None:
    assert document["complete"]
    assert [run["role"] for run in document["runs"]] == ["far", "near", "near", "far"] * (PAIRS // 2)
    assert document["primary"]["metric"] == "wall"
    assert document["placement"]["far"] == "CPUs 4-7, memory bound to node 1"


@pytest.mark.parametrize("role", WHERE)
def test_the_workload_s_own_numa_maps_say_that_it_is_there(guest: Guest, document: dict[str, Any], role: str) -> None:
    cpus, node = WHERE[role]
    logs = sorted((guest.folder / "compare" / "experiment" / "runs").glob(f"*-{role}/command.log"))
    assert len(logs) == PAIRS
    for log in logs:
        own = json.loads(log.read_text(encoding="utf-8").splitlines()[-1])
        assert own["cpus"] == cpus
        assert own["policy"] == f"bind:{node}"
        assert own["pages"].keys() == {node}


@pytest.mark.parametrize("role", WHERE)
def test_what_hostdoctor_saw_of_threads_and_pages(document: dict[str, Any], role: str) -> None:
    node = WHERE[role][1]
    for run in document["runs"]:
        if run["role"] != role:
            continue
        assert run["places"], run
        for place in run["places"]:
            assert place["threads_by_node"].keys() == {node}
            assert (place["threads_inside"], place["memory_inside"]) == (1, 1)
        assert run["places"][-1]["memory_bytes"][node] >= SIZE_BYTES
        assert run["places"][-1]["memory_bytes"].keys() == {node} or not any(
            size for other, size in run["places"][-1]["memory_bytes"].items() if other != node
        )


def test_a_far_node_outside_the_cpuset_is_refused_with_its_reason(guest: Guest) -> None:
    ran = guest.run("compare-cpuset", "near-far")
    assert ran.status == 2
    assert "no far arm: the caller's memory nodes (Mems_allowed_list 0) leave out node 1 (HD106)" in ran.err
    assert "--arms near,near" in ran.err
    assert guest.run("compare-cpuset", "far-node").status == 2
    assert not (guest.folder / "compare-cpuset" / "experiment").exists()


def test_gpus_without_a_driver_are_not_driven(guest: Guest) -> None:
    ran = guest.run("compare", "no-driver")
    assert ran.status == 3
    assert "the NVIDIA driver does not answer" in ran.err
