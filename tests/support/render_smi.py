"""What ``nvidia-smi -q`` prints, from an answer of NVML as the project keeps it."""

from collections.abc import Iterable, Mapping
from typing import Any

KEY_COLUMNS = 48
MIB = 1 << 20
SWITCH = {True: "Enabled", False: "Disabled", None: "N/A"}


def render_query(document: Mapping[str, Any]) -> str:
    """Return the text for every GPU of an NVML document."""
    gpus = document["gpus"]
    lines = ["", "==============NVSMI LOG==============", ""]
    lines += [_pair(0, "Timestamp", "Wed Jun  4 09:52:39 2025"), _pair(0, "Driver Version", document["driver_version"])]
    lines += [_pair(0, "CUDA Version", "12.8"), "", _pair(0, "Attached GPUs", document.get("count", len(gpus)))]
    for gpu in gpus:
        lines += _gpu(gpu)
    return "\n".join([*lines, ""])


def _gpu(gpu: Mapping[str, Any]) -> Iterable[str]:
    link = gpu.get("link") or {}
    generation, width = link.get("generation"), link.get("width_lanes")
    most, widest = link.get("max_generation"), link.get("max_width_lanes")
    memory = gpu.get("memory_bytes")
    yield f"GPU {gpu['bdf']}"
    yield _pair(1, "Product Name", gpu.get("name"))
    yield _pair(1, "Addressing Mode", "ATS" if gpu.get("c2c") else "None")
    yield _pair(1, "Persistence Mode", SWITCH[gpu.get("persistence")])
    yield _heading(1, "MIG Mode")
    yield _pair(2, "Current", SWITCH[gpu.get("mig")])
    yield _pair(2, "Pending", SWITCH[gpu.get("mig")])
    yield _pair(1, "GPU UUID", gpu.get("uuid"))
    yield _pair(1, "GPU C2C Mode", SWITCH[gpu.get("c2c")])
    yield _heading(1, "PCI")
    yield _pair(2, "Bus Id", gpu["bdf"])
    yield _heading(2, "GPU Link Info")
    yield _heading(3, "PCIe Generation")
    yield _pair(4, "Max", most)
    yield _pair(4, "Current", generation)
    yield _pair(4, "Device Max", most)
    yield _heading(3, "Link Width")
    yield _pair(4, "Max", widest and f"{widest}x")
    yield _pair(4, "Current", width and f"{width}x")
    yield _pair(2, "Replays Since Reset", 0)
    yield _pair(1, "Performance State", f"P{gpu.get('pstate', 0)}")
    yield _heading(1, "FB Memory Usage")
    yield _pair(2, "Total", memory and f"{memory // MIB} MiB")
    yield _pair(2, "Reserved", "551 MiB")
    yield _heading(1, "BAR1 Memory Usage")
    yield _pair(2, "Total", "131072 MiB")
    yield _pair(1, "Processes", "None")
    yield ""


def _pair(depth: int, key: str, value: object) -> str:
    return f"{' ' * 4 * depth}{key}".ljust(KEY_COLUMNS) + f": {'N/A' if value is None else value}"


def _heading(depth: int, key: str) -> str:
    return f"{' ' * 4 * depth}{key}"
