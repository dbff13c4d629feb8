"""The agent itself: what is due, what came of it, who is told. One thread; every wait is the loop's."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from hostdoctor.agent.history import Recorder
from hostdoctor.agent.ledger import Held, Key, check_states, step
from hostdoctor.agent.log import Log, log_event
from hostdoctor.agent.model import Counters, NodeState, Snapshot, SurveyReason, SurveyState
from hostdoctor.agent.publishing import MakePublishers, Publishing
from hostdoctor.agent.schedule import Asked
from hostdoctor.agent.settings import Settings
from hostdoctor.agent.signals import (
    Reading,
    Watched,
    drive_rates,
    error_totals,
    link_states,
    read_signals,
    why_survey,
    why_survey_again,
)
from hostdoctor.agent.state import Memory
from hostdoctor.agent.surveying import ERRORS, LONG_SAMPLE_S, Counted, Remembered, Surveyed, Wish, decode, preload
from hostdoctor.agent.troubles import Troubles
from hostdoctor.agent.usual import EVERY_S, usual_latency, with_means
from hostdoctor.diagnosis.api import Rule
from hostdoctor.diagnosis.drift import completed
from hostdoctor.diagnosis.report import CheckResult
from hostdoctor.errors import HostdoctorError, described
from hostdoctor.sources.base import Readable
from hostdoctor.sources.forked import reap
from hostdoctor.sources.journal import INFO, NOTICE, WARNING

RETRY_S = 60.0  # after a survey that failed
JUMP_S = 5.0
SHORT_SAMPLE_S = 60.0  # rates over less are noise
ERRORS_EVERY_S = 30.0
FIRST_PRUNE_S, PRUNE_S = 3600.0, 86400.0
NEVER = float("inf")


class Setup(NamedTuple):
    """What the configuration comes to."""

    settings: Settings
    wish: Wish
    rules: Sequence[Rule]


class SurveyJob(Protocol):
    """A survey at work; :class:`hostdoctor.sources.forked.Job` is one."""

    def fileno(self) -> int:
        """Return the descriptor to wait on."""

    def collect(self) -> bytes | None:
        """Return the encoded result, None while it is at work; raise HostdoctorError."""

    def kill(self) -> None:
        """Give it up."""


class Teller(Protocol):
    """Tells the service manager; :class:`hostdoctor.sources.notify.Notifier` is one."""

    watchdog_s: float | None

    def ready(self, status: str) -> None:
        """Say that the service is up."""

    def status(self, text: str) -> None:
        """Say what it does."""

    def alive(self) -> None:
        """Pat the watchdog."""

    def reloading(self) -> None:
        """Say that the configuration is read again."""

    def stopping(self, status: str) -> None:
        """Say that it ends."""


class Tools(NamedTuple):
    """What the agent does everything with; tests give others."""

    monotonic: Callable[[], float]
    wall: Callable[[], float]
    files: Readable
    start_survey: Callable[[Setup, Remembered], SurveyJob]
    load: Callable[[], Setup]
    publishers: MakePublishers
    log: Log
    teller: Teller
    version: str


class Agent:
    """Everything that is known and due. The loop calls :meth:`run_due` no later than :meth:`wake_at`."""

    def __init__(self, setup: Setup, tools: Tools, recorder: Recorder) -> None:
        now = tools.monotonic()
        self.setup, self.tools, self.recorder = setup, tools, recorder
        self.counters = Counters()
        self.troubles = Troubles(tools.log, tools.wall)
        self.job: SurveyJob | None = None
        self._job_reason: SurveyReason = "start"
        self._job_since = now
        self._ask: SurveyReason | None = "start"
        self._asked = Asked()
        self._next_survey, self._next_signals, self._next_pat = now, now, now
        self._next_prune = now + FIRST_PRUNE_S
        self._offset = tools.wall() - now
        self._started_at = tools.wall()
        self._publishing = Publishing(tools.publishers)
        self._held: dict[Key, Held] = {}
        self._memory = Memory()
        self._survey: SurveyState | None = None
        self._survey_at = now
        self._last: Surveyed | None = None
        self._results: tuple[CheckResult, ...] = ()
        self._watched = Watched()
        self._readings: deque[Reading] = deque(maxlen=4)
        self._means_from: Reading | None = None
        self._counted: deque[Counted] = deque(maxlen=2)
        self._errors: deque[Counted] = deque(maxlen=64)

    def start(self) -> None:
        """Read the state and say that the service is up; raise HostdoctorError for a bad publisher, a second agent."""
        self.recorder.claim()
        self._publishing.adopt(self.setup.settings)
        self._remember(self.recorder.start(self.tools.wall(), self.troubles))
        self.tools.log.write(INFO, f"started: {self._pace()}, state {self.setup.settings.state or 'not kept'}")
        self.tools.teller.ready("the first survey runs")

    def wake_at(self) -> float:
        """Return when something is due (monotonic seconds), were nothing to happen before."""
        times = [self._next_signals, self._next_pat if self.tools.teller.watchdog_s else NEVER]
        if self.job is not None:
            return min(*times, self._job_since + self.setup.settings.survey_limit_s)
        due = self._asked.due()
        return min(*times, self._next_survey, NEVER if due is None else due, 0.0 if self._ask else NEVER)

    def run_due(self) -> None:
        """Do what is due now."""
        now = self.tools.monotonic()
        self._watch_clock(now)
        self._take_survey(now)
        reason = self._why_survey(now)
        if reason is not None:
            self._start_survey(reason, now)
        if now >= self._next_signals:
            self._next_signals = now + self.setup.settings.signals_s
            self._read_signals(now)
        self._upkeep(now)

    def events(self, names: Sequence[str], *, lost: bool = False) -> None:
        """Take device events; lost ones ask for a survey too."""
        self._count(events=len(names), events_lost=int(lost))
        words = names[0] if names else "events that were lost"
        self._asked.note(len(names) + int(lost), words, self.tools.monotonic())

    def reload(self) -> None:
        """Read the configuration again; one that is not valid changes nothing, and is told."""
        self.tools.teller.reloading()
        self._count(reloads=1)
        try:
            self._adopt(self.tools.load())
        except Exception as error:  # noqa: BLE001  a site's own check may raise anything; the service goes on
            self._count(reload_failures=1)
            why = str(error) if isinstance(error, (HostdoctorError, OSError)) else described(error)
            self.troubles.note("config", f"the former configuration stays: {why}")
        else:
            self.troubles.over("config", "is valid again")
            self.tools.log.write(INFO, f"the configuration was read again: {self._pace()}")
            self._ask = "reload"
        self.tools.teller.ready(self._status_line())

    def _pace(self) -> str:
        settings = self.setup.settings
        return f"a survey every {settings.interval_s:g} s, signals every {settings.signals_s:g} s"

    def stop(self) -> None:
        """End: give up a survey at work, write what is not written yet."""
        self.tools.teller.stopping("ending")
        if self.job is not None:
            self.job.kill()
            self.job = None
        self._save()
        self.recorder.close()
        self._publishing.close()
        self.tools.log.write(INFO, "stopped")

    def snapshot(self) -> Snapshot:
        """Return everything as it is now."""
        now, last = self.tools.monotonic(), self._last
        reading = self._latest(now)
        survey = self._survey
        return Snapshot(
            taken_at=self.tools.wall(),
            started_at=self._started_at,
            version=self.tools.version,
            hostname=last.hostname if last else None,
            survey=msgspec.structs.replace(survey, age_s=now - self._survey_at) if survey else None,
            checks=check_states(self._results, self._held),
            links=link_states(self._watched, reading),
            errors=error_totals(self._watched, reading),
            drives=drive_rates(self._watched, self._before(reading), reading, usual_latency(self._memory.means)),
            nodes=_with_budgets(reading.nodes, last),
            placements=reading.placements,
            pressure=reading.pressure,
            pinned_bytes=last.pinned_bytes if last else None,
            baseline_accepted_at=self.recorder.accepted_at(self._memory.baseline),
            problems=self.troubles.all(),
            counters=self.counters,
        )

    def _why_survey(self, now: float) -> SurveyReason | None:
        if self.job is not None:
            return None
        if self._asked.is_held(now):
            self.troubles.note("events", "so many that surveys are put off: look for a device that comes and goes")
        if self._ask is not None:
            return self._ask
        due = self._asked.due()
        if due is not None and now >= due:
            return self._asked.reason
        return "interval" if now >= self._next_survey else None

    def _start_survey(self, reason: SurveyReason, now: float) -> None:
        if reason in ("event", "signal"):
            self.tools.log.write(INFO, f"surveying: {self._asked.words} ({self._asked.count} events)")
        if not self._asked.is_held(now):
            self.troubles.over("events", "few again")
        self._asked.answered(now, granted=reason in ("event", "signal"))
        self._ask, self._job_reason, self._job_since = None, reason, now
        self._recall()
        try:
            self.job = self.tools.start_survey(self.setup, self._remembered(now))
        except OSError as error:
            self._survey_failed(f"cannot be started: {error.strerror}", now)

    def _remembered(self, now: float) -> Remembered:
        long_ago = [counted for counted in self._errors if now - counted.at >= LONG_SAMPLE_S]
        recent = [counted for counted in self._counted if now - counted.at >= SHORT_SAMPLE_S]
        last = recent[-1] if recent else self._counted[0] if self._counted else None
        return Remembered(
            last=last,
            long_ago=long_ago[-1] if long_ago else None,
            baseline=self._memory.baseline,
            usual=usual_latency(self._memory.means),
            splits=self._memory.splits,
        )

    def _take_survey(self, now: float) -> None:
        """Take the result of a survey that has ended; give up one that takes too long."""
        if self.job is None:
            return
        limit_s = self.setup.settings.survey_limit_s
        try:
            data = self.job.collect()
            if data is None and now - self._job_since >= limit_s:
                self.job.kill()
                self._survey_failed(f"took longer than {limit_s:g} s and was killed", now)
            elif data is not None:
                self._survey_ended(decode(data), now)
        except (HostdoctorError, OSError, msgspec.DecodeError) as error:
            self._survey_failed(str(error), now)

    def _survey_failed(self, why: str, now: float) -> None:
        self.job = None
        self._next_survey = now + min(RETRY_S, self.setup.settings.interval_s)
        self._count(survey_failures=1)
        self.troubles.note("survey", why)
        self._publish()

    def _survey_ended(self, surveyed: Surveyed, now: float) -> None:
        self.job = None
        self._next_survey = now + self.setup.settings.interval_s
        preload(surveyed.modules)
        self._count(surveys=1)
        self.troubles.over("survey", "works again")
        at = self.tools.wall()
        self._log_verdict(surveyed)
        self._survey_at = now
        self._survey = SurveyState(
            ended_at=at,
            age_s=0.0,
            duration_s=now - self._job_since,
            reason=self._job_reason,
            status=surveyed.status,
            unknown=surveyed.unknown,
        )
        self._last = msgspec.structs.replace(surveyed, results=(), modules=(), counted=Counted(at=0.0, counters={}))
        self._results, self._watched = surveyed.results, surveyed.watched
        self._keep_counters(surveyed.counted)
        self._keep_map(surveyed)
        self._note_broken_checks(surveyed)
        self._held, events = step(self._held, surveyed.results, at)
        for event in events:
            log_event(self.tools.log, event)
            counts = self.counters.transitions
            self._count(transitions=counts | {event.transition: counts.get(event.transition, 0) + 1})
        self.recorder.add(events)
        reading = read_signals(self.tools.files, self._watched, now)
        changed = why_survey_again(self._watched, self._latest(now), reading)
        self._readings.append(reading)
        if changed is not None:
            self._asked.note(1, changed, now, reason="signal")
        self._save()
        self.tools.teller.status(self._status_line())
        self._publish()

    def _log_verdict(self, surveyed: Surveyed) -> None:
        """Log another status than the last survey's, and acceptances that have ended since."""
        was, last = self._survey, self._last
        if was is None or (was.status, was.unknown) != (surveyed.status, surveyed.unknown):
            before = f", was {_verdict(was)}" if was else ""
            self.tools.log.write(NOTICE, f"status {_verdict(surveyed)}{before}", {"HOSTDOCTOR_STATUS": surveyed.status})
        for note in surveyed.notes:
            if last is None or note not in last.notes:
                self.tools.log.write(NOTICE, note)

    def _keep_counters(self, counted: Counted) -> None:
        if self._counted and counted.at - self._counted[-1].at < SHORT_SAMPLE_S and len(self._counted) > 1:
            self._counted.pop()
        self._counted.append(counted)
        errors = {name: value for name, value in counted.counters.items() if name.startswith(ERRORS)}
        old = [one for one in self._errors if counted.at - one.at >= LONG_SAMPLE_S]
        while old and self._errors[0] is not old[-1]:  # the newest that is old enough is what is compared with
            self._errors.popleft()
        if not self._errors or counted.at - self._errors[-1].at >= ERRORS_EVERY_S:
            self._errors.append(Counted(at=counted.at, counters=errors))

    def _keep_map(self, surveyed: Surveyed) -> None:
        """Keep the engines' splits; accept the first whole map, and add to it what was not known then.

        A map that was accepted elsewhere meanwhile stays as it is: a survey that knows it follows.
        """
        if self._recall():
            self._ask = self._ask or "reload"
            return
        baseline, now = self._memory.baseline, surveyed.candidate
        whole = now if baseline is None else baseline if now is None else completed(baseline, now)
        self._memory = msgspec.structs.replace(self._memory, splits=surveyed.splits, baseline=whole)
        if baseline is None and whole is not None:
            self.tools.log.write(
                NOTICE, "this map is accepted as the baseline: later ones are compared with it (HD904)"
            )

    def _note_broken_checks(self, surveyed: Surveyed) -> None:
        broken = [f"{result.id} ({result.reason})" for result in surveyed.results if result.status == "error"]
        if broken:
            self.troubles.note("checks", f"failed to run: {', '.join(broken)[:500]}")
        else:
            self.troubles.over("checks", "all run again")

    def _read_signals(self, now: float) -> None:
        before = self._readings[-1] if self._readings else None
        reading = read_signals(self.tools.files, self._watched, now)
        self._readings.append(reading)
        self._count(signal_readings=1)
        changed = why_survey(before, reading) if before is not None else None
        if changed is not None:
            self._asked.note(1, changed, now, reason="signal")
        if self.recorder.changed_elsewhere():
            self._ask = self._ask or "reload"
        self._note_usual(reading)
        if self.recorder.is_behind:
            self._save()
        self._publish()

    def _note_usual(self, reading: Reading) -> None:
        """Every quarter of an hour, take the drives' means since the last one."""
        if self._means_from is None:
            self._means_from = reading
        if reading.at - self._means_from.at >= EVERY_S:
            rates = drive_rates(self._watched, self._means_from, reading, {})
            self._memory = msgspec.structs.replace(self._memory, means=with_means(self._memory.means, rates))
            self._means_from = reading

    def _latest(self, now: float) -> Reading:
        """Return the last reading, one of nothing where there is none."""
        return self._readings[-1] if self._readings else Reading(at=now)

    def _before(self, reading: Reading) -> Reading:
        """Return the newest reading that is old enough to tell a rate from, else the oldest."""
        least_s = self.setup.settings.signals_s / 2
        old = [one for one in self._readings if reading.at - one.at >= least_s]
        return old[-1] if old else self._readings[0] if self._readings else reading

    def _upkeep(self, now: float) -> None:
        reap()
        watchdog_s = self.tools.teller.watchdog_s
        if watchdog_s and now >= self._next_pat:
            self.tools.teller.alive()
            self._next_pat = now + watchdog_s / 3
        if now >= self._next_prune:
            self._next_prune = now + PRUNE_S
            self.recorder.prune(self.tools.wall(), self.setup.settings.history_days, self.troubles)

    def _watch_clock(self, now: float) -> None:
        """Notice a clock that was set: nothing is scheduled by it, but old history is not judged by it for a day."""
        offset = self.tools.wall() - now
        if abs(offset - self._offset) > JUMP_S:
            self._count(clock_jumps=1)
            self.tools.log.write(NOTICE, f"the clock was set by {offset - self._offset:+.0f} s")
            self._next_prune = now + PRUNE_S
        self._offset = offset

    def _adopt(self, setup: Setup) -> None:
        """Take a new configuration as a whole; what raises leaves the former one."""
        old, new = self.setup.settings, setup.settings
        self._publishing.adopt(new)
        if new.state != old.state:
            self.tools.log.write(WARNING, "another state takes a restart: the former one is kept until then")
        now = self.tools.monotonic()
        self._next_signals = min(self._next_signals, now + new.signals_s)
        self.setup = setup

    def _recall(self) -> bool:
        """Take what another process has written to the state; tell whether one has."""
        if not self.recorder.changed_elsewhere():
            return False
        self._remember(self.recorder.load(self.troubles))
        return True

    def _remember(self, memory: Memory | None) -> None:
        """Take what the state tells; it may know no map yet that is known here."""
        if memory is None:
            return
        if not self._held:
            self._held = {held.key: held for held in memory.held}
        baseline = memory.baseline or self._memory.baseline
        self._memory = msgspec.structs.replace(memory, baseline=baseline, means=self._memory.means or memory.means)

    def _save(self) -> None:
        memory = msgspec.structs.replace(self._memory, held=tuple(self._held.values()))
        failed = self.recorder.save(memory, self.tools.wall(), self.troubles)
        self._count(state_write_failures=int(failed))

    def _publish(self) -> None:
        if self._publishing.is_wanted:
            self._count(publish_failures=self._publishing.give(self.snapshot(), self.troubles))

    def _status_line(self) -> str:
        if self._survey is None:
            return "no survey yet"
        standing = [held.finding for held in self._held.values() if held.is_present and held.finding.severity != "info"]
        ids = ", ".join(dict.fromkeys(finding.id for finding in standing))
        troubles = f"; suffers from: {', '.join(p.name for p in self.troubles.all())}" if self.troubles.all() else ""
        return f"{self._survey.status}: {ids or 'no warning'}; survey took {self._survey.duration_s:.1f} s{troubles}"

    def _count(self, *, transitions: dict[str, int] | None = None, **more: int) -> None:
        raised = {name: getattr(self.counters, name) + by for name, by in more.items()}
        told = {"transitions": transitions} if transitions is not None else {}
        self.counters = msgspec.structs.replace(self.counters, **raised, **told)


def _verdict(told: Surveyed | SurveyState) -> str:
    return f"{told.status} ({told.unknown})" if told.unknown else told.status


def _with_budgets(nodes: Sequence[NodeState], last: Surveyed | None) -> tuple[NodeState, ...]:
    """Return the nodes with what the last survey said may be pinned on them."""
    budgets = {budget.id: budget for budget in last.budgets} if last else {}
    return tuple(
        node
        if (budget := budgets.get(node.id)) is None
        else msgspec.structs.replace(
            node,
            available_bytes=budget.available_bytes,
            pinnable_bytes=budget.pinnable_bytes,
            pinned_bytes=budget.pinned_bytes,
        )
        for node in nodes
    )
