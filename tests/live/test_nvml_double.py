"""The NVML double answers the real pynvml, through the project's own reader and directly."""

import json
import os
import subprocess  # noqa: TID251  pynvml loads its library once a process
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hostdoctor.sources.base import NvmlOutput
from hostdoctor.sources.commands import Completed
from hostdoctor.sources.nvml import nvml_output, start_nvml
from tests.live.conftest import Reader
from tests.support.hostbuilder import build_files, host_names, load_host
from tests.support.nvml_double import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    NEVER,
    NO_PERMISSION,
    NOT_SUPPORTED,
    VERSION_MISMATCH,
    describe,
    topology_of,
)

NVLINKED = "dgx-h100"


def document_of(name: str) -> dict[str, Any]:
    """Return what NVML says on a described host, ``{}`` where it was not asked."""
    document: dict[str, Any] = (build_files(load_host(name)).nvml or {}).get("document", {})
    return document


def gpus_of(output: NvmlOutput) -> list[dict[str, Any]]:
    gpus: list[dict[str, Any]] = (output.document or {})["gpus"]
    return gpus


@pytest.fixture
def python(nvml_library: Path, tmp_path: Path) -> Any:
    """Return a function that evaluates an expression of pynvml ``n`` with handles ``h`` against a driver."""

    def evaluate(expression: str, document: dict[str, Any], **changes: Any) -> Any:
        (tmp_path / "nvml.txt").write_text(describe(document, **changes), encoding="utf-8")
        code = (
            "import json, pynvml as n\n"
            "def refused(question):\n"
            "    try: question()\n"
            "    except n.NVMLError as error: return type(error).__name__\n"
            "n.nvmlInit()\n"
            "h = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]\n"
            f"print(json.dumps({expression}))\nn.nvmlShutdown()"
        )
        environment = {"LD_LIBRARY_PATH": str(nvml_library), "NVML_DOUBLE": str(tmp_path / "nvml.txt")}
        done = subprocess.run(
            (sys.executable, "-c", code), env=os.environ | environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return evaluate


@pytest.mark.parametrize("name", [name for name in host_names() if document_of(name)])
def test_what_is_described_is_what_is_read(name: str, read: Reader) -> None:
    document = document_of(name)
    output = read(document, topology=topology_of(name))
    assert (output.state, output.reason) == ("ok", None)
    for gpu in document["gpus"]:
        if gpu["c2c"] is None:
            gpu["errors"]["c2c"] = "Not Supported"
        gpu["processes"] = []
    assert output.document == document


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (VERSION_MISMATCH, "Driver/library version mismatch"),
        (DRIVER_NOT_LOADED, "Driver Not Loaded"),
        (NO_PERMISSION, "Insufficient Permissions"),
    ],
)
def test_a_driver_that_cannot_be_used_says_why(code: int, reason: str, read: Reader) -> None:
    assert read(document_of(NVLINKED), init={"return": code}) == NvmlOutput(state="error", reason=reason)


def test_a_field_that_fails_is_null_and_the_rest_is_read(read: Reader) -> None:
    gpus = {2: {"fail.uuid": GPU_IS_LOST, "fail.max_generation": NOT_SUPPORTED, "mig": None}}
    output = read(document_of(NVLINKED), gpus=gpus)
    gpu = gpus_of(output)[2]
    assert (output.state, gpu["uuid"], gpu["link"]["max_generation"], gpu["mig"]) == ("ok", None, None, None)
    assert gpu["errors"]["uuid"] == "GPU is lost"
    assert gpu["errors"]["max_generation"] == "Not Supported"
    assert (gpu["name"], gpu["link"]["max_width_lanes"]) == ("NVIDIA H100 80GB HBM3", 16)


def test_a_gpu_that_is_lost_between_two_answers_keeps_the_first(read: Reader) -> None:
    output = read(document_of(NVLINKED), gpus={1: {"lost_after": 3}})
    lost, next_one = gpus_of(output)[1:3]
    assert output.state == "ok"
    assert lost["bdf"] == document_of(NVLINKED)["gpus"][1]["bdf"]
    assert (lost["cpu_affinity"], lost["errors"]["cpu_affinity"]) == (None, "GPU is lost")
    assert next_one["cpu_affinity"] == document_of(NVLINKED)["gpus"][2]["cpu_affinity"]


def test_a_gpu_without_a_handle_is_its_index_and_the_reason(read: Reader) -> None:
    output = read(document_of(NVLINKED), gpus={1: {"lost_after": 0}, 3: {"fail.handle": NO_PERMISSION}})
    assert gpus_of(output)[1] == {"index": 1, "errors": {"handle": "GPU is lost"}}
    assert gpus_of(output)[3] == {"index": 3, "errors": {"handle": "Insufficient Permissions"}}
    assert gpus_of(output)[7]["errors"].keys() == {"memory_node", "c2c"}


