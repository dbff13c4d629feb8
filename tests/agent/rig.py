"""An agent with clocks that are set by hand, surveys that end when told, files in memory, and everything it says."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from hostdoctor.agent.core import Agent, Setup, Tools
from hostdoctor.agent.history import Recorder
from hostdoctor.agent.model import Publisher, Snapshot
from hostdoctor.agent.settings import Settings
from hostdoctor.agent.signals import Watched, WatchedFunction
from hostdoctor.agent.state import State
from hostdoctor.agent.surveying import Counted, Remembered, Surveyed, Wish, encode
from hostdoctor.diagnosis.report import CheckResult, Finding, Remedy, Severity, SkipKind
from hostdoctor.errors import HostdoctorError

GPU = "0000:1b:00.0"
NOON = 1_800_000_000.0


class Clock:
    """A monotonic clock and a wall clock; the latter can be set."""

    def __init__(self) -> None:
        self.now, self.offset = 1000.0, NOON

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now + self.offset


class Files:
    """Files by path, which tests change."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def read(self, path: str) -> str | None:
        return self.texts.get(path)

    def link(self, bdf: str, width: int, *, speed: str = "32.0 GT/s PCIe", fatal: int = 0) -> None:
        """Write the link and the errors of a function."""
        base = f"/sys/bus/pci/devices/{bdf}"
        self.texts |= {
            f"{base}/class": "0x030200\n",
            f"{base}/current_link_width": f"{width}\n",
            f"{base}/max_link_width": "16\n",
            f"{base}/current_link_speed": f"{speed}\n",
            f"{base}/max_link_speed": "32.0 GT/s PCIe\n",
            f"{base}/aer_dev_correctable": "RxErr 0\nTOTAL_ERR_COR 5\n",
            f"{base}/aer_dev_fatal": f"Undefined 0\nTOTAL_ERR_FATAL {fatal}\n",
        }

    def remove(self, bdf: str) -> None:
        """Take a function out."""
        self.texts = {path: text for path, text in self.texts.items() if f"/{bdf}/" not in path}


