"""The metrics of the agent: what it knows at one moment, under the names that a report's metrics have too."""

from collections.abc import Iterator

from hostdoctor.agent.model import TRANSITIONS, Counters, DriveRates, LinkState, NodeState, Placement, Snapshot
from hostdoctor.facts import Link
from hostdoctor.outputs.metric_rows import (
    MemoryKind,
    ProcessGroup,
    error_rows,
    finding_rows,
    group_rows,
    link_rows,
    seconds,
    severity_rows,
    status_rows,
)
from hostdoctor.outputs.prometheus import Family, Row, families

US_PER_S = 1e6
_COUNTERS = (
    "surveys", "survey_failures", "signal_readings", "events", "events_lost", "reloads", "reload_failures",
    "state_write_failures", "publish_failures", "clock_jumps",
)  # fmt: skip


def snapshot_families(snapshot: Snapshot) -> tuple[Family, ...]:
    """Return the metrics of a snapshot."""
    return families(_rows(snapshot))


def _rows(snapshot: Snapshot) -> Iterator[Row]:
    yield "build_info", {"version": snapshot.version}, 1
    yield "snapshot_timestamp_seconds", {}, snapshot.taken_at
    yield from _survey_rows(snapshot)
    yield from _check_rows(snapshot)
    for link in snapshot.links:
        yield from _link_rows(link)
    for told in snapshot.errors:
        yield from error_rows(told.device, told.bdf, told.correctable, told.nonfatal, told.fatal)
    for node in snapshot.nodes:
        yield from _node_rows(node)
    yield "memory_pinned_bytes", {}, snapshot.pinned_bytes
    yield from group_rows(_group(placement) for placement in snapshot.placements)
    for drive in snapshot.drives:
        yield from _drive_rows(drive)
    for pressure in snapshot.pressure:
        labels = {"resource": pressure.resource}
        yield "pressure_waiting_seconds_total", labels, _from_us(pressure.some_total_us)
        yield "pressure_stalled_seconds_total", labels, _from_us(pressure.full_total_us)
    yield from _agent_rows(snapshot)


def _survey_rows(snapshot: Snapshot) -> Iterator[Row]:
    survey = snapshot.survey
    if survey is None:
        return
    yield "survey_timestamp_seconds", {}, survey.ended_at
    yield "survey_duration_seconds", {}, survey.duration_s
    yield "survey_age_seconds", {}, survey.age_s
    yield from status_rows(survey.status)
    found = [finding for state in snapshot.checks for finding in state.findings]
    yield from severity_rows([finding.severity for finding in found])
    yield "findings_flapping", {}, sum(finding.is_flapping for finding in found)
    yield "findings_unjudged", {}, sum(not finding.is_judged for finding in found)
    yield "findings_accepted", {}, sum(state.accepted for state in snapshot.checks)


def _check_rows(snapshot: Snapshot) -> Iterator[Row]:
    for state in snapshot.checks:
        labels = {"check": state.id, "name": state.name, "status": state.status, "skip_kind": state.skip_kind}
        yield "check_status", labels, 1
        for finding in state.findings:
            yield from finding_rows(finding.id, finding.name, finding.subject, finding.severity)


def _link_rows(state: LinkState) -> Iterator[Row]:
    yield "pcie_device_present", {"device": state.device, "kind": state.kind, "bdf": state.bdf}, state.is_present
    link = Link(
        width_lanes=state.width_lanes,
        max_width_lanes=state.max_width_lanes,
        speed_gts=state.speed_gts,
        max_speed_gts=state.max_speed_gts,
    )
    yield from link_rows(state.device, state.kind, state.bdf, link)


def _node_rows(node: NodeState) -> Iterator[Row]:
    labels = {"node": node.id}
    yield "numa_node_memory_size_bytes", labels, node.total_bytes
    yield "numa_node_memory_free_bytes", labels, node.free_bytes
    yield "numa_node_memory_available_bytes", labels, node.available_bytes
    yield "numa_node_memory_pinned_bytes", labels, node.pinned_bytes
    yield "numa_node_memory_shared_bytes", labels, node.shmem_bytes
    yield "numa_node_memory_unevictable_bytes", labels, node.unevictable_bytes
    yield "numa_node_memory_budget_bytes", labels, node.pinnable_bytes


def _group(placement: Placement) -> ProcessGroup:
    memory: list[tuple[MemoryKind, int, int]] = []
    for share in placement.nodes:
        memory += [("private", share.node, share.anon_bytes), ("shared", share.node, share.shared_bytes)]
    return ProcessGroup(
        unit=placement.unit,
        names=placement.names,
        processes=len(placement.pids),
        gpus=placement.gpus,
        near=frozenset(placement.gpu_nodes),
        memory=tuple(memory),
    )


def _drive_rows(drive: DriveRates) -> Iterator[Row]:
    labels = {"device": drive.name, "drive": drive.drive}
    yield "nvme_read_await_seconds", labels, seconds(drive.r_await_ms)
    yield "nvme_write_await_seconds", labels, seconds(drive.w_await_ms)
    yield "nvme_queue_depth", labels, drive.queue_depth
    yield "nvme_reads_per_second", labels, drive.read_iops
    yield "nvme_writes_per_second", labels, drive.write_iops
    yield "nvme_read_bytes_per_second", labels, drive.read_bytes_per_second
    yield "nvme_write_bytes_per_second", labels, drive.write_bytes_per_second
    yield "nvme_usual_read_await_seconds", labels, seconds(drive.usual_r_await_ms)
    yield "nvme_usual_write_await_seconds", labels, seconds(drive.usual_w_await_ms)
    yield "nvme_usual_queue_depth", labels, drive.usual_queue_depth


def _agent_rows(snapshot: Snapshot) -> Iterator[Row]:
    yield "agent_start_time_seconds", {}, snapshot.started_at
    yield "agent_baseline_timestamp_seconds", {}, snapshot.baseline_accepted_at
    for problem in snapshot.problems:
        yield "agent_problem", {"problem": problem.name}, 1
    counters: Counters = snapshot.counters
    for name in _COUNTERS:
        yield f"agent_{name}_total", {}, getattr(counters, name)
    for transition in TRANSITIONS:
        yield "agent_transitions_total", {"transition": transition}, counters.transitions.get(transition, 0)


def _from_us(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / US_PER_S
