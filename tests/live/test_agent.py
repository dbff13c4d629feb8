"""The agent on a live host whose driver hangs, goes away, loses a GPU and comes back; and what holds it up."""

import signal
import time
from pathlib import Path

from tests.live.conftest import Driver
from tests.support.live_run import Ended, Started
from tests.support.nvml_double import DRIVER_NOT_LOADED, GPU_IS_LOST, NEVER
from tests.support.tool_doubles import hanging

WAIT_S = 60.0  # how long a slow machine may take; nothing is judged by it


class Agent:
    """An agent that is told what to do by SIGHUP and what it says by its textfile."""

    def __init__(self, folder: Path, tools: Path, environment: dict[str, str], sys_folder: Path, *more: str) -> None:
        self.folder = folder
        words = ("agent", "--state", str(folder / "s.db"), "--textfile", str(folder), "--interval", "3600", *more)
        self.run = Started(
            (*words, "--signals", "0.5"), environment={"PATH": str(tools)} | environment, sys_folder=sys_folder
        )

    def metrics(self) -> str:
        """Return the textfile as it is now, nothing where there is none yet."""
        path = self.folder / "hostdoctor.prom"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def until(self, *lines: str) -> None:
        """Wait until the metrics hold these lines."""
        deadline = time.monotonic() + WAIT_S
        while not all(f"{line}\n" in self.metrics() for line in lines):
            assert time.monotonic() < deadline, (lines, self.metrics())
            assert self.run.process.poll() is None, self.run.end().err
            time.sleep(0.05)

    def survey(self, number: int) -> None:
        """Ask for a survey and wait for its end; ``number`` is which it is."""
        self.run.process.send_signal(signal.SIGHUP)
        self.until(f"hostdoctor_agent_surveys_total {number}")

    def end(self) -> Ended:
        """End it by SIGTERM."""
        self.run.process.send_signal(signal.SIGTERM)
        return self.run.end()


HELD = 'hostdoctor_check_finding{{check="{}",name="{}",subject="GPU{}",severity="critical"}} 1'
UNUSABLE = tuple(HELD.format("HD501", "nvidia-driver-unusable", gpu) for gpu in range(4))
LOST = HELD.format("HD502", "gpu-missing-from-driver", 2)


def test_a_driver_that_goes_and_comes_back(tools: Path, driver: Driver, fake_sys: Path, tmp_path: Path) -> None:
    given = {"NVIDIA_VISIBLE_DEVICES": "all"}  # elsewhere than in a container it makes no difference
    agent = Agent(tmp_path, tools, driver() | given, fake_sys, "--timeout", "2")
    agent.until("hostdoctor_agent_surveys_total 1", 'hostdoctor_findings{severity="critical"} 0')
    driver(init={"return": DRIVER_NOT_LOADED})
    agent.survey(2)
    agent.until('hostdoctor_status{status="critical"} 1', *UNUSABLE)
    driver(init={"sleep_ms": NEVER})
    agent.survey(3)
    agent.until("hostdoctor_findings_unjudged 1", *UNUSABLE)  # it stands: silence is not health
    driver(gpus={2: {"fail.handle": GPU_IS_LOST}})
    agent.survey(4)
    agent.until('hostdoctor_findings{severity="critical"} 1', LOST)
    driver()
    agent.survey(5)
    agent.until('hostdoctor_findings{severity="critical"} 0', "hostdoctor_agent_survey_failures_total 0")
    ended = agent.end()
    assert (ended.status, ended.left) == (0, ())
    told = [line.split(",")[0] for line in ended.err.splitlines() if line.startswith(("HD501", "HD502"))]
    assert told == [
        "HD501 nvidia-driver-unusable appeared",
        "HD501 nvidia-driver-unusable cleared",
        "HD502 gpu-missing-from-driver appeared",
        "HD502 gpu-missing-from-driver cleared",
    ]
    assert "HD904" not in ended.err.replace("(HD904)", "")  # the cards never left the bus
    assert "Traceback" not in ended.err


def test_an_end_does_not_wait_for_a_survey_that_hangs(
    tools: Path, driver: Driver, fake_sys: Path, tmp_path: Path
) -> None:
    hanging(tools, "nvidia-smi")
    agent = Agent(tmp_path, tools, driver(init={"sleep_ms": NEVER}), fake_sys, "--timeout", "3600")
    agent.until("hostdoctor_agent_signal_readings_total 3")
    for _ in range(300):  # a storm of SIGHUP meanwhile
        agent.run.process.send_signal(signal.SIGHUP)
    agent.until("hostdoctor_agent_reload_failures_total 0")
    assert len(agent.run.started_processes()) > 1
    ended = agent.end()
    assert (ended.status, ended.left) == (0, ())
    assert "Traceback" not in ended.err
