"""One survey as the agent makes it: in a child, from a source and what is remembered to a compact record."""

import contextlib
import datetime
import gc
import importlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from hostdoctor.agent.model import DeviceKind, Placement
from hostdoctor.agent.signals import Watched, WatchedDrive, WatchedFunction, read_group, severe
from hostdoctor.agent.usual import Group, Split, remember
from hostdoctor.diagnosis.accept import Accept, by_date
from hostdoctor.diagnosis.api import Ask, Rule
from hostdoctor.diagnosis.drift import baseline_of, gone_devices
from hostdoctor.diagnosis.nearby import device_label
from hostdoctor.diagnosis.paths import Device, on_pcie
from hostdoctor.diagnosis.report import CheckResult, Status
from hostdoctor.diagnosis.runner import diagnose
from hostdoctor.errors import SourceError
from hostdoctor.facts import Baseline, Fact, Host, IoBaseline, PciDevice, Process, Sample
from hostdoctor.facts.processes import is_monitor
from hostdoctor.sources.base import Source
from hostdoctor.survey import survey
from hostdoctor.survey.samples import read_counters

NVML_READING_S = 0.1  # the driver's counters are read twice so far apart; only the later reading is used
LONG_SAMPLE_S = 600.0  # HD210 judges the rate of errors over ten minutes
ERRORS = ("aer.", "nvml.")
OWN = "hostdoctor."
KINDS: dict[str, DeviceKind] = {"GPU": "gpu", "NIC": "nic", "drive": "nvme"}
_VARIES = re.compile(
    r"[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{12,}|(?<=session-)\d+"
    r"|(?<=-)\d+(?=\.scope$)|(?<=^run-[up])\d+(?:-i\d+)?(?=\.service$)"  # made anew at each start
)
_CONTAINER = ("docker-", "cri-containerd-", "crio-", "libpod-")


class Counted(Fact, frozen=True, kw_only=True):
    """Counters as they were at one moment (monotonic seconds)."""

    at: float
    counters: dict[str, int]


class Remembered(Fact, frozen=True, kw_only=True):
    """What earlier surveys hand on: counters of the last one and of ten minutes ago, the accepted map, and more."""

    last: Counted | None = None
    long_ago: Counted | None = None
    baseline: Baseline | None = None
    usual: dict[str, IoBaseline] = {}
    splits: dict[str, Split] = {}


class NodeBudgetState(Fact, frozen=True, kw_only=True):
    """What a node has left, and what of it may be pinned by the budget's defaults."""

    id: int
    available_bytes: int | None = None
    pinnable_bytes: int | None = None
    pinned_bytes: int | None = None


class Surveyed(Fact, frozen=True, kw_only=True):
    """What a survey found. ``candidate`` is its map, to be accepted where none is; None where it is not whole.

    ``modules`` are those of hostdoctor that it needed.
    """

    status: Status
    duration_s: float
    counted: Counted
    watched: Watched
    unknown: str | None = None
    hostname: str | None = None
    results: tuple[CheckResult, ...] = ()
    notes: tuple[str, ...] = ()
    budgets: tuple[NodeBudgetState, ...] = ()
    pinned_bytes: int | None = None
    candidate: Baseline | None = None
    splits: dict[str, Split] = {}
    modules: tuple[str, ...] = ()


class Wish(Fact, frozen=True, kw_only=True):
    """What the settings ask of each survey."""

    paths: tuple[str, ...] = ()
    ask: Ask = Ask()
    accepts: tuple[Accept, ...] = ()


