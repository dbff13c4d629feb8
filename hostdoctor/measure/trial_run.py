"""One run of an experiment: start the workload in its arm, look where it is, drive it, read the result, clean up."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from hostdoctor.errors import MeasureError
from hostdoctor.facts import Fact, Host
from hostdoctor.facts.runs import Latency, RunResult
from hostdoctor.measure.arms import read_arm
from hostdoctor.measure.serving import (
    READY_ANSWER_S,
    kept_result,
    now,
    run_seconds,
    seen,
    started,
    until_end,
    wait_ready,
    want_alive,
)
from hostdoctor.measure.trial_files import RESULT, write_record
from hostdoctor.measure.trial_model import Arm, Conditions, Place, Plan, Trial, TrialRecord
from hostdoctor.measure.trial_places import read_place
from hostdoctor.measure.trial_plan import arm_of, filled, rate_of, seed_of, uses, values_of, workload
from hostdoctor.measure.trial_watch import Watch
from hostdoctor.parsers.cpulist import parse_cpulist
from hostdoctor.placement.applying import Step
from hostdoctor.sources.base import Source
from hostdoctor.sources.children import Child
from hostdoctor.sources.readiness import answers

_FIRST_LOOK_S = 1.0
_BUNCHED_MS = 0.05


class Looked(Fact, frozen=True, kw_only=True):
    """What was seen of a run while it ran."""

    seconds: float
    places: tuple[Place, ...]
    conditions: Conditions
    ready_s: float | None = None
    left: tuple[int, ...] = ()


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
        before = seen(raw)
        environment = os.environ | arm.environment | {"HOSTDOCTOR_ARM": trial.role, "HOSTDOCTOR_RUN": str(trial.number)}
        look = self._served if plan.server else self._alone
        looked = look(arm, values, environment, folder)
        has_result = plan.result is not None or uses(workload(plan), "{result}")
        if not has_result:
            write_record(folder / RESULT, _wall(looked.seconds))
        run, position = kept_result(raw, folder / RESULT, before)
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
        with started(
            "the server", arm.step, filled(arm.argv, values), environment, folder / "server.log", self._left
        ) as server:
            wait_ready(server, plan.ready_url, plan.ready_timeout_s, self._beat)
            ready_s = round(time.monotonic() - at, 3)
            start = self._place(server, arm, "start")
            step = Step(tier="unbound")
            if plan.client_cpus is not None:
                step = Step(tier="cpus-only", cpus=plan.client_cpus)
            watch = self._watch(arm)
            words = filled(plan.client, values)
            with started("the client", step, words, environment, folder / "client.log", self._left) as client:
                until_end(client, "the client", plan.run_timeout_s, self._with_beat(watch.tick), server)
                seconds = run_seconds(client)
                watch.look(server.processes())
                conditions = watch.finish()
                end = self._place(server, arm, "end")
            want_alive(server)
        return Looked(seconds=seconds, places=(start, end), conditions=conditions, ready_s=ready_s)

    # --- a command by itself ---

    def _alone(self, arm: Arm, values: dict[str, str], environment: Mapping[str, str], folder: Path) -> Looked:
        """Look at the command at 1, 2, 4 … seconds: the first is the start, the last before its end the end."""
        places: list[Place] = []
        at = time.monotonic()
        next_s = [_FIRST_LOOK_S]
        with started(
            "the command", arm.step, filled(arm.argv, values), environment, folder / "command.log", self._left
        ) as it:
            watch = self._watch(arm)

            def tick() -> None:
                watch.tick()
                if time.monotonic() - at >= next_s[0]:
                    next_s[0] *= 2
                    watch.look(it.processes())
                    _add_look(places, lambda when: self._place(it, arm, when))

            until_end(it, "the command", self._plan.run_timeout_s, self._with_beat(tick), None)
            conditions = watch.finish()
            seconds = run_seconds(it)
        return Looked(seconds=seconds, places=tuple(places), conditions=conditions)

    # --- parts of both ---

    def _with_beat(self, tick: Callable[[], None]) -> Callable[[], None]:
        def both() -> None:
            tick()
            self._beat()

        return both

    def _place(self, child: Child, arm: Arm, when: str) -> Place:
        return read_place(self._source, self._host, child.processes(), arm, "start" if when == "start" else "end")

    def _watch(self, arm: Arm) -> Watch:
        """Watch the arm's CPUs; of a workload that is not bound, all that the caller may use."""
        from hostdoctor.measure.trial_arms import cpus_of

        allowed = parse_cpulist(self._host.allowed.cpus) if self._host.allowed.cpus else frozenset[int]()
        return Watch(self._source, self._host, cpus_of(arm) or allowed, self._plan.gpu_indices)

    def _want_metric(self, run: RunResult) -> None:
        """Raise MeasureError, at the first run already, where the result does not tell what is compared."""
        metric, quantile = self._plan.metric, self._plan.quantile
        if metric not in run.latencies:
            told = ", ".join(sorted(run.latencies))
            raise MeasureError(f"the result tells no {metric} (it tells {told}): choose with --metric")
        if read_arm(metric, [run])[quantile].runs[0] is None:
            raise MeasureError(f"the result's {metric} has no {quantile}, or it is 0: choose another with --metric")


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
