"""What ``run`` and the shell wrappers bind: read from the started process, not from what they say."""

import json
import re
from typing import Any

import pytest

from tests.lab.results import Guest

pytestmark = pytest.mark.lab

STARTERS = ("run", "wrap")
NEAR = {"gpu0": ("0-3", "0"), "gpu1": ("4-7", "1")}


def started(guest: Guest, scenario: str, name: str) -> dict[str, Any]:
    """Return what the started process says of itself."""
    ran = guest.run(scenario, name)
    assert ran.status == 0, ran
    document: dict[str, Any] = json.loads(ran.out)
    assert document["argv"] == ["a word", "$(b)"]
    return document


def share(placed: dict[str, Any], node: str) -> float:
    pages = placed["pages"]
    here: int = pages.get(node, 0)
    return here / int(sum(pages.values()))


def shown(placed: dict[str, Any], key: str) -> str:
    """Return a row of ``numactl --show``."""
    found = re.search(rf"^{key}: (.*)$", placed["numactl"], re.MULTILINE)
    assert found, placed["numactl"]
    return found[1].strip()


@pytest.mark.parametrize("starter", STARTERS)
@pytest.mark.parametrize("gpu", NEAR)
def test_cpus_and_pages_are_on_the_gpus_node(guest: Guest, starter: str, gpu: str) -> None:
    cpus, node = NEAR[gpu]
    placed = started(guest, "placed", f"{starter}-{gpu}")
    assert placed["cpus"] == cpus
    assert placed["policy"] == f"bind:{node}"
    assert share(placed, node) == 1.0
    assert shown(placed, "policy") == "bind"
    assert shown(placed, "membind") == node
    assert shown(placed, "physcpubind").split() == [str(cpu) for cpu in range(int(cpus[0]), int(cpus[-1]) + 1)]


@pytest.mark.parametrize("starter", STARTERS)
def test_the_far_arm_is_the_other_socket(guest: Guest, starter: str) -> None:
    placed = started(guest, "placed", f"{starter}-far0")
    assert (placed["cpus"], placed["policy"]) == ("4-7", "bind:1")
    assert share(placed, "1") == 1.0


@pytest.mark.parametrize("starter", STARTERS)
def test_preferred_memory_is_near_and_may_spill(guest: Guest, starter: str) -> None:
    placed = started(guest, "placed", f"{starter}-preferred1")
    assert (placed["cpus"], placed["policy"]) == ("4-7", "prefer:1")
    assert share(placed, "1") == 1.0


@pytest.mark.parametrize("starter", STARTERS)
def test_interleaved_memory_is_on_both_sockets_and_not_on_the_memory_only_node(guest: Guest, starter: str) -> None:
    placed = started(guest, "placed", f"{starter}-interleave0")
    assert (placed["cpus"], placed["policy"]) == ("0-3", "interleave:0-1")
    assert share(placed, "0") == pytest.approx(0.5, abs=0.05)
    assert "2" not in placed["pages"]


def test_a_node_with_less_than_the_reserve_is_preferred_by_default(guest: Guest) -> None:
    placed = started(guest, "placed", "run-auto0")
    assert (placed["cpus"], placed["policy"]) == ("0-3", "prefer:0")


def test_one_command_over_gpus_of_two_nodes_is_not_bound_to_one(guest: Guest) -> None:
    ran = guest.run("placed", "run-both")
    assert (ran.status, ran.out) == (2, "")
    assert "span" in ran.err
    assert ran.err.count("\n") == 1


def test_a_wrapper_over_two_nodes_asks_for_the_rank(guest: Guest) -> None:
    ran = guest.run("placed", "wrap-both")
    assert (ran.status, ran.out) == (64, "")
    assert "HOSTDOCTOR_RANK" in ran.err


@pytest.mark.parametrize("starter", STARTERS)
def test_a_cpuset_with_the_node_in_it_does_not_matter(guest: Guest, starter: str) -> None:
    placed = started(guest, "placed-cpuset", f"{starter}-gpu0")
    assert (placed["cpus"], placed["policy"]) == ("0-3", "bind:0")


@pytest.mark.parametrize("command", ["run", "written"])
def test_a_cpuset_without_the_gpus_node_is_refused(guest: Guest, command: str) -> None:
    ran = guest.run("placed-cpuset", f"{command}-gpu1")
    assert (ran.status, ran.out) == (2, "")
    assert "node 1" in ran.err
    assert "HD106" in ran.err


@pytest.mark.parametrize("starter", STARTERS)
@pytest.mark.parametrize("scenario", ["placed-refused", "placed-killed"])
def test_where_memory_policies_are_refused_the_cpus_are_bound_and_it_says_so(
    guest: Guest, starter: str, scenario: str
) -> None:
    ran = guest.run(scenario, f"{starter}-gpu1")
    placed = started(guest, scenario, f"{starter}-gpu1")
    assert (placed["cpus"], placed["policy"]) == ("4-7", "default")
    assert share(placed, "1") > 0.9  # first touch
    assert "cpus" in ran.err.lower()
    assert "4-7" in ran.err
    assert "()" not in ran.err  # a reason, also where the filter kills without a word
    assert ": )" not in ran.err


@pytest.mark.parametrize("name", ["run-gpu1-strict", "wrap-gpu1-strict"])
def test_strictly_a_refused_memory_policy_is_fatal(guest: Guest, name: str) -> None:
    ran = guest.run("placed-refused", name)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err


def test_run_needs_no_numactl(guest: Guest) -> None:
    placed = started(guest, "placed-no-numactl", "run-gpu1")
    assert (placed["cpus"], placed["policy"]) == ("4-7", "bind:1")


def test_a_wrapper_without_numactl_binds_the_cpus_alone_and_says_so(guest: Guest) -> None:
    ran = guest.run("placed-no-numactl", "wrap-gpu1")
    placed = started(guest, "placed-no-numactl", "wrap-gpu1")
    assert (placed["cpus"], placed["policy"]) == ("4-7", "default")
    assert "numactl" in ran.err
    assert guest.run("placed-no-numactl", "wrap-gpu1-strict").status == 2


@pytest.mark.parametrize("gpu", NEAR)
def test_run_says_in_one_line_what_it_bound(guest: Guest, gpu: str) -> None:
    cpus, node = NEAR[gpu]
    said = guest.run("placed", f"run-{gpu}").err
    assert said.count("\n") == 1
    assert f"CPUs {cpus}" in said
    assert f"node {node}" in said