def make_survey(
    source: Source,
    rules: Sequence[Rule],
    wish: Wish,
    known: Remembered,
    *,
    clock: Callable[[], float] = time.monotonic,
    wall: Callable[[], float] = time.time,
) -> Surveyed:
    """Return what a survey of the source finds; raise SourceError where nothing at all could be established."""
    began = clock()
    host = survey(source, paths=wish.paths, numa_maps_limit_bytes=0)
    if not host.numa_nodes and not host.pci_devices and not host.cores:
        raise SourceError(f"{source.label}: nothing could be established")
    now = utc(wall())
    groups = _groups(source, host)
    splits, placed = remember(known.splits, groups, now)
    counted = Counted(at=clock(), counters=_counters(source, host))
    host = replace(
        host,
        baseline=known.baseline,
        placed_before=placed,
        samples=_samples(known, counted),
        block_devices=tuple(replace(d, baseline=known.usual.get(d.name)) for d in host.block_devices),
    )
    accepts, ended = by_date(wish.accepts, datetime.datetime.fromisoformat(now).date())
    report = diagnose(host, wish.ask, rules, accepts=accepts, ended=ended)
    return Surveyed(
        status=report.status,
        unknown=report.unknown,
        duration_s=clock() - began,
        counted=counted,
        watched=_watched(host, groups, known.baseline),
        hostname=host.system.hostname,
        results=report.results,
        notes=report.notes,
        budgets=_budgets(source, host),
        pinned_bytes=host.memory.pinned_bytes,
        candidate=baseline_of(host, now) if _is_whole(host) else None,
        splits=splits,
        modules=tuple(sorted(name for name in sys.modules if name.startswith(OWN))),
    )


def preload(modules: Iterable[str]) -> None:
    """Import what a survey needed, so that the next child need not: it costs each four fifths of its time."""
    missing = [name for name in modules if name.startswith(OWN) and name not in sys.modules]
    for name in missing:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if missing:
        gc.freeze()  # children share what the collector does not touch


def utc(seconds: float) -> str:
    """Return a time as ISO 8601, in UTC; the nearest that there is for a clock that is out of all bounds."""
    bounded = min(max(seconds, 0.0), 253402300799.0)
    return datetime.datetime.fromtimestamp(bounded, datetime.timezone.utc).isoformat(timespec="seconds")


def unit_of(cgroup: str) -> str:
    """Return what of a control group's path survives a restart: ``vllm.service``, ``docker-*.scope``, a pod's parts."""
    parts = [part for part in cgroup.split("/") if part]
    named = [_VARIES.sub("*", part) for part in parts]
    if named and named[-1].startswith(_CONTAINER) and len(named) > 1:
        return "/".join(named[-2:])
    return named[-1] if named else "/"


def _is_whole(host: Host) -> bool:
    """Tell whether a map may be kept as the accepted one: functions are known, and the driver has not failed."""
    return bool(host.pci_devices) and host.nvidia.state not in ("error", "timeout")


def _counters(source: Source, host: Host) -> dict[str, int]:
    found = read_counters(source, host)
    driver = source.nvml_sample(NVML_READING_S) if host.nvidia.state == "ok" else None
    return found | (driver.after if driver else {})


def _samples(known: Remembered, now: Counted) -> tuple[Sample, ...]:
    """Return the counters since the last survey, and those of errors over ten minutes, which are looked at first."""
    found = []
    for before, prefixes in ((known.last, ("",)), (known.long_ago, ERRORS)):
        if before is None or now.at <= before.at:
            continue
        found.append(
            Sample(
                seconds=now.at - before.at,
                before={name: value for name, value in before.counters.items() if name.startswith(prefixes)},
                after={name: value for name, value in now.counters.items() if name.startswith(prefixes)},
            )
        )
    return tuple(found)


def _gone(host: Host, baseline: Baseline | None) -> Iterator[WatchedFunction]:
    """Yield the accepted map's functions that are gone: which is told until they return or another map is accepted."""
    for device in gone_devices(host, baseline) if baseline else ():
        if device.bdf:
            node = device.numa_nodes[0] if len(device.numa_nodes) == 1 else None
            yield WatchedFunction(bdf=device.bdf, device=device.label, kind=KINDS[device.kind], numa_node=node)


