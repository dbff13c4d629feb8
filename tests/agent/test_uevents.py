"""Device events: which matter, and that the kernel's reach the agent where the test may cause one."""

import json
import os
import select
import shutil
import subprocess  # noqa: TID251  plays udev where nobody else listens
import sys
from pathlib import Path
from typing import Any

import pytest

from hostdoctor.errors import SourceError
from hostdoctor.sources import uevents
from hostdoctor.sources.uevents import Uevents, matters

ROOT = Path(__file__).parents[2]
LOOPBACK = Path("/sys/class/net/lo/uevent")


@pytest.mark.parametrize(
    ("action", "path", "verdict"),
    [
        ("add", "/devices/pci0000:00/0000:00:1d.0/0000:3d:00.0", True),
        ("remove", "/devices/pci0000:00/0000:00:1d.0/0000:3d:00.0/nvme/nvme0", True),
        ("change", "/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1", True),
        ("bind", "/devices/pci0000:00/0000:00:1d.0", True),
        ("add", "/devices/virtual/net/veth1234", False),
        ("change", "/devices/virtual/block/loop0", False),
        ("", "/devices/pci0000:00/0000:00:1d.0", False),
    ],
)
def test_which_may_change_the_map(action: str, path: str, verdict: bool) -> None:
    assert matters(action, path) is verdict


def test_an_event_of_the_kernel_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uevents, "_VIRTUAL", "/none/")  # loopback is the one device that nobody minds
    try:
        events = Uevents()
        LOOPBACK.write_text("change")
    except (SourceError, OSError) as error:
        pytest.skip(str(error))
    if not select.select([events], [], [], 5)[0]:
        pytest.skip("events do not reach this network namespace")
    assert events.drain() == (("change lo",), False)
    assert events.drain() == ((), False)


def udev(*words: str) -> Any:
    """Run the player of udev in a network namespace of its own and return what it says."""
    alone = (shutil.which("unshare") or "unshare", "--user", "--map-root-user", "--net")
    if subprocess.run((*alone, "true"), capture_output=True, check=False).returncode:
        pytest.skip("no network namespace may be made here (unshare)")
    command = (*alone, sys.executable, "-m", "tests.agent.udev_flood", *words)
    ran = subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_messages_that_are_not_in_order_are_lost_events_and_no_end() -> None:
    assert udev("hear") == [["change 0000:00:01.0", "add 0000:00:04.0"], True]


@pytest.mark.e2e
def test_ten_thousand_events_in_ten_seconds_are_one_survey(tmp_path: Path) -> None:
    told = udev("flood", "10000", "10", str(tmp_path))
    assert (told["surveys"], told["survey_failures"], told["status"]) == (2, 0, 0)  # the first, and the one
    assert told["events"] == 10000 or told["events_lost"] > 0


def test_a_burst_of_events_is_one_survey(tmp_path: Path) -> None:
    told = udev("flood", "3000", "0", str(tmp_path))
    assert (told["surveys"], told["survey_failures"], told["status"]) == (2, 0, 0)
    assert "(3000 events)" in told["log"] or told["events_lost"] > 0
