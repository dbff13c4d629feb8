"""``check --sample`` on the running host, and the driver's counters through the real pynvml."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from hostdoctor.sources.nvml import nvml_sample, start_nvml_sample
from hostdoctor.sources.probes import probe
from tests.cli.support import hostdoctor
from tests.live.conftest import Driver
from tests.support.live_run import Started
from tests.support.nvml_double import GPU_IS_LOST, describe

SECONDS = 0.4


@pytest.fixture
def counters(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that samples a described driver."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml_library))
    monkeypatch.setenv("NVML_DOUBLE", str(tmp_path / "nvml.txt"))

    def sample(*gpus: dict[str, Any]) -> Any:
        document = {"count": len(gpus), "gpus": []}
        (tmp_path / "nvml.txt").write_text(describe(document, gpus=dict(enumerate(gpus))), encoding="utf-8")
        return nvml_sample(start_nvml_sample(SECONDS, 60).wait())

    return sample


def test_counters_that_rise(counters: Any) -> None:
    told = {"field.270": 1000, "rise.field.270": 50, "field.74": 7, "pcie_replays": 3, "rise.pcie_replays": 2}
    sample = counters(told, {"pcie_replays": 0})
    assert SECONDS <= sample.seconds < SECONDS + 30
    assert sample.before == {
        "nvml.0.throttle_hw_thermal_ns": 1000,
        "nvml.0.throttle_sw_power_cap_ns": 7,
        "nvml.0.pcie_replays": 3,
        "nvml.1.pcie_replays": 0,
    }
    assert sample.after["nvml.0.throttle_hw_thermal_ns"] == 1050
    assert sample.after["nvml.0.pcie_replays"] == 5


def test_older_drivers_count_violations(counters: Any) -> None:
    sample = counters({"violation.1": 10, "rise.violation.1": 5, "violation.0": 4, "field.74": 9})
    assert (sample.before["nvml.0.throttle_thermal_ns"], sample.after["nvml.0.throttle_thermal_ns"]) == (10, 15)
    assert sample.before["nvml.0.throttle_sw_power_cap_ns"] == 4


def test_a_gpu_that_is_lost_is_left_out(counters: Any) -> None:
    sample = counters({"fail.handle": GPU_IS_LOST}, {"pcie_replays": 1})
    assert sample.before == {"nvml.1.pcie_replays": 1}


def test_a_driver_that_never_answers_costs_its_deadline(
    nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml_library))
    monkeypatch.setenv("NVML_DOUBLE", str(tmp_path / "nvml.txt"))
    (tmp_path / "nvml.txt").write_text("count=1\ninit.sleep_ms=-1\n")
    began = time.monotonic()
    assert nvml_sample(start_nvml_sample(0.1, 1).wait()) is None
    assert time.monotonic() - began < 10


def test_from_reader_to_verdict(tools: Path, driver: Driver, fake_sys: Path) -> None:
    slow = {"field.270": 0, "rise.field.270": 10**12, "field.271": 0, "field.269": 0, "field.74": 0}
    environment = driver(gpus={2: slow, 0: {"fabric": "2:0:0:" + "0" * 32}}) | {"PATH": str(tools)}
    arguments = ("check", "--sample", str(SECONDS), "--format", "json", "--select", "HD507,HD509,HD503,HD505")
    ended = Started(arguments, environment=environment, sys_folder=fake_sys).end()
    assert (ended.status, ended.err) == (2, "")
    (finding,) = ended.result("HD509")["findings"]
    assert (finding["subject"], finding["severity"]) == ("GPU2", "warning")
    assert ended.result("HD507")["findings"][0]["subject"] == "GPU0"
    kernel, own = ended.report["host"]["samples"]
    assert kernel["seconds"] >= SECONDS
    assert "nvml.2.throttle_hw_thermal_ns" in own["before"]


def test_this_kernel_is_read_twice() -> None:
    ran = hostdoctor("check", "--sample", str(SECONDS), "--format", "json", "--select", "HD301")
    (sample,) = json.loads(ran.out)["host"]["samples"][:1]
    assert sample["seconds"] >= SECONDS
    assert sample["before"].keys() == sample["after"].keys()
    assert sample["after"]["cpu0.total"] >= sample["before"]["cpu0.total"] > 0


@pytest.mark.parametrize("source", [("--demo",), ("--from", "/nowhere")])
def test_only_the_running_host_has_counters(source: tuple[str, ...]) -> None:
    ran = hostdoctor("check", *source, "--sample", "1")
    assert (ran.status, ran.out, ran.err.count("\n")) == (64, "", 1)


def test_the_probe_changes_nothing_and_answers() -> None:
    answer = probe("set_mempolicy", 60)
    assert answer in ("permitted", "EPERM", "ENOSYS", None) or str(answer).startswith("killed by")
