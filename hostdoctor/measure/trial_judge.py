"""From the runs of an experiment to its document: which pairs count, near against far, near against current. Pure."""

from collections.abc import Mapping, Sequence

import msgspec

from hostdoctor.errors import MeasureError
from hostdoctor.facts.runs import RunResult
from hostdoctor.measure.compare import compare_runs
from hostdoctor.measure.comparison import Comparison
from hostdoctor.measure.trial_model import (
    Conditions,
    Discarded,
    Experiment,
    Plan,
    Role,
    RunSummary,
    TrialRecord,
)
from hostdoctor.measure.trial_places import misplaced
from hostdoctor.measure.trial_plan import trials

STEAL_APART = 0.01  # of the CPUs' time
THROTTLED_APART = 0.01  # of the run's time
GPU_THROTTLED_APART = 0.05
CLOCKS_APART = 0.05
COLD_BYTES, COLD_TIMES = 64 << 20, 2.0  # read more than the other run by both: the page cache was cold
TITLES: dict[Role, str] = {"near": "near", "far": "far", "current": "current", "again": "near again"}

Results = Mapping[int, RunResult]


def conclude(plan: Plan, records: Sequence[TrialRecord], results: Results) -> Experiment:
    """Return the document of the runs that came to their end; raise MeasureError where they make no pair.

    ``results`` lacks runs whose raw file was lost since: they are left out, and the document says so.
    """
    other: Role = next(role for role in ("far", "current", "again") if role in plan.order)
    discarded: list[Discarded] = []
    main = _compared(plan, records, results, other, discarded)
    if main is None:
        raise MeasureError("no pair of runs to compare yet")
    both = other == "far" and "current" in plan.order
    production = _compared(plan, records, results, "current", discarded) if both else None
    planned = trials(plan)
    rates = [record.rate_per_s for record in records if record.trial.kind == "run"]
    rate = next((rate for rate in rates if isinstance(rate, float | int)), None)
    known = {name: getattr(main, name) for name in Comparison.__struct_fields__}
    return Experiment(
        **known | {"warnings": (*main.warnings, *_lost(records, results), *_warnings(plan, records, discarded))},
        production=production,
        complete=len(records) == len(planned),
        runs_planned=len(planned),
        runs=tuple(map(_summary, records)),
        discarded=tuple(discarded),
        placement={name: arm.words for name, arm in plan.arms.items()},
        rate_per_s=rate,
        capacity_per_s=capacities(records),
        versions=plan.versions,
        plan=plan,
    )


def capacities(records: Sequence[TrialRecord]) -> dict[str, float]:
    """Return what each arm completed a second when everything was sent at once."""
    return {r.trial.role: r.capacity_per_s for r in records if r.capacity_per_s is not None}


def reasons_against(one: TrialRecord, other: TrialRecord) -> tuple[str, ...]:
    """Return why two runs are no pair: placed otherwise than intended, or met by different conditions."""
    found = []
    for record in (one, other):
        found += [
            f"{TITLES[record.trial.role]}: {why}" for place in record.places if (why := misplaced(place)) is not None
        ]
    a, b = one.conditions, other.conditions
    found += _apart("stolen time", a.steal_share, b.steal_share, STEAL_APART)
    found += _apart("throttled by a CPU quota", a.throttled_share, b.throttled_share, THROTTLED_APART)
    found += _apart("GPU throttled", _gpu_share(a), _gpu_share(b), GPU_THROTTLED_APART)
    if a.cpu_mhz and b.cpu_mhz and abs(a.cpu_mhz - b.cpu_mhz) > CLOCKS_APART * max(a.cpu_mhz, b.cpu_mhz):
        found.append(f"CPU clocks {a.cpu_mhz:.0f} and {b.cpu_mhz:.0f} MHz")
    return (*found, *_cold(one, other))


