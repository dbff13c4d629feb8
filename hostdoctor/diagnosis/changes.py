"""What changed between two looks at a host: after a BIOS, driver or slot change. Pure: two reports in, changes out.

Values that move by themselves are left out: free memory, link rates that follow the load, temperatures, counters.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from hostdoctor.diagnosis.report import Finding, Report
from hostdoctor.facts import Fact, Gpu, Host, Link, Nic, NumaNode, NvmeController, PciDevice

Kind = Literal["added", "removed", "changed"]
UNKNOWN = "not known"


class Change(Fact, frozen=True, kw_only=True):
    """One fact that differs. ``before`` or ``after`` is None where the thing itself was not there."""

    area: str
    subject: str
    what: str
    kind: Kind
    before: str | None = None
    after: str | None = None


class FindingChange(Fact, frozen=True, kw_only=True):
    """A finding that came, went, or says something else. ``before`` is its message then."""

    id: str
    name: str
    subject: str
    kind: Kind
    before: str | None = None
    after: str | None = None
    severity: str | None = None
    severity_before: str | None = None


class Changes(Fact, frozen=True, kw_only=True):
    """Everything that differs. ``not_judged`` are checks that were judged in one of the two looks alone."""

    hostname_before: str | None
    hostname: str | None
    status_before: str
    status: str
    facts: tuple[Change, ...] = ()
    findings: tuple[FindingChange, ...] = ()
    not_judged: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """Nothing differs."""
        return not (self.facts or self.findings or self.not_judged or self.status != self.status_before)


Values = dict[str, Any]


def compare_reports(before: Report, after: Report) -> Changes:
    """Return what changed from one report of a host to another."""
    return Changes(
        hostname_before=before.host.system.hostname,
        hostname=after.host.system.hostname,
        status_before=before.status,
        status=after.status,
        facts=tuple(_facts(before.host, after.host)),
        findings=tuple(_findings(before, after)),
        not_judged=tuple(_not_judged(before, after)),
    )


def _facts(before: Host, after: Host) -> Iterator[Change]:
    yield from _values("host", "host", _system(before), _system(after))
    for area, of in _AREAS.items():
        yield from _records(area, of(before), of(after))
    yield from _values("setting", "host", dict(before.settings), dict(after.settings))
    yield from _values("path", "between devices", _paths(before), _paths(after))


def _records(area: str, before: Mapping[str, Values], after: Mapping[str, Values]) -> Iterator[Change]:
    for key in dict.fromkeys((*before, *after)):
        one, other = before.get(key), after.get(key)
        if one is None:
            yield Change(area=area, subject=_subject(key, other), what="", kind="added", after=_brief(other or {}))
        elif other is None:
            yield Change(area=area, subject=_subject(key, one), what="", kind="removed", before=_brief(one))
        else:
            yield from _values(area, _subject(key, other), one, other)


def _subject(key: str, values: Values | None) -> str:
    """Return what a person calls a thing: a GPU by its index, and by what identifies it."""
    index = (values or {}).get("index")
    return key if index is None or key == f"GPU{index}" else f"GPU{index} ({key})"


def _values(area: str, subject: str, before: Values, after: Values) -> Iterator[Change]:
    for what in dict.fromkeys((*before, *after)):
        one, other = _text(before.get(what)), _text(after.get(what))
        if one != other:
            yield Change(area=area, subject=subject, what=what, kind="changed", before=one, after=other)


def _text(value: Any) -> str:
    if value is None or value in ((), {}):
        return UNKNOWN
    if isinstance(value, (tuple, list)):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{key}: {each}" for key, each in value.items())
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _brief(values: Values) -> str:
    known = [f"{what} {_text(value)}" for what, value in values.items() if _text(value) != UNKNOWN]
    return ", ".join(known[:4]) or "nothing else known"


def _system(host: Host) -> Values:
    told = host.system
    return {
        "kernel": told.kernel,
        "CPU": told.cpu_model,
        "packages": told.packages,
        "hypervisor": told.virtualization,
        "container": told.container,
        "NVIDIA driver": told.nvidia_driver,
        "driver state": host.nvidia.state,
        "clocksource": told.clocksource,
        "page size": told.page_size_bytes,
        "CPUs allowed": host.allowed.cpus,
        "nodes allowed": host.allowed.mems,
        "frequency driver": host.cpu_power.driver,
        "governors": dict(sorted(host.cpu_power.governors.items())),
        "DIMMs": len(host.dimms) or None,
    }


def _node(node: NumaNode) -> Values:
    return {
        "CPUs": "none" if node.cpus == "" else node.cpus,
        "memory bytes": node.memory_bytes,
        "kind": node.kind,
        "package": node.package,
        "distances": node.distances,
        "huge pages": {f"{pages.size_bytes >> 10} KiB": pages.total for pages in node.hugepages},
    }


def _link(link: Link) -> Values:
    return {
        "link lanes": link.width_lanes,
        "most link lanes": link.max_width_lanes,
        "highest link rate": link.max_speed_gts,
    }


def _place(device: Gpu | Nic | NvmeController) -> Values:
    return {
        "address": device.bdf,
        "NUMA node": device.numa_node,
        "root complex": device.root_complex,
        "bridges above": device.upstream,
        **_link(device.link),
    }


def _gpu(gpu: Gpu) -> Values:
    return {
        "model": gpu.name,
        "index": gpu.index,
        **_place(gpu),
        "near nodes": gpu.numa_nodes,
        "near CPUs": gpu.cpus,
        "node of its memory": gpu.memory_numa_node,
        "kernel driver": gpu.driver,
        "visible": gpu.visible,
        "MIG": gpu.mig,
        "persistence mode": gpu.persistence,
        "memory bytes": gpu.memory_bytes,
        "BAR1 bytes": gpu.bar1_bytes,
        "NVLinks": gpu.nvlinks,
        "fabric": None if gpu.fabric is None else gpu.fabric.state,
    }


def _nic(nic: Nic) -> Values:
    return {"name": nic.name, "interfaces": nic.netdevs, **_place(nic), "RDMA": nic.rdma}


def _nvme(drive: NvmeController) -> Values:
    return {
        "name": drive.name,
        "model": drive.model,
        **_place(drive),
        "firmware": drive.firmware,
        "state": drive.state,
        "namespaces": drive.namespaces,
        "queues": len(drive.queues) or None,
    }


def _function(device: PciDevice) -> Values:
    return {
        "name": device.name,
        "NUMA node": device.numa_node,
        **_link(device.link),
        "kernel driver": device.driver,
        "IOMMU": device.iommu_type,
        "largest payload": device.max_payload_bytes,
        "redirects peers": device.acs_redirects,
    }


def _keyed(records: Iterable[tuple[str | None, Values]]) -> dict[str, Values]:
    """Return records by what identifies them; equals get a number, so that none hides another."""
    found: dict[str, Values] = {}
    for key, values in records:
        name, number = key or "unnamed", 2
        while name in found:
            name, number = f"{key or 'unnamed'} ({number})", number + 1
        found[name] = values
    return found


def _gpus(host: Host) -> dict[str, Values]:
    """Return the GPUs, each known by its UUID wherever it is plugged in, else by its address, else by its index."""
    return _keyed(
        (gpu.uuid or gpu.bdf or (None if gpu.index is None else f"GPU{gpu.index}"), _gpu(gpu)) for gpu in host.gpus
    )


def _functions(host: Host) -> dict[str, Values]:
    """Return the functions that are no GPU, NIC or drive: those are compared as such."""
    devices: tuple[Gpu | Nic | NvmeController, ...] = (*host.gpus, *host.nics, *host.nvme)
    known = {device.bdf for device in devices}
    return _keyed((device.bdf, _function(device)) for device in host.pci_devices if device.bdf not in known)


_AREAS = {
    "NUMA node": lambda host: _keyed((f"node {node.id}", _node(node)) for node in host.numa_nodes),
    "GPU": _gpus,
    "NIC": lambda host: _keyed((nic.bdf or nic.name, _nic(nic)) for nic in host.nics),
    "NVMe": lambda host: _keyed((drive.bdf or drive.name, _nvme(drive)) for drive in host.nvme),
    "PCI": _functions,
}


def _paths(host: Host) -> Values:
    return {f"{path.a} to {path.b}": path.kind for path in host.paths}


def _findings(before: Report, after: Report) -> Iterator[FindingChange]:
    old, new = _by_subject(before), _by_subject(after)
    for key in dict.fromkeys((*new, *old)):
        check_id, name, subject = key
        one, other = old.get(key), new.get(key)
        if one is not None and other is not None and (one.message, one.severity) == (other.message, other.severity):
            continue
        yield FindingChange(
            id=check_id,
            name=name,
            subject=subject,
            kind="added" if one is None else "removed" if other is None else "changed",
            before=None if one is None else one.message,
            after=None if other is None else other.message,
            severity=None if other is None else other.severity,
            severity_before=None if one is None else one.severity,
        )


def _by_subject(report: Report) -> dict[tuple[str, str, str], Finding]:
    return {
        (result.id, result.name, finding.subject): finding for result in report.results for finding in result.findings
    }


def _not_judged(before: Report, after: Report) -> Iterator[str]:
    judged_before, judged_after = (
        {result.id: result.status in ("pass", "fail") for result in report.results} for report in (before, after)
    )
    for result in after.results:
        if result.id in judged_before and judged_before[result.id] != judged_after[result.id]:
            when = "before" if judged_before[result.id] else "now"
            yield f"{result.id} {result.name} was judged {when} alone"
