"""The agent as a process, on a fake root."""

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess  # noqa: TID251  runs the agent as systemd would
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hostdoctor.agent.state import Memory, State
from tests.cli.support import hostdoctor
from tests.support.hostbuilder import build_files, load_host, write_tree
from tests.support.live_run import unshare

ROOT = Path(__file__).parents[2]
NOBODY = 65534
WAIT_S = 60.0  # how long a slow machine may take; nothing is judged by it
MOUNT = 'mount -t tmpfs -o size=640k tmpfs "$0" && '
RUN = 'exec "$@"'
FULL_DISK = '(dd if=/dev/zero of="$0/filler" bs=512 2>/dev/null; true) && '
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


def textfile(folder: Path) -> str:
    path = folder / "hostdoctor.prom"
    return path.read_text() if path.exists() else ""


class Running:
    """An agent under a manager that listens on a notify socket."""

    def __init__(self, folder: Path, root: Path, *arguments: str, before: tuple[str, ...] = ()) -> None:
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
        command = (*before, sys.executable, "-m", "hostdoctor", "agent", "--from", str(root), *arguments)
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

    def begin(*arguments: str, **more: tuple[str, ...]) -> Running:
        (tmp_path / "notify").unlink(missing_ok=True)
        running.append(Running(tmp_path, root, *arguments, **more))
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
    read_again = "the configuration was read again: a survey every 500 s, signals every 0.5 s\n"
    until(lambda: agent.said(read_again), "read again")
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


def test_a_drive_that_is_gone_is_told_until_it_returns(
    start: Callable[..., Running], tmp_path: Path, root: Path
) -> None:
    bus = root / "sys/bus/pci/devices"
    drive = next(f for f in sorted(bus.iterdir()) if (f / "class").read_text().startswith("0x0108"))
    present = f'hostdoctor_pcie_device_present{{device="nvme0",kind="nvme",bdf="{drive.name}"}}'
    agent = start("--textfile", str(tmp_path), "--interval", "600", "--signals", "0.5")
    until(lambda: f"{present} 1\n" in textfile(tmp_path), "present")
    links = {path: path.readlink() for path in (root / "sys/class/nvme/nvme0", drive)}
    for path in links:
        path.unlink()
    until(lambda: agent.said("nvme0: no longer there"), "HD904")
    until(lambda: "surveys_total 2\n" in textfile(tmp_path) and f"{present} 0\n" in textfile(tmp_path), "gone")
    for path, target in reversed(links.items()):
        path.symlink_to(target)
    until(lambda: agent.said("HD904 map-drifted cleared"), "back")
    until(lambda: f"{present} 1\n" in textfile(tmp_path), "present again")
    assert agent.stop() == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """Return where the agent finds a disk of 640 KiB: a mount of its own."""
    if not unshare():
        pytest.skip("no mount namespace may be made here (unshare)")
    (tmp_path / "disk").mkdir()
    return tmp_path / "disk"


def fill(folder: Path) -> Path:
    """Fill a disk to its last byte; return the file that does."""
    with (folder / "filler").open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        while True:
            stream.write(b"x" * 512)
    return folder / "filler"


def test_on_a_disk_that_is_full_it_goes_on_and_catches_up(
    start: Callable[..., Running], tmp_path: Path, small_disk: Path, root: Path
) -> None:
    words = (
        "--state",
        str(small_disk / "s.db"),
        "--textfile",
        str(small_disk),
        "--interval",
        "600",
        "--signals",
        "0.5",
    )
    agent = start(*words, before=(*unshare(), "sh", "-c", f"{MOUNT}{RUN}", str(small_disk)))
    inside = Path(f"/proc/{agent.process.pid}/root{small_disk}")  # the mount as the agent has it
    until(lambda: 'hostdoctor_status{status="ok"} 1\n' in textfile(inside), "first survey")
    filler = fill(inside)
    link_file(root).write_text("8\n")
    until(lambda: agent.said("state: not written"), "the state")
    until(lambda: agent.said("publisher textfile: "), "the textfile")
    assert agent.said("HD904 map-drifted appeared")
    assert agent.said("database or disk is full")
    assert agent.said("No space left on device")
    text = (inside / "hostdoctor.prom").read_text(encoding="utf-8")
    assert 'hostdoctor_status{status="ok"} 1\n' in text  # the last one that had room, whole
    assert text.splitlines()[-1].startswith("hostdoctor_agent_clock_jumps_total ")
    filler.unlink()
    until(lambda: agent.said("state: written again"), "the state again")
    until(lambda: agent.said("publisher textfile: works again"), "the textfile again")
    for name in ("s.db", "s.db-wal"):  # SQLite would resolve the path, which leads elsewhere from here
        shutil.copy(inside / name, tmp_path / name)
    state = State(tmp_path / "s.db")
    assert [event.id for event in state.events(9) if event.severity == "warning"] == ["HD904"]
    state.close()
    assert agent.stop() == 0
    assert "Traceback" not in agent.log.read_text()


