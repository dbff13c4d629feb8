"""An experiment's folder: plan.json, host.json, a folder for each run with its raw files, comparison.json."""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from hostdoctor.errors import HostdoctorError, MeasureError, OutputError, UsageError
from hostdoctor.facts import Host
from hostdoctor.facts.runs import RunResult
from hostdoctor.measure.trial_model import Experiment, Plan, Trial, TrialRecord
from hostdoctor.measure.trial_plan import why_unusable
from hostdoctor.parsers.run_results import parse_run_results
from hostdoctor.sources.texts import read_text_file

PLAN, HOST, RECORD, COMPARISON, RESULT = "plan.json", "host.json", "run.json", "comparison.json", "result.json"
MAX_FAILED = 1000


class Folder:
    """The files of one experiment. Whatever cannot be written is an OutputError that says how to go on."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def make(self) -> None:
        """Make the folder, unless it is there."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{self.path}: {error.strerror}") from error

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep every other hostdoctor out of the folder meanwhile; raise MeasureError where one is at work in it."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise OutputError(f"{self.path}: {error.strerror}") from error
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise MeasureError(f"{self.path}: another compare is at work in it") from None
            yield
        finally:
            os.close(descriptor)

    def create(self, plan: Plan, host: Host) -> None:
        """Write the plan and the map; raise UsageError where something is there already."""
        try:
            taken = any(self.path.iterdir())
        except OSError as error:
            raise OutputError(f"{self.path}: {error.strerror}") from error
        if taken:
            raise UsageError(f"--out: {self.path} is not empty (--resume goes on with an experiment)")
        self._write(HOST, host)
        self._write(PLAN, plan)

    def plan(self) -> Plan:
        """Return the plan of an experiment that was begun; raise UsageError where none was."""
        try:
            plan = msgspec.json.decode((self.path / PLAN).read_bytes(), type=Plan)
        except OSError as error:
            raise UsageError(f"--resume: {self.path / PLAN}: {(error.strerror or '').lower()}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"--resume: {self.path / PLAN}: no plan of this hostdoctor: {error}") from None
        why = why_unusable(plan)
        if why is not None:
            raise UsageError(f"--resume: {self.path / PLAN}: no plan of this hostdoctor: {why}")
        return plan

    def begin(self, trial: Trial) -> Path:
        """Return the empty folder of a run; what an interrupted attempt left is kept beside it."""
        folder = self._of(trial)
        try:
            if folder.exists():
                folder.rename(next(p for n in range(1, MAX_FAILED) if not (p := Path(f"{folder}.failed-{n}")).exists()))
            folder.mkdir(parents=True)
        except OSError as error:
            raise OutputError(f"{folder}: {error.strerror}") from error
        return folder

    def keep(self, record: TrialRecord) -> None:
        """Keep a run that came to its end: from now on it is not repeated."""
        self._write(f"{self._name(record.trial)}/{RECORD}", record)

    def records(self, trials: tuple[Trial, ...]) -> list[TrialRecord]:
        """Return the runs that came to their end, in order, up to the first that did not."""
        found = []
        for trial in trials:
            try:
                record = msgspec.json.decode((self._of(trial) / RECORD).read_bytes(), type=TrialRecord)
            except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                break
            if record.trial != trial:
                raise MeasureError(f"{self._of(trial) / RECORD}: another run than the plan's")
            found.append(record)
        return found

    def result(self, record: TrialRecord) -> RunResult | None:
        """Return what a run's raw file tells, named as the folder has it; None where it tells it no more."""
        try:
            runs = read_runs(self.path / record.result, record.result)
        except HostdoctorError:
            return None
        return runs[record.position] if 0 <= record.position < len(runs) else None

    def conclude(self, experiment: Experiment) -> None:
        """Keep the document."""
        self._write(COMPARISON, experiment)

    def relative(self, path: Path) -> str:
        """Return a file's name as seen from the folder."""
        return str(path.relative_to(self.path))

    def _of(self, trial: Trial) -> Path:
        return self.path / self._name(trial)

    def _name(self, trial: Trial) -> str:
        place = trial.kind if trial.pair is None else f"pair-{trial.pair + 1}"
        return f"runs/{trial.number:03d}-{place}-{trial.role}"

    def _write(self, name: str, record: msgspec.Struct) -> None:
        write_record(self.path / name, record)


def write_record(path: Path, record: msgspec.Struct) -> None:
    """Write a document as JSON, whole or not at all; raise OutputError."""
    data = msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
    temporary = None
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        with open(descriptor, "wb") as stream:  # noqa: PTH123  a descriptor
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OutputError(f"{path}: not written: {(error.strerror or str(error)).lower()}") from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()


def read_runs(path: Path, name: str) -> tuple[RunResult, ...]:
    """Return the runs that a result file holds; raise UsageError, SourceError or ParseError where it holds none."""
    return parse_run_results(read_text_file(path), name)
