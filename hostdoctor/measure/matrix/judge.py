"""Whether a cell holds the SLO: p99 of its latencies with an interval, and whether its repeats agree. Pure."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from hostdoctor.facts import Fact
from hostdoctor.facts.runs import Latency, RunResult
from hostdoctor.measure.matrix.experiment import Slo
from hostdoctor.measure.quantiles import (
    burst_factor,
    estimate_quantile,
    exact_ranks,
    sample_quantile,
    samples_needed,
    widened_ranks,
)

P99 = 0.99
# Of independent samples the burst factor is chi-squared over its 19 degrees of freedom: above this 5 times in 100.
CHANCE_FACTOR = 1.59
MAX_FAILED_SHARE = 0.01  # of a cell's requests: above it the latencies are those of the lucky ones
State = Literal["holds", "breaks", "neither", "failed"]
Basis = Literal["samples", "runs", "one-run"]
NAMES = {"ttft": "TTFT", "itl": "ITL"}


class Tail(Fact, frozen=True, kw_only=True):
    """One latency's p99 in a cell, in milliseconds, against its limit.

    ``basis``: ``samples`` has a 95 % interval over all repeats (``low_ms``, ``high_ms``; None: so many samples bound
    no such side), ``runs`` the range of the runs' own p99, ``one-run`` a value without an interval. ``above`` counts
    the samples beyond the limit. ``state`` is ``neither`` where the interval spans the limit (and some sample lies
    beyond it) or ``runs_ms`` lie on both sides of it; ``reason`` says which.
    """

    metric: Literal["ttft", "itl"]
    limit_ms: float
    value_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    runs_ms: tuple[float, ...] = ()
    samples: int | None = None
    above: int | None = None
    basis: Basis = "one-run"
    state: State = "neither"
    reason: str | None = None


class Judged(Fact, frozen=True, kw_only=True):
    """What the repeats of one cell say together.

    ``is_in`` is the point estimate's answer, for the search. ``repeats_disagree``: single repeats lie on both sides of
    a limit, which no other cell's answer can mend.
    """

    state: State
    is_in: bool
    repeats: int
    repeats_disagree: bool = False
    tails: tuple[Tail, ...] = ()
    reason: str | None = None
    failed_requests: int = 0


def settled(run: RunResult, concurrency: int) -> RunResult:
    """Return a run without its first requests: as many as a closed loop sends at once, a ramp that no steady load has.

    Only where the file has each request's time to the first token, in the order in which they started.
    """
    ttft = run.latencies.get("ttft")
    samples = ttft.samples_ms if ttft is not None else None
    if run.request_rate not in (None, "inf") or samples is None or len(samples) <= 2 * concurrency:
        return run
    kept = samples[concurrency:]
    latency = Latency(samples_ms=kept, quantiles_ms={}, count=len(kept))
    return msgspec.structs.replace(run, latencies=run.latencies | {"ttft": latency})


def judge(runs: Sequence[RunResult], slo: Slo) -> Judged:
    """Return what the repeats of one cell say; a run whose requests failed makes the whole cell a failed one."""
    failed = sum(run.failed or 0 for run in runs)
    total = failed + sum(run.completed or 0 for run in runs)
    if failed > MAX_FAILED_SHARE * total:
        return failure(f"{failed} of {total} requests failed", len(runs), failed)
    limits: dict[Literal["ttft", "itl"], float | None] = {"ttft": slo.ttft_p99_ms, "itl": slo.itl_p99_ms}
    tails = tuple(tail(name, runs, limit) for name, limit in limits.items() if limit is not None)
    broken = next((one for one in tails if one.state == "breaks"), None)
    open_ = next((one for one in tails if one.state == "neither"), None)
    worst = broken or open_
    return Judged(
        state="holds" if worst is None else worst.state,
        is_in=all(one.value_ms is not None and one.value_ms <= one.limit_ms for one in tails),
        repeats=len(runs),
        repeats_disagree=any(_disagree(one) for one in tails),
        tails=tails,
        reason=None if worst is None else worst.reason,
        failed_requests=failed,
    )


def failure(reason: str, repeats: int = 1, failed_requests: int = 0) -> Judged:
    """Return a cell that came to no result."""
    return Judged(state="failed", is_in=False, repeats=repeats, reason=reason, failed_requests=failed_requests)


def tail(metric: Literal["ttft", "itl"], runs: Sequence[RunResult], limit_ms: float) -> Tail:
    """Return one latency's p99 over the repeats of a cell."""
    latencies = [run.latencies.get(metric) for run in runs]
    empty = Tail(metric=metric, limit_ms=limit_ms, reason=f"a result tells no p99 of {NAMES[metric]}")
    known = [latency for latency in latencies if latency is not None]
    if len(known) < len(latencies) or not known:
        return empty
    own = [_own_p99(latency) for latency in known]
    told = [value for value in own if value is not None]
    if len(told) < len(own):
        return empty
    found = msgspec.structs.replace(empty, runs_ms=tuple(told), reason=None)
    if all(latency.samples_ms for latency in known):
        return _with_state(_of_samples(found, known))
    basis: Basis = "runs" if len(told) > 1 else "one-run"
    low, high = (min(told), max(told)) if basis == "runs" else (None, None)
    counts = [latency.count for latency in known if latency.count is not None]
    return _with_state(
        msgspec.structs.replace(
            found,
            value_ms=sum(told) / len(told),
            low_ms=low,
            high_ms=high,
            basis=basis,
            samples=sum(counts) if len(counts) == len(known) else None,
        )
    )