def test_gpus_that_answered_before_the_deadline_are_kept(read: Reader) -> None:
    output = read(document_of(NVLINKED), gpus={2: {"sleep_ms": NEVER}}, timeout_s=3)
    assert (output.state, (output.document or {})["count"]) == ("timeout", 8)
    assert [gpu["index"] for gpu in gpus_of(output)] == [0, 1]


def test_gpus_that_answered_before_the_library_crashed_are_kept(read: Reader) -> None:
    output = read(document_of(NVLINKED), gpus={2: {"crash_after": 5}})
    assert (output.state, output.reason) == ("error", "killed by SIGSEGV")
    assert [gpu["index"] for gpu in gpus_of(output)] == [0, 1]


def test_a_slow_driver_is_waited_for(read: Reader) -> None:
    began = time.monotonic()
    assert read(document_of("workstation"), init={"sleep_ms": 700}, gpus={0: {"sleep_ms": 20}}).state == "ok"
    assert time.monotonic() - began > 0.7 + 10 * 0.02


def test_a_library_that_cannot_be_loaded_is_absent_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libnvidia-ml.so.1").touch()  # what a container image keeps of a driver that was once mounted
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    output = nvml_output(start_nvml(60).wait())
    assert output.state == "absent"
    assert "file too short" in (output.reason or "")


def test_a_reader_that_could_not_be_started_says_nothing_of_the_driver() -> None:
    output = nvml_output(Completed(reason="python3: permission denied", kind="denied"))
    assert output == NvmlOutput(state="not-asked", reason="could not be asked: python3: permission denied")


def test_other_questions_are_answered_too(python: Any) -> None:
    gpus = {
        0: {
            "pcie_replays": 7,
            "processes": "4711:1048576,4712:0",
            "clocks_reasons": 0x20,
            "bar1_bytes": 137438953472,
            "memory_used_bytes": 1048576,
            "utilization_percent": 93,
            "minor": 5,
        }
    }
    document = document_of(NVLINKED)
    expression = """{
        "replays": n.nvmlDeviceGetPcieReplayCounter(h[0]),
        "processes": [[p.pid, p.usedGpuMemory] for p in n.nvmlDeviceGetComputeRunningProcesses(h[0])],
        "reasons": n.nvmlDeviceGetCurrentClocksThrottleReasons(h[0]),
        "bar1": n.nvmlDeviceGetBAR1MemoryInfo(h[0]).bar1Total,
        "memory": [n.nvmlDeviceGetMemoryInfo(h[0]).free, n.nvmlDeviceGetMemoryInfo(h[0], n.nvmlMemory_v2).used],
        "utilization": n.nvmlDeviceGetUtilizationRates(h[0]).gpu,
        "minor": n.nvmlDeviceGetMinorNumber(h[0]),
        "by_uuid": n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(h[3]))),
        "by_address": n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByPciBusId(n.nvmlDeviceGetPciInfo(h[5]).busId)),
        "scope": list(n.nvmlDeviceGetCpuAffinityWithinScope(h[0], 4, 0)) == list(n.nvmlDeviceGetCpuAffinity(h[0], 4)),
        "nvlinks": [n.nvmlDeviceGetNvLinkState(h[0], i) for i in range(18)],
        "capability": n.nvmlDeviceGetNvLinkCapability(h[0], 0, n.NVML_NVLINK_CAP_P2P_SUPPORTED),
        "ancestors": [n.nvmlDeviceGetTopologyCommonAncestor(h[a], h[b]) for a, b in ((0, 0), (0, 1), (5, 1))],
    }"""
    answers = python(expression, document, gpus=gpus, topology=topology_of(NVLINKED))
    assert answers == {
        "replays": 7,
        "processes": [[4711, 1048576], [4712, 0]],
        "reasons": 0x20,
        "bar1": 137438953472,
        "memory": [document["gpus"][0]["memory_bytes"] - 1048576, 1048576],
        "utilization": 93,
        "minor": 5,
        "by_uuid": 3,
        "by_address": 5,
        "scope": True,
        "nvlinks": [1] * 18,
        "capability": 1,
        "ancestors": [0, 40, 50],
    }


@pytest.mark.parametrize(
    ("question", "error"),
    [
        ("n.nvmlDeviceGetNvLinkState(h[0], 18)", "NotSupported"),
        ("n.nvmlDeviceGetPcieReplayCounter(h[0])", "NotSupported"),
        ("n.nvmlDeviceGetFanSpeed(h[0])", "FunctionNotFound"),
        ("n.nvmlDeviceGetHandleByUUID('GPU-none')", "NotFound"),
        ("n.nvmlDeviceGetHandleByIndex(8)", "InvalidArgument"),
    ],
)
def test_what_is_not_described_is_an_error(question: str, error: str, python: Any) -> None:
    assert python(f"refused(lambda: {question})", document_of(NVLINKED)) == f"NVMLError_{error}"
