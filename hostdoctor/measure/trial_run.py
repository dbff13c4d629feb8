"""One run of an experiment: start the workload in its arm, look where it is, drive it, read the result, clean up."""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from hostdoctor.errors import HostdoctorError, MeasureError, OutputError
from hostdoctor.facts import Fact, Host
from hostdoctor.facts.runs import Latency, RunResult
from hostdoctor.measure.arms import read_arm
from hostdoctor.measure.trial_files import RESULT, read_runs, write_record
from hostdoctor.measure.trial_model import Arm, Conditions, Place, Plan, Trial, TrialRecord
from hostdoctor.measure.trial_places import read_place
from hostdoctor.measure.trial_plan import arm_of, filled, rate_of, seed_of, uses, values_of, workload
from hostdoctor.measure.trial_watch import Watch
from hostdoctor.parsers.cpulist import parse_cpulist
from hostdoctor.placement.applying import Step
from hostdoctor.placement.becoming import bound_argv
from hostdoctor.sources.base import Source
from hostdoctor.sources.children import Child
from hostdoctor.sources.readiness import answers

START_S = 60.0  # for a command to be under way: this interpreter starts before it
READY_POLL_S, READY_ANSWER_S = 0.5, 5.0
TICK_S = 1.0
_FIRST_LOOK_S = 1.0
_LITTLE_ROOM_BYTES = 1 << 20
_BUNCHED_MS = 0.05
_SAID = 100  # of last words: what follows them must still fit in the line


class Looked(Fact, frozen=True, kw_only=True):
    """What was seen of a run while it ran."""

    seconds: float
    places: tuple[Place, ...]
    conditions: Conditions
    ready_s: float | None = None
    left: tuple[int, ...] = ()


class _Seen(NamedTuple):
    """A result file at one time: what changes when it is written, and how many runs it held."""

    stamp: tuple[int, int, int] | None
    runs: int = 0


