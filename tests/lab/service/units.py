"""The units of the guest whose PID 1 is systemd: what it needs to run services, and the tests' own."""

import shutil
from pathlib import Path

SYSTEM = Path("/lib/systemd/system")
COPIED = (
    "systemd-journald.service",
    "systemd-journald.socket",
    "systemd-journald-dev-log.socket",
    "systemd-udevd.service",
    "systemd-udevd-control.socket",
    "systemd-udevd-kernel.socket",
)
TARGETS = ("sysinit", "basic", "shutdown", "umount", "final", "poweroff", "emergency", "rescue")
DEFAULT = """[Unit]
AllowIsolate=yes
Requires=basic.target lab.service
After=basic.target
"""
LAB = """[Unit]
Wants=systemd-journald.service systemd-udevd.service
After=systemd-journald.service systemd-udevd.service

[Service]
ExecStart=/bin/sh -c '/bin/sh /out/command >/out/log 2>&1; echo $$? >/out/status; sync; echo o >/proc/sysrq-trigger'
"""


def write_units(folder: Path) -> None:
    """Write them to a folder of their own."""
    folder.mkdir()
    for name in COPIED:
        shutil.copy(SYSTEM / name, folder / name)
    for name in TARGETS:
        (folder / f"{name}.target").write_text("[Unit]\nDefaultDependencies=no\n", encoding="ascii")
    (folder / "default.target").write_text(DEFAULT, encoding="ascii")
    (folder / "lab.service").write_text(LAB, encoding="ascii")
