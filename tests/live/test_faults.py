"""What hangs, fails or is missing on a live host costs its deadline once and leaves a map, a reason and a status.

The command line runs for real on this machine. Times are bounded loosely: machines that run tests are busy.
"""

import os
import shutil
import signal
import subprocess  # noqa: TID251  tries what an unprivileged user may run
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostdoctor.sources import commands
from hostdoctor.sources.commands import Running
from tests.live.conftest import Driver, Reader
from tests.support.hostbuilder import HostFiles, write_tree
from tests.support.live_run import Ended, Started
from tests.support.nvml_double import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    NEVER,
    NO_PERMISSION,
    VERSION_MISMATCH,
)
from tests.support.tool_doubles import MISMATCH, flooding, hanging, linked, nvidia_smi, printing

TIMEOUT_S = 2
SLACK_S = 8  # the promise is 1 s, on a machine that has nothing else to do
CHECK = ("check", "--format", "json")
LIMITED = (*CHECK, "--timeout", str(TIMEOUT_S))
DOCTOR = ("--select", "HD501,HD502,HD901,HD902,HD903")
NOBODY = 65534


def run(*arguments: str, path: Path, environment: dict[str, str] | None = None, **options: Any) -> Ended:
    ended = Started(arguments, environment={"PATH": str(path)} | (environment or {}), **options).end()
    print(f"{' '.join(arguments)}: exit {ended.status} after {ended.seconds:.2f} s")  # noqa: T201  shown by -s
    assert "Traceback" not in ended.err
    assert ended.left == ()
    return ended


def in_time(ended: Ended, timeout_s: float = TIMEOUT_S) -> bool:
    return ended.seconds < timeout_s + SLACK_S


# -- nvidia-smi ---------------------------------------------------------------------------------------------------


def test_a_hung_nvidia_smi_costs_its_deadline_and_the_rest_stands(
    tools: Path, driver: Driver, fake_sys: Path, built: HostFiles
) -> None:
    hanging(tools, "nvidia-smi", first="\tGPU0\tGPU1\n")
    ended = run(*LIMITED, *DOCTOR, path=tools, environment=driver(), sys_folder=fake_sys)
    assert in_time(ended)
    assert ended.status == 0
    gap = ended.gap("source:topo-matrix")
    assert (gap["reason"], gap["kind"]) == (f"did not answer within {TIMEOUT_S} s", "timeout")
    assert ended.result("HD903")["status"] == "fail"
    host = ended.report["host"]
    assert host["nvidia"] == {"state": "ok", "reason": None, "gpu_count": 4}
    assert [gpu["numa_node"] for gpu in host["gpus"]] == [0, 0, 1, 1]
    assert [gpu["index"] for gpu in host["gpus"]] == [0, 1, 2, 3]
    assert all(gpu["uuid"] and gpu["root_complex"] for gpu in host["gpus"])


def test_a_hung_nvidia_smi_without_a_driver_library_is_told(tools: Path) -> None:
    hanging(tools, "nvidia-smi")
    ended = run(*LIMITED, path=tools)
    assert in_time(ended)
    assert ended.status in (0, 1, 2, 3)
    assert ended.report["host"]["numa_nodes"]
    assert ended.gap("source:topo-matrix")["reason"] == f"did not answer within {TIMEOUT_S} s"


def test_topo_gives_its_map_although_nvidia_smi_hangs(tools: Path, driver: Driver, fake_sys: Path) -> None:
    hanging(tools, "nvidia-smi")
    ended = run("topo", "--timeout", str(TIMEOUT_S), path=tools, environment=driver(), sys_folder=fake_sys)
    assert in_time(ended)
    assert ended.status == 0
    assert "GPU3" in ended.out


def test_an_nvidia_smi_that_fails_is_quoted(tools: Path, driver: Driver) -> None:
    printing(tools, "nvidia-smi", f"{MISMATCH}\nNVML library version: 550.90", status=18)
    ended = run(*CHECK, path=tools, environment=driver())
    assert ended.gap("source:topo-matrix")["reason"] == f"exit status 18: {MISMATCH}"


