"""PCIe links between a device and the CPU: what each can carry, what it negotiated, what is known to be no fault.

``upstream`` alternates root port, switch upstream port, switch downstream port, …: only (root port, upstream port),
(downstream port, device) and so on are links; the two ports of one switch are not. Bandwidths are GB/s (10^9 bytes)
in one direction, after the line code and before packet overhead.
"""

import re
from collections.abc import Iterable, Iterator

from hostdoctor.diagnosis.api import Ask, in_scope
from hostdoctor.diagnosis.report import Skip
from hostdoctor.diagnosis.subjects import sysfs
from hostdoctor.facts import Fact, Gpu, Host, Link, Nic, NvmeController, PciDevice

Device = Gpu | Nic | NvmeController

GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
# Superchips whose GPU reaches its CPU over NVLink-C2C; GB100, GB202 and the like are chips on PCIe.
_SUPERCHIP = re.compile(r"\b(GH200|GB200|GB300|GB10)\b")
# QEMU, virtio, VMware, Hyper-V, Xen, VirtualBox: ports that no lane is behind.
VIRTUAL_VENDORS = frozenset({"1b36", "1af4", "15ad", "1414", "5853", "80ee"})


def lane_gbs(speed_gts: float) -> float:
    """Return GB/s per lane: 8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s, FLIT without a line code above."""
    if speed_gts <= 5:
        return speed_gts / 10
    return speed_gts / 8 * (128 / 130 if speed_gts <= 32 else 1)


def link_gbs(width_lanes: int | None, speed_gts: float | None) -> float | None:
    """Return what a link of this width and rate carries, or None when either is unknown."""
    return width_lanes * lane_gbs(speed_gts) if width_lanes and speed_gts else None


def spell(width_lanes: int | None, speed_gts: float | None) -> str:
    """Return a link as people say it: ``x16 Gen5``."""
    lanes = f"x{width_lanes}" if width_lanes else "x?"
    if not speed_gts:
        return lanes
    generation = GENERATIONS.get(speed_gts)
    return f"{lanes} Gen{generation}" if generation else f"{lanes} {speed_gts:g} GT/s"


def trusted_maximum(link: Link) -> tuple[int | None, float | None]:
    """Return a link end's maximal width and rate; a maximum below the current value is no maximum: None."""
    width, speed = link.max_width_lanes, link.max_speed_gts
    return (
        None if not width or (link.width_lanes or 0) > width else width,
        None if not speed or (link.speed_gts or 0) > speed else speed,
    )


def overstepped(link: Link) -> tuple[tuple[str, float, float, str], ...]:
    """Return where a link exceeds its own stated maximum: (attribute, current, maximum, unit)."""
    pairs = (
        ("width", link.width_lanes, link.max_width_lanes, "lanes"),
        ("speed", link.speed_gts, link.max_speed_gts, "GT/s"),
    )
    return tuple((name, now, most, unit) for name, now, most, unit in pairs if now and most and now > most)


class Hop(Fact, frozen=True, kw_only=True):
    """One link: the port nearer the CPU and the device at its other end.

    ``wired``: the registers state more lanes than the board gives this port by design, so that the negotiated width
    is the best there is.
    """

    port_bdf: str
    end_bdf: str
    port: Link
    end: Link
    wired: bool = False

    @property
    def width_lanes(self) -> int | None:
        """The negotiated width; None when unknown, or when the ends differ and so are not one link."""
        known = {width for width in (self.port.width_lanes, self.end.width_lanes) if width}
        return known.pop() if len(known) == 1 else None

    @property
    def max_width_lanes(self) -> int | None:
        """The smaller maximum of the two ends; None unless both are known."""
        if self.wired:
            return self.width_lanes
        port, end = trusted_maximum(self.port)[0], trusted_maximum(self.end)[0]
        return min(port, end) if port and end else None

    @property
    def max_speed_gts(self) -> float | None:
        """The smaller maximal rate of the two ends; None unless both are known."""
        port, end = trusted_maximum(self.port)[1], trusted_maximum(self.end)[1]
        return min(port, end) if port and end else None

    @property
    def max_gbs(self) -> float | None:
        """What the link carries at its best."""
        return link_gbs(self.max_width_lanes, self.max_speed_gts)

    @property
    def is_judged(self) -> bool:
        """Both the negotiated and the possible width are known."""
        return self.width_lanes is not None and self.max_width_lanes is not None

    @property
    def is_narrow(self) -> bool:
        """Fewer lanes were negotiated than both ends have. Width, unlike speed, does not fall while idle."""
        return (self.width_lanes or 0) < (self.max_width_lanes or 0) and self.is_judged

    def width_evidence(self) -> Iterator[tuple[str, object]]:
        """Quote the width registers of both ends."""
        yield sysfs(self.end_bdf, "current_link_width"), self.width_lanes
        yield sysfs(self.end_bdf, "max_link_width"), self.end.max_width_lanes
        yield sysfs(self.port_bdf, "max_link_width"), self.port.max_width_lanes


