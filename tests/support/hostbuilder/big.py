"""A very large host, to measure how the time grows."""

from typing import Any

FIRST_FILLER_DOMAIN = 0x10


def big_description(gpus: int = 16, nvme: int = 64, cpus: int = 512, functions: int = 4096) -> dict[str, Any]:
    """Return a description of a two-socket host with these numbers; the rest of the functions are plain peripherals."""
    drives = [nvme * (i + 1) // gpus - nvme * i // gpus for i in range(gpus)]
    roots = [_gpu_root(i, gpus, count) for i, count in enumerate(drives)]
    # a root port, a switch and one downstream port for each of: the GPU, the NIC, every drive
    placed = sum(2 + 2 * (2 + count) for count in drives)
    return {
        "hostname": "big",
        "cpu": {"model": "Big CPU", "packages": 2, "cores": cpus // 4, "threads": 2},
        "node": [{"ids": "0-1", "memory_gib": [2048.0, 2048.0]}],
        "nvidia": {"driver": "570.133.20", "link": "NV18"},
        "root": roots + list(_fillers(functions - placed)),
    }


def _gpu_root(index: int, gpus: int, drives: int) -> dict[str, Any]:
    below: list[dict[str, Any]] = [{"part": "cx7-ib"}, {"part": "h100-sxm"}]
    if drives:
        below.append({"part": "nvme-u2", "count": drives, "queues": 16})
    switch = {"part": "pex89", "below": below}
    return {"at": [f"{index:04x}:00"], "node": index * 2 // gpus, "below": [{"part": "spr-port", "below": [switch]}]}


def _fillers(count: int) -> Any:
    """Yield root buses full of peripherals, 240 each."""
    domain = FIRST_FILLER_DOMAIN
    while count > 0:
        here = min(count, 240)
        below = [{"part": "spr-peripheral", "count": here}]
        yield {"at": [f"{domain:04x}:00"], "node": domain % 2, "below": below}
        count -= here
        domain += 1
