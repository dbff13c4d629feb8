"""``hostdoctor capture`` on this machine: with a driver that works or fails, and without room for the file."""

import shutil
import subprocess  # noqa: TID251  mounts a file system of its own
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.live.conftest import Driver
from tests.support.live_run import Started, unshare
from tests.support.nvml_double import DRIVER_NOT_LOADED
from tests.support.tool_doubles import MISMATCH, hanging, printing

FULL = 'mount -t tmpfs -o size=4k,nr_inodes=9 tmpfs "$0" && "$@"; status=$?; ls -A "$0"; exit $status'
FAULTS: dict[str, dict[str, Any]] = {
    "none": {},
    "not loaded": {"init": {"return": DRIVER_NOT_LOADED}},
    "lost": {"gpus": {1: {"lost_after": 0}}},
    "lost while it is read": {"gpus": {1: {"lost_after": 4}}},
}


def differing(live: dict[str, Any], again: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return what differs between two hosts, what changes by itself or by nature left out."""
    for host in (live, again):
        host["sources"] = host["sources"][1:]
        host["block_devices"] = host["is_live"] = host["memory"] = host["memory_groups"] = None
        for node in host["numa_nodes"]:
            node["free_bytes"] = node["memory"] = None
    return {key: (live[key], again[key]) for key in live if live[key] != again[key]}


def live_only(report: dict[str, Any]) -> set[str]:
    return {result["id"] for result in report["results"] if result["skip_kind"] == "live-only"}


def verdicts(report: dict[str, Any], *, except_for: set[str]) -> dict[str, tuple[str, list[str]]]:
    """Return each check's status and the messages of its findings."""
    results = (result for result in report["results"] if result["id"] not in except_for)
    return {r["id"]: (r["status"], [finding["message"] for finding in r["findings"]]) for r in results}


@pytest.mark.parametrize(
    ("fault", "tool"), [*((fault, "none") for fault in FAULTS), ("not loaded", "failing"), ("none", "hanging")]
)
def test_a_host_with_gpus_is_the_same_from_its_capture(
    tools: Path, driver: Driver, fake_sys: Path, tmp_path: Path, fault: str, tool: str
) -> None:
    if tool == "failing":
        printing(tools, "nvidia-smi", MISMATCH, status=18)
    if tool == "hanging":
        hanging(tools, "nvidia-smi")
    environment = driver(**FAULTS[fault]) | {"PATH": str(tools), "CUDA_VISIBLE_DEVICES": "0,1"}
    limit = ("--timeout", "4") if tool == "hanging" else ()
    check = ("check", "--format", "json")
    target = tmp_path / "host.tar.gz"
    ended = Started(("capture", "-o", str(target), *limit), environment=environment, sys_folder=fake_sys).end()
    assert ended.status == 0, ended.err
    live = Started((*check, *limit), environment=environment, sys_folder=fake_sys).end().report
    again = Started((*check, "--from", str(target))).end().report
    assert len(again["host"]["gpus"]) == 4
    assert differing(live["host"], again["host"]) == {}
    lost = live_only(again)
    assert verdicts(live, except_for=lost) == verdicts(again, except_for=lost)
    assert (live["status"], live["unknown"]) == (again["status"], again["unknown"])


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    if not unshare():
        pytest.skip("no mount namespace may be made here (unshare)")
    folder = tmp_path / "full"
    folder.mkdir()
    command = [sys.executable, "-m", "hostdoctor", "capture", "-o", str(folder / "host.tar.gz")]
    shell = [shutil.which("sh") or "sh", "-c", FULL, str(folder)]
    done = subprocess.run([*unshare(), *shell, *command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, ""), done
    assert done.stderr == f"hostdoctor: {folder / 'host.tar.gz'}: not written: No space left on device\n"