class Tree:
    """The PCI functions of a host by BDF, and the links on the way to them."""

    def __init__(self, host: Host) -> None:
        self._functions = {function.bdf: function for function in host.pci_devices}

    def function(self, bdf: str | None) -> PciDevice | None:
        """Return a function's record, or None."""
        return self._functions.get(bdf) if bdf else None

    def link_at(self, bdf: str) -> Link:
        """Return the link registers of a function, all unknown when there is no record."""
        function = self._functions.get(bdf)
        return function.link if function else Link()

    def ids(self, bdf: str) -> tuple[str | None, str | None]:
        """Return a function's vendor and device id."""
        function = self._functions.get(bdf)
        return (function.vendor_id, function.device_id) if function else (None, None)

    def link(self, device: Device) -> Link:
        """Return the device's own end of its link; the PCI record wins over the driver's word."""
        function = self.function(device.bdf)
        return _merged(function.link, device.link) if function else device.link

    def card(self, device: Device) -> Link:
        """Return the link end at the card's edge: the device's, or that of a switch on the card itself."""
        chain = self._chain(device)
        return self.link(device) if not chain or chain[-1] == device.bdf else self.link_at(chain[-1])

    def hops(self, device: Device) -> tuple[Hop, ...]:
        """Return the links from the root port to the card, the card's own last; ``()`` when unknown or virtual.

        Of a path with an odd number of ports missing only the card's own link is certain.
        """
        chain = self._chain(device)
        if len(chain) < 2 or any(self.is_virtual(bdf) for bdf in chain):
            return ()
        first = 0 if len(chain) % 2 == 0 else len(chain) - 2
        return tuple(self._hop(chain[i], chain[i + 1], device) for i in range(first, len(chain), 2))

    def upstream(self, device: Device) -> tuple[str, ...]:
        """Return the ports above a device, root port first."""
        function = self.function(device.bdf)
        return device.upstream or (function.upstream if function else ())

    def is_virtual(self, bdf: str) -> bool:
        """Whether a hypervisor made this function up."""
        return self._vendor(bdf) in VIRTUAL_VENDORS

    def is_virtual_function(self, device: Device) -> bool:
        """Whether the device is an SR-IOV virtual function: its link registers are zero by specification."""
        function = self.function(device.bdf)
        return bool(function and function.is_virtual_function)

    def _chain(self, device: Device) -> tuple[str, ...]:
        if not device.bdf:
            return ()
        chain = (*self.upstream(device), device.bdf)
        return chain[:-2] if len(chain) >= 4 and self._is_on_card(chain[-3], chain[-1]) else chain

    def _is_on_card(self, switch: str, device: str) -> bool:
        """Radeon, Instinct, Arc, BlueField and ConnectX-8 carry a switch: its upstream port is the card's edge."""
        vendor, own = self._vendor(switch), self._vendor(device)
        return own is not None and (vendor == own or (own == "1002" and self.ids(switch) == ("1022", "1470")))

    def _hop(self, port: str, end: str, device: Device) -> Hop:
        far = self.link(device) if end == device.bdf else self.link_at(end)
        wired = self._is_amd_chipset(end) or self._is_split_intel_port(port)
        return Hop(port_bdf=port, end_bdf=end, port=self.link_at(port), end=far, wired=wired)

    def _is_amd_chipset(self, end: str) -> bool:
        """Desktop chipsets state x8 above the x4 that the socket has."""
        vendor, device = self.ids(end)
        return vendor == "1022" and device is not None and (device == "57ad" or device.startswith("43"))

    def _is_split_intel_port(self, port: str) -> bool:
        """Intel desktop graphics ports 00:01.x share sixteen lanes and state all of them when the board splits them."""
        slot = port[:-1]
        others = (f for bdf, f in self._functions.items() if bdf != port and bdf.startswith(slot))
        return (
            self._vendor(port) == "8086"
            and slot.endswith(":00:01.")
            and any((other.class_code or "").startswith("0604") for other in others)
        )

    def _vendor(self, bdf: str) -> str | None:
        return self.ids(bdf)[0]


def is_c2c(gpu: Gpu) -> bool:
    """Whether a GPU is joined to its CPU chip to chip; where no driver was asked, by its memory node and its name."""
    if gpu.c2c is not None:
        return gpu.c2c
    return gpu.memory_numa_node is not None or _SUPERCHIP.search(gpu.name or "") is not None


def on_pcie(host: Host, gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
    """Keep the GPUs whose PCIe link says something: neither C2C nor an SR-IOV function."""
    tree = Tree(host)
    return tuple(gpu for gpu in gpus if not is_c2c(gpu) and not tree.is_virtual_function(gpu))


def model(host: Host, gpu: Gpu) -> str | None:
    """Return what two GPUs of one model have in common: the name, else vendor and device id."""
    if gpu.name:
        return gpu.name
    function = Tree(host).function(gpu.bdf)
    return f"{function.vendor_id}:{function.device_id}" if function and function.device_id else None


def physical_ports(host: Host, ask: Ask) -> Skip | None:  # noqa: ARG001
    """Want real ports: a hypervisor's registers describe no lanes."""
    kind = host.system.virtualization
    return Skip(kind="not-applicable", reason=f"PCIe ports are virtual ({kind})") if kind else None


def pcie_links(host: Host, ask: Ask) -> Skip | None:
    """Want a GPU in scope that hangs on a PCIe link."""
    if on_pcie(host, in_scope(host, ask)):
        return None
    return Skip(kind="not-applicable", reason="no GPU in scope on a PCIe link (chip-to-chip or virtual function)")


def _merged(first: Link, second: Link) -> Link:
    return Link(
        width_lanes=first.width_lanes or second.width_lanes,
        max_width_lanes=first.max_width_lanes or second.max_width_lanes,
        speed_gts=first.speed_gts or second.speed_gts,
        max_speed_gts=first.max_speed_gts or second.max_speed_gts,
    )