def _own_p99(latency: Latency) -> float | None:
    if latency.samples_ms:
        return sample_quantile(sorted(latency.samples_ms), P99)
    return latency.quantiles_ms.get("p99")


def _of_samples(found: Tail, latencies: Sequence[Latency]) -> Tail:
    pooled = [sample for latency in latencies for sample in latency.samples_ms or ()]
    ordered = sorted(pooled)
    told = estimate_quantile(pooled, P99, ordered, chance_factor=CHANCE_FACTOR)
    value = told.value if told.value is not None else sample_quantile(ordered, P99)
    return msgspec.structs.replace(
        found,
        value_ms=value,
        low_ms=told.low if told.value is not None else _low_of_few(pooled, ordered, value),
        high_ms=told.high,
        samples=len(pooled),
        above=sum(sample > found.limit_ms for sample in pooled),
        basis="samples",
    )


def _disagree(told: Tail) -> bool:
    return len({value <= told.limit_ms for value in told.runs_ms}) > 1


def _low_of_few(pooled: Sequence[float], ordered: Sequence[float], value: float) -> float | None:
    """Return the lower end that even few samples have: it can show that p99 is beyond, though not that it is within."""
    factor = burst_factor(pooled, P99, value)
    count = len(pooled)
    rank, _ = exact_ranks(count, P99) if factor <= CHANCE_FACTOR else widened_ranks(count, P99, factor)
    return ordered[rank - 1] if rank >= 1 else None


def _with_state(told: Tail) -> Tail:
    """Return a tail with its state: both sides of its interval, and all of its runs, on one side of the limit."""
    assert told.value_ms is not None
    limit, name = told.limit_ms, NAMES[told.metric]
    if _disagree(told):
        runs = ", ".join(f"{value:.4g}" for value in told.runs_ms[:8])
        return _neither(told, f"repeats disagree: p99 {name} {runs} ms, limit {limit:g}")
    if told.basis == "one-run":
        return _decided(told, holds=told.value_ms <= limit)
    if (told.high_ms is not None and told.high_ms <= limit) or _none_of_enough(told):
        return _decided(told, holds=True)
    if told.low_ms is not None and told.low_ms > limit:
        return _decided(told, holds=False)
    low, high = ("?" if end is None else f"{end:.4g}" for end in (told.low_ms, told.high_ms))
    few = f" ({told.samples} samples)" if told.high_ms is None or told.low_ms is None else ""
    return _neither(told, f"p99 {name} {told.value_ms:.4g} [{low}–{high}] ms spans {limit:g}{few}")


def _none_of_enough(told: Tail) -> bool:
    """Tell whether so many samples would have shown one beyond the limit: bursts below it only widen the interval."""
    return told.above == 0 and (told.samples or 0) >= samples_needed(P99)


def _decided(told: Tail, *, holds: bool) -> Tail:
    if holds:
        return msgspec.structs.replace(told, state="holds")
    reason = f"p99 {NAMES[told.metric]} {told.value_ms:.4g} ms, limit {told.limit_ms:g}"
    return msgspec.structs.replace(told, state="breaks", reason=reason)


def _neither(told: Tail, reason: str) -> Tail:
    return msgspec.structs.replace(told, state="neither", reason=reason)
