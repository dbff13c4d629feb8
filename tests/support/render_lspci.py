"""Draws trees and lists as pciutils does, from a made-up machine, and says what reading them back must give."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import strategies as st

from hostdoctor.facts import Link
from hostdoctor.parsers.lspci import LspciFunction
from hostdoctor.parsers.lspci_tree import TreeFunction

NAMES = (
    "NVIDIA Corporation GH100 [H100 SXM5 80GB]",
    "NVIDIA Corporation Device 2330",
    "Mellanox Technologies MT2910 Family [ConnectX-7]",
    "Advanced Micro Devices, Inc. [AMD] Starship/Matisse GPP Bridge",
    "Samsung Electronics Co Ltd NVMe SSD Controller S4LV008[Pascal]",
    "Intel Corporation 82801 (ICH9 Family) SMBus Controller #2",
    "Broadcom / LSI SAS3216 PCI-Express Fusion-MPT SAS-3",
)


@dataclass
class Function:
    """A function on a bus; with ``buses`` a bridge to the children that it holds."""

    device: int
    function: int
    name: str = NAMES[0]
    ids: tuple[str, str] = ("10de", "2330")
    buses: tuple[int, int] | None = None
    children: "list[Function]" = field(default_factory=list)


@dataclass
class Root:
    """A root bus."""

    domain: int
    bus: int
    children: list[Function]


def render_tree(roots: list[Root], style: str = "v", domains: bool = True) -> str:
    """Return ``lspci -t`` with nothing, ``v`` (names), ``vnn`` (names and ids) or ``vn`` (ids) more."""
    labels = [f"[{root.domain:04x}:{root.bus:02x}]-" if domains else f"[{root.bus:02x}]-" for root in roots]
    lines: list[str] = []
    if len(roots) == 1:
        _bus(lines, f"-{labels[0]}", roots[0].children, style)
    else:
        for i, (root, label) in enumerate(zip(roots, labels, strict=True)):
            last = i == len(roots) - 1
            head = "-" if i == 0 else " "
            _bus(lines, f"{head}{chr(92) if last else '+'}-{label}", root.children, style)
    return "".join(f"{line}\n" for line in lines)


def expected_tree(roots: list[Root], style: str = "v") -> tuple[TreeFunction, ...]:
    """Return what the tree says, in its order."""
    return tuple(f for root in roots for f in _expected(root, root.bus, root.children, (), style))


def machines(domains: int = 2) -> st.SearchStrategy[list[Root]]:
    """Generate machines: several domains and root buses, nested bridges, multi-function devices, empty bridges."""
    return st.builds(_grow, st.integers(1, domains), st.lists(st.integers(0, 1 << 16), min_size=1, max_size=120))


def _bus(lines: list[str], line: str, children: list[Function], style: str) -> None:
    if not children:
        lines.append(line)
    elif len(children) == 1:
        _function(lines, f"{line}--", children[0], style)
    else:
        for child in children[:-1]:
            _function(lines, f"{line}+-", child, style)
            line = "".join("|" if c in "+|" else " " for c in line)
        _function(lines, f"{line}\\-", children[-1], style)


def _function(lines: list[str], line: str, function: Function, style: str) -> None:
    line = f"{line}{function.device:02x}.{function.function}"
    if function.buses:
        first, last = function.buses
        buses = f"{first:02x}" if first == last else f"{first:02x}-{last:02x}"
        _bus(lines, f"{line}-[{buses}]--", function.children, style)
        return
    ids = ":".join(function.ids)
    name = {"": "", "v": f"  {function.name}", "vn": f"  {ids}", "vnn": f"  {function.name} [{ids}]"}[style]
    lines.append(line + name)


def _expected(
    root: Root, bus: int, children: list[Function], upstream: tuple[str, ...], style: str
) -> Iterator[TreeFunction]:
    for child in children:
        bdf = f"{root.domain:04x}:{bus:02x}:{child.device:02x}.{child.function}"
        is_named, has_ids = style in {"v", "vnn"} and not child.buses, "n" in style and not child.buses
        yield TreeFunction(
            bdf=bdf,
            name=child.name if is_named else None,
            vendor_id=child.ids[0] if has_ids else None,
            device_id=child.ids[1] if has_ids else None,
            upstream=upstream,
            root_complex=f"{root.domain:04x}:{root.bus:02x}",
            is_bridge=child.buses is not None,
        )
        if child.buses:
            yield from _expected(root, child.buses[0], child.children, (*upstream, bdf), style)


def _grow(domains: int, choices: list[int]) -> list[Root]:
    source = iter(choices)
    roots: list[Root] = []
    for domain in range(domains):
        bus = next(source, 0) % 8
        while bus < 200 and len(roots) < 12:
            children, bus_after = _children(source, bus, 0)
            roots.append(Root(domain * 3, bus, children))
            bus = bus_after + 1 + next(source, 300) % 40
            if next(source, 0) % 3 == 0:
                break
    return roots if next(source, 0) % 2 else roots[::-1]


def _children(source: Iterator[int], bus: int, depth: int) -> tuple[list[Function], int]:
    """Return devices for a bus, numbered upwards, and the last bus number in use below it."""
    children: list[Function] = []
    last, devfn = bus, -1
    for _ in range(next(source, 0) % 5):
        pick = next(source, 0)
        devfn += 1 + pick % 9
        if devfn > 0xFF:
            break
        child = Function(
            devfn >> 3, devfn & 7, NAMES[pick % len(NAMES)], (f"{pick % 0xFFF0:04x}", f"{pick * 7 % 0xFFF0:04x}")
        )
        if pick % 2 and depth < 5 and last < 0xF0:
            first = last + 1
            child.children, last = _children(source, first, depth + 1)
            last = min(0xFF, last + pick % 3)
            child.buses = (first, last)
        children.append(child)
    return children, last


CLASSES = (("3D controller", "0302", None), ("Ethernet controller", "0200", None), ("PCI bridge", "0604", "00"))
NVME = ("Non-Volatile memory controller", "0108", "02")


def render_list(
    functions: list[LspciFunction], *, ids: bool = False, domains: bool = True, hex_dump: bool = False
) -> str:
    """Return ``lspci -vvv`` of functions, with ``-nn`` and ``-xxxx`` where asked for."""
    return "\n".join(_block(function, ids, domains, hex_dump) for function in functions)


def listings() -> st.SearchStrategy[list[LspciFunction]]:
    """Generate the functions of a list; ids and class codes are there as with ``-nn``."""
    return st.lists(_listed(), min_size=1, max_size=12, unique_by=lambda function: function.bdf)


@st.composite
def _listed(draw: st.DrawFn) -> LspciFunction:
    class_name, code, prog_if = draw(st.sampled_from((*CLASSES, NVME)))
    bus = draw(st.integers(0, 0xFE))
    is_bridge, denied = code == "0604", draw(st.booleans())
    secondary = draw(st.integers(bus + 1, 0xFF)) if is_bridge else None
    speed, width = st.sampled_from([None, 2.5, 5.0, 8.0, 16.0, 32.0, 64.0]), st.sampled_from([None, 1, 2, 4, 8, 16])
    has_link = not denied and draw(st.booleans())
    max_speed, max_width = draw(speed), draw(width)
    link = Link(
        speed_gts=draw(speed.filter(lambda now: not now or not max_speed or now <= max_speed)),
        width_lanes=draw(width.filter(lambda now: not now or not max_width or now <= max_width)),
        max_speed_gts=max_speed,
        max_width_lanes=max_width,
    )
    return LspciFunction(
        bdf=f"{draw(st.sampled_from(['0000', '0005', '10000']))}:{bus:02x}:{draw(st.integers(0, 31)):02x}.0",
        name=draw(st.sampled_from(NAMES)),
        vendor_id=f"{draw(st.integers(1, 0xFFF0)):04x}",
        device_id=f"{draw(st.integers(1, 0xFFF0)):04x}",
        class_code=code + (prog_if or ""),
        class_name=class_name,
        numa_node=draw(st.none() | st.integers(0, 15)),
        link=link if has_link else Link(),
        driver=draw(st.none() | st.sampled_from(["nvidia", "mlx5_core", "nvme", "vfio-pci"])),
        iommu_group=draw(st.none() | st.integers(0, 300)),
        secondary_bus=secondary,
        subordinate_bus=draw(st.integers(secondary, 0xFF)) if secondary else None,
        physical_slot=draw(st.none() | st.sampled_from(["3", "2-1", "0-5"])),
        port_type=draw(st.sampled_from(["Endpoint", "Root Port", "Downstream Port"])) if has_link else None,
        denied=denied,
    )


def _block(function: LspciFunction, ids: bool, domains: bool, hex_dump: bool) -> str:
    code = function.class_code or ""
    named = f"{function.class_name} [{code[:4]}]" if ids else function.class_name
    device = f" [{function.vendor_id}:{function.device_id}]" if ids else ""
    prog_if = f" (prog-if {code[4:]} [Normal decode])" if code[4:] else ""
    lines = [f"{function.bdf if domains else function.bdf[5:]} {named}: {function.name}{device} (rev a1){prog_if}"]
    lines += [f"\t{line}" for line in _details(function) if line]
    lines += [f"{row:02x}: 86 80 16 97 07 05 10 00 aa 00 04 06 08 00 01 00" for row in range(0, 256, 16) if hex_dump]
    return "".join(f"{line}\n" for line in lines)


def _details(function: LspciFunction) -> Iterator[str]:
    yield "Subsystem: NVIDIA Corporation Device 16c1"
    yield f"Physical Slot: {function.physical_slot}" if function.physical_slot else ""
    yield "Control: I/O- Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr+ Stepping- SERR+ FastB2B- DisINTx+"
    yield f"NUMA node: {function.numa_node}" if function.numa_node is not None else ""
    yield f"IOMMU group: {function.iommu_group}" if function.iommu_group is not None else ""
    if function.secondary_bus:
        buses = f"secondary={function.secondary_bus:02x}, subordinate={function.subordinate_bus or 0:02x}"
        yield f"Bus: primary={function.bdf[-7:-5]}, {buses}, sec-latency=0"
    if function.denied:
        yield "Capabilities: <access denied>"
    elif function.port_type:
        yield from _express(function)
    yield f"Kernel driver in use: {function.driver}" if function.driver else ""
    yield "Kernel modules: nvidia_drm, nouveau"


def _express(function: LspciFunction) -> Iterator[str]:
    link = function.link
    most = f"Speed {_gts(link.max_speed_gts)}, Width x{link.max_width_lanes or 0}"
    now = f"Speed {_gts(link.speed_gts)} (ok), Width x{link.width_lanes or 0} (downgraded)"
    yield f"Capabilities: [60] Express (v2) {function.port_type}, MSI 00"
    yield f"\tLnkCap:\tPort #0, {most}, ASPM not supported"
    yield "\tLnkCtl:\tASPM Disabled; RCB 64 bytes, Disabled- CommClk+"
    yield f"\tLnkSta:\t{now}"
    yield "\t\tTrErr- Train- SlotClk+ DLActive- BWMgmt- ABWMgmt-"
    yield "\tLnkCap2: Supported Link Speeds: 2.5-32GT/s, Crosslink- Retimer+ 2Retimers+ DRS-"
    yield "\tLnkSta2: Current De-emphasis Level: -6dB, EqualizationComplete+ EqualizationPhase1+"
    yield "Capabilities: [100 v1] Advanced Error Reporting"


def _gts(speed: float | None) -> str:
    return f"{speed:g}GT/s" if speed else "unknown"
