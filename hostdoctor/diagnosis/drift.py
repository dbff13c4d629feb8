"""How a host differs from the map that was accepted: what is gone, narrower, smaller, elsewhere or in another order."""

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec.structs import replace

from hostdoctor.diagnosis.api import gpu_label
from hostdoctor.diagnosis.nearby import device_label
from hostdoctor.diagnosis.paths import on_pcie
from hostdoctor.diagnosis.report import Severity
from hostdoctor.diagnosis.subjects import GIB, brief, near_nodes, sysfs
from hostdoctor.facts import Baseline, Fact, Host, KnownDevice, KnownNode, Nic, NumaNode, NvmeController

MEMORY_TOLERANCE = 0.01  # the kernel's own share of a node changes between its versions

Kind = Literal["gone", "narrower", "smaller", "elsewhere", "reordered", "new"]


class Drift(Fact, frozen=True, kw_only=True):
    """One way in which the host is not as accepted, with the things that it is true of."""

    kind: Kind
    severity: Severity
    subjects: tuple[str, ...]
    message: str
    evidence: tuple[tuple[str, str], ...]


def baseline_of(host: Host, accepted_at: str) -> Baseline:
    """Return what is kept of a host when its map is accepted."""
    nodes = tuple(KnownNode(id=node.id, memory_bytes=node.memory_bytes) for node in host.numa_nodes)
    return Baseline(accepted_at=accepted_at, devices=known_devices(host), nodes=nodes)


def completed(baseline: Baseline, now: Baseline) -> Baseline:
    """Return a baseline with what was not known of its devices when it was accepted, and is now."""
    devices = []
    for before in baseline.devices:
        after = _same(before, now.devices)
        known = {name: getattr(before, name) for name in KnownDevice.__struct_fields__}
        gaps = [name for name, value in known.items() if value is None or value == ()]
        devices.append(replace(before, **{name: getattr(after, name) for name in gaps}) if after and gaps else before)
    return replace(baseline, devices=tuple(devices))


def known_devices(host: Host) -> tuple[KnownDevice, ...]:
    """Return the GPUs, physical NICs and drives that have a place on PCI."""
    linked = on_pcie(host, host.gpus)
    gpus = (
        KnownDevice(
            kind="GPU",
            label=gpu_label(host, gpu),
            uuid=gpu.uuid,
            bdf=gpu.bdf,
            index=gpu.index if gpu.uuid else None,  # without the driver it is PCI's order, not the driver's
            numa_nodes=near_nodes(gpu),
            width_lanes=gpu.link.width_lanes if gpu in linked else None,
        )
        for gpu in host.gpus
        if gpu.bdf or gpu.uuid
    )
    placed: tuple[Nic | NvmeController, ...] = (*host.nics, *host.nvme)
    others = (
        KnownDevice(
            kind="NIC" if isinstance(device, Nic) else "drive",
            label=device_label(host, device),
            bdf=device.bdf,
            numa_nodes=() if device.numa_node is None else (device.numa_node,),
            width_lanes=device.link.width_lanes,
        )
        for device in placed
        if device.bdf
    )
    return (*gpus, *others)


def drifts(host: Host, baseline: Baseline) -> Iterator[Drift]:
    """Yield each way in which the host differs from its baseline."""
    now = known_devices(host)
    pairs = [(before, _same(before, now)) for before in baseline.devices]
    kept = [(before, after) for before, after in pairs if after is not None]
    yield from _gone(before for before, after in pairs if after is None)
    yield from _narrower(kept)
    yield from _elsewhere(kept)
    yield from _reordered(kept)
    yield from _smaller(baseline.nodes, host.numa_nodes)
    known = {after for _, after in kept}
    yield from _new(device for device in now if device not in known)


def gone_devices(host: Host, baseline: Baseline) -> tuple[KnownDevice, ...]:
    """Return the devices of the baseline that are no longer there; none where PCI functions are not known."""
    now = known_devices(host)
    return tuple(device for device in baseline.devices if host.pci_devices and _same(device, now) is None)


def _same(before: KnownDevice, now: Iterable[KnownDevice]) -> KnownDevice | None:
    """Return a device of the baseline as it is now, by its UUID, else by its address if no UUID denies it."""
    alike = [device for device in now if device.kind == before.kind]
    by_uuid = next((device for device in alike if before.uuid and device.uuid == before.uuid), None)
    if by_uuid is not None:
        return by_uuid
    at = (device for device in alike if before.bdf and device.bdf == before.bdf)
    return next((device for device in at if not (before.uuid and device.uuid)), None)


