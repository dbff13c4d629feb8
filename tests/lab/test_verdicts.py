"""Verdicts on the guest: checks fire on what a real kernel shows, and are quiet before and after."""

from typing import Any

import pytest

from tests.lab.results import Guest, by

pytestmark = pytest.mark.lab

NEAR0, NEAR1, NOWHERE = "0000:22:00.0", "0000:a4:00.0", "0000:00:10.0"


def drive_name(guest: Guest, bdf: str) -> str:
    return str(by(guest.host("plain")["nvme"], "bdf")[bdf]["name"])


def seen(finding: dict[str, Any]) -> dict[str, str]:
    return {evidence["source"]: evidence["value"] for evidence in finding["evidence"]}


@pytest.mark.parametrize(
    "id", ["HD101", "HD102", "HD104", "HD106", "HD110", "HD115", "HD302", "HD306", "HD315", "HD404"]
)
def test_the_plain_guest_is_quiet(guest: Guest, id: str) -> None:
    assert guest.fired("plain", id) == []


def test_every_check_comes_to_an_end(guest: Guest) -> None:
    for scenario in ("plain", "nobody", "no-tools", "settings", "cpuset", "bare-metal", "narrow", "cpus-offline"):
        ran = guest.run(scenario, "check")
        assert (ran.status, ran.err) == (2, ""), scenario  # no driver: HD501 is critical
        assert [r["id"] for r in ran.document["results"] if r["status"] == "error"] == []


def test_gpus_without_a_driver(guest: Guest) -> None:
    (finding,) = guest.fired("plain", "HD501")
    assert (finding["subject"], finding["severity"]) == ("GPU0, GPU1", "critical")


@pytest.mark.parametrize("id", ["HD201", "HD202", "HD204", "HD212"])
def test_ports_of_a_virtual_machine_are_not_judged(guest: Guest, id: str) -> None:
    result = guest.result("plain", id)
    assert (result["status"], result["skip_kind"]) == ("skip", "not-applicable")
    assert "virtual" in result["reason"]


def test_an_uplink_shared_by_gpu_and_drive(guest: Guest) -> None:
    (finding,) = guest.fired("bare-metal", "HD204")
    assert finding["severity"] == "info"
    assert finding["message"] == f"GPU1, {drive_name(guest, NEAR1)} share 0000:a0:00.0 (4.5:1)"
    (value,) = seen(finding).values()
    assert value.startswith("x8 Gen4, 15.8 GB/s")


def test_a_card_behind_half_of_its_lanes(guest: Guest) -> None:
    (finding,) = guest.fired("bare-metal", "HD202")
    assert (finding["subject"], finding["severity"]) == ("GPU1", "warning")
    assert "x8 Gen4" in finding["message"]


def test_links_at_their_ends_common_width_are_quiet(guest: Guest) -> None:
    assert guest.fired("bare-metal", "HD201") == []
    assert guest.fired("bare-metal", "HD212") == []


def test_a_link_that_lost_lanes(guest: Guest) -> None:
    (finding,) = guest.fired("narrow", "HD201")
    assert (finding["subject"], finding["severity"]) == ("GPU0", "critical")
    assert finding["message"] == "GPU0: PCIe link has x8, both ends can do x16"
    assert seen(finding)["/sys/bus/pci/devices/0000:21:00.0/current_link_width"] == "8"


@pytest.mark.parametrize(("scenario", "severity"), [("plain", "info"), ("bare-metal", "warning")])
def test_a_drive_without_a_node(guest: Guest, scenario: str, severity: str) -> None:
    (finding,) = guest.fired(scenario, "HD401")
    assert (finding["subject"], finding["severity"]) == (drive_name(guest, NOWHERE), severity)
    assert finding["message"] == "NVMe drives without a NUMA node: 1 of 3"


