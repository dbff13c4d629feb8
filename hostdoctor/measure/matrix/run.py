"""A matrix carried out: a server for each series and repeat, its cells one after the other, each kept as it ended."""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec

from hostdoctor.errors import HostdoctorError, MeasureError, OutputError
from hostdoctor.facts import Host
from hostdoctor.facts.runs import RunResult
from hostdoctor.measure.matrix.commands import clients, metrics_url, ready_url
from hostdoctor.measure.matrix.folder import Folder
from hostdoctor.measure.matrix.grid import Cell, Series
from hostdoctor.measure.matrix.judge import MAX_FAILED_SHARE, Judged, failure, judge, settled
from hostdoctor.measure.matrix.model import Failure, Plan, RunRecord, Signals
from hostdoctor.measure.matrix.order import Run, next_run, runs_left, seed_of
from hostdoctor.measure.matrix.signals import Beside, prompts_read
from hostdoctor.measure.serving import (
    READY_ANSWER_S,
    ending,
    kept_result,
    now,
    seen,
    started,
    until_end,
    wait_ready,
    want_alive,
)
from hostdoctor.measure.trial_arms import cpus_of
from hostdoctor.measure.trial_files import RESULT
from hostdoctor.measure.trial_model import Place
from hostdoctor.measure.trial_places import read_place
from hostdoctor.parsers.cpulist import parse_cpulist
from hostdoctor.placement.applying import Step
from hostdoctor.sources.base import Source
from hostdoctor.sources.children import Child
from hostdoctor.sources.readiness import answers

LOG_LINES = 12
BESIDE_S = 2.0  # for the long requests of a mix to be there, where the engine does not tell
BESIDE_POLL_S = 0.2


class AddressTakenError(MeasureError):
    """Somebody else's server is where a series' own has to be: no cell can be run."""


class Told(NamedTuple):
    """A run that ended, the runs that are left (of a bisection at most), and about how long they take."""

    record: RunRecord
    done: int
    left: int
    seconds_left: float


def carry_out(
    source: Source, host: Host, plan: Plan, folder: Folder, tell: Callable[[Told], None], budget_s: float | None = None
) -> bool:
    """Make the runs that the folder does not hold yet; return False where ``budget_s`` ended it before all were made.

    A run that fails is kept as failed and the next one made. Raises MeasureError where another server is at the
    address, OutputError where nothing can be written.
    """
    records = folder.records()
    results = {(r.cell, r.repeat): folder.result(r) for r in records if r.result is not None}
    runner = Runner(source, host, plan, folder)
    try:
        while True:
            run = next_run(plan.experiment, _counts(records), verdicts(plan, records, results), bisect=plan.bisect)
            if run is None:
                return True
            if budget_s is not None and _spent_s(records) + _estimate_s(records, run) > budget_s:
                return False
            record, result = runner.make(run, _failed_start(records, run))
            folder.keep(record)
            records.append(record)
            if result is not None:
                results[run.cell, run.repeat] = result
            tell(_told(plan, records))
    finally:
        runner.close()


def verdicts(plan: Plan, records: list[RunRecord], results: dict[tuple[Cell, int], RunResult]) -> dict[Cell, Judged]:
    """Return what the repeats of each cell say; one failed repeat makes it a failed cell."""
    by_cell: dict[Cell, list[RunRecord]] = {}
    for record in records:
        by_cell.setdefault(record.cell, []).append(record)
    found = {}
    for cell, kept in by_cell.items():
        failed = next((record.failure for record in kept if record.failure is not None), None)
        if failed is not None:
            found[cell] = failure(failed.reason, len(kept))
        else:
            runs = [settled(results[cell, record.repeat], cell.concurrency) for record in kept]
            found[cell] = judge(runs, plan.experiment.slo)
    return found


def _counts(records: list[RunRecord]) -> dict[Cell, int]:
    counts: dict[Cell, int] = {}
    for record in records:
        counts[record.cell] = counts.get(record.cell, 0) + 1
    return counts


def _failed_start(records: list[RunRecord], run: Run) -> Failure | None:
    """Return why the server of a run's series and repeat never was ready: it is not started again for each cell."""
    found = (
        record.failure
        for record in records
        if (record.cell.series, record.repeat) == (run.cell.series, run.repeat)
        and record.failure is not None
        and record.failure.stage == "start"
    )
    return next(found, None)


