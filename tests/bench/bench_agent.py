"""What the agent costs beside Debian's prometheus-node-exporter: both on this host, at the same time, scraped alike.

``make bench-agent`` prints it. Time is accelerated: every interval is shortened by ACCELERATION, so that an hour's work
(240 scrapes, 240 readings of the signals, 12 surveys) is done in two minutes; an hour's CPU time is what is compared.
A second agent watches files of a host with eight GPUs, to see what more devices cost.
"""

import contextlib
import http.client
import os
import shutil
import socket
import subprocess  # noqa: TID251  runs both services
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.agent.rig import Rig
from tests.agent.test_growth import FEW, MANY, cycle, resident_kib
from tests.support.hostbuilder import build_files, load_host, write_tree

EXPORTER = "prometheus-node-exporter"
ACCELERATION = 30
SCRAPE_S, SURVEY_S = 15, 300
HOUR_S = 3600 / ACCELERATION
READY_S = 60
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """What a process and its ended children have used, CPU in seconds."""

    own_s: float
    children_s: float
    resident_kib: int

    @property
    def cpu_s(self) -> float:
        return self.own_s + self.children_s


def cost(pid: int) -> Cost:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own, children = (sum(map(int, words[first : first + 2])) / TICKS_PER_S for first in (11, 13))
    status = Path(f"/proc/{pid}/status").read_text()
    return Cost(own, children, int(status.split("VmRSS:")[1].split()[0]))


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def scrape(port: int) -> int:
    """Return how much a service says."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics")
        return len(connection.getresponse().read())


@contextlib.contextmanager
def running(port: int, *argv: str) -> Iterator[int]:
    """Run a service until it answers and for the block; give its process' id."""
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + READY_S
        while True:
            try:
                scrape(port)
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def agent(folder: Path, port: int, *more: str) -> tuple[str, ...]:
    """Return the words that start an agent whose files are in a folder."""
    folder.mkdir()
    (folder / "config.toml").write_text("")
    files = ("--config", str(folder / "config.toml"), "--state", str(folder / "state.db"))
    pace = ("--signals", f"{SCRAPE_S / ACCELERATION}", "--interval", f"{SURVEY_S / ACCELERATION}")
    return (sys.executable, "-m", "hostdoctor", "agent", *files, *pace, "--listen", f"127.0.0.1:{port}", *more)


def beside_node_exporter(folder: Path) -> None:
    """Print the services' costs over the same hour; beside the agent one that watches the demo's files."""
    ports = [free_port() for _ in range(3)]
    write_tree(build_files(load_host("demo")), folder / "demo")
    commands = (
        agent(folder / "here", ports[0]),
        (EXPORTER, f"--web.listen-address=127.0.0.1:{ports[1]}"),
        agent(folder / "there", ports[2], "--from", str(folder / "demo")),
    )
    with contextlib.ExitStack() as stack:
        pids = [stack.enter_context(running(port, *argv)) for port, argv in zip(ports, commands, strict=True)]
        for port in ports:
            scrape(port)
        time.sleep(SURVEY_S / ACCELERATION)  # the first survey reads the modules
        before = [cost(pid) for pid in pids]
        for _ in range(int(3600 / SCRAPE_S)):
            began = time.monotonic()
            said = [scrape(port) for port in ports]
            time.sleep(max(0.0, SCRAPE_S / ACCELERATION - (time.monotonic() - began)))
        after = [cost(pid) for pid in pids]
    ends = list(zip(before, after, strict=True))
    print(f"{'an hour of work, scraped every 15 s':40} {'agent':>8} {'node_exporter':>14} {'ratio':>7} {'8 GPUs':>8}")
    row("CPU time, s", [other.cpu_s - one.cpu_s for one, other in ends])
    row("  of the process alone (no surveys), s", [other.own_s - one.own_s for one, other in ends])
    row("memory afterwards (RSS), MiB", [one.resident_kib / 1024 for one in after])
    row("a scrape says, KiB", [size / 1024 for size in said])


def row(what: str, values: list[float]) -> None:
    mine, theirs, demo = values
    print(f"{what:40} {mine:8.2f} {theirs:14.2f} {mine / theirs:7.2f} {demo:8.2f}", flush=True)


def growth(folder: Path) -> None:
    """Print what ten thousand surveys leave in memory beyond what a thousand left."""
    rig = Rig(folder / "growth.db")
    for number in range(FEW):
        cycle(rig, number)
    before = resident_kib()
    for number in range(FEW, MANY):
        cycle(rig, number)
    print(f"growth from survey {FEW:,} to {MANY:,}: {(resident_kib() - before) / 1024:.2f} MiB")


def main() -> None:
    """Print the figures."""
    if shutil.which(EXPORTER) is None:
        sys.exit(f"{EXPORTER} is not installed (the package of that name): nothing to compare with")
    with tempfile.TemporaryDirectory() as folder:
        beside_node_exporter(Path(folder))
        growth(Path(folder))


if __name__ == "__main__":
    main()