def test_one_queue_for_all_cpus_spans_nodes_and_four_do_not(guest: Guest) -> None:
    (finding,) = guest.fired("plain", "HD403")
    drive = drive_name(guest, NOWHERE)
    assert (finding["subject"], finding["severity"]) == (drive, "info")
    assert f"{drive} 1 of 1 (normal: fewer queues than the host's 8 CPUs)" in finding["message"]
    assert list(seen(finding).values()) == ["queue 1: 0-7"]


def test_interrupts_of_queues_whose_cpus_are_offline_are_no_finding(guest: Guest) -> None:
    strayed = [q for q in guest.kernel("cpus-offline")["nvme"][NEAR0]["queues"].values() if q["cpus"] == [6, 7]]
    assert [q["irq_cpus"] in ("6", "7") for q in strayed] == [False]
    assert guest.fired("cpus-offline", "HD404") == []


def test_numa_balancing(guest: Guest) -> None:
    (finding,) = guest.fired("plain", "HD301")  # Debian's kernel turns it on
    assert seen(finding) == {"/proc/sys/kernel/numa_balancing": "1"}
    assert guest.fired("settings", "HD301") == []


def test_zone_reclaim(guest: Guest) -> None:
    (finding,) = guest.fired("settings", "HD302")
    assert finding["severity"] == "warning"
    assert seen(finding) == {"/proc/sys/vm/zone_reclaim_mode": "1"}


def test_hugepages_on_one_node(guest: Guest) -> None:
    (finding,) = guest.fired("settings", "HD306")
    assert finding["subject"] == "node 0"
    assert list(seen(finding).values()) == ["40 (40)"]
    pools = {n["id"]: by(n["hugepages"], "size_bytes")[2 << 20] for n in guest.host("settings")["numa_nodes"]}
    assert {node: (pool["total"], pool["free"]) for node, pool in pools.items()} == {0: (40, 40), 1: (0, 0), 2: (0, 0)}


def test_schedulers_and_statistics(guest: Guest) -> None:
    near0, near1, nowhere = (f"{drive_name(guest, bdf)}n1" for bdf in (NEAR0, NEAR1, NOWHERE))
    (finding,) = guest.fired("plain", "HD408")
    assert finding["subject"] == nowhere  # the kernel's own choice for a drive with one queue
    scheduled, silent = guest.fired("settings", "HD408")
    assert set(scheduled["subject"].split(", ")) == {near0, nowhere}
    assert seen(scheduled)[f"/sys/block/{near0}/queue/scheduler"] == "mq-deadline"
    assert silent["subject"] == near1


def test_what_is_mounted_on_a_drive(guest: Guest) -> None:
    held = {disk["name"]: disk["holds"] for disk in guest.host("settings")["block_devices"]}
    names = (f"{drive_name(guest, bdf)}n1" for bdf in (NEAR0, NEAR1, NOWHERE))
    assert held == dict(zip(names, (["/mnt"], [], ["swap"]), strict=True))
    assert all(disk["holds"] == [] for disk in guest.host("plain")["block_devices"])


def test_a_cpuset_that_leaves_out_a_node(guest: Guest) -> None:
    (finding,) = guest.fired("cpuset", "HD106")
    assert (finding["subject"], finding["severity"]) == ("GPU1", "info")
    assert seen(finding)["/proc/self/status Cpus_allowed_list"] == "0-3"
    assert seen(finding)["/proc/self/status Mems_allowed_list"] == "0"
    assert guest.host("cpuset")["allowed"] == {"cpus": "0-3", "mems": "0"}
    assert lacking_allowed(guest.host("cpuset")) == lacking_allowed(guest.host("plain"))


def lacking_allowed(host: dict[str, Any]) -> dict[str, Any]:
    """Return the map proper: a cpuset hides nothing of the machine."""
    return {key: host[key] for key in ("gpus", "nvme", "pci_devices", "disagreements", "paths")}


def test_the_clocksource_is_the_kernels(guest: Guest) -> None:
    clock = guest.host("plain")["system"]["clocksource"]
    assert bool(guest.fired("plain", "HD117")) == (clock in ("hpet", "acpi_pm", "jiffies"))
