"""From the nanoseconds of every copy to quantiles and verdicts: pairs of runs, near against the rest."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from hostdoctor.facts import Fact
from hostdoctor.measure.comparison import Verdict
from hostdoctor.measure.copies_model import Arm, Cell, Comparison, Result, Role, Setting
from hostdoctor.measure.paired import SIGNIFICANCE, Paired, compare_pairs, holm
from hostdoctor.measure.quantiles import estimate_quantile, sample_quantile
from hostdoctor.measure.verdicts import judge, share

NS_PER_US = 1000
CONTROL: Role = "near-again"
P99_COPIES = 100  # in a run: with fewer, its 99th percentile is its largest value
NAMES: dict[Role, tuple[str, str]] = {
    "far": ("near", "far"),
    "far-memory": ("near memory", "far memory"),
    "far-cpu": ("near CPU", "far CPU"),
    "near-again": ("near", "near measured again"),
}

Statistic = Literal["p50", "p99", "mean"]
Family = tuple[Role, Statistic]


class Run(Fact, frozen=True, kw_only=True):
    """One cell's copies in one round, in nanoseconds and in the order in which they were made."""

    ns: tuple[int, ...]
    late: int = 0
    contending_copies: int = 0


Runs = Mapping[Role, Sequence[Run]]


def results_of(
    cells: Sequence[Cell], measured: Mapping[Setting, Runs], intervals_ns: Mapping[Setting, int]
) -> tuple[Result, ...]:
    """Return every setting's cells and comparisons. Runs of one position in their lists were made in one round.

    Settings compared in the same way (one cell, one statistic) share the 5 % error, by Holm's procedure.
    """
    pairs = {(s, family): values for s, runs in measured.items() for family, values in _pairs(s, runs)}
    tests = Counter(family for _, family in pairs)
    paired = {key: compare_pairs(*values, tests=tests[key[1]]) for key, values in pairs.items()}
    adjusted = dict(_adjusted(paired))
    return tuple(
        Result(
            setting=setting,
            arms=tuple(_arm(setting, cell, runs[cell.role]) for cell in cells if runs.get(cell.role)),
            comparisons=tuple(_comparisons(setting, runs, paired, adjusted)),
            interval_us=intervals_ns[setting] / NS_PER_US if setting in intervals_ns else None,
        )
        for setting, runs in measured.items()
    )


def _pairs(setting: Setting, runs: Runs) -> Iterator[tuple[Family, tuple[list[float], list[float]]]]:
    """Yield for each cell but near its runs' statistics beside those of near, round by round."""
    for role in NAMES:
        if not runs.get(role) or not runs.get("near"):
            continue
        both = list(zip(runs["near"], runs[role], strict=False))  # an interrupted round has no second half
        for statistic in _statistics(setting):
            near, other = ([_statistic(pair[side], statistic) for pair in both] for side in (0, 1))
            yield (role, statistic), (near, other)


def _statistics(setting: Setting) -> tuple[Statistic, ...]:
    return ("mean",) if setting.loop == "bandwidth" else ("p50", "p99")


def _statistic(run: Run, statistic: Statistic) -> float:
    if statistic == "mean":
        return max(1.0, sum(run.ns) / len(run.ns))
    return max(1.0, sample_quantile(sorted(run.ns), 0.5 if statistic == "p50" else 0.99))


def _adjusted(paired: Mapping[tuple[Setting, Family], Paired]) -> Iterator[tuple[tuple[Setting, Family], float]]:
    families: dict[Family, list[tuple[Setting, Family]]] = {}
    for key, told in paired.items():
        if told.p_value is not None:
            families.setdefault(key[1], []).append(key)
    for keys in families.values():
        yield from zip(keys, holm([paired[key].p_value or 0.0 for key in keys]), strict=True)


def _comparisons(
    setting: Setting,
    runs: Runs,
    paired: Mapping[tuple[Setting, Family], Paired],
    adjusted: Mapping[tuple[Setting, Family], float],
) -> Iterator[Comparison]:
    for key, told in paired.items():
        owner, (role, statistic) = key
        if owner != setting:
            continue
        control = (setting, (CONTROL, statistic))
        moved = role != CONTROL and adjusted.get(control, 1.0) < SIGNIFICANCE  # one of many settings always differs
        copies = min(len(run.ns) for arm in ("near", role) for run in runs[arm])
        lacking = f"a run has {copies} copies, p99 needs {P99_COPIES}" if copies < P99_COPIES else None
        verdict, why = judge(
            told,
            adjusted.get(key),
            lacking if statistic == "p99" else None,
            paired[control] if moved else None,
        )
        yield Comparison(
            cell=role,
            statistic=statistic,
            paired=told,
            adjusted_p_value=adjusted.get(key),
            verdict=verdict,
            words=_words(role, verdict, why, told),
        )


def _words(role: Role, verdict: Verdict, why: str, told: Paired) -> str:
    near, other = NAMES[role]
    if verdict == "near-faster" and told.ratio is not None:
        return f"{near} is faster by {_by(told.ratio, told.ratio_ci)}"
    if verdict == "far-faster" and told.ratio is not None:
        return f"{other} is faster by {_by(1 / told.ratio, _inverse(told.ratio_ci))}"
    if verdict == "no-measurable-difference":
        seen = "" if told.detectable_ratio is None else f" (would have seen ≥ {share(told.detectable_ratio - 1)})"
        return f"no measurable difference{seen}"
    return f"{'host unstable' if verdict == 'unstable' else 'insufficient'} ({why})"


def _by(ratio: float, interval: tuple[float, float] | None) -> str:
    between = f" ({share(interval[0] - 1)} to {share(interval[1] - 1)})" if interval else ""
    return f"{share(ratio - 1)}{between}"


def _inverse(interval: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if interval is None else (1 / interval[1], 1 / interval[0])


def _arm(setting: Setting, cell: Cell, runs: Sequence[Run]) -> Arm:
    every = [ns / NS_PER_US for run in runs for ns in run.ns]
    arm = Arm(
        cell=cell,
        runs=len(runs),
        copies=len(every),
        contending_copies=sum(run.contending_copies for run in runs) if setting.load == "contended" else None,
    )
    if setting.loop == "bandwidth":
        rates = tuple(setting.size_bytes * len(run.ns) / max(1, sum(run.ns)) for run in runs)
        return msgspec.structs.replace(arm, bandwidth_gbs=rates)
    return msgspec.structs.replace(
        arm,
        p50_us=estimate_quantile(every, 0.5),
        p99_us=estimate_quantile(every, 0.99),
        p999_us=estimate_quantile(every, 0.999),
        run_p50_us=tuple(_statistic(run, "p50") / NS_PER_US for run in runs),
        run_p99_us=tuple(_statistic(run, "p99") / NS_PER_US for run in runs),
        late_share=sum(run.late for run in runs) / len(every) if setting.loop == "open" else None,
    )
