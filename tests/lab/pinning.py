"""Takes memory in the guest for real: bound to a node, locked, until the kernel could keep its high watermark no more.

``hold NODE BYTES`` says so when it has them and waits; ``take BYTES`` takes them under the caller's policy and ends;
``measure NODE`` prints what could be locked on the node. It shares no code with hostdoctor.
"""

import ctypes
import json
import mmap
import os
import re
import sys
import time
from pathlib import Path

MIB = 1 << 20
COARSE, FINE = 4 * MIB, MIB // 2
TRIES = 1  # an allocation below the low watermark is what wakes the kernel
MBIND, MPOL_BIND = 237, 2
LIBC = ctypes.CDLL(None, use_errno=True)


def take(size: int, node: int | None = None, *, lock: bool = True) -> mmap.mmap:
    """Map memory, on a node if one is named, and have every page of it."""
    area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    where = ctypes.c_void_p(address)
    if node is not None:
        nodes = ctypes.c_ulong(1 << node)
        words = (where, ctypes.c_ulong(size), MPOL_BIND, ctypes.byref(nodes), ctypes.c_ulong(64), 0)
        if LIBC.syscall(MBIND, *words):
            raise OSError(ctypes.get_errno(), "mbind")
    if lock:
        if LIBC.mlock(where, ctypes.c_size_t(size)):
            raise OSError(ctypes.get_errno(), "mlock")
    else:
        ctypes.memset(where, 1, size)
    return area


def watermarks(node: int) -> tuple[int, int]:
    """Return the low and the high watermark of a node's zones together, in bytes."""
    zones = re.split(r"^(?=Node )", Path("/proc/zoneinfo").read_text(encoding="ascii"), flags=re.MULTILINE)
    found = {"low": 0, "high": 0}
    for zone in zones:
        if zone.startswith(f"Node {node},") and not re.search(r"\n +managed +0\n", zone):
            for name in found:
                value = re.search(rf"\n +{name} +(\d+)\n", zone)
                found[name] += int(value[1]) * mmap.PAGESIZE if value else 0
    return found["low"], found["high"]


def free(node: int) -> int:
    """Return a node's free bytes."""
    text = Path(f"/sys/devices/system/node/node{node}/vmstat").read_text(encoding="ascii")
    return int(text.partition("nr_free_pages ")[2].split(maxsplit=1)[0]) * mmap.PAGESIZE


def recovers(node: int, high: int) -> bool:
    """Tell whether the kernel gets back to its high watermark by itself."""
    limit = time.monotonic() + 3
    while time.monotonic() < limit:
        if free(node) >= high:
            return True
        time.sleep(0.02)
    return False


def measure(node: int) -> dict[str, int]:
    """Lock memory on the node until what the kernel takes back no longer makes up for it."""
    low, high = watermarks(node)
    held, taken, misses = [], 0, 0
    while misses <= TRIES:
        now = free(node)
        misses = misses + 1 if now < low and not recovers(node, high) else 0
        size = COARSE if now > high + 4 * COARSE else FINE
        if misses <= TRIES:
            held.append(take(size, node))
            taken += size
    now = free(node)
    return {"locked": taken - max(0, high - now), "taken": taken, "free": now, "low": low, "high": high}


def main() -> None:
    """Do what the arguments say; be the first to be killed when memory is short."""
    Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    word, *numbers = sys.argv[1:]
    if word == "take":
        take(int(numbers[0]), lock=False)
        sys.stdout.write("had it\n")
        return
    os.sched_setaffinity(0, range(4))  # what it needs itself lands on node 0
    if word == "hold":
        area = take(int(numbers[1]), int(numbers[0]), lock=False)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        time.sleep(600)
        area.close()
    else:
        sys.stdout.write(json.dumps(measure(int(numbers[0]))))


if __name__ == "__main__":
    main()
