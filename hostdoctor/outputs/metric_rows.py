"""Rows that the metrics of a report and of the agent have in common."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, get_args

from hostdoctor.diagnosis.report import SEVERITIES, Severity, Status
from hostdoctor.facts import Fact, Link
from hostdoctor.outputs.prometheus import Row
from hostdoctor.parsers.cpulist import format_cpulist

MemoryKind = Literal["private", "shared"]
STATUSES: tuple[Status, ...] = get_args(Status)
TRANSFERS = 1e9  # of a GT/s
MS_PER_S = 1000.0
MAX_NAMES = 3
# Their subjects are processes: a PID in a label would make a series that never comes back.
ABOUT_PROCESSES = frozenset(("HD105", "HD118", "HD119"))
_PID = re.compile(r" \d{1,10}$")


class ProcessGroup(Fact, frozen=True, kw_only=True):
    """Processes that use the same GPUs: ``memory`` has (kind, node, bytes), ``near`` are the nodes near the GPUs."""

    unit: str | None = None
    names: tuple[str, ...]
    processes: int
    gpus: tuple[int, ...]
    near: frozenset[int] = frozenset()
    memory: tuple[tuple[MemoryKind, int, int], ...] = ()


def status_rows(status: Status) -> Iterator[Row]:
    """Yield one row for each verdict that there is."""
    for name in STATUSES:
        yield "status", {"status": name}, float(name == status)


def severity_rows(severities: Sequence[Severity]) -> Iterator[Row]:
    """Yield how many findings there are of each severity."""
    for severity in SEVERITIES:
        yield "findings", {"severity": severity}, severities.count(severity)


def finding_rows(id: str, name: str, subject: str, severity: Severity) -> Iterator[Row]:
    """Yield a row for each subject of a finding, processes by their names alone."""
    for part in subject.split(", "):
        told = _PID.sub("", part) if id in ABOUT_PROCESSES else part
        yield "check_finding", {"check": id, "name": name, "subject": told, "severity": severity}, 1


def link_rows(device: str, kind: str, bdf: str | None, link: Link) -> Iterator[Row]:
    """Yield what of a link is known."""
    labels = {"device": device, "kind": kind, "bdf": bdf}
    yield "pcie_link_width_lanes", labels, link.width_lanes
    yield "pcie_link_max_width_lanes", labels, link.max_width_lanes
    yield "pcie_link_transfers_per_second", labels, _scaled(link.speed_gts, TRANSFERS)
    yield "pcie_link_max_transfers_per_second", labels, _scaled(link.max_speed_gts, TRANSFERS)


def error_rows(
    device: str | None, bdf: str, correctable: int | None, nonfatal: int | None, fatal: int | None
) -> Iterator[Row]:
    """Yield a function's errors by severity."""
    for severity, total in (("correctable", correctable), ("nonfatal", nonfatal), ("fatal", fatal)):
        yield "pcie_errors_total", {"device": device, "bdf": bdf, "severity": severity}, total


def seconds(milliseconds: float | None) -> float | None:
    """Return milliseconds as seconds."""
    return _scaled(milliseconds, 1 / MS_PER_S)


def group_rows(groups: Iterable[ProcessGroup]) -> Iterator[Row]:
    """Yield how many processes there are, where their memory is, and which part is near; like groups are added up."""
    counts: dict[tuple[str | None, str, str], int] = {}
    sizes: dict[tuple[str | None, str, str], dict[tuple[MemoryKind, int], int]] = {}
    near: dict[tuple[str | None, str, str], frozenset[int]] = {}
    for group in groups:
        key = (group.unit, _names(group.names), format_cpulist(group.gpus))
        counts[key] = counts.get(key, 0) + group.processes
        near[key] = group.near
        held = sizes.setdefault(key, {})
        for kind, node, size in group.memory:
            held[kind, node] = held.get((kind, node), 0) + size
    for key, count in counts.items():
        labels = dict(zip(("unit", "process", "gpus"), key, strict=True))
        yield "gpu_processes", labels, count
        yield from _memory_rows(labels, sizes[key], near[key])


def _memory_rows(
    labels: dict[str, str | None], sizes: dict[tuple[MemoryKind, int], int], near: frozenset[int]
) -> Iterator[Row]:
    for (kind, node), size in sizes.items():
        yield "gpu_process_memory_bytes", labels | {"kind": kind, "node": str(node)}, size
    for kind in get_args(MemoryKind):
        total = sum(size for (told, _), size in sizes.items() if told == kind)
        local = sum(size for (told, node), size in sizes.items() if told == kind and node in near)
        yield "gpu_process_memory_local_ratio", labels | {"kind": kind}, local / total if total and near else None


def _names(names: Sequence[str]) -> str:
    told = sorted(set(names))
    return ",".join(told[:MAX_NAMES]) + (",…" if len(told) > MAX_NAMES else "")


def _scaled(value: float | None, by: float) -> float | None:
    return None if value is None else value * by