def _watched(host: Host, groups: Iterable[Group], baseline: Baseline | None) -> Watched:
    """Return what to read between surveys."""
    pci = {device.bdf: device for device in host.pci_devices}
    functions: dict[str, WatchedFunction] = {}
    kinds: tuple[tuple[DeviceKind, Sequence[Device]], ...] = (
        ("gpu", host.gpus),
        ("nic", host.nics),
        ("nvme", host.nvme),
    )
    placed = [(kind, device) for kind, devices in kinds for device in devices if device.bdf]
    linkless = {gpu.bdf for gpu in host.gpus} - {gpu.bdf for gpu in on_pcie(host, host.gpus)}
    carrying = {port for _, device in placed if device.bdf not in linkless for port in device.upstream}
    for kind, device in placed:
        bdf = device.bdf or ""
        label, node = device_label(host, device), device.numa_node
        functions.setdefault(bdf, _function(bdf, label, kind, node, pci.get(bdf), has_link=bdf not in linkless))
    for bdf in (bdf for _, device in placed for bdf in device.upstream):
        port = pci.get(bdf)
        node = port.numa_node if port else None
        functions.setdefault(bdf, _function(bdf, f"port {bdf}", "port", node, port, has_link=bdf in carrying))
    for function in _gone(host, baseline):
        functions.setdefault(function.bdf, function)
    return Watched(
        functions=tuple(functions.values()),
        drives=tuple(
            WatchedDrive(name=name, drive=drive.name or "", numa_node=drive.numa_node)
            for drive in host.nvme
            for name in drive.namespaces
        ),
        nodes=tuple(node.id for node in host.numa_nodes),
        groups=tuple(group.placement for group in groups),
    )


def _function(
    bdf: str, device: str, kind: DeviceKind, node: int | None, seen: PciDevice | None, *, has_link: bool
) -> WatchedFunction:
    errors = seen.errors if seen else None
    return WatchedFunction(
        bdf=bdf,
        device=device,
        kind=kind,
        numa_node=node,
        has_link=has_link,
        width_lanes=seen.link.width_lanes if seen and has_link else None,
        severe_errors=None if errors is None else severe(errors),
    )


def _groups(source: Source, host: Host) -> tuple[Group, ...]:
    """Return the control groups of the processes that use GPUs, monitoring services left out."""
    by_path: dict[str, list[Process]] = {}
    for process in host.processes:
        if process.cgroup not in (None, "/") and not is_monitor(process):
            by_path.setdefault(process.cgroup or "", []).append(process)
    uptime_s = _uptime(source)
    return tuple(_group(source, host, path, members, uptime_s) for path, members in sorted(by_path.items()))


def _group(source: Source, host: Host, cgroup: str, members: list[Process], uptime_s: float | None) -> Group:
    gpus = tuple(sorted({index for process in members for index in process.gpus}))
    near = sorted({node for gpu in host.gpus if gpu.index in gpus for node in gpu.numa_nodes})
    starts = tuple(sorted(process.start_ticks for process in members if process.start_ticks is not None))
    placement = Placement(
        cgroup=cgroup,
        unit=unit_of(cgroup),
        pids=tuple(process.pid for process in members),
        names=tuple(dict.fromkeys(process.name or "?" for process in members)),
        gpus=gpus,
        gpu_nodes=tuple(near),
        is_alone=len(members) == 1 and members[0].memory_source == "memory.numa_stat",
        nodes=read_group(source, cgroup),
    )
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    known = uptime_s is not None and len(starts) == len(members)
    return Group(
        placement=placement,
        starts=starts,
        youngest_s=(uptime_s or 0.0) - max(starts) / ticks_per_s if known and starts else None,
    )


def _uptime(source: Source) -> float | None:
    try:
        return float((source.read("/proc/uptime") or "").split()[0])
    except (IndexError, ValueError):
        return None


def _budgets(source: Source, host: Host) -> tuple[NodeBudgetState, ...]:
    """Return the nodes' budgets for engines on all GPUs, nothing pinned yet."""
    from hostdoctor.budget.whole import Request, whole_budget

    document, _ = whole_budget(source, host, Request())
    pinned = {node.id: node.memory.pinned_bytes for node in host.numa_nodes if node.memory is not None}
    return tuple(
        NodeBudgetState(
            id=node.id,
            available_bytes=node.available_bytes,
            pinnable_bytes=node.pinnable_bytes,
            pinned_bytes=pinned.get(node.id),
        )
        for node in document.nodes
    )


def encode(surveyed: Surveyed) -> bytes:
    """Return the record as bytes, from the child to the agent."""
    return msgspec.msgpack.encode(surveyed)


def decode(data: bytes) -> Surveyed:
    """Return the record; raise msgspec.DecodeError for what is none."""
    return msgspec.msgpack.decode(data, type=Surveyed)
