"""An independent reader of what the guest's kernel shows: plain files, none of the project's code."""

import re
from pathlib import Path
from typing import Any


def read_kernel() -> dict[str, Any]:
    """Return nodes, PCI functions, NVMe drives and their interrupts as /sys and /proc have them now."""
    return {"nodes": _nodes(), "pci": _pci(), "nvme": _nvme()}


def _nodes() -> dict[str, Any]:
    folders = sorted(Path("/sys/devices/system/node").glob("node[0-9]*"))
    return {
        folder.name.removeprefix("node"): {
            "cpus": _text(folder / "cpulist"),
            "distances": [int(word) for word in _text(folder / "distance").split()],
            "memory_kib": int(re.search(r"MemTotal: +(\d+) kB", _text(folder / "meminfo"))[1]),  # type: ignore[index]
        }
        for folder in folders
    }


def _pci() -> dict[str, Any]:
    found = {}
    for link in Path("/sys/bus/pci/devices").iterdir():
        above = link.resolve().parts
        first = next(i for i, part in enumerate(above) if part.startswith("pci"))
        found[link.name] = {
            "numa_node": int(_text(link / "numa_node")),
            "root_complex": above[first].removeprefix("pci"),
            "upstream": list(above[first + 1 : -1]),
            "ids": [_text(link / name) for name in ("vendor", "device", "class")],
            "driver": (link / "driver").resolve().name if (link / "driver").exists() else None,
            "link": [_text(link / f"{when}_link_{what}") for when in ("current", "max") for what in ("width", "speed")],
            "files": sorted(path.name for path in link.iterdir()),
        }
    return found


def _nvme() -> dict[str, Any]:
    """By address: names depend on which drive answered first."""
    interrupts = Path("/proc/interrupts").read_text(encoding="ascii")
    found = {}
    for link in Path("/sys/class/nvme").iterdir():
        queues = {}
        for folder in link.glob("nvme*n1/mq/*"):
            queue = int(folder.name) + 1
            irq = re.search(rf"^ *(\d+):.* {link.name}q{queue}$", interrupts, re.MULTILINE)
            lands = _text(Path(f"/proc/irq/{irq[1]}/effective_affinity_list")) if irq else None
            queues[str(queue)] = {
                "cpus": [int(cpu) for cpu in _text(folder / "cpu_list").split(",")],
                "irq": int(irq[1]) if irq else None,
                "irq_cpus": lands,
            }
        found[(link / "device").resolve().name] = {
            "name": link.name,
            "serial": _text(link / "serial"),
            "namespaces": [path.name for path in link.glob("nvme*n1")],
            "queues": queues,
        }
    return found


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii").strip() if path.exists() else ""
