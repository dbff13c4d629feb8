"""An experiment in words: what it will do, how far it is, what came of it."""

import shlex

import msgspec

from hostdoctor.measure.comparison import Comparison
from hostdoctor.measure.trial_judge import TITLES
from hostdoctor.measure.trial_model import Arm, Experiment, Plan, Trial, TrialRecord
from hostdoctor.measure.trial_plan import (
    SPREADS,
    arm_of,
    command_line,
    detectable,
    filled,
    rate_of,
    trials,
    values_of,
)
from hostdoctor.measure.verdicts import share
from hostdoctor.outputs.comparison_text import NAMES, render_comparison
from hostdoctor.outputs.style import Style
from hostdoctor.outputs.words import plural, printable

_MINUTE, _HOUR = 60, 3600
_BAR = 24


def render_forecast(plan: Plan, folder: str, done: int = 0) -> str:
    """Return how much will be started, how long it can take and what it could see, one fact a line.

    ``done`` of the runs came to their end before: an experiment that is resumed.
    """
    planned = trials(plan)
    what = "server start" if plan.server else "run"
    before = [plural(plan.warm_ups, "warm-up")] if plan.warm_ups else []
    before += ["one probe of each arm's capacity"] if plan.probes else []
    pairs = f"{plan.pairs} × {', '.join(TITLES[role] for role in plan.order)}"
    seen = ", ".join(f"{share(detectable(plan.pairs, spread) - 1)} ({share(spread)})" for spread in SPREADS)
    metric = f"{'median' if plan.quantile == 'p50' else plan.quantile} {NAMES.get(plan.metric, plan.metric)}"
    lines = [
        f"{plural(len(planned), what)} ({', '.join([*before, pairs])}), files in {folder}",
        _left(plan, len(planned), done),
        f"compares the {metric}; would see, where runs of one arm vary by so much: {seen}",
    ]
    lines += [f"{name}: {plan.arms[name].words}" for name in plan.arms]
    return "\n".join([*lines, *(f"note: {note}" for note in _notes(plan))])


def render_dry_run(plan: Plan, folder: str, done: int = 0) -> str:
    """Return every command in the order in which they would be started, without those of runs that are ``done``."""
    lines = [printable(line) for line in render_forecast(plan, folder, done).splitlines()]
    for trial in trials(plan)[done:]:
        lines += ["", _title(plan, trial)]
        lines += [f"  {line}" for line in _commands(plan, trial, folder)]
    return "\n".join(lines) + "\n"


def render_step(record: TrialRecord, left: int, seconds_left: float) -> str:
    """Return one line of progress."""
    trial = record.trial
    number, planned = trial.number + 1, trial.number + 1 + left
    what = trial.kind if trial.pair is None else f"pair {trial.pair + 1}"
    rest = f", about {duration(seconds_left)} left" if left else ""
    return f"[{number}/{planned}] {what}, {TITLES[trial.role]}: {duration(record.seconds)}{rest}"


def render_underway(trial: Trial, done: int, planned: int, seconds: float, seconds_left: float | None) -> str:
    """Return the bar of an experiment whose next run has taken so many seconds."""
    filled_cells = _BAR * done // planned
    what = trial.kind if trial.pair is None else f"pair {trial.pair + 1}"
    rest = "" if seconds_left is None else f", about {duration(seconds_left)} left"
    bar = "#" * filled_cells + "-" * (_BAR - filled_cells)
    return f"[{bar}] {done}/{planned} {what}, {TITLES[trial.role]}: {duration(seconds)}{rest}"


def render_experiment(experiment: Experiment, style: Style) -> str:
    """Return the production verdict first, then the others, then what limits them."""
    done, planned = len(experiment.runs), experiment.runs_planned
    head = "" if experiment.complete else style.paint(f"interrupted: {done} of {planned} runs", "warning") + "\n"
    parts = []
    if experiment.production is not None:
        parts.append(_part("near against current, as launched today", experiment.production, style))
        parts.append(_part("near against far, the positive control", _plain(experiment), style))
    else:
        parts.append(render_comparison(_plain(experiment), style))
    lines = [f"  {name}: {printable(words)}" for name, words in experiment.placement.items()]
    if experiment.rate_per_s is not None:
        lines.append(f"  rate: {experiment.rate_per_s:g} a second in all arms")
    return head + "\n".join(parts) + "\n".join(lines) + "\n"


def duration(seconds: float) -> str:
    """Return a time as a person says it: ``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / _MINUTE:.0f} min" if seconds < 2 * _HOUR else f"{seconds / _HOUR:.1f} h"


def _left(plan: Plan, planned: int, done: int) -> str:
    if done >= planned:
        return "all of them are finished: nothing is left to start"
    most = f"time: known after the first run; at most {duration(_longest(plan) * (planned - done))}"
    return f"{done} of them finished before, {planned - done} left; {most}" if done else most


def _longest(plan: Plan) -> float:
    return plan.run_timeout_s + (plan.ready_timeout_s if plan.server else 0.0)


def _notes(plan: Plan) -> list[str]:
    return list(dict.fromkeys((*plan.notes, *(note for arm in plan.arms.values() for note in arm.notes))))


def _title(plan: Plan, trial: Trial) -> str:
    what = trial.kind if trial.pair is None else f"pair {trial.pair + 1}"
    return f"# run {trial.number}, {what}, {TITLES[trial.role]}: {arm_of(plan, trial.role).words}"


def _commands(plan: Plan, trial: Trial, folder: str) -> list[str]:
    """Return what is started in one run, as a shell would be given it."""
    arm = arm_of(plan, trial.role)
    rate = rate_of(plan, trial, None)
    values = values_of(trial, f"{folder}/runs/…/result.json", rate)
    if plan.probes and trial.kind == "run" and plan.rate_per_s is None:
        values["{rate}"] = "{rate}"  # found by then
    lines = [command_line((*around(arm), *filled(arm.argv, values)), arm.environment)]
    if plan.server:
        bound = ("taskset", "-c", plan.client_cpus) if plan.client_cpus else ()
        lines += [
            f"until {plan.ready_url} answers",
            shlex.join((*bound, *filled(plan.client, values))),
            "stop the server",
        ]
    return lines


def around(arm: Arm) -> tuple[str, ...]:
    """Return the numactl that would bind as the arm does."""
    step = arm.step
    cpus = () if step.cpus is None else (f"--physcpubind={step.cpus}",)
    mems = () if step.policy is None else (f"--membind={','.join(map(str, step.mems))}",)
    return ("numactl", *cpus, *mems) if cpus or mems else ()


def _plain(experiment: Experiment) -> Comparison:
    return Comparison(**{name: getattr(experiment, name) for name in Comparison.__struct_fields__})


def _part(title: str, comparison: Comparison, style: Style) -> str:
    quiet = msgspec.structs.replace(comparison, warnings=()) if title.startswith("near against current") else comparison
    return f"{title}:\n{render_comparison(quiet, style)}"
