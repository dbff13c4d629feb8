"""``hostdoctor topo`` and ``hostdoctor explain``."""

import json
from collections.abc import Callable

import pytest

from hostdoctor.diagnosis.api import Rule
from hostdoctor.diagnosis.registry import load_rules
from tests.cli.support import hostdoctor

Root = Callable[[str], str]


def test_the_tree_shows_sharing_and_narrow_links(root_of: Root) -> None:
    out = hostdoctor("topo", "--from", root_of("demo")).out
    assert "shared by GPU3, NIC3 mlx5_3, NIC4 mlx5_4, nvme0" in out
    assert "[x8 of x16 32 GT/s]" in out
    assert "GPU to GPU: NV18 (28 pairs)" in out


def test_a_pipe_gets_no_colour(root_of: Root) -> None:
    assert "\x1b" not in hostdoctor("topo", "--from", root_of("demo")).out
    assert "\x1b" not in hostdoctor("check", "--from", root_of("demo")).out


def test_json_has_every_field_of_the_contract(root_of: Root) -> None:
    host = json.loads(hostdoctor("topo", "--from", root_of("demo"), "--format", "json").out)
    gpu, nic, drive, device = host["gpus"][0], host["nics"][0], host["nvme"][0], host["pci_devices"][0]
    link = {"width_lanes", "max_width_lanes", "speed_gts", "max_speed_gts"}
    place = {"bdf", "numa_node", "root_complex", "root_port"}
    assert host["schema_version"] == "1"
    assert {"hostname", "kernel", "cpu_model", "packages", "virtualization", "nvidia_driver"} <= set(host["system"])
    assert {"id", "cpus", "memory_bytes", "free_bytes", "distances", "kind", "package"} <= set(host["numa_nodes"][0])
    assert {"index", "name", "uuid", "numa_nodes", "cpus", "memory_numa_node", "upstream", *place} <= set(gpu)
    assert set(gpu["link"]) == set(device["link"]) == link
    assert {"name", "label", "netdevs", *place} <= set(nic)
    assert {"name", "model", "namespaces", "queues", *place} <= set(drive)
    assert {"id", "irq", "cpus"} <= set(drive["queues"][0])
    assert {"vendor_id", "device_id", "class_code", "upstream", "root_complex", "name"} <= set(device)
    assert set(host["paths"][0]) == {"a", "b", "kind"}


@pytest.mark.parametrize("rule", load_rules(), ids=lambda rule: rule.id)
def test_every_check_is_explained(rule: Rule) -> None:
    ran = hostdoctor("explain", rule.id.lower())
    assert ran.status == 0
    assert ran.out.startswith(f"# {rule.id} {rule.name} ")
    headings = [line for line in ran.out.splitlines() if line.startswith("## ")]
    assert headings == ["## What it checks", "## Why it matters", "## Remedy", "## References"]


@pytest.mark.parametrize(("id", "now"), [("HD108", "HD103"), ("hd205", "HD204"), ("HD304", "HD104")])
def test_an_id_that_was_merged_leads_to_the_check_that_it_is_part_of(id: str, now: str) -> None:
    ran = hostdoctor("explain", id)
    assert ran.status == 0
    assert ran.out == f"{id.upper()} was merged into {now}.\n\n{hostdoctor('explain', now).out}"


def test_help_names_every_command_and_ends_well() -> None:
    ran = hostdoctor("--help")
    assert ran.status == 0
    assert all(f"  {name} " in ran.out for name in ("check", "topo", "explain"))


@pytest.mark.parametrize(
    "arguments", [("nonsense",), ("explain",), ("explain", "HD1", "HD2"), ("topo", "--format", "xml")]
)
def test_bad_usage_is_64(arguments: tuple[str, ...]) -> None:
    ran = hostdoctor(*arguments)
    assert (ran.status, ran.err.count("\n")) == (64, 1)


def test_the_version_is_printed() -> None:
    assert hostdoctor("--version").out.startswith("hostdoctor 0.")
