"""Budgets on the guest: what a node is said to have left is what can be taken, and what is too much is killed."""

import re
from typing import Any

import pytest

from tests.lab.memory import FILL_BYTES, LIMIT_BYTES, NODE, STATES
from tests.lab.results import Guest

pytestmark = pytest.mark.lab
KILLED = -9


def node_of(document: dict[str, Any], id: int) -> dict[str, Any]:
    return next(node for node in document["nodes"] if node["id"] == id)


@pytest.mark.parametrize("state", STATES)
def test_a_nodes_available_memory_is_what_can_be_locked_there(guest: Guest, state: str) -> None:
    told = node_of(guest.run(f"memory-{state}", "budget").document, NODE)["available_bytes"]
    measured = guest.run(f"memory-{state}", "measure").document
    assert told == pytest.approx(measured["locked"], rel=0.03), measured


def test_the_states_differ(guest: Guest) -> None:
    left = {s: node_of(guest.run(f"memory-{s}", "budget").document, NODE)["available_bytes"] for s in STATES}
    assert left["cache"] == pytest.approx(left["empty"], rel=0.03)
    assert left["empty"] - left["anon"] == pytest.approx(500 << 20, rel=0.05)


def limit_of(guest: Guest, state: str) -> int:
    limits = guest.run(f"group-{state}", "budget").document["limits"]
    room: int = next(limit["bytes"] for limit in limits if limit["name"] == "cgroup /limited memory.max")
    return room


def test_page_cache_in_a_group_can_be_given_back(guest: Guest) -> None:
    assert limit_of(guest, "cache") > 0.85 * LIMIT_BYTES
    assert guest.run("group-cache", "take").out == "had it\n"


def test_shared_memory_in_a_group_cannot(guest: Guest) -> None:
    assert limit_of(guest, "shared") < LIMIT_BYTES - FILL_BYTES
    assert guest.run("group-shared", "take").status == KILLED


def test_a_node_that_binding_fills_is_told_before_the_kernel_kills(guest: Guest) -> None:
    ran = guest.run("membind", "budget")
    assert ran.status == 2
    found = [f["message"] for f in ran.document["findings"] if f["subject"] == f"node {NODE}"]
    assert any("too much" in message for message in found)
    assert any(f"--membind={NODE}" in message for message in found)
    assert guest.run("membind", "bound").status == KILLED
    assert guest.run("membind", "preferred").out == "had it\n"


def test_the_nodes_add_up_to_the_kernels_own_figure(guest: Guest) -> None:
    document = guest.run("plain", "budget").document
    together = sum(node["available_bytes"] for node in document["nodes"])
    told = re.search(r"^MemAvailable: +(\d+) kB", guest.run("plain", "meminfo").out, re.MULTILINE)
    assert told is not None
    assert together == pytest.approx(int(told[1]) * 1024, rel=0.02)