class Log:
    """Entries as they were logged."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, str, dict[str, str]]] = []

    def write(self, priority: int, message: str, fields: Mapping[str, str] | None = None) -> None:
        self.entries.append((priority, message, dict(fields or {})))

    def said(self, text: str) -> list[str]:
        """Return the entries that hold a text."""
        return [message for _, message, _ in self.entries if text in message]

    def transitions(self) -> list[tuple[str, str]]:
        """Return (transition, check) of each."""
        told = (fields for _, _, fields in self.entries if "HOSTDOCTOR_CHECK" in fields)
        return [(fields["HOSTDOCTOR_TRANSITION"], fields["HOSTDOCTOR_CHECK"]) for fields in told]


class Teller:
    """What the service manager was told."""

    def __init__(self, watchdog_s: float | None = None) -> None:
        self.watchdog_s = watchdog_s
        self.told: list[str] = []

    def ready(self, status: str) -> None:
        self.told.append("ready")

    def status(self, text: str) -> None:
        self.told.append(f"status {text}")

    def alive(self) -> None:
        self.told.append("alive")

    def reloading(self) -> None:
        self.told.append("reloading")

    def stopping(self, status: str) -> None:
        self.told.append("stopping")


class Job:
    """A survey that ends when the test says so."""

    def __init__(self, known: Remembered) -> None:
        self.known = known
        self.answer: bytes | None = None
        self.error: HostdoctorError | None = None
        self.is_killed = False

    def fileno(self) -> int:
        return -1

    def collect(self) -> bytes | None:
        if self.error is not None:
            raise self.error
        return self.answer

    def kill(self) -> None:
        self.is_killed = True


class Collector:
    """A publisher that keeps what it is given."""

    def __init__(self) -> None:
        self.snapshots: list[Snapshot] = []
        self.error: Exception | None = None
        self.is_closed = False

    def __call__(self, snapshot: Snapshot) -> None:
        if self.error is not None:
            raise self.error
        self.snapshots.append(snapshot)

    def close(self) -> None:
        self.is_closed = True


class Rig:
    """The agent and everything around it."""

    def __init__(self, state: Path | None = None, watchdog_s: float | None = None, **settings: Any) -> None:
        self.clock, self.files, self.log, self.teller = Clock(), Files(), Log(), Teller(watchdog_s)
        self.jobs: list[Job] = []
        self.loaded: Setup | Exception = Setup(Settings(**settings), Wish(), ())
        self.collector = Collector()
        self.files.link(GPU, 16)
        tools = Tools(
            monotonic=self.clock.monotonic,
            wall=self.clock.wall,
            files=self.files,
            start_survey=self._start,
            load=self._load,
            publishers=lambda settings: {("collector", settings.textfile or ""): self._publisher},
            log=self.log,
            teller=self.teller,
            version="1",
        )
        self.agent = Agent(self._load(), tools, Recorder(State(state) if state else None))
        self.agent.start()

    def run(self, seconds: float = 0.0, step_s: float = 0.5) -> None:
        """Let time pass, doing what is due."""
        end = self.clock.now + seconds
        self.agent.run_due()
        while self.clock.now < end:
            self.clock.now = min(end, self.clock.now + step_s)
            self.agent.run_due()

    def survey(self, *results: CheckResult, **more: Any) -> None:
        """End the survey that is at work with these results."""
        job = self.jobs[-1]
        assert self.agent.job is job
        job.answer = encode(surveyed(*results, at=self.clock.now, **more))
        self.agent.run_due()

    @property
    def snapshot(self) -> Snapshot:
        """What was published last."""
        return self.collector.snapshots[-1]

    def problems(self) -> dict[str, str]:
        """Return what the agent suffers from."""
        return {problem.name: problem.message for problem in self.agent.troubles.all()}

    def _start(self, setup: Setup, known: Remembered) -> Job:
        self.jobs.append(Job(known))
        return self.jobs[-1]

    def _load(self) -> Setup:
        if isinstance(self.loaded, Exception):
            raise self.loaded
        return self.loaded

    def _publisher(self) -> Publisher:
        self.collector.is_closed = False
        return self.collector


def surveyed(*results: CheckResult, at: float = 0.0, **more: Any) -> Surveyed:
    """Return a survey of one GPU."""
    worst = {finding.severity for result in results for finding in result.findings}
    given: dict[str, Any] = {
        "status": "critical" if "critical" in worst else "warning" if "warning" in worst else "ok",
        "duration_s": 0.5,
        "counted": Counted(at=at, counters={"vmstat.pswpin": 0}),
        "watched": Watched(functions=(WatchedFunction(bdf=GPU, device="GPU0", kind="gpu", severe_errors=0),)),
        "hostname": "node-1",
    }
    return Surveyed(results=results, **(given | more))


def failed(*findings: Finding, id: str = "HD201") -> CheckResult:
    """Return a check that fired."""
    return CheckResult(id=id, name="gpu-link-narrow", severity="critical", status="fail", findings=findings)


def passed(id: str = "HD201") -> CheckResult:
    """Return a check that found nothing."""
    return CheckResult(id=id, name="gpu-link-narrow", severity="critical", status="pass")


def skipped(kind: SkipKind = "no-evidence", id: str = "HD201") -> CheckResult:
    """Return a check that could not be judged."""
    return CheckResult(
        id=id, name="gpu-link-narrow", severity="critical", status="skip", skip_kind=kind, reason="nobody tells"
    )


def found(subject: str = "GPU0", message: str = "x8 of x16", severity: Severity = "critical", **more: Any) -> Finding:
    """Return a finding."""
    finding = Finding(
        subject=subject, message=message, severity=severity, evidence=(), effect="", remedy=Remedy(text="Reseat it.")
    )
    return msgspec.structs.replace(finding, **more)
