"""Plays udev in a network namespace of its own, and prints what is made of it as JSON.

``python -m tests.agent.udev_flood hear``: what a subscription makes of messages that are not all in order.
``python -m tests.agent.udev_flood flood EVENTS SECONDS FOLDER``: what an agent makes of so many in so long.
"""

import json
import re
import select
import signal
import socket
import struct
import subprocess  # noqa: TID251  the agent is another process
import sys
import time
from pathlib import Path

UEVENTS, OF_UDEV = 15, 2  # NETLINK_KOBJECT_UEVENT, and udev's group of it
MAGIC, HEAD_BYTES, MASK = 0xFEEDCAFE, 40, 0xFFFFFFFF
AGENT = "import hostdoctor.sources.uevents as u; u._RUNNING = '/'; from hostdoctor.cli import main; main()"
PATIENCE_S = 60.0


def hashed(data: bytes) -> int:
    """Return MurmurHash2, by which udev's subscribers are filtered."""
    factor, value = 0x5BD1E995, len(data)
    whole = len(data) // 4 * 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        part = word * factor & MASK
        value = (value * factor & MASK) ^ ((part ^ part >> 24) * factor & MASK)
    if data[whole:]:
        value = (value ^ int.from_bytes(data[whole:], "little")) * factor & MASK
    value = (value ^ value >> 13) * factor & MASK
    return value ^ value >> 15


def message(number: int, action: str = "change") -> bytes:
    """Return what udev sends of a PCI function; number 0 is one that libudev refuses."""
    device = f"DEVPATH=/devices/pci0000:00/0000:00:{number % 32:02x}.0"
    told = "".join(f"{part}\0" for part in (f"ACTION={action}", device, "SUBSYSTEM=pci", f"SEQNUM={number}")).encode()
    sizes = struct.pack("=III", HEAD_BYTES, HEAD_BYTES, len(told))
    return b"libudev\0" + struct.pack(">I", MAGIC) + sizes + struct.pack(">IIII", hashed(b"pci"), 0, 0, 0) + told


def hear() -> None:
    from hostdoctor.sources import uevents

    uevents._RUNNING = "/"
    events = uevents.Uevents()
    udev = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, UEVENTS)
    for sent in (message(1), message(0), message(2, "made-up"), message(3)[:60], b"libudev\0", message(4, "add")):
        udev.sendto(sent, (0, OF_UDEV))
    told: list[str] = []
    lost = False
    while select.select([events], [], [], PATIENCE_S if not told else 0.0)[0]:
        names, some_lost = events.drain()
        told, lost = [*told, *names], lost or some_lost
    print(json.dumps([told, lost]))  # noqa: T201


def counted(folder: Path, name: str) -> int:
    """Return one of the agent's counters, 0 before it tells any."""
    path = folder / "hostdoctor.prom"
    told = re.search(rf"^hostdoctor_agent_{name}_total (\d+)$", path.read_text() if path.exists() else "", re.MULTILINE)
    return int(told[1]) if told else 0


def until(folder: Path, name: str, least: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while counted(folder, name) < least and time.monotonic() < deadline:
        time.sleep(0.1)


def flood(events: int, seconds: float, folder: Path) -> None:
    words = ("agent", "--interval", "3600", "--signals", "0.5", "--textfile", str(folder))
    agent = subprocess.Popen((sys.executable, "-c", AGENT, *words), stderr=(folder / "log").open("w"))
    until(folder, "surveys", 1)
    udev = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, UEVENTS)
    began = time.monotonic()
    for number in range(1, events + 1):
        udev.sendto(message(number), (0, OF_UDEV))
        time.sleep(max(0.0, began + number * seconds / events - time.monotonic()))
    until(folder, "surveys", 2)
    until(folder, "signal_readings", counted(folder, "signal_readings") + 6)  # time enough for one more
    names = ("surveys", "survey_failures", "events", "events_lost")
    told = {name: counted(folder, name) for name in names}
    agent.send_signal(signal.SIGTERM)
    print(json.dumps(told | {"status": agent.wait(), "log": (folder / "log").read_text()}))  # noqa: T201


if __name__ == "__main__":
    if sys.argv[1] == "hear":
        hear()
    else:
        flood(int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4]))