def _gone(devices: Iterable[KnownDevice]) -> Iterator[Drift]:
    lost = tuple(devices)
    cards = tuple(device for device in lost if device.kind == "GPU")
    groups: tuple[tuple[Severity, tuple[KnownDevice, ...]], ...] = (
        ("critical", cards),
        ("warning", tuple(device for device in lost if device.kind != "GPU")),
    )
    for severity, group in groups:
        if group:
            yield Drift(
                kind="gone",
                severity=severity,
                subjects=tuple(device.label for device in group),
                message=f"{brief([device.label for device in group])}: no longer there",
                evidence=tuple((sysfs(device.bdf, "").rstrip("/"), _was(device)) for device in group),
            )


def _was(device: KnownDevice) -> str:
    return f"gone; was {device.label}{f' ({device.uuid})' if device.uuid else ''}"


def _narrower(pairs: Iterable[tuple[KnownDevice, KnownDevice]]) -> Iterator[Drift]:
    found = [(a, b) for a, b in pairs if a.width_lanes and b.width_lanes and b.width_lanes < a.width_lanes]
    if found:
        yield Drift(
            kind="narrower",
            severity="warning",
            subjects=tuple(b.label for _, b in found),
            message="PCIe link narrower than accepted: "
            + ", ".join(f"{b.label} x{b.width_lanes} (was x{a.width_lanes})" for a, b in found),
            evidence=tuple(
                (sysfs(b.bdf, "current_link_width"), f"{b.width_lanes}; was {a.width_lanes}") for a, b in found
            ),
        )


def _elsewhere(pairs: Iterable[tuple[KnownDevice, KnownDevice]]) -> Iterator[Drift]:
    found = [(a, b) for a, b in pairs if a.numa_nodes and b.numa_nodes and a.numa_nodes != b.numa_nodes]
    if found:
        yield Drift(
            kind="elsewhere",
            severity="warning",
            subjects=tuple(b.label for _, b in found),
            message="near another NUMA node than accepted: "
            + ", ".join(f"{b.label} {_nodes(b)} (was {_nodes(a)})" for a, b in found),
            evidence=tuple((sysfs(b.bdf, "numa_node"), f"{_nodes(b)}; was {_nodes(a)}") for a, b in found),
        )


def _nodes(device: KnownDevice) -> str:
    return "node " + ",".join(map(str, device.numa_nodes))


def _reordered(pairs: Iterable[tuple[KnownDevice, KnownDevice]]) -> Iterator[Drift]:
    """Yield where GPUs that are still there come in another order: a missing one alone shifts those behind it."""
    numbered = [(a, b) for a, b in pairs if a.kind == "GPU" and a.index is not None and b.index is not None]
    before = sorted(numbered, key=lambda pair: pair[0].index or 0)
    after = sorted(numbered, key=lambda pair: pair[1].index or 0)
    if before == after:
        return
    moved = [(a, b) for one, (a, b) in zip(before, after, strict=True) if one != (a, b)]
    yield Drift(
        kind="reordered",
        severity="warning",
        subjects=tuple(b.label for _, b in moved),
        message="GPUs are numbered in another order than accepted: "
        + ", ".join(f"{b.label} was {a.label}" for a, b in moved),
        evidence=tuple((f"NVML index of {b.uuid or b.bdf}", f"{b.index}; was {a.index}") for a, b in moved),
    )


def _smaller(before: Iterable[KnownNode], now: Iterable[NumaNode]) -> Iterator[Drift]:
    sizes = {node.id: node.memory_bytes for node in now}
    if not sizes:
        return
    shrunk = [
        (node.id, node.memory_bytes, sizes.get(node.id, 0))
        for node in before
        if node.memory_bytes and _is_less(sizes.get(node.id, 0), node.memory_bytes)
    ]
    if shrunk:
        yield Drift(
            kind="smaller",
            severity="warning",
            subjects=tuple(f"node {number}" for number, _, _ in shrunk),
            message="less memory than accepted: "
            + ", ".join(
                f"node {number} {(now or 0) / GIB:.1f} GiB (was {was / GIB:.1f} GiB)" for number, was, now in shrunk
            ),
            evidence=tuple(
                (f"/sys/devices/system/node/node{number}/meminfo", f"{now} bytes; was {was}")
                for number, was, now in shrunk
            ),
        )


def _is_less(now: int | None, before: int) -> bool:
    return now is not None and now < before * (1 - MEMORY_TOLERANCE)


def _new(devices: Iterable[KnownDevice]) -> Iterator[Drift]:
    added = tuple(devices)
    if added:
        yield Drift(
            kind="new",
            severity="info",
            subjects=tuple(device.label for device in added),
            message=f"{brief([device.label for device in added])}: not in the accepted map",
            evidence=tuple((sysfs(device.bdf, "").rstrip("/"), device.uuid or "there now") for device in added),
        )
