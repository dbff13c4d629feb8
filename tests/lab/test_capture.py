"""A capture made in the guest is the guest: read elsewhere it gives the same map."""

import json

import pytest

from hostdoctor.cli.app import COMMANDS
from tests.cli.support import hostdoctor
from tests.lab.results import Guest, lasting

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif("capture" not in COMMANDS, reason="there is no capture command yet"),
]

MAP = ("system", "numa_nodes", "gpus", "nics", "nvme", "pci_devices", "paths", "cores", "block_devices", "settings")


def test_a_capture_gives_the_map_that_was_captured(guest: Guest) -> None:
    made = guest.run("plain", "capture")
    assert made.status == 0, made.err
    read = hostdoctor("topo", "--format", "json", "--from", str(guest.folder / "plain" / "capture.tar.gz"))
    assert read.status == 0, read.err
    captured, live = json.loads(read.out), guest.host("plain")
    assert {key: lasting(captured[key]) for key in MAP} == {key: lasting(live[key]) for key in MAP}
    assert captured["disagreements"] == []
