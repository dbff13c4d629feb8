"""Runs in the guest under systemd, as root: takes the agent's service through its life, and keeps what was seen.

Leaves /out/seen.json: for each step the unit as systemd shows it, when (CLOCK_MONOTONIC, seconds) what was done, the
kernel's device events, and the service's journal.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess  # noqa: TID251  systemctl, journalctl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.lab.opened import ROOT, let_everybody_read
from tests.lab.service.monitor import Monitor

OUT = Path("/out")
UNIT = "hostdoctor.service"
UNITS = Path("/etc/systemd/system")
DEVICES = ("/dev/nvidiactl", "/dev/ttyS0", "/dev/nvme0")  # the first has no driver here
QUICKER = f"""
WatchdogSec=10
RestartSec=1
ExecStartPre=-/bin/sh -c 'exec head -c0 {" ".join(DEVICES)} 2>/run/hostdoctor/devices >&2'
"""
CONFIG = Path("/etc/hostdoctor/config.toml")
TEXTFILE = Path("/run/hostdoctor/hostdoctor.prom")
WIDTH = Path("/run/stand-ins/0000:21:00.0/current_link_width")
PORT_WIDTH = Path("/run/stand-ins/0000:20:00.0/current_link_width")
DRIVE = Path("/sys/bus/pci/devices/0000:22:00.0")
STAND_INS = Path("/run/stand-ins/0000:22:00.0")
WAIT_S = 60.0
KERNEL_GROUP, UEVENTS = 1, 15
SHOWN = "ActiveState,SubState,Result,NRestarts,MainPID,StatusText,ExecMainStatus,User"

seen: dict[str, Any] = {"units": {}, "at": {}, "events": [], "journal": [], "texts": {}, "preflight": {}}


class Journal:
    """The service's entries as they come."""

    def __init__(self) -> None:
        command = ("journalctl", "--follow", "--lines=all", "--output=json", f"_SYSTEMD_UNIT={UNIT}")
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            seen["journal"].append(json.loads(line))

    def wait(self, *texts: str, since: int = 0) -> None:
        """Wait for an entry with all these texts after so many entries."""
        until(lambda: any(all(text in entry["MESSAGE"] for text in texts) for entry in seen["journal"][since:]), texts)

    def close(self) -> None:
        self._process.kill()


def until(is_so: Callable[[], object], what: object) -> None:
    limit = time.monotonic() + WAIT_S
    while not is_so():
        if time.monotonic() > limit:
            raise TimeoutError(str(what))
        time.sleep(0.3)


def hear_events() -> None:
    """Keep the kernel's own device events, with when they came, from now on."""
    heard = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, UEVENTS)
    heard.bind((0, KERNEL_GROUP))

    def listen() -> None:
        while True:
            words = heard.recv(65536).decode(errors="replace").split("\0")
            fields = dict(word.split("=", 1) for word in words[1:] if "=" in word)
            if fields.get("SUBSYSTEM") in ("pci", "nvme", "block"):
                seen["events"].append({"at": time.monotonic(), "what": words[0], "subsystem": fields["SUBSYSTEM"]})

    threading.Thread(target=listen, daemon=True).start()


def systemctl(*words: str) -> None:
    subprocess.run(("systemctl", *words), check=True)


def unit() -> dict[str, str]:
    shown = subprocess.run(
        ("systemctl", "show", UNIT, f"--property={SHOWN}"), check=True, capture_output=True, text=True
    )
    return dict(line.split("=", 1) for line in shown.stdout.splitlines())


def keep(step: str) -> dict[str, str]:
    seen["units"][step] = shown = unit()
    return shown


@contextlib.contextmanager
def step(name: str) -> Iterator[int]:
    """Note when a step began, and its end in the log; give how many entries the journal had."""
    print(f"{time.monotonic():8.1f} {name}", flush=True)  # noqa: T201  its log
    seen["at"][name] = time.monotonic()
    yield len(seen["journal"])
    keep(name)


def prepare() -> None:
    """Install what the host has made ready, as an administrator would; name the folders that this checkout needs."""
    let_everybody_read()
    program = Path("/usr/local/bin/hostdoctor")
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m hostdoctor "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    shutil.copytree(OUT / "root", "/", dirs_exist_ok=True)
    reachable = "[Service]\nProtectHome=read-only\nPrivateTmp=no\n"  # this checkout may lie below a home or /tmp
    for name, more in (("hostdoctor.service.d", QUICKER), ("hostdoctor-.service.d", "")):
        (UNITS / name).mkdir()
        (UNITS / name / "lab.conf").write_text(reachable + more, encoding="ascii")
    (UNITS / "vllm.service").write_text("[Service]\nType=oneshot\nExecStart=/bin/touch /run/served\n", encoding="ascii")
    os.mknod("/dev/nvidiactl", stat.S_IFCHR | 0o666, os.makedev(195, 255))
    for device in DEVICES:
        Path(device).chmod(0o666)  # so that only the service's own rules can forbid them
    configure("signals = 2")
    subprocess.run(("systemd-sysusers", "hostdoctor.conf"), check=True)
    subprocess.run(("systemd-tmpfiles", "--create", "hostdoctor.conf"), check=True)
    systemctl("daemon-reload")