def _spent_s(records: list[RunRecord]) -> float:
    return sum(record.seconds + (record.ready_s or 0.0) for record in records)


def _estimate_s(records: list[RunRecord], run: Run) -> float:
    """Return about how long a run takes: as runs of its cell, else as the mean of all."""
    own = [record.seconds for record in records if record.cell.slug == run.cell.slug]
    every = own or [record.seconds for record in records]
    return sum(every) / len(every) if every else 0.0


def _told(plan: Plan, records: list[RunRecord]) -> Told:
    cells = [record.cell for record in records]
    left = runs_left(plan.experiment, _counts(records), bisect=plan.bisect, done=cells)
    return Told(records[-1], len(records), left, left * _spent_s(records) / len(records))


class Runner:
    """Makes runs; keeps the server of the last one as long as the next belongs to the same series and repeat."""

    def __init__(self, source: Source, host: Host, plan: Plan, folder: Folder) -> None:
        self._source, self._host, self._plan, self._folder = source, host, plan, folder
        self._session: Session | None = None

    def make(self, run: Run, failed_start: Failure | None) -> tuple[RunRecord, RunResult | None]:
        """Make one run; return its record, and its result where it has one."""
        began, at = now(), time.monotonic()
        record = RunRecord(
            cell=run.cell,
            repeat=run.repeat,
            seed=seed_of(self._plan.experiment, run),
            began=began,
            seconds=0.0,
            server="",
        )
        if failed_start is not None:
            return msgspec.structs.replace(record, failure=failed_start), None
        folder = self._folder.begin(run)
        is_new = self._session is None or not self._session.serves(run)
        try:
            session = self._serving(run)
            record = msgspec.structs.replace(record, server=self._folder.relative(session.folder))
            if is_new:
                record = msgspec.structs.replace(record, ready_s=session.ready_s, place=session.place)
            at = time.monotonic()
            signals, result = session.drive(run, folder)
        except (OutputError, AddressTakenError):
            raise
        except MeasureError as error:
            return self._failed(record, error, folder, time.monotonic() - at), None
        kept = self._folder.relative(folder / RESULT)
        record = msgspec.structs.replace(record, seconds=_rounded(at), result=kept, signals=signals)
        return _with_errors(record, result), result

    def close(self) -> None:
        """End the server."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _serving(self, run: Run) -> "Session":
        """Return the server of a run, started now if it is not there."""
        if self._session is not None and self._session.serves(run):
            return self._session
        self.close()
        self._session = Session(self._source, self._host, self._plan, run)
        self._session.start(self._folder.begin_server(run.cell.series, run.repeat))
        return self._session

    def _failed(self, record: RunRecord, error: HostdoctorError, folder: Path, seconds: float) -> RunRecord:
        """Return the record of a run that failed, with the last lines of the logs; the server is started anew."""
        session = self._session
        was_ready = session is not None and session.ready_s is not None
        log = session.last_lines() if session is not None else ()
        self.close()
        told = Failure(stage="run" if was_ready else "start", reason=str(error), log=(*log, *_tail(folder)))
        return msgspec.structs.replace(record, seconds=round(seconds, 3), failure=told)


class Session:
    """One server, from its start to its end."""

    def __init__(self, source: Source, host: Host, plan: Plan, run: Run) -> None:
        self._source, self._host, self._plan = source, host, plan
        self._series: Series = run.cell.series
        self._repeat = run.repeat
        self._stack = ExitStack()
        self._left: list[int] = []
        self._server: Child | None = None
        self.folder = Path()
        self.ready_s: float | None = None
        self.place: Place | None = None

    def serves(self, run: Run) -> bool:
        """Tell whether this is the server of a run, and still there."""
        is_its = (self._series, self._repeat) == (run.cell.series, run.repeat)
        return is_its and self._server is not None and not self._server.wait(0.0)

    def start(self, folder: Path) -> None:
        """Start it and wait until it is ready; raise MeasureError where it never is."""
        experiment, arm = self._plan.experiment, self._plan.arms[self._series.slug]
        self.folder = folder
        url = ready_url(experiment)
        if answers(url, READY_ANSWER_S):
            raise AddressTakenError(f"{url} answers already: another server is there")
        at = time.monotonic()
        environment = os.environ | arm.environment | {"HOSTDOCTOR_VARIANT": self._series.variant}
        self._server = self._stack.enter_context(
            started("the server", arm.step, arm.argv, environment, folder / "server.log", self._left)
        )
        wait_ready(self._server, url, experiment.server.ready_timeout_s)
        self.ready_s = _rounded(at)
        self.place = read_place(self._source, self._host, self._server.processes(), arm, "start")

    def drive(self, run: Run, folder: Path) -> tuple[Signals, RunResult]:
        """Run a cell's client to its end; return what was seen beside it, and its result."""
        experiment, server = self._plan.experiment, self._server
        assert server is not None
        words = clients(experiment, run, str(folder / RESULT), self._plan.versions)
        step = Step(tier="unbound")
        if self._plan.client_cpus is not None:
            step = Step(tier="cpus-only", cpus=self._plan.client_cpus)
        environment = os.environ | experiment.client.environment
        before = seen(folder / RESULT)
        before_long = prompts_read(metrics_url(experiment)) if words.beside else None
        with ExitStack() as stack:
            long = None
            if words.beside:
                log = folder / "beside.log"
                long = stack.enter_context(started("the long client", step, words.beside, environment, log, self._left))
                self._wait_at_work(long, before_long)
            client = stack.enter_context(
                started("the client", step, words.words, environment, folder / "client.log", self._left)
            )
            beside = self._watch()
            try:
                until_end(client, "the client", experiment.client.timeout_s, beside.tick, server, "client.timeout_s")
            except HostdoctorError:
                beside.stop()
                raise
            beside.look(server.processes())
            signals = beside.finish()
            if long is not None and long.wait(0.0):
                raise MeasureError(f"the long client ended before the short one: {ending(long)}")
        want_alive(server)
        return signals, kept_result(folder / RESULT, folder / RESULT, before)[0]

    def _wait_at_work(self, long: Child, before: float | None) -> None:
        """Wait until the engine has read a prompt of the long client; raise MeasureError where it never does."""
        if before is None:
            time.sleep(BESIDE_S)
            return
        experiment, server = self._plan.experiment, self._server
        assert server is not None
        deadline = time.monotonic() + experiment.client.timeout_s
        while (prompts_read(metrics_url(experiment)) or 0.0) <= before:
            want_alive(server)
            if long.wait(BESIDE_POLL_S):
                raise MeasureError(f"the long client ended before the short one: {ending(long)}")
            if time.monotonic() > deadline:
                raise MeasureError(f"the long client sent nothing within {experiment.client.timeout_s:g} s")

    def last_lines(self) -> tuple[str, ...]:
        """Return the last lines of its output."""
        return () if self._server is None else tuple(line[:300] for line in self._server.last_lines(LOG_LINES))

    def close(self) -> None:
        """End it."""
        self._stack.close()

    def _watch(self) -> Beside:
        plan = self._plan
        allowed = parse_cpulist(self._host.allowed.cpus) if self._host.allowed.cpus else frozenset[int]()
        return Beside(
            self._source,
            self._host,
            cpus=cpus_of(plan.arms[self._series.slug]) or allowed,
            gpus=plan.gpu_indices,
            links=plan.link_path,
            disks=plan.disks,
            metrics_url=metrics_url(plan.experiment),
        )


def _with_errors(record: RunRecord, result: RunResult) -> RunRecord:
    """Return a record that is a failed one where too many of its requests failed."""
    failed = result.failed or 0
    total = failed + (result.completed or 0)
    if failed <= MAX_FAILED_SHARE * total:
        return record
    told = Failure(stage="requests", reason=f"{failed} of {total} requests failed")
    return msgspec.structs.replace(record, failure=told)


def _tail(folder: Path) -> tuple[str, ...]:
    """Return the last lines of the client's log, where there is one."""
    try:
        lines = (folder / "client.log").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    return tuple(line.strip()[:300] for line in lines if line.strip())[-LOG_LINES:]


def _rounded(since: float) -> float:
    return round(time.monotonic() - since, 3)
