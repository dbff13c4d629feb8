"""The cheap signals that are read between surveys: links, errors, drives, nodes, placements, pressure.

Only small files of sysfs, procfs and cgroupfs are read, never ``numa_maps`` or ``smaps``: those stall large processes.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from hostdoctor.agent.model import (
    DeviceKind,
    DriveRates,
    ErrorTotals,
    LinkState,
    NodeShare,
    NodeState,
    Placement,
    Pressure,
)
from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact, IoBaseline, Link, PciErrors
from hostdoctor.parsers.numa_stat import parse_numa_stat
from hostdoctor.sources.base import Readable
from hostdoctor.survey.cgroups import MOUNT
from hostdoctor.survey.nodes import NODES
from hostdoctor.survey.pci import DEVICES, read_link
from hostdoctor.survey.pci_details import read_errors

_RESOURCES: tuple[Literal["cpu", "io", "memory"], ...] = ("cpu", "io", "memory")
SECTOR_BYTES = 512  # of /proc/diskstats, whatever the drive's own
MIN_TICKS_MS = 100  # ticks are whole milliseconds: a mean of less is rounding
DISKSTATS = "/proc/diskstats"
_MEMINFO = re.compile(r"^Node \d{1,6} (\w+(?:\(\w+\))?): +(\d{1,15}) kB$", re.MULTILINE)
_STALL = re.compile(r"^(some|full) .*\btotal=(\d{1,18})$", re.MULTILINE)
_NODE_FIELDS = {
    "MemTotal": "total_bytes",
    "MemFree": "free_bytes",
    "FilePages": "file_bytes",
    "AnonPages": "anon_bytes",
    "Shmem": "shmem_bytes",
    "Unevictable": "unevictable_bytes",
    "Mlocked": "mlocked_bytes",
}


class WatchedFunction(Fact, frozen=True, kw_only=True):
    """A PCI function to watch: a GPU, NIC or drive, or a port above one.

    ``has_link``: its link matters; that of a GPU joined to its CPU by C2C does not. ``width_lanes`` and
    ``severe_errors`` are what the survey saw: None where no link is shown, and where no errors are counted (AER).
    """

    bdf: str
    device: str
    kind: DeviceKind
    numa_node: int | None = None
    has_link: bool = True
    width_lanes: int | None = None
    severe_errors: int | None = None


class WatchedDrive(Fact, frozen=True, kw_only=True):
    """An NVMe namespace to watch (``nvme0n1`` of ``nvme0``)."""

    name: str
    drive: str
    numa_node: int | None = None


class Watched(Fact, frozen=True, kw_only=True):
    """What the last survey says there is to read. Of ``groups`` the nodes are what it saw itself."""

    functions: tuple[WatchedFunction, ...] = ()
    drives: tuple[WatchedDrive, ...] = ()
    nodes: tuple[int, ...] = ()
    groups: tuple[Placement, ...] = ()


class DriveCounters(Fact, frozen=True, kw_only=True):
    """A drive's counters since boot (Documentation/admin-guide/iostats.rst)."""

    read_ios: int
    read_sectors: int
    read_ticks_ms: int
    write_ios: int
    write_sectors: int
    write_ticks_ms: int
    time_in_queue_ms: int


class Reading(Fact, frozen=True, kw_only=True):
    """One reading; ``at`` is monotonic seconds. Of what is gone or unreadable there is no entry."""

    at: float
    links: dict[str, Link] = {}
    errors: dict[str, PciErrors] = {}
    drives: dict[str, DriveCounters] = {}
    nodes: tuple[NodeState, ...] = ()
    placements: tuple[Placement, ...] = ()
    pressure: tuple[Pressure, ...] = ()


def read_signals(files: Readable, watched: Watched, at: float) -> Reading:
    """Return what the files say now."""
    return Reading(
        at=at,
        links=dict(_links(files, watched.functions)),
        errors=dict(_errors(files, watched.functions)),
        drives=dict(_drives(files, watched.drives)),
        nodes=tuple(_nodes(files, watched.nodes)),
        placements=tuple(_placements(files, watched.groups)),
        pressure=tuple(_pressure(files)),
    )


def link_states(watched: Watched, reading: Reading) -> tuple[LinkState, ...]:
    """Return whether the watched functions are there, and the links of those that show one."""
    return tuple(_link_state(function, reading.links.get(function.bdf)) for function in watched.functions)