def test_an_nvidia_smi_without_devices_is_quoted(tools: Path, driver: Driver) -> None:
    printing(tools, "nvidia-smi", "No devices were found", status=6)
    gap = run(*CHECK, path=tools, environment=driver()).gap("source:topo-matrix")
    assert (gap["reason"], gap["kind"]) == ("exit status 6: No devices were found", "error")


def test_an_nvidia_smi_that_never_stops_printing_is_bounded(tools: Path, driver: Driver) -> None:
    flooding(tools, "nvidia-smi")
    ended = run(*CHECK, path=tools, environment=driver())
    assert ended.gap("source:topo-matrix")["reason"] == "printed more than 32 MiB"


def test_an_nvidia_smi_without_permission_is_denied(tools: Path, driver: Driver) -> None:
    (tools / "nvidia-smi").write_text("#!/bin/sh\n")
    gap = run(*CHECK, path=tools, environment=driver()).gap("source:topo-matrix")
    assert (gap["reason"], gap["kind"]) == ("nvidia-smi: permission denied", "denied")


def test_an_nvidia_smi_that_is_no_program_is_an_error(tools: Path, driver: Driver) -> None:
    (tools / "nvidia-smi").write_bytes(b"\x7fELF of another machine")
    (tools / "nvidia-smi").chmod(0o755)
    gap = run(*CHECK, path=tools, environment=driver()).gap("source:topo-matrix")
    assert (gap["reason"], gap["kind"]) == ("nvidia-smi: exec format error", "error")


def test_a_working_driver_agrees_with_its_sysfs(tools: Path, driver: Driver, fake_sys: Path, built: HostFiles) -> None:
    nvidia_smi(tools, built.commands["nvidia-smi topo -m"])
    ended = run(*CHECK, path=tools, environment=driver(), sys_folder=fake_sys)
    host = ended.report["host"]
    assert host["disagreements"] == []
    assert "nvidia-smi topo -m" in host["sources"]
    assert [gpu["numa_node"] for gpu in host["gpus"]] == [0, 0, 1, 1]
    assert ended.result("HD501")["status"] == "pass"


# -- NVML ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (VERSION_MISMATCH, "Driver/library version mismatch"),
        (DRIVER_NOT_LOADED, "Driver Not Loaded"),
        (NO_PERMISSION, "Insufficient Permissions"),
    ],
)
def test_a_driver_that_refuses_is_critical_and_the_map_stands(
    code: int, reason: str, tools: Path, driver: Driver, fake_sys: Path
) -> None:
    printing(tools, "nvidia-smi", f"Failed to initialize NVML: {reason}", status=255)
    # In a container only GPUs that were handed to it are judged.
    environment = driver(init={"return": code}) | {"NVIDIA_VISIBLE_DEVICES": "all"}
    ended = run(*CHECK, *DOCTOR, path=tools, environment=environment, sys_folder=fake_sys)
    assert ended.status == 2
    host = ended.report["host"]
    assert host["nvidia"] == {"state": "error", "reason": reason, "gpu_count": None}
    assert [gpu["numa_node"] for gpu in host["gpus"]] == [0, 0, 1, 1]
    (finding,) = ended.result("HD501")["findings"]
    assert reason in finding["message"]


def test_a_driver_that_refuses_without_a_gpu_on_pci_is_a_reason(tools: Path, driver: Driver) -> None:
    ended = run(*CHECK, path=tools, environment=driver(init={"return": VERSION_MISMATCH}))
    nvidia = ended.report["host"]["nvidia"]
    assert (nvidia["state"], nvidia["reason"]) == ("error", "Driver/library version mismatch")
    assert ended.report["host"]["numa_nodes"]


def test_a_driver_that_never_answers_costs_its_deadline_once(tools: Path, driver: Driver, fake_sys: Path) -> None:
    hanging(tools, "nvidia-smi")
    environment = driver(init={"sleep_ms": NEVER})
    ended = run(*LIMITED, *DOCTOR, path=tools, environment=environment, sys_folder=fake_sys)
    assert in_time(ended)
    assert (ended.status, ended.report["status"]) == (3, "unknown")
    assert ended.report["host"]["nvidia"]["state"] == "timeout"
    assert ended.report["host"]["nvidia"]["reason"] == f"did not answer within {TIMEOUT_S} s"
    assert ended.result("HD903")["status"] == "fail"
    assert [gpu["numa_node"] for gpu in ended.report["host"]["gpus"]] == [0, 0, 1, 1]


