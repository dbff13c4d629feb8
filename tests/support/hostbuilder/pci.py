"""The PCI tree: from nested devices to functions with addresses, parents and links."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from uuid import NAMESPACE_OID, uuid5

import msgspec

from tests.support.hostbuilder.description import Device, Host, Override, Part, RootBus

EMPTY = "empty"
FACES_DOWN = ("port", "down")  # roles whose link is the one below them
EMPTY_PART = Part(ids="0000:0000", cls="000000")


@dataclass(slots=True)
class Ends:
    """A link as one of its ends shows it. None is what the kernel calls Unknown."""

    gts: float | None
    width: int | None
    max_gts: float | None
    max_width: int | None


@dataclass(slots=True)
class Function:
    """One PCI function in its place. ``secondary`` is the bus below a bridge.

    ``role``: endpoint, port (a root port), up and down (a switch's ports), pci-bridge.
    """

    bdf: str
    part: Part
    spec: Device
    root: str
    path: str
    node: int
    parent: "Function | None"
    role: str = "endpoint"
    secondary: int = 0
    last_bus: int = 0
    link: Ends | None = None
    physical: "Function | None" = None
    children: "list[Function]" = field(default_factory=list)

    @property
    def address(self) -> tuple[int, int, int, int]:
        """Return domain, bus, device and function as numbers."""
        domain, bus, rest = self.bdf.split(":")
        device, function = rest.split(".")
        return int(domain, 16), int(bus, 16), int(device, 16), int(function, 16)

    def bridges(self) -> "list[Function]":
        """Return the bridges above, from the root port down."""
        above = []
        step = self.parent
        while step is not None:
            above.append(step)
            step = step.parent
        return above[::-1]


class _RootBuilder:
    """Places everything below one root bus; bus numbers count up in the order of the tree, as firmware does it."""

    def __init__(self, spec: RootBus, at: str, parts: dict[str, Part]) -> None:
        domain, bus = at.split(":")
        self.name = f"{int(domain, 16):04x}:{int(bus, 16):02x}"
        self.domain = self.name.split(":")[0]
        self.node = spec.node
        self.parts = parts
        self.last_bus = int(bus, 16)
        under = spec.under.format(guid=uuid5(NAMESPACE_OID, at)) + "/" if spec.under else ""
        self.folder = f"/sys/devices/{under}pci{self.name}"
        self.functions: list[Function] = []
        self._fill(spec.below, self.last_bus, None, first_slot=1)

    def _fill(self, specs: Iterable[Device], bus: int, parent: Function | None, first_slot: int | None = None) -> None:
        """Put devices on one bus: in slots from ``first_slot`` on, or as functions of one device when it is None."""
        position = 0
        for spec in _repeated(specs):
            for _ in range(spec.functions):
                self._device(spec, bus, spec.at or self._slot(spec, position, first_slot), parent)
                position += 1

    def _slot(self, spec: Device, position: int, first_slot: int | None) -> str:
        if first_slot is None:
            return f"00.{position}"
        if self.parts[spec.part].dense:
            return f"{position // 8 + first_slot:02x}.{position % 8}"
        return f"{position + first_slot:02x}.0"

    def _device(self, spec: Device, bus: int, slot: str, parent: Function | None) -> None:
        part = self.parts[spec.part]
        function = self._function(part, spec, bus, slot, parent)
        if part.kind in ("port", "pci-bridge"):
            self._open_bus(function, part.kind, spec.bus)
            self._fill(spec.below, function.secondary, function)
            function.last_bus = self.last_bus
        elif part.kind == "switch":
            self._switch(function)
        for i in range(spec.virtual_functions):
            self._virtual(function, bus, i + 1)

    def _switch(self, up: Function) -> None:
        self._open_bus(up, "up", up.spec.bus)
        for position, below in enumerate(_repeated(up.spec.below)):
            slot = f"{position // 8:02x}.{position % 8}" if up.part.dense else f"{position:02x}.0"
            down = self._function(up.part, Device(part=up.spec.part), up.secondary, slot, up)
            self._open_bus(down, "down", below.bus)
            if below.part != EMPTY:
                self._fill((msgspec.structs.replace(below, count=1),), down.secondary, down)
            down.last_bus = self.last_bus
        up.last_bus = self.last_bus

    def _open_bus(self, bridge: Function, role: str, bus: int | None) -> None:
        self.last_bus = self.last_bus + 1 if bus is None else bus
        bridge.role, bridge.secondary = role, self.last_bus

    def _virtual(self, physical: Function, bus: int, number: int) -> None:
        slot = f"{number // 8:02x}.{number % 8}"
        spec = Device(part=physical.spec.part, name="", netdev="", driver="")
        self._function(physical.part, spec, bus, slot, physical.parent).physical = physical

    def _function(self, part: Part, spec: Device, bus: int, slot: str, parent: Function | None) -> Function:
        if not 0 <= bus <= 0xFF:
            raise ValueError(f"{self.name}: out of bus numbers")
        bdf = f"{self.domain}:{bus:02x}:{slot}"
        path = f"{parent.path if parent else self.folder}/{bdf}"
        node = self.node if spec.numa_node is None else spec.numa_node
        function = Function(bdf=bdf, part=part, spec=spec, root=self.name, path=path, node=node, parent=parent)
        if parent:
            parent.children.append(function)
        self.functions.append(function)
        return function


def _repeated(specs: Iterable[Device]) -> Iterator[Device]:
    return (spec for spec in specs for _ in range(spec.count))


def place(host: Host, parts: dict[str, Part]) -> list[Function]:
    """Return every function of a host, in PCI order; raise ValueError for clashes and overrides of nothing."""
    known = parts | {EMPTY: EMPTY_PART} | msgspec.convert(host.parts, dict[str, Part])
    functions = [f for root in host.root for at in root.at for f in _RootBuilder(root, at, known).functions]
    by_bdf = {function.bdf: function for function in functions}
    if len(by_bdf) != len(functions):
        raise ValueError("two functions with one address")
    for bdf, override in host.override.items():
        _override(by_bdf[bdf], override)
    for function in functions:
        _train(function)
    return sorted(functions, key=lambda function: function.address)


def _override(function: Function, override: Override) -> None:
    changes = {name: value for name, value in msgspec.structs.asdict(override).items() if value is not None}
    function.spec = msgspec.structs.replace(function.spec, **changes)
    if override.numa_node is not None:
        function.node = override.numa_node


def _train(function: Function) -> None:
    """Settle the link between a function and the port above it; both ends show the same speed and width."""
    own = _ability(function)
    above = function.parent if function.parent and function.parent.role in FACES_DOWN else None
    if function.physical is not None:
        function.link = own and Ends(None, 0, None, 0)
    elif own is None or own.max_gts is None:
        function.link = own
    elif function.role in FACES_DOWN:
        function.link = Ends(2.5, 0, own.max_gts, own.max_width)  # until something below trains it
    elif above and above.children[0] is not function and above.children[0].link:
        first = above.children[0].link  # functions of one device share its link
        function.link = Ends(first.gts, first.width, own.max_gts, own.max_width)
    else:
        _negotiate(function, own, above)


def _negotiate(function: Function, own: Ends, above: Function | None) -> None:
    port = _ability(above) if above else None
    gts, width = _common(own, port)
    gts = function.spec.speed_gts or gts
    width = width if function.spec.width is None else function.spec.width
    function.link = Ends(gts, width, function.part.shown_max_gts or own.max_gts, own.max_width)
    if above and port and port.max_gts:
        above.link = Ends(gts, width, port.max_gts, port.max_width)


def _common(own: Ends, port: Ends | None) -> tuple[float | None, int | None]:
    if port is None or port.max_gts is None or own.max_gts is None:
        return own.max_gts, own.max_width
    return min(own.max_gts, port.max_gts), min(own.max_width or 0, port.max_width or 0)


def _ability(function: Function) -> Ends | None:
    part, spec = function.part, function.spec
    if part.unknown_link:
        return Ends(None, 0, None, 0)
    if not part.link:
        return None
    gts, width = spec.max_gts or part.link[0], spec.max_width or int(part.link[1])
    return Ends(gts, width, gts, width)


def driver_of(function: Function) -> str | None:
    """Return the bound driver; an empty string in a description unbinds."""
    if function.spec.driver is not None:
        return function.spec.driver or None
    return "pcieport" if function.role in ("port", "up", "down") else function.part.driver