def error_totals(watched: Watched, reading: Reading) -> tuple[ErrorTotals, ...]:
    """Return the error totals of the watched functions that count them."""
    return tuple(
        ErrorTotals(
            bdf=function.bdf,
            device=function.device,
            kind=function.kind,
            correctable=told.correctable,
            nonfatal=told.nonfatal,
            fatal=told.fatal,
        )
        for function in watched.functions
        if (told := reading.errors.get(function.bdf)) is not None
    )


def drive_rates(
    watched: Watched, before: Reading, after: Reading, usual: dict[str, IoBaseline]
) -> tuple[DriveRates, ...]:
    """Return what the drives did between two readings; one whose counters fell (reset) is left out."""
    seconds = after.at - before.at
    found = []
    for drive in watched.drives:
        one, other = before.drives.get(drive.name), after.drives.get(drive.name)
        if one is not None and other is not None and seconds > 0 and not _fell(one, other):
            found.append(_rates(drive, one, other, seconds, usual.get(drive.name, IoBaseline())))
    return tuple(found)


def why_survey(before: Reading, after: Reading) -> str | None:
    """Return what changed between two readings that a survey has to judge now; None where nothing did.

    Link rates follow the load and counters rise: neither asks for a survey, fatal and non-fatal errors do.
    """
    changed = _changed_link(before.links, after.links)
    if changed is not None:
        return changed
    for bdf, counted in after.errors.items():
        if severe(counted) > severe(before.errors.get(bdf) or counted):
            return _more_severe(bdf)
    return _changed_node(before, after)


def why_survey_again(watched: Watched, before: Reading, reading: Reading) -> str | None:
    """Return what has changed since the survey itself looked, which no later reading would show as a change.

    ``before`` is the reading before the survey ended. Functions that came meanwhile are left to the kernel's events.
    """
    for function in watched.functions:
        bdf, counted = function.bdf, reading.errors.get(function.bdf)
        changed = _changed_since(function, before.links.get(bdf), reading.links.get(bdf))
        if changed is not None:
            return changed
        if counted is not None and function.severe_errors is not None and severe(counted) > function.severe_errors:
            return _more_severe(bdf)
    return _changed_node(before, reading)


def _changed_since(function: WatchedFunction, before: Link | None, now: Link | None) -> str | None:
    was = function.width_lanes
    if was is None:
        return None  # no link then, or gone already
    if now is None:
        return f"{function.bdf} is gone" if before is not None else None
    if now.width_lanes is None and before is not None and before.width_lanes is None:
        return None  # the files showed none before either: the survey knows it from elsewhere, and always will
    return _another_width(function.bdf, now.width_lanes, was) if now.width_lanes != was else None


def _another_width(bdf: str, now: int | None, was: int | None) -> str:
    return f"the link of {bdf} has {now} lanes, had {was}"


def _more_severe(bdf: str) -> str:
    return f"{bdf} counts more severe PCIe errors"


def _changed_link(before: Mapping[str, Link], after: Mapping[str, Link]) -> str | None:
    for bdf, link in before.items():
        now = after.get(bdf)
        if now is None:
            return f"{bdf} is gone"
        if now.width_lanes != link.width_lanes:
            return _another_width(bdf, now.width_lanes, link.width_lanes)
    return next((f"{bdf} is there again" for bdf in after if bdf not in before), None)


def _changed_node(before: Reading, after: Reading) -> str | None:
    sizes = {node.id: node.total_bytes for node in before.nodes}
    for node in after.nodes:
        if node.id in sizes and node.total_bytes != sizes[node.id]:
            return f"the memory of node {node.id} has changed"
    return None


def severe(errors: PciErrors) -> int:
    """Return how many non-fatal and fatal errors are counted."""
    return (errors.nonfatal or 0) + (errors.fatal or 0)


def _links(files: Readable, functions: Iterable[WatchedFunction]) -> Iterator[tuple[str, Link]]:
    for function in functions:
        base = f"{DEVICES}/{function.bdf}"
        link = read_link(files, base) if function.has_link else Link()
        if link != Link() or files.read(f"{base}/class") is not None:
            yield function.bdf, link


def _errors(files: Readable, functions: Iterable[WatchedFunction]) -> Iterator[tuple[str, PciErrors]]:
    for function in functions:
        if function.severe_errors is not None and (told := read_errors(files, f"{DEVICES}/{function.bdf}")) is not None:
            yield function.bdf, told


