"""The experiment: every run in its order, kept as soon as it ended, so that an interruption costs one run."""

import time
from collections.abc import Callable
from typing import NamedTuple

from hostdoctor.errors import HostdoctorError, MeasureError, OutputError
from hostdoctor.facts import Host
from hostdoctor.measure.trial_files import Folder
from hostdoctor.measure.trial_judge import capacities, conclude
from hostdoctor.measure.trial_model import Experiment, Plan, Trial, TrialRecord
from hostdoctor.measure.trial_plan import LOAD_SHARE, rate_found, trials
from hostdoctor.measure.trial_run import Runner
from hostdoctor.sources.base import Source


class Step(NamedTuple):
    """A run that ended, and the seconds that the others will take."""

    record: TrialRecord
    left: int
    seconds_left: float


class Underway(NamedTuple):
    """A run that has taken so many seconds, after ``done`` others; ``seconds_left`` is for all, None: not known."""

    trial: Trial
    done: int
    planned: int
    seconds: float
    seconds_left: float | None


def carry_out(
    source: Source,
    host: Host,
    plan: Plan,
    folder: Folder,
    tell: Callable[[Step], None],
    show: Callable[[Underway], None],
) -> None:
    """Make every run that the folder does not hold yet; ``show`` is called about once a second meanwhile.

    Raises MeasureError or OutputError, naming the run and how to go on; what ended before is kept.
    """
    planned = trials(plan)
    records = folder.records(planned)
    at = time.monotonic()
    runner = Runner(source, host, plan, lambda: show(_underway(planned, records, time.monotonic() - at)))
    for trial in planned[len(records) :]:
        at = time.monotonic()
        try:
            record = runner.run(trial, folder.begin(trial), folder.relative, _rate(plan, records))
            folder.keep(record)
        except HostdoctorError as error:
            raise _told(error, trial, len(records), len(planned), folder) from error
        records.append(record)
        tell(Step(record, len(planned) - len(records), seconds_left(planned, records)))


def experiment(plan: Plan, folder: Folder) -> Experiment:
    """Return what the runs that ended say; raise MeasureError where they make no pair."""
    records = folder.records(trials(plan))
    told = {record.trial.number: folder.result(record) for record in records if record.trial.kind == "run"}
    return conclude(plan, records, {number: result for number, result in told.items() if result is not None})


def seconds_left(planned: tuple[Trial, ...], records: list[TrialRecord]) -> float:
    """Return how long the other runs will take, at the mean pace of those that ended."""
    return (len(planned) - len(records)) * sum(r.seconds for r in records) / len(records) if records else 0.0


def _underway(planned: tuple[Trial, ...], records: list[TrialRecord], seconds: float) -> Underway:
    left = max(0.0, seconds_left(planned, records) - seconds) if records else None
    return Underway(planned[len(records)], len(records), len(planned), seconds, left)


def _rate(plan: Plan, records: list[TrialRecord]) -> float | None:
    """Return the rate for all arms, once it is known; raise MeasureError for a stated one that is too high."""
    found = capacities(records)
    if not plan.probes or not found:
        return plan.rate_per_s
    limit = rate_found(list(found.values()))
    if plan.rate_per_s is not None and plan.rate_per_s > limit:
        told = ", ".join(f"{arm} {value:.3g}" for arm, value in found.items())
        raise MeasureError(
            f"--rate {plan.rate_per_s:g} is above {100 * LOAD_SHARE:.0f} % of the slower arm's capacity"
            f" (a second: {told}): at most {limit:g}"
        )
    return limit


def _told(error: HostdoctorError, trial: Trial, done: int, planned: int, folder: Folder) -> HostdoctorError:
    kind: type[HostdoctorError] = OutputError if isinstance(error, OutputError) else MeasureError
    return kind(
        f"run {trial.number} ({trial.role}): {error}; {done} of {planned} runs are kept: --resume {folder.path} goes on"
    )