def configure(line: str) -> None:
    CONFIG.write_text(f'[agent]\ninterval = 600\n{line}\ntextfile = "/run/hostdoctor"\n', encoding="ascii")


def life(journal: Journal, monitor: Monitor) -> None:
    """Start, reload, events, crashes, stop."""
    with step("start"):
        systemctl("start", UNIT)
    seen["texts"]["devices"] = Path("/run/hostdoctor/devices").read_text(encoding="utf-8")
    with step("survey"):
        journal.wait("accepted as the baseline")
        until(lambda: "survey took" in unit()["StatusText"], "first status")
    seen["texts"]["metrics"] = TEXTFILE.read_text(encoding="utf-8") if TEXTFILE.exists() else ""
    with step("bad reload") as before:
        configure("signal = 2")
        systemctl("reload", UNIT)
        journal.wait("the former configuration stays", since=before)
    with step("reload") as before:
        configure("signals = 1.5")
        systemctl("reload", UNIT)
        journal.wait("the configuration was read again", since=before)
    devices(journal, monitor)
    preflight()
    with step("watchdog"):
        again(lambda pid: os.kill(pid, signal.SIGSTOP))
    with step("crash"):
        again(lambda pid: os.kill(pid, signal.SIGKILL))
    with step("stop"):
        systemctl("stop", UNIT)
    seen["texts"]["left"] = [str(path) for path in Path("/run").glob("hostdoctor/*")]


def devices(journal: Journal, monitor: Monitor) -> None:
    """Take a drive away and give it back; narrow a link and widen it."""
    with step("unplug") as before:
        monitor.ask("device_del", id="nvme-NEAR0")
        until(lambda: not DRIVE.exists(), "the drive is gone")
        journal.wait("HD904 map-drifted appeared", since=before)
    with step("plug") as before:
        size = {"size": 256 << 20, "read-zeroes": True}
        monitor.ask("blockdev-add", driver="null-co", **{"node-name": "again"}, **size)
        drive = {"id": "nvme-AGAIN", "serial": "NEAR0", "bus": "port1", "drive": "again"}
        monitor.ask("device_add", driver="nvme", **drive, **{"max_ioqpairs": 4, "use-intel-id": True})
        until(DRIVE.exists, "the drive is there")
        for file in STAND_INS.iterdir():
            subprocess.run(("mount", "--bind", str(file), str(DRIVE / file.name)), check=True)
        journal.wait("HD904 map-drifted cleared", since=before)
    with step("narrow") as before:
        narrow("8")
        journal.wait("HD904 map-drifted appeared", since=before)
    with step("widen") as before:
        narrow("16")
        journal.wait("HD904 map-drifted cleared", since=before)


def preflight() -> None:
    """Start an engine behind a preflight, on a host that has no driver."""
    systemctl("enable", "hostdoctor-preflight.service")
    with step("preflight"):
        started = subprocess.run(("systemctl", "start", "vllm.service"), check=False)
    shown = ("systemctl", "show", "hostdoctor-preflight.service", "--property=Result,ExecMainStatus")
    seen["preflight"] = {
        "status": started.returncode,
        "unit": subprocess.run(shown, check=True, capture_output=True, text=True).stdout,
        "served": Path("/run/served").exists(),
    }


def narrow(lanes: str) -> None:
    for path in (WIDTH, PORT_WIDTH):
        path.write_text(f"{lanes}\n", encoding="ascii")


def again(hurt: Callable[[int], None]) -> None:
    """Hurt the service's process, and wait for another to be up."""
    before = int(unit()["MainPID"])
    hurt(before)
    until(lambda: not Path(f"/proc/{before}").exists(), "killed")
    until(lambda: _is_up_without(before), "started again")


def _is_up_without(before: int) -> bool:
    now = unit()
    return now["ActiveState"] == "active" and int(now["MainPID"]) not in (0, before)


def main() -> None:
    """Play it all, and keep what was seen also where a step fails."""
    journal = Journal()
    try:
        with step("prepare"):
            prepare()
        hear_events()
        life(journal, Monitor())
        time.sleep(1)  # for the last entries
    except BaseException:
        subprocess.run(("journalctl", "--output=short-monotonic", "--no-pager", "--lines=60"), check=False)
        raise
    finally:
        (OUT / "seen.json").write_text(json.dumps(seen), encoding="utf-8")
        journal.close()


if __name__ == "__main__":
    main()
