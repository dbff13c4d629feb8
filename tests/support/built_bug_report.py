"""The bug reports that built hosts would give; their lspci is drawn from the map of their own root."""

import re

from hostdoctor.facts import Host, Link, PciDevice
from hostdoctor.parsers.lspci import LspciFunction
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import MemoryTree
from hostdoctor.survey import survey_map
from hostdoctor.survey.pci_class import CLASS_CODES
from tests.support.bug_report import Content, write_report
from tests.support.hostbuilder import HostFiles, rooted_files
from tests.support.render_lspci import Function, Root, render_list, render_tree
from tests.support.render_smi import render_query

CLASS_NAMES = {code: name for name, code in reversed(CLASS_CODES.items())}


def of_built(files: HostFiles, name: str, **more: object) -> str:
    """Return the report that a built host would give, its lspci drawn from the map of its own root."""
    host = survey_map(built_source(files, name))
    document = (files.nvml or {}).get("document")
    nvidia = tuple(d.bdf for d in host.pci_devices if d.vendor_id == "10de")
    given: dict[str, object] = {
        "read": lambda path: built_source(files, name).read(path.replace("/./", "/")),
        "gpus": nvidia,
        "lspci": {"-nntv": draw_tree(host), "-nn": draw_list(host, brief=True), "-nnDvvvxxxx": draw_list(host)},
        "numactl": files.commands.get("numactl --hardware", ""),
        "query": render_query(document) if document else None,
        "hostname": host.system.hostname or "gpu7",
        "kernel": host.system.kernel or "6.8.0",
    }
    return write_report(Content(**(given | more)))  # type: ignore[arg-type]


def built_source(files: HostFiles, name: str) -> RootSource:
    """Return a built host as a source."""
    return RootSource(MemoryTree(rooted_files(files), files.links), name)


def draw_tree(host: Host) -> str:
    """Return ``lspci -nntv`` of a map."""
    roots: dict[str, Root] = {}
    drawn: dict[str, Function] = {}
    for device in host.pci_devices:
        at = device.root_complex or device.bdf[:-5]
        root = roots.setdefault(at, Root(int(at.split(":")[0], 16), int(at.split(":")[1], 16), []))
        function = drawn[device.bdf] = Function(
            int(device.bdf[-4:-2], 16), int(device.bdf[-1]), _name(host, device), _ids(device), _buses(host, device)
        )
        above = drawn[device.upstream[-1]].children if device.upstream else root.children
        above.append(function)
    return render_tree(list(roots.values()), "vnn")


def draw_list(host: Host, *, brief: bool = False) -> str:
    """Return ``lspci -nnDvvvxxxx`` of a map, or with ``brief`` ``lspci -nn``."""
    functions = [_listed(host, device) for device in host.pci_devices]
    text = render_list(functions, ids=True, domains=True, hex_dump=not brief)
    return (
        "".join(f"{line}\n" for line in text.splitlines() if re.match(r"[0-9a-f]{4,5}:\S+ ", line)) if brief else text
    )


def _listed(host: Host, device: PciDevice) -> LspciFunction:
    code = device.class_code or "000000"
    buses = _buses(host, device) or (None, None)
    return LspciFunction(
        bdf=device.bdf,
        name=_name(host, device),
        vendor_id=device.vendor_id,
        device_id=device.device_id,
        class_code=code,
        class_name=CLASS_NAMES.get(code[:4], "System peripheral"),
        numa_node=device.numa_node,
        link=device.link,
        driver=device.driver,
        secondary_bus=buses[0],
        subordinate_bus=buses[1],
        port_type=_port_type(device, buses[0]) if device.link != Link() else None,
    )


def _port_type(device: PciDevice, secondary: int | None) -> str:
    if secondary is None:
        return "Endpoint"
    return "Downstream Port" if device.upstream else "Root Port"


def _name(host: Host, device: PciDevice) -> str:
    gpu = next((g for g in host.gpus if g.bdf == device.bdf), None)
    name = (gpu.name if gpu else None) or device.name or "Device"
    return name if name.startswith("NVIDIA") or gpu is None else f"NVIDIA Corporation {name}"


def _ids(device: PciDevice) -> tuple[str, str]:
    return device.vendor_id or "0000", device.device_id or "0000"


def _buses(host: Host, device: PciDevice) -> tuple[int, int] | None:
    """Return a bridge's buses: those of what stands below it."""
    below = [d for d in host.pci_devices if device.bdf in d.upstream]
    buses = [int(d.bdf[-7:-5], 16) for d in below]
    return (min(buses), max(buses)) if buses and (device.class_code or "").startswith("0604") else None
