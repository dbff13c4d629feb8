"""The agent's metrics: what a snapshot becomes, in numbers that a person can check."""

import msgspec
import pytest

from hostdoctor.agent.metrics import snapshot_families
from hostdoctor.agent.model import Counters, Snapshot
from hostdoctor.outputs.metric_names import PREFIX
from hostdoctor.outputs.prometheus import Family, render_prometheus
from tests.agent.snapshots import GIB, NVME0, engine, finding, healthy, sick
from tests.support.promtool import promtool

Labels = dict[str, str]


def told(families: tuple[Family, ...], name: str) -> list[tuple[Labels, float]]:
    """Return the series of a metric, by its name without the prefix."""
    return [
        (dict(series.labels), series.value)
        for family in families
        if family.name == PREFIX + name
        for series in family.series
    ]


def value(snapshot: Snapshot, name: str, **labels: str) -> float:
    """Return the one series of a metric that has these labels."""
    found = [number for known, number in told(snapshot_families(snapshot), name) if labels.items() <= known.items()]
    assert len(found) == 1, found
    return found[0]


def test_links_are_in_lanes_and_transfers_a_second() -> None:
    assert value(sick(), "pcie_link_width_lanes", device="GPU0", kind="gpu") == 8
    assert value(sick(), "pcie_link_max_width_lanes", device="GPU0") == 16
    assert value(sick(), "pcie_link_transfers_per_second", device="GPU1") == 32e9


def test_a_device_that_is_gone_has_no_link_and_is_not_present() -> None:
    widths = [labels["device"] for labels, _ in told(snapshot_families(sick()), "pcie_link_width_lanes")]
    assert widths == ["GPU0", "GPU1"]
    assert value(sick(), "pcie_device_present", bdf=NVME0) == 0
    assert value(healthy(), "pcie_device_present", bdf=NVME0) == 1


def test_a_finding_has_a_series_for_each_subject() -> None:
    found = told(snapshot_families(sick()), "check_finding")
    narrow = [labels for labels, _ in found if labels["check"] == "HD201"]
    assert [labels["subject"] for labels in narrow] == ["GPU0", "GPU1"]
    assert value(sick(), "findings", severity="critical") == 1


def test_processes_are_named_without_their_pids() -> None:
    found = told(snapshot_families(sick()), "check_finding")
    assert [labels["subject"] for labels, _ in found if labels["check"] == "HD105"] == ["python3", "VLLM::EngineCor"]


def test_a_node_keeps_its_number() -> None:
    state = msgspec.structs.replace(sick().checks[0], findings=(finding("HD305", "uneven", "node 1", "warning"),))
    snapshot = msgspec.structs.replace(sick(), checks=(state,))
    assert value(snapshot, "check_finding", subject="node 1") == 1


def test_every_check_says_how_it_ended() -> None:
    assert value(healthy(), "check_status", check="HD201", status="pass") == 1
    assert value(healthy(), "check_status", check="HD103", status="skip", skip_kind="no-plan") == 1


def test_the_share_of_an_engines_memory_near_its_gpus() -> None:
    assert value(healthy(), "gpu_process_memory_local_ratio", kind="shared") == 1.0
    assert value(sick(), "gpu_process_memory_local_ratio", kind="shared", unit="vllm.service", gpus="0") == 0.2
    assert value(sick(), "gpu_process_memory_local_ratio", kind="private") == 0.5
    assert value(sick(), "gpu_process_memory_bytes", kind="shared", node="1") == 8 * GIB


def test_engines_that_labels_cannot_tell_apart_are_added_up() -> None:
    snapshot = msgspec.structs.replace(healthy(), placements=(engine(1, 0), engine(0, 3)))
    assert value(snapshot, "gpu_processes") == 4
    assert value(snapshot, "gpu_process_memory_local_ratio", kind="shared") == 0.25


def test_no_share_where_the_gpus_nodes_are_not_known() -> None:
    lost = msgspec.structs.replace(engine(1, 1), gpu_nodes=())
    snapshot = msgspec.structs.replace(healthy(), placements=(lost,))
    assert told(snapshot_families(snapshot), "gpu_process_memory_local_ratio") == []
    assert value(snapshot, "gpu_process_memory_bytes", kind="shared", node="0") == GIB


def test_a_nodes_memory() -> None:
    told = {name: value(healthy(), f"numa_node_memory_{name}_bytes", node="1") for name in ("available", "pinned")}
    assert told == {"available": 300 * GIB, "pinned": GIB}
    assert value(healthy(), "numa_node_memory_budget_bytes", node="1") == 250 * GIB


def test_times_are_in_seconds() -> None:
    assert value(healthy(), "nvme_read_await_seconds", device="nvme0n1") == 0.00025
    assert value(healthy(), "pressure_waiting_seconds_total", resource="memory") == 1.5
    assert value(healthy(1000.0), "survey_timestamp_seconds") == 990.0


def test_what_is_not_known_has_no_series() -> None:
    names = {family.name for family in snapshot_families(Snapshot(taken_at=1.0, started_at=0.0, version="0.1.0"))}
    assert PREFIX + "snapshot_timestamp_seconds" in names
    assert not {PREFIX + name for name in ("status", "findings", "memory_pinned_bytes", "survey_age_seconds")} & names


def test_every_counter_of_the_agent_is_told() -> None:
    names = {family.name for family in snapshot_families(healthy())}
    assert {f"hostdoctor_agent_{name}_total" for name in Counters.__struct_fields__} <= names


@pytest.mark.parametrize("snapshot", [healthy(), sick()], ids=["healthy", "sick"])
def test_promtool_finds_nothing_to_say(snapshot: Snapshot) -> None:
    promtool("check", "metrics", text=render_prometheus(snapshot_families(snapshot)))
