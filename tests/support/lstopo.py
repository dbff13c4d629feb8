"""Running hwloc's own lstopo on a root, the other opinion."""

import os
import shutil
import subprocess  # noqa: TID251  runs lstopo
from pathlib import Path

import pytest

V1 = ("--export-xml-flags", "1")


def lstopo_xml(root: Path, *options: str) -> str:
    """Return lstopo's XML of a root; skip the test where lstopo is not installed."""
    program = shutil.which("lstopo-no-graphics")
    if program is None:
        pytest.skip("lstopo-no-graphics (Debian hwloc-nox) is not installed")
    environment = {
        **os.environ,
        "HWLOC_FSROOT": str(root),
        "HWLOC_THISSYSTEM": "0",
        "HWLOC_HIDE_ERRORS": "2",
        "HWLOC_COMPONENTS": "linux,stop" if root != Path("/") else "",
    }
    command = [program, "--of", "xml", *options, "-"]
    done = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=60)
    return done.stdout.decode()