def _apart(name: str, a: float | None, b: float | None, allowed: float) -> list[str]:
    if a is None or b is None or abs(a - b) <= allowed:
        return []
    return [f"{name} {100 * a:.1f} % and {100 * b:.1f} % of the time"]


def _gpu_share(conditions: Conditions) -> float | None:
    if conditions.gpu_throttled_s is None or conditions.seconds <= 0:
        return None
    return conditions.gpu_throttled_s / conditions.seconds


def _cold(one: TrialRecord, other: TrialRecord) -> list[str]:
    a, b = one.conditions.read_bytes, other.conditions.read_bytes
    if a is None or b is None:
        return []
    low, high = sorted((a, b))
    if high - low <= COLD_BYTES or high <= COLD_TIMES * low:
        return []
    colder = one if a > b else other
    return [f"{TITLES[colder.trial.role]}: {(high - low) >> 20} MiB more read from storage (page cache cold)"]


def _compared(
    plan: Plan, records: Sequence[TrialRecord], results: Results, other: Role, discarded: list[Discarded]
) -> Comparison | None:
    """Return near against another role over the pairs that count; the others are added to ``discarded``.

    None where no pair was run at all.
    """
    by_place = {(r.trial.pair, r.trial.role): r for r in records if r.trial.number in results}
    near, far, control = [], [], []
    known = len(discarded)
    for pair in range(plan.pairs):
        one, two, again = (by_place.get((pair, role)) for role in ("near", other, "again"))
        if one is None or two is None:
            continue
        if reasons := reasons_against(one, two):
            discarded.append(Discarded(pair=pair, roles=("near", other), reasons=reasons))
            continue
        first = results[one.trial.number]
        near.append(first)
        far.append(results[two.trial.number])
        usable = again is not None and other != "again" and not reasons_against(one, again)
        # a run without latencies keeps the place of a control that does not count
        blank = msgspec.structs.replace(first, latencies={}, source=f"{first.source} (no control)")
        control.append(results[again.trial.number] if again is not None and usable else blank)
    if not near and len(discarded) == known:
        return None
    has_control = any(run.latencies for run in control)
    return compare_runs(
        near,
        far,
        control=control if has_control else (),
        primary=(plan.metric, plan.quantile),
        margin=plan.margin,
        names=("near", TITLES[other]),
        force=True,
    )


def _lost(records: Sequence[TrialRecord], results: Results) -> list[str]:
    return [
        f"run {r.trial.number} ({TITLES[r.trial.role]}) left out: {r.result} is lost or broken"
        for r in records
        if r.trial.kind == "run" and r.trial.number not in results
    ]


def _warnings(plan: Plan, records: Sequence[TrialRecord], discarded: Sequence[Discarded]) -> list[str]:
    found = [*plan.notes, *(note for arm in plan.arms.values() for note in arm.notes)]
    found += [f"run {r.trial.number} ({TITLES[r.trial.role]}): {note}" for r in records for note in r.notes]
    for pair in discarded:
        roles = " and ".join(TITLES[role] for role in pair.roles)
        found.append(f"pair {pair.pair + 1} of {roles} discarded: {'; '.join(pair.reasons)}")
    unseen = [r for r in records if r.trial.kind == "run" and (not r.places or any(p.reason for p in r.places))]
    if unseen:
        reasons = dict.fromkeys(place.reason for r in unseen for place in r.places if place.reason)
        why = "; ".join(reasons) or "they ended before it could be looked at"
        found.append(f"where memory and threads were could not be told in {len(unseen)} runs: {why}")
    return list(dict.fromkeys(found))


def _summary(record: TrialRecord) -> RunSummary:
    trial = record.trial
    return RunSummary(
        number=trial.number,
        kind=trial.kind,
        role=trial.role,
        pair=trial.pair,
        began=record.began,
        seconds=record.seconds,
        ready_s=record.ready_s,
        result=record.result,
        places=record.places,
        conditions=record.conditions,
        notes=record.notes,
    )
