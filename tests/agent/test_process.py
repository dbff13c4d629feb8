"""The agent as a process, on a fake root."""

import json
import os
import resource
import signal
import socket
import subprocess  # noqa: TID251  runs the agent as systemd would
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hostdoctor.agent.state import State
from tests.cli.support import hostdoctor
from tests.support.hostbuilder import build_files, load_host, write_tree

ROOT = Path(__file__).parents[2]
WAIT_S = 60.0  # how long a slow machine may take; nothing is judged by it
SECONDS = ("--interval", "1", "--signals", "0.5")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    write_tree(build_files(load_host("workstation")), folder)
    return folder


def link_file(root: Path) -> Path:
    """Return the file with the width of the GPU's link."""
    devices = (path for path in (root / "sys/bus/pci/devices").iterdir())
    gpu = next(d for d in sorted(devices) if (d / "class").read_text().startswith("0x0300"))
    return (gpu / "current_link_width").resolve()


def until(is_so: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


class Running:
    """An agent under a manager that listens on a notify socket."""

    def __init__(self, folder: Path, root: Path, *arguments: str) -> None:
        self.log = folder / "log"
        self.told: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(folder / "notify"))
        self._socket.setblocking(False)
        environment = os.environ | {
            "NOTIFY_SOCKET": str(folder / "notify"),
            "WATCHDOG_USEC": "3000000",
            "PYTHONPATH": str(ROOT),
        }
        command = (sys.executable, "-m", "hostdoctor", "agent", "--from", str(root), *arguments)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stderr=log, stdout=log, env=environment, cwd=folder)

    def said(self, text: str) -> bool:
        return text in self.log.read_text()

    def was_told(self, text: str) -> bool:
        try:
            while True:
                self.told.append(self._socket.recv(65536).decode())
        except BlockingIOError:
            return any(text in message for message in self.told)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(WAIT_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._socket.close()


@pytest.fixture
def start(tmp_path: Path, root: Path) -> Iterator[Callable[..., Running]]:
    running: list[Running] = []

    def begin(*arguments: str) -> Running:
        (tmp_path / "notify").unlink(missing_ok=True)
        running.append(Running(tmp_path, root, *arguments))
        return running[-1]

    yield begin
    for one in running:
        one.close()


def test_its_whole_life(start: Callable[..., Running], tmp_path: Path, root: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[agent]\ninterval = 600\nsignals = 0.5\n")
    agent = start("--config", str(config), "--state", str(tmp_path / "s.db"))
    until(lambda: agent.was_told("READY=1"), "ready")
    until(lambda: agent.was_told("STATUS=ok: no warning; survey took"), "first survey")
    until(lambda: agent.was_told("WATCHDOG=1"), "watchdog")

    link_file(root).write_text("8\n")
    until(lambda: agent.said("HD904 map-drifted appeared, warning: PCIe link narrower than accepted: GPU0 x8"), "drift")
    link_file(root).write_text("16\n")
    until(lambda: agent.said("HD904 map-drifted cleared"), "cleared")

    config.write_text("[agent]\nintervall = 5\n")
    agent.process.send_signal(signal.SIGHUP)
    until(lambda: agent.said("the former configuration stays"), "refused")
    assert agent.said("unknown field `intervall`")
    assert agent.said("(did you mean interval?)")
    config.write_text("[agent]\ninterval = 500\nsignals = 0.5\n")
    agent.process.send_signal(signal.SIGHUP)
    until(lambda: agent.said("the configuration was read again"), "read again")
    assert agent.was_told("RELOADING=1\nMONOTONIC_USEC=")

    assert agent.stop() == 0
    assert agent.said("stopped")
    assert agent.was_told("STOPPING=1")
    history = subprocess.run(
        (sys.executable, "-m", "hostdoctor", "agent", "history", "--state", str(tmp_path / "s.db"), "--format", "json"),
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
    )
    events = [(event["transition"], event["id"]) for event in json.loads(history.stdout)]
    assert [pair for pair in events if pair[1] == "HD904"] == [("appeared", "HD904"), ("cleared", "HD904")]
    assert "Traceback" not in agent.log.read_text()


def test_a_disk_without_room_is_told_and_what_it_missed_is_written_later(
    start: Callable[..., Running], tmp_path: Path, root: Path
) -> None:
    agent = start("--state", str(tmp_path / "s.db"), "--interval", "600", "--signals", "0.5")
    until(lambda: agent.was_told("STATUS=ok: no warning"), "first survey")
    written = (tmp_path / "s.db-wal").stat().st_size
    limits = resource.prlimit(agent.process.pid, resource.RLIMIT_FSIZE, (written, resource.RLIM_INFINITY))
    link_file(root).write_text("8\n")
    until(lambda: agent.said("state: not written"), "told")
    assert agent.said("HD904 map-drifted appeared")
    resource.prlimit(agent.process.pid, resource.RLIMIT_FSIZE, limits)
    until(lambda: agent.said("state: written again"), "recovered")
    assert agent.stop() == 0
    state = State(tmp_path / "s.db")
    assert [event.id for event in state.events(9) if event.severity == "warning"] == ["HD904"]
    state.close()


def test_a_map_that_is_accepted_meanwhile_ends_the_drift(
    start: Callable[..., Running], tmp_path: Path, root: Path
) -> None:
    state = ("--state", str(tmp_path / "s.db"))
    agent = start(*state, "--interval", "600", "--signals", "0.5")
    until(lambda: agent.was_told("STATUS=ok: no warning"), "first survey")
    link_file(root).write_text("8\n")
    until(lambda: agent.said("HD904 map-drifted appeared"), "drift")
    ran = hostdoctor("agent", "accept-baseline", *state, "--from", str(root))
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == "accepted: GPUs 1, NICs 1, drives 1, NUMA nodes 1\n"
    until(lambda: agent.said("HD904 map-drifted cleared"), "cleared")
    told = hostdoctor("agent", "history", *state, "--last", "1").out
    assert "HD904 map-drifted cleared, warning: PCIe link narrower than accepted: GPU0 x8 (was x16)" in told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_other_ways_to_end_it(start: Callable[..., Running], tmp_path: Path, number: int) -> None:
    agent = start(*SECONDS)
    until(lambda: agent.was_told("READY=1"), "ready")
    assert agent.stop(number) == 0


def kill_many(times: int, tmp_path: Path, root: Path) -> None:
    command = (sys.executable, "-m", "tests.agent.kill_many", str(times), "7", str(root))
    files = (str(tmp_path / "s.db"), str(tmp_path / "log"), str(link_file(root)))
    ran = subprocess.run((*command, *files), env=os.environ | {"PYTHONPATH": str(ROOT)}, cwd=ROOT, capture_output=True)
    assert ran.returncode == 0, ran.stderr
    kills = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(kills) == times
    assert {(kill["signal"], str(kill["left"]), kill["db"]) for kill in kills} <= {
        (9, "[]", "ok"),
        (9, "[]", "none"),
    }
    assert kills[-1]["db"] == "ok"
    log = (tmp_path / "log").read_text()
    assert "damaged" not in log
    assert "Traceback" not in log
    assert log.count("HD904 map-drifted") >= 1  # it did get to its work


def test_killed_at_any_moment_it_leaves_a_sound_state_and_no_process(tmp_path: Path, root: Path) -> None:
    kill_many(20, tmp_path, root)


@pytest.mark.e2e
def test_killed_a_hundred_times(tmp_path: Path, root: Path) -> None:
    kill_many(100, tmp_path, root)
