"""The metrics of one report: what ``hostdoctor check --format prometheus`` prints."""

from collections import Counter
from collections.abc import Iterator
from typing import get_args

from hostdoctor.budget.available import node_available
from hostdoctor.budget.pinned import Budget
from hostdoctor.diagnosis.api import gpu_label
from hostdoctor.diagnosis.block_rates import rates
from hostdoctor.diagnosis.counters import rise
from hostdoctor.diagnosis.needs import is_listed
from hostdoctor.diagnosis.paths import on_pcie
from hostdoctor.diagnosis.process_places import local_nodes, nodes_of
from hostdoctor.diagnosis.report import Report
from hostdoctor.facts import Fact, Host, NumaNode, Process
from hostdoctor.facts.model import GapKind
from hostdoctor.facts.processes import is_monitor, shared_counter
from hostdoctor.outputs.metric_rows import (
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

SECTOR_BYTES = 512  # of /sys/block/*/stat, whatever the drive's own


class Made(Fact, frozen=True, kw_only=True):
    """How the report was made. The times are None for a capture: when that was taken is not known."""

    version: str
    ended_at: float | None = None
    duration_s: float | None = None


def report_families(report: Report, made: Made, budget: Budget | None = None) -> tuple[Family, ...]:
    """Return the metrics of a report; ``budget`` is that of the host without a plan, None where there is none."""
    return families(_rows(report, made, budget))


def _rows(report: Report, made: Made, budget: Budget | None) -> Iterator[Row]:
    host = report.host
    yield "build_info", {"version": made.version}, 1
    yield "survey_timestamp_seconds", {}, made.ended_at
    yield "survey_duration_seconds", {}, made.duration_s
    yield from status_rows(report.status)
    yield from _check_rows(report)
    yield from _host_rows(report)
    yield from _device_rows(host)
    yield from _error_rows(host)
    for node in host.numa_nodes:
        yield from _node_rows(node)
    yield "memory_pinned_bytes", {}, host.memory.pinned_bytes
    if budget is not None:
        yield "memory_budget_bytes", {}, budget.pinnable_bytes
        for entry in budget.nodes:
            yield "numa_node_memory_budget_bytes", {"node": entry.id}, entry.pinnable_bytes
    yield from group_rows(_groups(host))
    for drive in host.nvme:
        for disk in drive.namespaces:
            yield from _drive_rows(host, disk, drive.name)


def _check_rows(report: Report) -> Iterator[Row]:
    for result in report.results:
        labels = {"check": result.id, "name": result.name, "status": result.status, "skip_kind": result.skip_kind}
        yield "check_status", labels, 1
        for finding in result.findings:
            yield from finding_rows(result.id, result.name, finding.subject, finding.severity)
    yield from severity_rows([finding.severity for result in report.results for finding in result.findings])
    yield "findings_accepted", {}, sum(len(result.accepted) for result in report.results)


def _host_rows(report: Report) -> Iterator[Row]:
    host, system = report.host, report.host.system
    names = ("kernel", "architecture", "cpu_model", "virtualization", "container", "nvidia_driver")
    yield "host_info", {name: getattr(system, name) for name in names}, 1
    gaps = Counter(gap.kind for gap in host.gaps)
    for kind in get_args(GapKind):
        yield "gaps", {"kind": kind}, gaps[kind]
    yield "disagreements", {}, len(host.disagreements)
    if is_listed(host, "gpus"):
        yield "gpus", {}, len(host.gpus)
        yield "gpus_in_scope", {}, report.gpus_in_scope


def _device_rows(host: Host) -> Iterator[Row]:
    linked = on_pcie(host, host.gpus)
    for gpu in host.gpus:
        label = gpu_label(host, gpu)
        about = {"device": label, "bdf": gpu.bdf, "uuid": gpu.uuid, "model": gpu.name, "driver": gpu.driver}
        yield "gpu_info", about | {"numa_node": gpu.numa_node, "root_complex": gpu.root_complex}, 1
        if gpu in linked:
            yield from link_rows(label, "gpu", gpu.bdf, gpu.link)
    for nic in host.nics:
        if nic.name is not None:
            yield from link_rows(nic.name, "nic", nic.bdf, nic.link)
    for drive in host.nvme:
        if drive.name is not None:
            about = {"device": drive.name, "bdf": drive.bdf, "model": drive.model, "firmware": drive.firmware}
            yield "nvme_info", about | {"numa_node": drive.numa_node, "root_complex": drive.root_complex}, 1
            yield from link_rows(drive.name, "nvme", drive.bdf, drive.link)


def _error_rows(host: Host) -> Iterator[Row]:
    names = {gpu.bdf: gpu_label(host, gpu) for gpu in host.gpus}
    names |= {nic.bdf: nic.name for nic in host.nics if nic.name}
    names |= {drive.bdf: drive.name for drive in host.nvme if drive.name}
    for device in host.pci_devices:
        if device.errors is not None:
            told = device.errors
            yield from error_rows(names.get(device.bdf), device.bdf, told.correctable, told.nonfatal, told.fatal)


def _node_rows(node: NumaNode) -> Iterator[Row]:
    labels, memory = {"node": node.id}, node.memory
    yield "numa_node_memory_size_bytes", labels, node.memory_bytes
    yield "numa_node_memory_free_bytes", labels, node.free_bytes
    yield "numa_node_memory_available_bytes", labels, node_available(node).available_bytes
    if memory is not None:
        yield "numa_node_memory_pinned_bytes", labels, memory.pinned_bytes
        yield "numa_node_memory_shared_bytes", labels, memory.shmem_bytes
        yield "numa_node_memory_unevictable_bytes", labels, memory.unevictable_bytes


def _groups(host: Host) -> Iterator[ProcessGroup]:
    for process in host.processes:
        if not is_monitor(process):
            yield ProcessGroup(
                names=(process.name or "?",),
                processes=1,
                gpus=process.gpus,
                near=local_nodes(host, process, nodes_of(host, process)) if nodes_of(host, process) else frozenset(),
                memory=tuple(("shared", node, size) for node, size in _shared(host, process).items()),
            )


def _shared(host: Host, process: Process) -> dict[int, int]:
    """Return a process' shared memory by node as it was read last, ``{}`` where nothing read it (``--sample``)."""
    prefix = shared_counter(process, "")
    for sample in reversed(host.samples):
        told = {int(name[len(prefix) :]): size for name, size in sample.after.items() if name.startswith(prefix)}
        if told:
            return told
    return {}


def _drive_rows(host: Host, disk: str, drive: str | None) -> Iterator[Row]:
    told = rates(host, disk)
    if told is None:
        return
    labels = {"device": disk, "drive": drive}
    yield "nvme_read_await_seconds", labels, seconds(told.r_await_ms)
    yield "nvme_write_await_seconds", labels, seconds(told.w_await_ms)
    yield "nvme_queue_depth", labels, told.queue_depth
    yield "nvme_reads_per_second", labels, _per_second(host, f"block.{disk}.read_ios")
    yield "nvme_writes_per_second", labels, _per_second(host, f"block.{disk}.write_ios")
    yield "nvme_read_bytes_per_second", labels, _per_second(host, f"block.{disk}.read_sectors", SECTOR_BYTES)
    yield "nvme_write_bytes_per_second", labels, _per_second(host, f"block.{disk}.write_sectors", SECTOR_BYTES)


def _per_second(host: Host, counter: str, unit: int = 1) -> float | None:
    told = rise(host, counter)
    return None if told is None else told.by * unit / told.seconds