class Runner:
    """Makes runs of one plan on this host."""

    def __init__(self, source: Source, host: Host, plan: Plan, beat: Callable[[], None]) -> None:
        """Prepare; ``beat`` is called about once a second while something runs."""
        self._source = source
        self._beat = beat
        self._host = host
        self._plan = plan
        self._left: list[int] = []

    def run(self, trial: Trial, folder: Path, relative: Callable[[Path], str], rate: float | None) -> TrialRecord:
        """Make one run in its folder; raise MeasureError, saying why, where it did not come to its end."""
        plan, arm = self._plan, arm_of(self._plan, trial.role)
        began, at = now(), time.monotonic()
        self._left = []
        asked = rate_of(plan, trial, rate)
        values = values_of(trial, str(folder / RESULT), asked)
        raw = Path(filled((plan.result,), values)[0]) if plan.result is not None else folder / RESULT
        before = _seen(raw)
        environment = os.environ | arm.environment | {"HOSTDOCTOR_ARM": trial.role, "HOSTDOCTOR_RUN": str(trial.number)}
        look = self._served if plan.server else self._alone
        looked = look(arm, values, environment, folder)
        has_result = plan.result is not None or uses(workload(plan), "{result}")
        if not has_result:
            write_record(folder / RESULT, _wall(looked.seconds))
        run, position = self._result(raw, folder / RESULT, before)
        self._want_metric(run)
        notes = [*(_bunched(run) if trial.number == 0 and plan.metric == "itl" else ())]
        notes += [f"{len(self._left)} of its processes would not end"] if self._left else []
        return TrialRecord(
            trial=trial,
            seed=seed_of(trial),
            rate_per_s=asked if isinstance(asked, float | int) else "inf" if asked == "inf" else None,
            began=began,
            seconds=round(time.monotonic() - at, 3),
            ready_s=looked.ready_s,
            result=relative(folder / RESULT),
            position=position,
            capacity_per_s=_capacity(run) if trial.kind == "probe" else None,
            places=looked.places,
            conditions=looked.conditions,
            notes=tuple(notes),
        )

    # --- a server, and a client that drives it ---

    def _served(self, arm: Arm, values: dict[str, str], environment: Mapping[str, str], folder: Path) -> Looked:
        plan = self._plan
        assert plan.ready_url is not None
        if answers(plan.ready_url, READY_ANSWER_S):
            raise MeasureError(f"{plan.ready_url} answers already: another server is there")
        at = time.monotonic()
        with self._started(
            "the server", arm.step, filled(arm.argv, values), environment, folder / "server.log"
        ) as server:
            _wait_ready(server, plan.ready_url, plan.ready_timeout_s, self._beat)
            ready_s = round(time.monotonic() - at, 3)
            start = self._place(server, arm, "start")
            step = Step(tier="unbound")
            if plan.client_cpus is not None:
                step = Step(tier="cpus-only", cpus=plan.client_cpus)
            watch = self._watch(arm)
            words = filled(plan.client, values)
            with self._started("the client", step, words, environment, folder / "client.log") as client:
                self._until_end(client, watch.tick, server)
                seconds = _seconds(client)
                watch.look(server.processes())
                conditions = watch.finish()
                end = self._place(server, arm, "end")
            _want_alive(server)
        return Looked(seconds=seconds, places=(start, end), conditions=conditions, ready_s=ready_s)

    # --- a command by itself ---

    def _alone(self, arm: Arm, values: dict[str, str], environment: Mapping[str, str], folder: Path) -> Looked:
        """Look at the command at 1, 2, 4 … seconds: the first is the start, the last before its end the end."""
        places: list[Place] = []
        at = time.monotonic()
        next_s = [_FIRST_LOOK_S]
        with self._started(
            "the command", arm.step, filled(arm.argv, values), environment, folder / "command.log"
        ) as it:
            watch = self._watch(arm)

            def tick() -> None:
                watch.tick()
                if time.monotonic() - at >= next_s[0]:
                    next_s[0] *= 2
                    watch.look(it.processes())
                    _add_look(places, lambda when: self._place(it, arm, when))

            self._until_end(it, tick, None)
            conditions = watch.finish()
            seconds = _seconds(it)
        return Looked(seconds=seconds, places=tuple(places), conditions=conditions)

    # --- parts of both ---

    @contextmanager
    def _started(
        self, name: str, step: Step, argv: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> Iterator[Child]:
        """Give a command that is under way; whatever happens, it and all that it started are ended afterwards."""
        child = Child(bound_argv(step, tuple(argv)), log=log, environment=environment)
        try:
            deadline = time.monotonic() + START_S
            while child.started_at is None and child.refused is None and time.monotonic() < deadline:
                if child.wait(0.01):
                    break
            if child.started_at is None:
                raise MeasureError(f"{name} could not be started: {child.refused or _ending(child)}")
            yield child
        finally:
            self._left += child.stop()

    def _place(self, child: Child, arm: Arm, when: str) -> Place:
        return read_place(self._source, self._host, child.processes(), arm, "start" if when == "start" else "end")

    def _watch(self, arm: Arm) -> Watch:
        """Watch the arm's CPUs; of a workload that is not bound, all that the caller may use."""
        from hostdoctor.measure.trial_arms import cpus_of

        allowed = parse_cpulist(self._host.allowed.cpus) if self._host.allowed.cpus else frozenset[int]()
        return Watch(self._source, self._host, cpus_of(arm) or allowed, self._plan.gpu_indices)

    def _until_end(self, child: Child, tick: Callable[[], None], server: Child | None) -> None:
        """Wait for the end of a command; raise MeasureError where it fails, hangs, or its server goes."""
        deadline = time.monotonic() + self._plan.run_timeout_s
        name = "the command" if server is None else "the client"
        while not child.wait(min(TICK_S, max(0.0, deadline - time.monotonic()))):
            if server is not None:
                _want_alive(server)
            if time.monotonic() >= deadline:
                limit = f"{self._plan.run_timeout_s:g} s"
                raise MeasureError(f"{name} did not end within {limit} (--timeout){_said(child)}")
            tick()
            self._beat()
        if child.ended is None or child.ended.status != 0:
            _want_room(child)
            raise MeasureError(f"{name} failed: {_ending(child)}")

    def _result(self, raw: Path, kept: Path, before: _Seen) -> tuple[RunResult, int]:
        """Have the raw result in the run's folder; return what it tells of this run, and as which of its runs."""
        if _stamp(raw) in (None, before.stamp):
            _want_room_at(kept)
            raise MeasureError(f"no result: the client wrote no {raw} ({{result}} or --result names it)")
        try:
            runs = read_runs(raw, str(raw))
        except HostdoctorError as error:
            _want_room_at(kept)
            raise MeasureError(f"no result: {error}") from None
        new = len(runs) - before.runs if len(runs) > before.runs else len(runs)  # appended, or written anew
        if new != 1:
            raise MeasureError(f"{raw} holds {new} new results: each run needs one")
        try:
            if raw != kept:
                shutil.copyfile(raw, kept)
        except OSError as error:
            raise OutputError(f"{kept}: not written: {(error.strerror or str(error)).lower()}") from error
        return runs[-1], len(runs) - 1

    def _want_metric(self, run: RunResult) -> None:
        """Raise MeasureError, at the first run already, where the result does not tell what is compared."""
        metric, quantile = self._plan.metric, self._plan.quantile
        if metric not in run.latencies:
            told = ", ".join(sorted(run.latencies))
            raise MeasureError(f"the result tells no {metric} (it tells {told}): choose with --metric")
        if read_arm(metric, [run])[quantile].runs[0] is None:
            raise MeasureError(f"the result's {metric} has no {quantile}, or it is 0: choose another with --metric")


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return what tells one state of a file from another; None where there is no file."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _seen(path: Path) -> _Seen:
    stamp = _stamp(path)
    try:
        return _Seen(stamp, len(read_runs(path, path.name)) if stamp is not None else 0)
    except HostdoctorError:
        return _Seen(stamp)


def _add_look(places: list[Place], look: Callable[[str], Place]) -> None:
    """Look once more; one that comes while a program begins or ends tells no memory, and gives way to one that does."""
    is_first = not places or not places[0].memory_bytes
    seen = look("start" if is_first else "end")
    if not seen.threads:
        return
    if is_first:
        places[:] = [seen]
    elif seen.memory_bytes:
        places[1:] = [seen]


def now() -> str:
    """Return the time of day, UTC, ISO 8601."""
    import datetime

    return datetime.datetime.now(tz=datetime.timezone.utc).isoformat(timespec="seconds")


def _wait_ready(server: Child, url: str, timeout_s: float, beat: Callable[[], None]) -> None:
    deadline = time.monotonic() + timeout_s
    while not answers(url, READY_ANSWER_S):
        beat()
        if server.wait(READY_POLL_S):
            _want_room(server)
            raise MeasureError(f"the server ended before it was ready: {_ending(server)}")
        if time.monotonic() > deadline:
            raise MeasureError(f"the server was not ready within {timeout_s:g} s ({url}){_said(server)}")


def _want_alive(server: Child) -> None:
    if server.wait(0.0):
        _want_room(server)
        raise MeasureError(f"the server ended during the run: {_ending(server)}")


def _seconds(child: Child) -> float:
    assert child.ended is not None
    assert child.started_at is not None
    return child.ended.at - child.started_at


def _ending(child: Child) -> str:
    return (child.ended.words if child.ended is not None else "no word of it") + _said(child)


def _said(child: Child) -> str:
    words = child.last_words()
    return f"; its last words: {words[:_SAID]}" if words else ""


def _want_room(child: Child) -> None:
    _want_room_at(child.log)


def _want_room_at(path: Path) -> None:
    """Raise OutputError where a full disk is why: what failed says so in its own words, or not at all."""
    try:
        told = os.statvfs(path.parent)
    except OSError:
        return
    if told.f_bavail * told.f_frsize < _LITTLE_ROOM_BYTES:
        raise OutputError(f"{path.parent}: no space left on device")


def _wall(seconds: float) -> msgspec.Struct:
    wall = Latency(samples_ms=(1000 * seconds,), count=1)
    return RunResult(
        source="", tool="hostdoctor", latencies={"wall": wall}, completed=1, date=now(), duration_s=seconds
    )


def _bunched(run: RunResult) -> list[str]:
    """Say when the client did not see single tokens come: between those that come together there is no time."""
    median = read_arm("itl", [run])["p50"].runs[0]
    if median is None or median >= _BUNCHED_MS:
        return []
    return [f"median itl {median:.2g} ms: tokens reached the client in bunches (--metric e2el or tpot tells more)"]


def _capacity(run: RunResult) -> float:
    if not run.completed or not run.duration_s:
        raise MeasureError("the result does not tell how many requests ended in which time: state --capacity instead")
    return run.completed / run.duration_s
