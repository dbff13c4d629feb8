"""``ps`` on real processes: it sees what numastat sees, and tells a misplaced one from a right one."""

import re
from typing import Any

import pytest

from tests.lab.processes import GROUPED, HELD_MIB, HUGE_MIB, PROCESSES
from tests.lab.results import Guest

pytestmark = pytest.mark.lab
MIB = 1 << 20


@pytest.fixture
def seen(guest: Guest) -> dict[str, dict[str, Any]]:
    """Return what ``ps`` said of each process, by name."""
    ran = guest.run("processes", "all")
    assert (ran.status, ran.err) == (1, "")
    assert ran.document["gaps"] == []
    return dict(zip(PROCESSES, ran.document["processes"], strict=True))


def test_a_misplaced_process_is_told_from_a_right_one(seen: dict[str, dict[str, Any]]) -> None:
    assert {name: placement["verdict"] for name, placement in seen.items()} == {
        "right": "ok",
        "private-far": "memory-far",
        "shared-far": "memory-far",
        "huge-far": "ok" if HUGE_MIB < 64 else "memory-far",  # too little to matter
    }
    assert {placement["process"]["cpus"] for placement in seen.values()} == {"0-3"}
    assert {tuple(placement["process"]["threads_by_node"]) for placement in seen.values()} == {("0",)}


def test_memory_is_of_the_kind_that_it_was_mapped_as(seen: dict[str, dict[str, Any]]) -> None:
    def held(name: str, kind: str, node: int) -> float:
        told = {told["node"]: told[f"{kind}_bytes"] for told in seen[name]["process"]["memory"]}
        return float(told.get(node, 0) / MIB)

    assert held("right", "shared", 0) == held("shared-far", "shared", 1) == HELD_MIB
    assert held("private-far", "shared", 1) == 0
    assert HELD_MIB <= held("private-far", "anon", 1) < HELD_MIB + 20
    huge = held("huge-far", "anon", 1) + held("huge-far", "shared", 1)
    assert HUGE_MIB <= huge < HUGE_MIB + 20
    assert seen["shared-far"]["shared_local_share"] == 0
    assert "bind:1" in seen["shared-far"]["process"]["policies"]


@pytest.mark.parametrize("name", PROCESSES)
def test_the_shares_are_numastat_s(name: str, guest: Guest, seen: dict[str, dict[str, Any]]) -> None:
    text = guest.run("processes", f"numastat-{name}").out
    total = re.search(r"^Total +([\d. ]+)$", text, re.MULTILINE)
    assert total is not None, text
    *nodes, everything = (float(word) for word in total[1].split())
    memory = {told["node"]: told for told in seen[name]["process"]["memory"]}
    ours = [
        sum(told[f"{kind}_bytes"] for kind in ("anon", "shared", "file")) if (told := memory.get(node)) else 0
        for node in range(len(nodes))
    ]
    assert len(nodes) == 3
    for mine, theirs in zip(ours, nodes, strict=True):
        assert abs(mine / sum(ours) - theirs / everything) < 0.02
    assert abs(sum(ours) / MIB - everything) < 0.02 * everything
    assert abs(seen[name]["local_share"] - nodes[0] / everything) < 0.02


def test_a_gpu_names_the_node(guest: Guest) -> None:
    far, right = guest.run("processes", "far-for-gpu"), guest.run("processes", "right-for-gpu")
    assert (far.status, far.document["processes"][0]["nodes"]) == (1, [0])
    assert (right.status, right.document["processes"][0]["verdict"]) == (0, "ok")
    assert "hostdoctor run --gpus 0" in far.document["processes"][0]["remedy"]
    (placement,) = guest.run("processes", "wrong-cpus").document["processes"]
    assert (placement["nodes"], placement["verdict"], placement["shared_local_share"]) == ([1], "cpus-far", 1.0)


def test_the_text_and_the_statuses(guest: Guest) -> None:
    right, far = guest.run("processes", "right-text"), guest.run("processes", "far-text")
    assert (right.status, right.out.splitlines()[1].split()[-1]) == (0, "ok")
    assert (far.status, "memory far" in far.out, "migratepages" in far.out) == (1, True, True)
    gone, nothing = guest.run("processes", "gone"), guest.run("processes", "nothing-named")
    assert (gone.status, [gap["fact"] for gap in gone.document["gaps"]]) == (3, ["processes[4194303]"])
    assert (nothing.status, "--pid" in nothing.err, nothing.err.count("\n")) == (3, True, 1)


def test_an_ordinary_user_is_told_what_it_may_not_see(guest: Guest) -> None:
    ran = guest.run("processes-nobody", "all")
    if "No module named" in ran.err:
        pytest.skip("this checkout or its Python may not be read by everybody")
    seen = dict(zip(PROCESSES, ran.document["processes"], strict=True))
    alone = seen.pop(GROUPED)
    assert {placement["verdict"] for placement in seen.values()} == {"unknown"}
    assert [gap["kind"] for gap in ran.document["gaps"]] == ["denied"] * len(seen)
    assert all("only its user or root" in gap["reason"] for gap in ran.document["gaps"])
    assert {placement["process"]["cpus"] for placement in seen.values()} == {"0-3"}
    # Its control group is readable, and tells the same.
    assert (ran.status, ran.err) == (1, "")
    assert (alone["process"]["memory_source"], alone["verdict"]) == ("memory.numa_stat", "memory-far")
    shared = {told["node"]: told["shared_bytes"] / MIB for told in alone["process"]["memory"]}
    assert shared == {0: 0, 1: pytest.approx(HELD_MIB, abs=1), 2: 0}