def _drives(files: Readable, drives: Iterable[WatchedDrive]) -> Iterator[tuple[str, DriveCounters]]:
    wanted = {drive.name for drive in drives}
    for row in (files.read(DISKSTATS) or "").splitlines() if wanted else ():
        words = row.split()
        if len(words) < 14 or words[2] not in wanted or not all(_is_count(word) for word in words[3:14]):
            continue
        reads, _, read_sectors, read_ticks, writes, _, write_sectors, write_ticks, _, _, queued = map(int, words[3:14])
        yield (
            words[2],
            DriveCounters(
                read_ios=reads,
                read_sectors=read_sectors,
                read_ticks_ms=read_ticks,
                write_ios=writes,
                write_sectors=write_sectors,
                write_ticks_ms=write_ticks,
                time_in_queue_ms=queued,
            ),
        )


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 18


def _nodes(files: Readable, nodes: Iterable[int]) -> Iterator[NodeState]:
    for node in nodes:
        rows = _MEMINFO.findall(files.read(f"{NODES}/node{node}/meminfo") or "")
        sizes = {_NODE_FIELDS[name]: int(size) << 10 for name, size in rows if name in _NODE_FIELDS}
        if sizes:
            yield NodeState(id=node, **sizes)


def _placements(files: Readable, groups: Iterable[Placement]) -> Iterator[Placement]:
    for group in groups:
        nodes = read_group(files, group.cgroup)
        if nodes:
            yield Placement(
                cgroup=group.cgroup,
                unit=group.unit,
                pids=group.pids,
                names=group.names,
                gpus=group.gpus,
                gpu_nodes=group.gpu_nodes,
                is_alone=group.is_alone,
                nodes=nodes,
            )


def read_group(files: Readable, cgroup: str) -> tuple[NodeShare, ...]:
    """Return a control group's memory by node, ``()`` when it is gone or not of version 2."""
    path = numa_stat_path(cgroup)
    try:
        told = parse_numa_stat(files.read(path) or "", path)
    except ParseError:
        return ()
    return tuple(
        NodeShare(node=m.node, anon_bytes=m.anon_bytes, shared_bytes=m.shared_bytes, file_bytes=m.file_bytes)
        for m in told
    )


def numa_stat_path(cgroup: str) -> str:
    """Return the file that tells where a group's memory is."""
    return f"{MOUNT}{cgroup}".rstrip("/") + "/memory.numa_stat"


def _pressure(files: Readable) -> Iterator[Pressure]:
    for resource in _RESOURCES:
        stalls = dict(_STALL.findall(files.read(f"/proc/pressure/{resource}") or ""))
        if stalls:
            some, full = stalls.get("some"), stalls.get("full")
            yield Pressure(
                resource=resource,
                some_total_us=None if some is None else int(some),
                full_total_us=None if full is None else int(full),
            )


def _link_state(function: WatchedFunction, link: Link | None) -> LinkState:
    told = link or Link()
    return LinkState(
        bdf=function.bdf,
        device=function.device,
        kind=function.kind,
        numa_node=function.numa_node,
        is_present=link is not None,
        width_lanes=told.width_lanes,
        max_width_lanes=told.max_width_lanes,
        speed_gts=told.speed_gts,
        max_speed_gts=told.max_speed_gts,
    )


def _fell(before: DriveCounters, after: DriveCounters) -> bool:
    return any(getattr(after, name) < getattr(before, name) for name in DriveCounters.__struct_fields__)


def _rates(
    drive: WatchedDrive, before: DriveCounters, after: DriveCounters, seconds: float, usual: IoBaseline
) -> DriveRates:
    queued_ms = after.time_in_queue_ms - before.time_in_queue_ms
    reads, writes = after.read_ios - before.read_ios, after.write_ios - before.write_ios
    return DriveRates(
        name=drive.name,
        drive=drive.drive,
        seconds=seconds,
        numa_node=drive.numa_node,
        read_iops=reads / seconds,
        write_iops=writes / seconds,
        read_bytes_per_second=(after.read_sectors - before.read_sectors) * SECTOR_BYTES / seconds,
        write_bytes_per_second=(after.write_sectors - before.write_sectors) * SECTOR_BYTES / seconds,
        r_await_ms=_mean(after.read_ticks_ms - before.read_ticks_ms, reads),
        w_await_ms=_mean(after.write_ticks_ms - before.write_ticks_ms, writes),
        queue_depth=queued_ms / (seconds * 1000),
        usual_r_await_ms=usual.r_await_ms,
        usual_w_await_ms=usual.w_await_ms,
        usual_queue_depth=usual.queue_depth,
    )


def _mean(ticks_ms: int, requests: int) -> float | None:
    return ticks_ms / requests if ticks_ms >= MIN_TICKS_MS and requests else None
