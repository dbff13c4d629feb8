"""What traffic asks of an engine: requests in it at once (Little's law), tokens a second, three profiles."""

from itertools import pairwise
from typing import Literal

from hostdoctor.budget.request_log import RequestLog, Tokens
from hostdoctor.errors import UsageError
from hostdoctor.facts import Fact

RETRY_FACTOR = 2.0  # on a bad day a retry leaves the first attempt running
ProfileName = Literal["normal", "long", "bad-day"]


class Load(Fact, frozen=True, kw_only=True):
    """Traffic as stated or as a log shows it; None is what nobody told. Rates are requests a second.

    ``burst_rps`` is the busiest second's. ``sessions`` are conversations that are alive at once.
    """

    rps: float | None = None
    peak_rps: float | None = None
    burst_rps: float | None = None
    time_in_system_s: float | None = None
    input_tokens: Tokens = Tokens()
    output_tokens: Tokens = Tokens()
    sessions: int | None = None


class Profile(Fact, frozen=True, kw_only=True):
    """One kind of day: how many requests are in the engine at once, and how many tokens each then holds.

    ``active_requests`` is without the growth margin, ``planned_requests`` with it, rounded up.
    """

    name: ProfileName
    context_tokens: int | None = None
    active_requests: float | None = None
    planned_requests: int | None = None
    output_tokens_per_s: float | None = None


class Traffic(Fact, frozen=True, kw_only=True):
    """What the traffic asks for, ``growth_percent`` of margin not yet in it.

    ``active_requests`` and ``output_tokens_per_s`` are those of a normal hour, or of the peak where no other rate is
    told; the peak's own stand beside them.
    """

    active_requests: float | None = None
    output_tokens_per_s: float | None = None
    peak_active_requests: float | None = None
    peak_output_tokens_per_s: float | None = None
    sessions: int | None = None
    growth_percent: float
    load: Load = Load()
    profiles: tuple[Profile, ...] = ()


def load_of(log: RequestLog, stated: Load) -> Load:
    """Return what a log shows, where the caller states nothing else; its peaks are not below what is stated."""
    rps = _first(stated.rps, log.rps)
    peak_rps = _first(stated.peak_rps, _at_least(log.peak_rps, rps))
    return Load(
        rps=rps,
        peak_rps=peak_rps,
        burst_rps=_first(stated.burst_rps, _at_least(log.burst_rps, _first(peak_rps, rps))),
        time_in_system_s=_first(stated.time_in_system_s, log.time_in_system_s),
        input_tokens=_merged(stated.input_tokens, log.input_tokens),
        output_tokens=_merged(stated.output_tokens, log.output_tokens),
        sessions=stated.sessions,
    )


def traffic_of(load: Load, growth_percent: float) -> Traffic:
    """Return active requests, tokens a second and the three profiles; raise UsageError for impossible rates."""
    _check_rates(load)
    rate = _first(load.rps, load.peak_rps)
    output = load.output_tokens.mean
    return Traffic(
        active_requests=_times(rate, load.time_in_system_s),
        output_tokens_per_s=_times(rate, output),
        peak_active_requests=_times(load.peak_rps, load.time_in_system_s),
        peak_output_tokens_per_s=_times(load.peak_rps, output),
        sessions=load.sessions,
        growth_percent=growth_percent,
        load=load,
        profiles=_profiles(load, growth_percent),
    )


def _check_rates(load: Load) -> None:
    """Raise UsageError where a shorter interval's busiest rate is below a longer one's, which cannot be."""
    told = (("--rps", load.rps), ("--peak-rps", load.peak_rps), ("--burst-rps", load.burst_rps))
    rates = [(option, rate) for option, rate in told if rate is not None]
    for (option, rate), (shorter, peak) in pairwise(rates):
        if peak < rate:
            raise UsageError(f"{shorter}: {peak:g} is below {option} ({rate:g}): the busiest cannot be the quieter one")


def _profiles(load: Load, growth_percent: float) -> tuple[Profile, ...]:
    """Return the normal request, the long dialogue at the peak, and the bad day: long histories, retries, a burst."""
    lasts = load.time_in_system_s
    peak = _first(load.peak_rps, load.rps)
    bad = _times(_times(peak, RETRY_FACTOR), lasts)
    if bad is not None and load.burst_rps is not None:
        bad = max(bad, load.burst_rps * RETRY_FACTOR)  # a burst of one second is all there at once
    sent, got = load.input_tokens, load.output_tokens
    return (
        _profile(
            "normal", (sent.mean, got.mean), _times(_first(load.rps, load.peak_rps), lasts), lasts, growth_percent
        ),
        _profile("long", (sent.p95, got.p95), _times(peak, lasts), lasts, growth_percent),
        _profile("bad-day", (sent.p99, got.p99), bad, lasts, growth_percent),
    )


def _profile(
    name: ProfileName,
    tokens: tuple[float | None, float | None],
    active: float | None,
    lasts_s: float | None,
    growth_percent: float,
) -> Profile:
    sent, got = tokens
    per_second = _times(active, got)
    return Profile(
        name=name,
        context_tokens=None if sent is None or got is None else ceiling(sent + got),
        active_requests=active,
        planned_requests=None if active is None else ceiling(active * (1 + growth_percent / 100)),
        output_tokens_per_s=per_second / lasts_s if per_second is not None and lasts_s else None,
    )


def ceiling(number: float) -> int:
    """Return the next whole number; what is above one by less than a millionth is rounding of the arithmetic."""
    nearest = round(number)
    return nearest if abs(number - nearest) <= 1e-6 * max(1.0, abs(number)) else int(number // 1) + 1


def _times(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a * b


def _at_least(seen: float | None, least: float | None) -> float | None:
    return seen if seen is None or least is None else max(seen, least)


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _merged(stated: Tokens, log: Tokens) -> Tokens:
    return Tokens(mean=_first(stated.mean, log.mean), p95=_first(stated.p95, log.p95), p99=_first(stated.p99, log.p99))