def test_quick_and_npd_wait_five_seconds(tools: Path, driver: Driver) -> None:
    environment = driver(init={"sleep_ms": NEVER}) | {"PATH": str(tools)}
    styles = {"nagios": 3, "npd": 2, "gate": 0}
    started = [Started((*CHECK, "--quick", *DOCTOR), environment=environment)]
    started += [Started((*CHECK, "--exit-style", "npd", *DOCTOR), environment=environment)]
    started += [Started((*CHECK, "--exit-style", "gate", "--quick", *DOCTOR), environment=environment)]
    for run_, status in zip(started, styles.values(), strict=True):
        ended = run_.end()
        assert 5 <= ended.seconds < 5 + SLACK_S
        assert (ended.status, ended.left) == (status, ())
        assert ended.report["host"]["nvidia"]["reason"] == "did not answer within 5 s"


def test_a_slow_driver_is_waited_for(tools: Path, driver: Driver) -> None:
    ended = run(*CHECK, path=tools, environment=driver(init={"sleep_ms": 3000}))
    assert ended.seconds > 3
    assert ended.report["host"]["nvidia"]["state"] == "ok"
    assert len(ended.report["host"]["gpus"]) >= 4


def test_gpus_that_answered_in_time_are_kept(tools: Path, driver: Driver, fake_sys: Path) -> None:
    environment = driver(gpus={2: {"sleep_ms": NEVER}})
    ended = run(*LIMITED, *DOCTOR, path=tools, environment=environment, sys_folder=fake_sys)
    assert (ended.status, in_time(ended)) == (3, True)
    host = ended.report["host"]
    assert host["nvidia"]["gpu_count"] == 4
    assert sorted(gpu["bdf"] for gpu in host["gpus"] if gpu["uuid"]) == sorted(gpu["bdf"] for gpu in host["gpus"])[:2]
    assert len(host["gpus"]) == 4


@pytest.mark.parametrize("questions", [2, 4, 7])
def test_a_gpu_that_is_lost_while_it_is_read_does_not_end_the_reading(
    tools: Path, driver: Driver, fake_sys: Path, questions: int
) -> None:
    environment = driver(gpus={1: {"lost_after": questions}})
    ended = run(*CHECK, *DOCTOR, path=tools, environment=environment, sys_folder=fake_sys)
    host = ended.report["host"]
    assert [gpu["index"] for gpu in host["gpus"]] == [0, 1, 2, 3]
    assert [gpu["numa_node"] for gpu in host["gpus"]] == [0, 0, 1, 1]
    assert (ended.status, ended.gap("gpus[1].handle")["reason"]) == (2, "GPU is lost")


def test_a_gpu_that_was_lost_before_is_told(tools: Path, driver: Driver, fake_sys: Path) -> None:
    environment = driver(gpus={1: {"lost_after": 0}})
    ended = run(*CHECK, *DOCTOR, path=tools, environment=environment, sys_folder=fake_sys)
    assert ended.gap("gpus[1].handle")["reason"] == "GPU is lost"
    gpus = ended.report["host"]["gpus"]
    assert [gpu["numa_node"] for gpu in gpus if gpu["bdf"]] == [0, 0, 1, 1]
    assert [gpu["index"] for gpu in gpus if gpu["uuid"]] == [0, 2, 3]


def test_a_lost_gpu_is_one_gpu(tools: Path, driver: Driver, fake_sys: Path) -> None:
    environment = driver(gpus={1: {"lost_after": 0}})
    ended = run(*CHECK, *DOCTOR, path=tools, environment=environment, sys_folder=fake_sys)
    assert [gpu["numa_node"] for gpu in ended.report["host"]["gpus"]] == [0, 0, 1, 1]
    assert ended.status == 2


