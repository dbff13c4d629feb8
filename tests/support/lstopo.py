"""Running hwloc's own lstopo on a root, the other opinion."""

import os
import shutil
import subprocess  # noqa: TID251  runs lstopo
from pathlib import Path

import pytest

from hostdoctor.facts import Host

WAYS = {
    "as it comes": (),
    "all devices": ("--whole-io",),
    "all devices and nodes": ("--whole-io", "--disallowed"),
    "no bridges": ("--no-bridges",),
    "hwloc 1": ("--whole-io", "--export-xml-flags", "1"),
}


def lstopo_xml(root: Path, *options: str) -> str:
    """Return lstopo's XML of a root; skip the test where lstopo is not installed."""
    program = shutil.which("lstopo-no-graphics")
    if program is None:
        pytest.skip("lstopo-no-graphics (Debian hwloc-nox) is not installed")
    environment = {
        **os.environ,
        "HWLOC_FSROOT": str(root),
        "HWLOC_THISSYSTEM": "0",
        "HWLOC_HIDE_ERRORS": "2",
        "HWLOC_COMPONENTS": "linux,stop" if root != Path("/") else "",
    }
    command = [program, "--of", "xml", *options, "-"]
    done = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=60)
    return done.stdout.decode()


def differences(sysfs: Host, xml: Host) -> list[str]:
    """Return where a host made of lstopo's XML says something else than the same host made of sysfs; less is fine."""
    return [*_node_differences(sysfs, xml), *_device_differences(sysfs, xml)]


def _node_differences(sysfs: Host, xml: Host) -> list[str]:
    nodes = {node.id: node for node in sysfs.numa_nodes}
    found = []
    for node in xml.numa_nodes:
        known = nodes[node.id]
        pairs = {name: (getattr(known, name), getattr(node, name)) for name in ("cpus", "memory_bytes", "package")}
        pairs |= {f"distance to {to}": (known.distances.get(to), far) for to, far in node.distances.items()}
        found += [f"node {node.id}: {name}: {a} {b}" for name, (a, b) in pairs.items() if None not in (a, b) and a != b]
    return found


def _device_differences(sysfs: Host, xml: Host) -> list[str]:
    devices = {device.bdf: device for device in sysfs.pci_devices}
    found = []
    for device in xml.pci_devices:
        known = devices[device.bdf]
        fields = (
            "numa_node",
            "vendor_id",
            "device_id",
            "root_complex",
            *(("upstream",) if device.root_complex else ()),
        )
        pairs = {name: (getattr(known, name), getattr(device, name)) for name in fields}
        pairs["class"] = ((known.class_code or "")[:4], device.class_code or (known.class_code or "")[:4])
        found += [f"{device.bdf}: {name}: {a} {b}" for name, (a, b) in pairs.items() if None not in (a, b) and a != b]
    for name in ("gpus", "nics", "nvme"):
        known_bdfs = {d.bdf for d in getattr(sysfs, name)} | {d.bdf for d in sysfs.pci_devices if d.is_virtual_function}
        found += [f"{name}: {d.bdf}" for d in getattr(xml, name) if d.bdf not in known_bdfs]
    names = {n.bdf: (n.name, n.netdevs) for n in sysfs.nics} | {d.bdf: (d.name, d.namespaces) for d in sysfs.nvme}
    named = {n.bdf: (n.name, n.netdevs) for n in xml.nics} | {d.bdf: (d.name, d.namespaces) for d in xml.nvme}
    for bdf, (its, below) in named.items():
        known_name, known_below = names.get(bdf, (None, ()))
        if its and known_name and (its, below) != (known_name, known_below):
            found.append(f"{bdf}: {known_name} {known_below} {its} {below}")
    return found