def test_started_on_a_full_disk_it_keeps_its_state_once_there_is_room(
    start: Callable[..., Running], tmp_path: Path, small_disk: Path
) -> None:
    words = ("--state", str(small_disk / "s.db"), "--textfile", str(small_disk), *SECONDS)
    agent = start(*words, before=(*unshare(), "sh", "-c", f"{MOUNT}{FULL_DISK}{RUN}", str(small_disk)))
    until(lambda: agent.said("state: not read: "), "told")
    until(lambda: agent.was_told("STATUS=ok: no warning"), "first survey")
    inside = Path(f"/proc/{agent.process.pid}/root{small_disk}")
    (inside / "filler").unlink()
    until(lambda: agent.said("state: written again"), "recovered")
    until(lambda: (inside / "hostdoctor.prom").exists(), "the textfile")
    assert agent.stop() == 0
    assert "Traceback" not in agent.log.read_text()


def test_a_second_agent_is_refused_and_disturbs_nothing(start: Callable[..., Running], tmp_path: Path) -> None:
    words = ("--state", str(tmp_path / "s.db"), "--textfile", str(tmp_path), *SECONDS)
    first = start(*words)
    until(lambda: (tmp_path / "hostdoctor.prom").exists(), "first survey")
    second = start(*words)
    assert second.process.wait(WAIT_S) == 64
    assert second.said("hostdoctor: --state: another agent keeps its state there")
    assert (tmp_path / "hostdoctor.prom").exists()
    assert first.stop() == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_it_says_where_it_listens(start: Callable[..., Running], host: str) -> None:
    agent = start("--listen", f"{host}:0", *SECONDS)
    until(lambda: agent.was_told("STATUS=ok: no warning"), "first survey")
    told = re.search(rf"^metrics at (http://{re.escape(host)}:[1-9]\d*/metrics)$", agent.log.read_text(), re.MULTILINE)
    assert told is not None
    with urllib.request.urlopen(told[1], timeout=WAIT_S) as answer:
        assert b"hostdoctor_build_info" in answer.read()
    assert agent.stop() == 0


def test_a_history_without_events_says_so(tmp_path: Path) -> None:
    state = State(tmp_path / "s.db")
    state.save(Memory(), ())
    state.close()
    words = ("agent", "history", "--state", str(tmp_path / "s.db"))
    assert hostdoctor(*words).out == "nothing has appeared, changed or cleared yet\n"
    assert hostdoctor(*words, "--format", "json").out == "[]\n"


def test_it_needs_no_standard_error(start: Callable[..., Running], tmp_path: Path) -> None:
    agent = start("--textfile", str(tmp_path), *SECONDS, before=("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"))
    until(lambda: "surveys_total 2\n" in textfile(tmp_path), "two surveys")
    assert agent.stop() == 0


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
    files = (str(tmp_path / "s.db"), str(tmp_path / "log"), str(link_file(root)), str(tmp_path))
    ran = subprocess.run((*command, *files), env=os.environ | {"PYTHONPATH": str(ROOT)}, cwd=ROOT, capture_output=True)
    assert ran.returncode == 0, ran.stderr
    kills = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(kills) == times
    assert {(kill["signal"], str(kill["left"]), kill["db"]) for kill in kills} <= {
        (9, "[]", "ok"),
        (9, "[]", "none"),
    }
    assert {kill["textfile"] for kill in kills} - {"none"} == {"whole"}
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


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_follows_no_link_out_of_the_services_folder(root: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        theirs = folder / "service"
        theirs.mkdir(mode=0o700)
        target = folder / "roots"
        (theirs / "s.db").symlink_to(target)
        os.chown(theirs, NOBODY, NOBODY)
        command = ("agent", "accept-baseline", "--state", str(theirs / "s.db"), "--from", str(root))
        refused = hostdoctor(*command)
        assert (refused.status, refused.out) == (3, "")
        assert not target.exists()
        (theirs / "s.db").unlink()
        assert hostdoctor(*command).status == 0
        assert (theirs / "s.db").stat().st_uid == NOBODY
