"""Device events: which matter, and that the kernel's reach the agent where the test may cause one."""

import select
from pathlib import Path

import pytest

from hostdoctor.errors import SourceError
from hostdoctor.sources import uevents
from hostdoctor.sources.uevents import Uevents, matters

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
