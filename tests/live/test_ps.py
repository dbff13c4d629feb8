"""``ps`` and the checks of processes, looking at a real process that a described driver lists."""

import mmap
import subprocess  # noqa: TID251  what is looked at
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.conftest import Driver, Reader
from tests.live.test_nvml_double import NVLINKED, document_of, gpus_of
from tests.support.live_run import Started
from tests.support.nvml_double import NO_PERMISSION

MIB = 1 << 20
CHILD = f"""
import mmap, sys
held = mmap.mmap(-1, {100 * MIB})
for page in range(0, len(held), {mmap.PAGESIZE}):
    held[page] = 1
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder() -> Iterator[int]:
    """Return the PID of a process that holds 100 MiB of shared memory."""
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        yield child.pid
        child.kill()


def used_by(pid: int, *gpus: int, **more: Any) -> dict[int, dict[str, Any]]:
    return {gpu: {"processes": f"{pid}:1048576", **more} for gpu in gpus}


def test_graphics_counts_and_what_the_driver_refuses_is_null(read: Reader) -> None:
    gpus = {
        0: {"processes": "11:5,12:6", "graphics_processes": "12:0,13:0"},
        1: {"fail.processes": NO_PERMISSION},
        2: {"processes": "14:0", "fail.graphics_processes": NO_PERMISSION},
    }
    told = gpus_of(read(document_of(NVLINKED), gpus=gpus))
    assert [gpu["processes"] for gpu in told[:4]] == [[11, 12, 13], None, [14], []]
    assert told[1]["errors"]["processes"] == "Insufficient Permissions"


def test_a_process_on_the_first_node_for_a_gpu_on_the_second(
    holder: int, tools: Path, driver: Driver, fake_sys: Path
) -> None:
    environment = driver(gpus=used_by(holder, 3)) | {"PATH": str(tools)}
    ended = Started(("ps", "--format", "json"), environment=environment, sys_folder=fake_sys).end()
    assert ended.err == ""
    (placement,) = ended.report["processes"]
    seen = placement["process"]
    assert (seen["pid"], seen["gpus"], seen["memory_source"]) == (holder, [3], "numa_maps")
    assert placement["nodes"] == [1]
    assert {told["node"] for told in seen["memory"]} == {0}  # of this machine, whatever its /sys says here
    assert abs(sum(told["shared_bytes"] for told in seen["memory"]) - 100 * MIB) < 2 * MIB
    assert (placement["verdict"], ended.status) == ("memory-far", 1)
    near = driver(gpus=used_by(holder, 0)) | {"PATH": str(tools)}
    ended = Started(("ps",), environment=near, sys_folder=fake_sys).end()
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.splitlines()[1].endswith("ok")


def test_check_reads_it_twice_and_only_when_asked(holder: int, tools: Path, driver: Driver, fake_sys: Path) -> None:
    environment = driver(gpus=used_by(holder, 2, 3)) | {"PATH": str(tools)}
    words = ("check", "--format", "json", "--select", "HD105,HD118")
    ended = Started((*words, "--sample", "0.2"), environment=environment, sys_folder=fake_sys).end()
    (finding,) = ended.result("HD105")["findings"]
    assert finding["severity"] == "warning"
    assert f" {holder} is on other nodes than its GPU2, GPU3, on node 1" in finding["message"]
    (process,) = ended.report["host"]["processes"]
    assert (process["pid"], process["memory"]) == (holder, [])
    plain = Started(words, environment=environment, sys_folder=fake_sys).end()
    assert plain.result("HD105")["skip_kind"] == "no-evidence"