def test_a_library_that_crashes_is_an_error(tools: Path, driver: Driver, fake_sys: Path) -> None:
    environment = driver(gpus={2: {"crash_after": 0}}) | {"NVIDIA_VISIBLE_DEVICES": "all"}
    ended = run(*CHECK, *DOCTOR, path=tools, environment=environment, sys_folder=fake_sys)
    host = ended.report["host"]
    assert (host["nvidia"]["state"], host["nvidia"]["reason"]) == ("error", "killed by SIGSEGV")
    assert [gpu["numa_node"] for gpu in host["gpus"]] == [0, 0, 1, 1]
    assert ended.status == 2


@pytest.mark.parametrize(
    ("changes", "id", "status", "reason"),
    [
        ({"init": {"return": VERSION_MISMATCH}}, "HD501", 2, "Driver/library version mismatch"),
        ({"init": {"return": DRIVER_NOT_LOADED}}, "HD501", 2, "Driver Not Loaded"),
        ({"init": {"return": NO_PERMISSION}}, "HD501", 2, "Insufficient Permissions"),
        ({"gpus": {i: {"fail.handle": NO_PERMISSION} for i in range(4)}}, "HD501", 2, "Insufficient Permissions"),
        ({"gpus": {1: {"fail.handle": GPU_IS_LOST}}}, "HD502", 2, "GPU is lost"),
        ({"init": {"sleep_ms": NEVER}, "timeout_s": 1}, "HD903", 3, "did not answer in time"),
        ({"gpus": {3: {"sleep_ms": NEVER}}, "timeout_s": 3}, "HD903", 3, "did not answer in time"),
    ],
)
def test_what_the_driver_said_gives_the_same_verdict_from_a_capture(
    changes: dict[str, Any], id: str, status: int, reason: str, read: Reader, built: HostFiles, tmp_path: Path
) -> None:
    assert built.nvml is not None
    answer = msgspec.to_builtins(read(built.nvml["document"], **changes))
    write_tree(msgspec.structs.replace(built, nvml=answer), tmp_path / "root")
    ended = run(*CHECK, "--from", str(tmp_path / "root"), path=tmp_path)
    assert ended.status == status
    assert ended.result(id)["status"] == "fail"
    assert reason in str(ended.result(id)["findings"])
    assert [gpu["numa_node"] for gpu in ended.report["host"]["gpus"] if gpu["bdf"]].count(0) == 2


# -- nothing there, nothing allowed -------------------------------------------------------------------------------


def test_without_any_tool_the_kernel_still_tells_the_map(tmp_path: Path) -> None:
    ended = run(*CHECK, path=tmp_path)
    host = ended.report["host"]
    assert host["numa_nodes"]
    missing = {gap["source"] for gap in host["gaps"] if gap["kind"] == "missing" and gap["fact"].startswith("source:")}
    assert missing >= {"numactl --hardware", "lspci -D -nn -v", "lscpu"}
    assert ended.result("HD901")["status"] == "fail"
    assert ended.status in (0, 1, 2, 3)


@pytest.mark.parametrize("folders", [("sys", "proc"), ("sys",), ()])
def test_a_root_with_nothing_in_it_could_not_be_told(folders: tuple[str, ...], tmp_path: Path) -> None:
    for name in folders:
        (tmp_path / "root" / name).mkdir(parents=True)
    (tmp_path / "root").mkdir(exist_ok=True)
    ended = run(*CHECK, "--from", str(tmp_path / "root"), path=tmp_path)
    assert (ended.status, ended.out) == (3, "")
    assert len(ended.err.splitlines()) == 1


def test_an_empty_sys_leaves_what_commands_and_proc_tell(tools: Path, tmp_path: Path, fake_sys: Path) -> None:
    (tmp_path / "sys").mkdir()
    ended = run(*CHECK, path=tools, sys_folder=tmp_path / "sys")
    listed = bool(ended.report["host"]["pci_devices"])  # lspci reads /proc/bus/pci where there is one
    assert ended.status == (0 if listed else 3)
    assert {"numa_nodes", "pci_devices"} & {gap["fact"] for gap in ended.report["host"]["gaps"]}
    assert ended.report["host"]["system"]["kernel"]


