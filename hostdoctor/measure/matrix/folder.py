"""A matrix' folder: plan.json, host.json, a folder for each server and each run, matrix.json."""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from hostdoctor.errors import MeasureError, UsageError
from hostdoctor.facts import Host
from hostdoctor.facts.runs import RunResult
from hostdoctor.measure.matrix.grid import Series
from hostdoctor.measure.matrix.model import MatrixDocument, Plan, RunRecord
from hostdoctor.measure.matrix.order import Run
from hostdoctor.measure.trial_files import (
    HOST,
    PLAN,
    RECORD,
    fresh_folder,
    held,
    make_folder,
    refuse_taken,
    write_record,
)
from hostdoctor.parsers.run_results import parse_run_results
from hostdoctor.sources.texts import read_text_file

MATRIX = "matrix.json"
_SERVER = re.compile(r"(\d{3,6})-")


class Folder:
    """The files of one matrix. Whatever cannot be written is an OutputError."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def make(self) -> None:
        """Make the folder, unless it is there."""
        make_folder(self.path)

    def held(self) -> AbstractContextManager[None]:
        """Keep every other hostdoctor out of the folder meanwhile; raise MeasureError where one is at work in it."""
        return held(self.path, "matrix run")

    def create(self, plan: Plan, host: Host) -> None:
        """Write the plan and the map; raise UsageError where something is there already."""
        refuse_taken(self.path)
        write_record(self.path / HOST, host)
        write_record(self.path / PLAN, plan)

    def plan(self) -> Plan:
        """Return the plan of a matrix that was begun; raise UsageError where none was."""
        try:
            return msgspec.json.decode((self.path / PLAN).read_bytes(), type=Plan)
        except OSError as error:
            raise UsageError(f"{self.path / PLAN}: {(error.strerror or '').lower()}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"{self.path / PLAN}: no matrix of this hostdoctor: {error}") from None

    def begin(self, run: Run) -> Path:
        """Return the empty folder of a run; what an interrupted attempt left is kept beside it."""
        return fresh_folder(self._of(run))

    def begin_server(self, series: Series, repeat: int) -> Path:
        """Return the empty folder of one more server."""
        folder = self.path / "servers"
        folder.mkdir(parents=True, exist_ok=True)
        numbers = [int(match[1]) for path in folder.iterdir() if (match := _SERVER.match(path.name))]
        return fresh_folder(folder / f"{max(numbers, default=0) + 1:03d}-{series.slug}-r{repeat}")

    def keep(self, record: RunRecord) -> None:
        """Keep a run that came to its end, or failed: from now on it is not repeated."""
        folder = self._of(Run(cell=record.cell, repeat=record.repeat))
        folder.mkdir(parents=True, exist_ok=True)
        write_record(folder / RECORD, record)

    def records(self) -> list[RunRecord]:
        """Return every run that is kept, by when it began."""
        found = list(self._records())
        places = [(record.cell, record.repeat) for record in found]
        if len(set(places)) < len(places):
            raise MeasureError(f"{self.path}: a run is there twice")
        return sorted(found, key=lambda record: (record.began, record.cell.series.slug, record.cell.slug))

    def _records(self) -> Iterator[RunRecord]:
        for path in sorted(self.path.glob(f"runs/*/*/r*/{RECORD}")):
            if ".failed-" in path.parent.name:
                continue
            try:
                yield msgspec.json.decode(path.read_bytes(), type=RunRecord)
            except (OSError, msgspec.DecodeError) as error:
                raise MeasureError(f"{path}: no run of this hostdoctor: {error}") from None

    def forget_failed(self) -> int:
        """Put the runs that failed aside, so that they are made again; return how many there were."""
        failed = [record for record in self.records() if record.failure is not None]
        for record in failed:
            folder = self._of(Run(cell=record.cell, repeat=record.repeat))
            fresh_folder(folder).rmdir()
        return len(failed)

    def result(self, record: RunRecord) -> RunResult:
        """Return what a run's raw file tells, named as the folder has it."""
        assert record.result is not None
        return parse_run_results(read_text_file(self.path / record.result), record.result)[-1]

    def conclude(self, document: MatrixDocument) -> None:
        """Keep the document."""
        write_record(self.path / MATRIX, document)

    def relative(self, path: Path) -> str:
        """Return a file's name as seen from the folder."""
        return str(path.relative_to(self.path))

    def _of(self, run: Run) -> Path:
        return self.path / "runs" / run.cell.series.slug / run.cell.slug / f"r{run.repeat}"
