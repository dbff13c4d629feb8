"""Little's law, three profiles, margins."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.budget.request_log import RequestLog, Tokens
from hostdoctor.budget.traffic import Load, ceiling, load_of, traffic_of

LOAD = Load(
    rps=12,
    peak_rps=20,
    time_in_system_s=3,
    input_tokens=Tokens(mean=2000, p95=9000, p99=30_000),
    output_tokens=Tokens(mean=300, p95=800, p99=1500),
)


def test_12_requests_a_second_for_3_seconds_are_36_at_once_and_3600_tokens_a_second() -> None:
    found = traffic_of(Load(rps=12, time_in_system_s=3, output_tokens=Tokens(mean=300)), 25)
    assert (found.active_requests, found.output_tokens_per_s) == (36, 3600)
    assert (found.peak_active_requests, found.sessions) == (None, None)


def test_three_profiles_each_longer_and_fuller_than_the_one_before() -> None:
    normal, long, bad = traffic_of(LOAD, 25).profiles
    assert (normal.name, normal.context_tokens, normal.active_requests, normal.planned_requests) == (
        "normal",
        2300,
        36,
        45,
    )
    assert (long.name, long.context_tokens, long.active_requests, long.planned_requests) == ("long", 9800, 60, 75)
    assert (bad.name, bad.context_tokens, bad.active_requests, bad.planned_requests) == ("bad-day", 31_500, 120, 150)
    assert (normal.output_tokens_per_s, bad.output_tokens_per_s) == (3600, 60_000)


def test_a_burst_of_one_second_with_retries_can_be_more_than_the_busiest_minute() -> None:
    calm, burst = (
        traffic_of(load, 0).profiles[2] for load in (LOAD, load_of(RequestLog(requests=1, burst_rps=90), LOAD))
    )
    assert (calm.active_requests, burst.active_requests) == (120, 180)


def test_what_is_not_told_stays_unknown() -> None:
    nothing = traffic_of(Load(), 25)
    assert (nothing.active_requests, nothing.output_tokens_per_s) == (None, None)
    assert {(p.context_tokens, p.active_requests, p.planned_requests) for p in nothing.profiles} == {(None, None, None)}
    means = traffic_of(Load(rps=1, input_tokens=Tokens(mean=5), output_tokens=Tokens(mean=5)), 25)
    assert [profile.context_tokens for profile in means.profiles] == [10, None, None]


def test_the_peak_stands_in_for_a_rate_that_is_not_told() -> None:
    assert traffic_of(Load(peak_rps=4, time_in_system_s=2), 25).active_requests == 8


def test_what_is_stated_goes_before_what_the_log_shows() -> None:
    log = RequestLog(
        requests=9, rps=1, peak_rps=2, burst_rps=3, time_in_system_s=4, input_tokens=Tokens(mean=1, p95=2, p99=3)
    )
    load = load_of(log, Load(rps=12, input_tokens=Tokens(mean=10), sessions=7))
    assert (load.rps, load.time_in_system_s, load.sessions) == (12, 4, 7)
    assert (load.peak_rps, load.burst_rps) == (12, 12)  # a busiest minute is no quieter than the hour that is stated
    assert load.input_tokens == Tokens(mean=10, p95=2, p99=3)


@pytest.mark.parametrize(
    ("number", "whole"), [(45.0, 45), (45.000000001, 45), (44.9999999999, 45), (45.1, 46), (0.0, 0)]
)
def test_rounding_up_is_not_led_on_by_the_arithmetic(number: float, whole: int) -> None:
    assert ceiling(number) == whole


@given(st.floats(0, 1e6), st.floats(0, 1e4), st.floats(0, 500), st.floats(0, 500))
def test_more_growth_never_plans_for_fewer(rps: float, seconds: float, growth: float, more: float) -> None:
    load = Load(rps=rps, time_in_system_s=seconds)
    few, many = (traffic_of(load, margin).profiles[0].planned_requests for margin in (growth, growth + more))
    assert few is not None
    assert many is not None
    assert rps * seconds * (1 - 1e-6) - 1e-6 <= few <= many
