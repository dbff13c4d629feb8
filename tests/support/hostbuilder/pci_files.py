"""What sysfs shows of PCI functions: attributes, links, configuration space, IOMMU groups."""

import struct

from hostdoctor.parsers.cpulist import format_cpulist
from tests.support.hostbuilder.cpus import Layout
from tests.support.hostbuilder.description import Host, Part
from tests.support.hostbuilder.files import Tree, mask
from tests.support.hostbuilder.pci import Ends, Function, driver_of

BUS_FOLDER = "/sys/bus/pci"


def write_pci(host: Host, functions: list[Function], layout: Layout, tree: Tree) -> None:
    """Write every function's folder, its links, driver and IOMMU group."""
    locals_: dict[int, tuple[str, str]] = {}
    for node in {function.node for function in functions}:
        near = layout.near(node)
        locals_[node] = format_cpulist(near), mask(near, len(layout.cpus))
    for number, function in enumerate(functions):
        _write_function(function, locals_[function.node], tree)
        if host.iommu:
            _write_iommu(host.iommu, number, function, tree)
        if function.physical is not None:
            _write_virtual(function, function.physical, tree)


def _write_function(function: Function, local: tuple[str, str], tree: Tree) -> None:
    part = function.part
    vendor, device = part.ids.split(":")
    sub_vendor, sub_device = part.subsystem.split(":")
    path = function.path
    attributes: dict[str, object] = {
        "vendor": f"0x{vendor}",
        "device": f"0x{device}",
        "subsystem_vendor": f"0x{sub_vendor}",
        "subsystem_device": f"0x{sub_device}",
        "class": f"0x{part.cls}",
        "revision": "0x01",
        "irq": 0,
        "enable": 1,
        "numa_node": function.node,
        "local_cpulist": local[0],
        "local_cpus": local[1],
        "modalias": f"pci:v0000{vendor}d0000{device}sv0000{sub_vendor}sd0000{sub_device}".upper().replace(
            "PCI:", "pci:"
        ),
    }
    tree.attributes(path, attributes | _link_attributes(function.link))
    tree.text(f"{path}/resource", _resource(part))
    tree.files[f"{path}/config"] = _config(function)
    tree.link(f"{path}/subsystem", BUS_FOLDER)
    tree.link(f"{BUS_FOLDER}/devices/{function.bdf}", path)
    driver = driver_of(function)
    if driver:
        tree.link(f"{path}/driver", f"{BUS_FOLDER}/drivers/{driver}")
        tree.link(f"{BUS_FOLDER}/drivers/{driver}/{function.bdf}", path)


def _link_attributes(link: Ends | None) -> dict[str, object]:
    if link is None:
        return {}
    return {
        "current_link_speed": _speed(link.gts),
        "current_link_width": link.width,
        "max_link_speed": _speed(link.max_gts),
        "max_link_width": link.max_width,
    }


def _speed(gts: float | None) -> str:
    return "Unknown" if gts is None else f"{gts:.1f} GT/s PCIe"


def _resource(part: Part) -> str:
    empty = " ".join(["0x" + "0" * 16] * 3)
    rows = [empty] * 13
    if part.bar1_mib:
        start = 0x2000_0000_0000
        rows[2] = f"0x{start:016x} 0x{start + (part.bar1_mib << 20) - 1:016x} 0x000000000014220c"
    return "\n".join(rows) + "\n"


def _config(function: Function) -> bytes:
    """Return the 64 bytes of configuration space that everybody may read."""
    vendor, device = (int(x, 16) for x in function.part.ids.split(":"))
    cls = int(function.part.cls, 16)
    is_bridge = function.role != "endpoint"
    head = struct.pack(
        "<HHHHBBBBBBBB", vendor, device, 0x0406, 0x0010, 1, cls & 0xFF, cls >> 8 & 0xFF, cls >> 16, 16, 0, is_bridge, 0
    )
    space = bytearray(head.ljust(64, b"\0"))
    if is_bridge:
        space[0x18:0x1B] = bytes((function.address[1], function.secondary, function.last_bus))
    else:
        space[0x2C:0x30] = struct.pack("<HH", *(int(x, 16) for x in function.part.subsystem.split(":")))
    return bytes(space)


def _write_iommu(kind: str, number: int, function: Function, tree: Tree) -> None:
    group = f"/sys/kernel/iommu_groups/{number}"
    tree.put(f"{group}/type", kind)
    tree.link(f"{group}/devices/{function.bdf}", function.path)
    tree.link(f"{function.path}/iommu_group", group)


def _write_virtual(function: Function, physical: Function, tree: Tree) -> None:
    number = sum(1 for path in tree.links if path.startswith(f"{physical.path}/virtfn"))
    tree.link(f"{function.path}/physfn", physical.path)
    tree.link(f"{physical.path}/virtfn{number}", function.path)
    tree.attributes(physical.path, {"sriov_numvfs": number + 1, "sriov_totalvfs": max(16, number + 1)})
