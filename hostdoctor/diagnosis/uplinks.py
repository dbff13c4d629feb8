"""Links above the devices' own that several GPUs or NVMe drives pass on their way to the CPU."""

from collections.abc import Iterable

from hostdoctor.diagnosis.api import gpu_label
from hostdoctor.diagnosis.paths import Device, Hop, Tree, is_c2c, spell
from hostdoctor.diagnosis.subjects import brief
from hostdoctor.facts import Fact, Host


class Uplink(Fact, frozen=True, kw_only=True):
    """One link and who shares it. ``demands_gbs`` are the sharers' own rates; NICs are ``bystanders``."""

    port_bdf: str
    hop: Hop
    sharers: tuple[str, ...]
    gpus: tuple[str, ...]
    demands_gbs: tuple[float | None, ...]
    bystanders: tuple[str, ...] = ()

    @property
    def ratio(self) -> float | None:
        """The sum of the sharers' rates over the uplink's; None unless all are known."""
        known = [demand for demand in self.demands_gbs if demand is not None]
        capacity = self.hop.max_gbs
        return sum(known) / capacity if capacity and len(known) == len(self.demands_gbs) else None

    @property
    def ratio_text(self) -> str:
        """The ratio for a message: ``4.0:1``."""
        return "link rates not known" if self.ratio is None else f"{self.ratio:.1f}:1"

    @property
    def is_crowded(self) -> bool:
        """The sharers can outrun the uplink; where rates are unknown, two GPUs are taken for that."""
        return len(self.gpus) > 1 if self.ratio is None else self.ratio > 1.01

    def described(self) -> str:
        """Quote the uplink and what is below it."""
        rates = zip(self.sharers, self.demands_gbs, strict=True)
        below = ", ".join(f"{name} {'?' if rate is None else f'{rate:.1f}'}" for name, rate in rates)
        capacity = self.hop.max_gbs
        own = spell(self.hop.max_width_lanes, self.hop.max_speed_gts)
        nics = f"; not added: {', '.join(self.bystanders)}" if self.bystanders else ""
        return f"{own}, {'?' if capacity is None else f'{capacity:.1f}'} GB/s; below: {below}{nics}"


def shared_uplinks(host: Host) -> tuple[Uplink, ...]:
    """Return the crowded uplinks, root ports first; of nested ones with the same sharers the tightest."""
    tree = Tree(host)
    loads: dict[str, list[tuple[str, float | None, bool]]] = {}
    bystanders: dict[str, list[str]] = {}
    hops: dict[str, Hop] = {}
    for label, device, is_gpu in _loads(host, tree):
        way = tree.hops(device)
        for hop in way[:-1]:
            hops[hop.port_bdf] = hop
            loads.setdefault(hop.port_bdf, []).append((label, way[-1].max_gbs, is_gpu))
    for nic in host.nics:
        for hop in tree.hops(nic)[:-1]:
            bystanders.setdefault(hop.port_bdf, []).append(nic.label or nic.name or nic.bdf or "?")
    tightest: dict[tuple[str, ...], Uplink] = {}
    for port, below in loads.items():
        uplink = Uplink(
            port_bdf=port,
            hop=hops[port],
            sharers=tuple(label for label, _, _ in below),
            gpus=tuple(label for label, _, is_gpu in below if is_gpu),
            demands_gbs=tuple(rate for _, rate, _ in below),
            bystanders=tuple(bystanders.get(port, ())),
        )
        rival = tightest.get(uplink.sharers)
        if len(below) > 1 and uplink.is_crowded and (rival is None or (uplink.ratio or 0) > (rival.ratio or 0)):
            tightest[uplink.sharers] = uplink
    return tuple(tightest.values())


def sentences(uplinks: Iterable[Uplink]) -> list[str]:
    """Say who shares what; three or more uplinks of one shape are counted, not listed."""
    shapes: dict[tuple[int, int, str], list[Uplink]] = {}
    for uplink in uplinks:
        shape = (len(uplink.gpus), len(uplink.sharers) - len(uplink.gpus), uplink.ratio_text)
        shapes.setdefault(shape, []).append(uplink)
    said = []
    for (gpus, drives, ratio), alike in shapes.items():
        if len(alike) < 3:
            said += [f"{brief(uplink.sharers)} share {uplink.port_bdf} ({ratio})" for uplink in alike]
        else:
            who = " and ".join(_count(n, what) for n, what in ((gpus, "GPU"), (drives, "drive")) if n)
            said.append(f"{len(alike)} uplinks are shared by {who} each ({ratio})")
    return said


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number > 1 else ''}"


def _loads(host: Host, tree: Tree) -> list[tuple[str, Device, bool]]:
    gpus: list[tuple[str, Device, bool]] = [(gpu_label(host, g), g, True) for g in host.gpus if not is_c2c(g)]
    drives: list[tuple[str, Device, bool]] = [(d.name or d.bdf or "?", d, False) for d in host.nvme if d.bdf]
    return [load for load in gpus + drives if not tree.is_virtual_function(load[1])]