def test_an_empty_sys_without_tools_is_unknown(tmp_path: Path, fake_sys: Path) -> None:
    for name in ("sys", "bin"):
        (tmp_path / name).mkdir()
    ended = run(*CHECK, path=tmp_path / "bin", sys_folder=tmp_path / "sys")
    assert (ended.status, ended.report["status"]) == (3, "unknown")
    assert "PCI functions cannot be listed" in ended.report["unknown"]


def test_an_empty_sys_with_a_driver_knows_the_driver_s_gpus(
    tools: Path, tmp_path: Path, driver: Driver, built: HostFiles, fake_sys: Path
) -> None:
    (tmp_path / "sys").mkdir()
    nvidia_smi(tools, built.commands["nvidia-smi topo -m"])
    ended = run(*CHECK, path=tools, environment=driver(), sys_folder=tmp_path / "sys")
    assert [gpu["numa_node"] for gpu in ended.report["host"]["gpus"]] == [0, 0, 1, 1]
    assert ended.status in (0, 1, 3)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder that every user may look into (tmp_path is private)."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def nobody() -> dict[str, Any]:
    """Return how to run as a user without any right: an id and a Python that this user may start."""
    if os.getuid() != 0:
        pytest.skip("becomes another user: needs root")
    for python, folders in ((sys.executable, ""), (shutil.which("python3", path=os.defpath), ":".join(sys.path))):
        environment = {"PYTHONPATH": folders, "PYTHONDONTWRITEBYTECODE": "1"}
        command = (python or "python3", "-c", "import hostdoctor, msgspec, typer")
        try:
            subprocess.run(command, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", env=environment, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return {"user": NOBODY, "python": command[0], "environment": environment}
    pytest.skip(f"user {NOBODY} may not read this Python or this checkout")


def test_an_unprivileged_user_gets_the_map(open_folder: Path, nobody: dict[str, Any]) -> None:
    linked(open_folder, "numactl", "lspci", "lscpu")
    (open_folder / "nvidia-smi").write_text("#!/bin/sh\n")
    ended = run(*CHECK, path=open_folder, **nobody)
    assert ended.status in (0, 1, 2, 3)
    assert ended.report["host"]["numa_nodes"]


@pytest.mark.parametrize(
    ("named", "mode"),
    [
        ("root", 0o000),
        ("root", 0o400),
        ("root", 0o711),
        ("root/sys", 0o711),
        ("root/sys", 0o000),
        ("root/sys", 0o400),
    ],
)
def test_a_folder_that_may_not_be_read_is_one_line(
    named: str, mode: int, open_folder: Path, nobody: dict[str, Any]
) -> None:
    (open_folder / "root" / "sys").mkdir(parents=True)
    (open_folder / "root").chmod(mode)
    ended = run(*CHECK, "--from", str(open_folder / named), path=open_folder, **nobody)
    assert (ended.status, ended.out) in ((3, ""), (64, ""))
    assert len(ended.err.splitlines()) == 1


# -- nothing is left behind ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_an_interrupted_run_takes_its_commands_along(number: signal.Signals, tools: Path, driver: Driver) -> None:
    hanging(tools, "nvidia-smi")
    environment = driver(init={"sleep_ms": NEVER}) | {"PATH": str(tools)}
    started = Started((*CHECK, "--timeout", "300"), environment=environment)
    limit = time.monotonic() + 30
    while len(started.started_processes()) < 4 and time.monotonic() < limit:
        time.sleep(0.1)  # the script, its two sleeps, the NVML reader
    time.sleep(0.5)
    started.process.send_signal(number)
    ended = started.end()
    assert ended.seconds < 60
    assert ended.status == 128 + number
    assert ended.left == ()


def test_what_cannot_be_killed_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging(tmp_path, "nvidia-smi", first="partial")
    spared: list[int] = []
    monkeypatch.setattr(commands, "_kill", lambda process: spared.append(process.pid))
    began = time.monotonic()
    done = Running((str(tmp_path / "nvidia-smi"),), time.monotonic() + 1, os.environ).wait()
    assert (done.text, done.kind) == ("partial", "timeout")
    assert time.monotonic() - began < 1 + SLACK_S
    monkeypatch.undo()
    (left,) = (process for process in commands._unfinished if process.pid in spared)
    commands._kill(left)
    left.wait()
    commands._unfinished.discard(left)
