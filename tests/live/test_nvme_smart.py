"""SMART logs on a live host: asked of every drive side by side, as root only, and never waited for."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.live_run import Ended, Started
from tests.support.tool_doubles import hanging, printing

LOG = '{ "critical_warning" : 4, "temperature" : 318, "avail_spare" : 90, "spare_thresh" : 10, "media_errors" : "0" }'
CHECK = ("check", "--format", "json", "--select", "HD405,HD901,HD903")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root reads SMART logs")


# In the mounts of the run alone: a /dev with null and three drives.
WITH_DEV = """#!/bin/sh
{mount} --bind /dev/null {dev}/null && {mount} --rbind {dev} /dev && exec {python} "$@"
"""


def run(tools: Path, fake_sys: Path, *more: str) -> Ended:
    dev, script = tools.parent / "dev", tools.parent / "python"
    dev.mkdir()
    for name in ("null", "nvme0", "nvme1", "nvme2"):
        (dev / name).touch()
    script.write_text(WITH_DEV.format(mount=shutil.which("mount"), dev=dev, python=sys.executable), encoding="utf-8")
    script.chmod(0o755)
    environment = {"PATH": str(tools)}
    ended = Started((*CHECK, *more), environment=environment, sys_folder=fake_sys, python=str(script)).end()
    assert "Traceback" not in ended.err
    assert ended.left == ()
    return ended


def test_a_drive_that_calls_itself_failing_is_critical(tools: Path, fake_sys: Path) -> None:
    printing(tools, "nvme", LOG)
    ended = run(tools, fake_sys)
    assert ended.status == 2
    drives = ended.report["host"]["nvme"]
    assert len(drives) > 1
    assert all(drive["health"]["critical_warning"] == 4 for drive in drives)
    (found,) = ended.result("HD405")["findings"]
    assert found["subject"] == ", ".join(drive["name"] for drive in drives)
    assert "reliability degraded" in found["message"]


def test_without_nvme_cli_the_tool_is_missing_once(tools: Path, fake_sys: Path) -> None:
    ended = run(tools, fake_sys)
    assert ended.status == 0
    assert ended.gap("source:nvme-smart")["source"] == "nvme smart-log"
    assert ended.result("HD405")["skip_kind"] == "no-evidence"
    assert "nvme smart-log" in ended.result("HD901")["findings"][0]["subject"]


def test_drives_that_never_answer_cost_the_deadline_once(tools: Path, fake_sys: Path) -> None:
    hanging(tools, "nvme")
    ended = run(tools, fake_sys, "--timeout", "2")
    assert ended.seconds < 10
    assert ended.gap("source:nvme-smart")["kind"] == "timeout"
    assert "nvme smart-log" in ended.result("HD903")["findings"][0]["subject"]
    assert ended.result("HD405")["skip_kind"] == "no-evidence"
