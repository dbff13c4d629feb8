"""One boot with systemd as PID 1."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import hostdoctor
from tests.lab.boot import boot
from tests.lab.kernel import Unavailable
from tests.lab.service import monitor
from tests.lab.service.units import SYSTEM, write_units

# Time in the guest is counted in instructions, 10^9 a second, so that it does not depend on what else this machine
# does; while the guest waits it passes as outside.
COUNTED = ("-icount", "shift=0,sleep=on")
PARAMETERS = "maxcpus=1"  # counted, several CPUs that wait for each other take for ever


@pytest.fixture(scope="session")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what inside.py saw; skip where the guest cannot run."""
    return play(tmp_path_factory.mktemp("service"))


def play(out: Path) -> dict[str, Any]:
    if not (Path("/lib/systemd/systemd").exists() and (SYSTEM / "systemd-udevd.service").exists()):
        pytest.skip("systemd and udev are not installed (`make packages` installs them where it can)")
    write_units(out / "units")
    (out / "root").mkdir()
    ran = hostdoctor("install-service", "--root", str(out / "root"), "--program", "/usr/local/bin/hostdoctor")
    assert ran.status == 0, ran.err
    more = (*COUNTED, *monitor.arguments(out))
    try:
        boot([sys.executable, "-m", "tests.lab.service.inside"], out, more=more, parameters=PARAMETERS)
    except Unavailable as reason:
        pytest.skip(f"no guest: {reason}")
    document: dict[str, Any] = json.loads((out / "seen.json").read_text(encoding="utf-8"))
    return document
