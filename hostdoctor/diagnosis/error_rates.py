"""PCIe errors of the functions on the way to some devices: totals, and how fast they rise."""

import statistics
from collections.abc import Iterable

from hostdoctor.diagnosis.counters import Rise, rise
from hostdoctor.diagnosis.nearby import device_label
from hostdoctor.diagnosis.paths import Device, Tree
from hostdoctor.facts import Fact, Gpu, Host, PciErrors

SHORTEST_S, PER_MINUTE, TIMES_SIBLINGS = 600.0, 10.0, 10.0


class Counted(Fact, frozen=True, kw_only=True):
    """One function: what it is called, what it is like (for siblings), its totals and what rose while sampled."""

    bdf: str
    label: str
    kind: str
    totals: PciErrors | None
    correctable: Rise | None
    severe: tuple[Rise, ...] = ()

    @property
    def total(self) -> int:
        """All errors counted so far."""
        told = self.totals or PciErrors()
        return (told.correctable or 0) + (told.nonfatal or 0) + (told.fatal or 0)


def counted(host: Host, devices: Iterable[Device]) -> tuple[Counted, ...]:
    """Return each device's function and the bridges above it, once."""
    tree = Tree(host)
    found: dict[str, Counted] = {}
    for device in devices:
        replays = rise(host, f"nvml.{device.index}.pcie_replays") if isinstance(device, Gpu) else None
        if device.bdf:
            found.setdefault(device.bdf, _counted(host, tree, device.bdf, device_label(host, device), replays))
        for bdf in tree.upstream(device):
            found.setdefault(bdf, _counted(host, tree, bdf, f"port {bdf}", None))
    return tuple(found.values())


def fast(every: tuple[Counted, ...]) -> tuple[Counted, ...]:
    """Return those whose correctable errors rose fast for long enough, and far faster than their siblings'."""
    return tuple(c for c in every if c.correctable and _is_fast(c, c.correctable, every))


def _is_fast(one: Counted, own: Rise, every: tuple[Counted, ...]) -> bool:
    if own.seconds < SHORTEST_S or own.per_minute < PER_MINUTE:
        return False
    others = [c.correctable.per_minute for c in every if c.kind == one.kind and c.bdf != one.bdf and c.correctable]
    return not others or own.per_minute >= TIMES_SIBLINGS * statistics.median(others)


def _counted(host: Host, tree: Tree, bdf: str, label: str, replays: Rise | None) -> Counted:
    function = tree.function(bdf)
    correctable = rise(host, f"aer.{bdf}.correctable") or replays
    if correctable and replays and replays.by > correctable.by:
        correctable = replays
    severe = (rise(host, f"aer.{bdf}.{name}") for name in ("nonfatal", "fatal"))
    return Counted(
        bdf=bdf,
        label=label,
        kind=f"{function.vendor_id}:{function.device_id}" if function else "",
        totals=function.errors if function else None,
        correctable=correctable,
        severe=tuple(r for r in severe if r and r.by),
    )
