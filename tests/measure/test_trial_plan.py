"""Order, seeds, rates and forecasts of experiments."""

from typing import Any

import pytest

from hostdoctor.errors import UsageError
from hostdoctor.measure.trial import Underway
from hostdoctor.measure.trial_model import Arm, Plan
from hostdoctor.measure.trial_plan import (
    detectable,
    filled,
    rate_found,
    rate_of,
    seed_of,
    trials,
    values_of,
    why_unusable,
)
from hostdoctor.measure.trial_server import default_ready_url, refuse_beyond_loopback
from hostdoctor.outputs.trial_text import duration, render_dry_run, render_forecast, render_underway
from hostdoctor.placement.applying import Step

NEAR = Step(tier="bind", cpus="0-3", policy="bind", mems=(0,))


def plan(**changes: Any) -> Plan:
    """Return a plan of six pairs near and far, with the control."""
    words = ("serve", "--port", "8000")
    shape: dict[str, Any] = {
        "created": "2026-01-01T00:00:00+00:00", "hostdoctor": "0", "order": ("far", "near", "again"), "pairs": 6,
        "warm_ups": 1, "probes": False, "server": True, "client": ("bench", "--seed={seed}", "--rate", "{rate}"),
        "arms": {
            "near": Arm(argv=words, step=NEAR, words="node 0"),
            "far": Arm(argv=words, step=Step(tier="bind", cpus="4-7", policy="bind", mems=(1,)), words="node 1"),
        },
        "ready_url": "http://127.0.0.1:8000/health", "ready_timeout_s": 60.0, "run_timeout_s": 60.0,
        "rate_per_s": 4.0, "metric": "itl", "quantile": "p50", "margin": 0.1,
    }  # fmt: skip
    return Plan(**shape | changes)


def test_pairs_alternate_their_order() -> None:
    order = [trial.role for trial in trials(plan(pairs=3))]
    assert order == ["near", "far", "near", "again", "again", "near", "far", "far", "near", "again"]
    assert [trial.number for trial in trials(plan())] == list(range(19))


def test_each_arm_is_probed_once_before_the_pairs() -> None:
    kinds = [(trial.kind, trial.role) for trial in trials(plan(probes=True, pairs=1))]
    assert kinds[:3] == [("warm-up", "near"), ("probe", "far"), ("probe", "near")]
    assert {kind for kind, _ in kinds[3:]} == {"run"}


def test_a_pair_shares_its_seed_and_no_other_has_it() -> None:
    planned = trials(plan())
    by_pair = {trial.pair: {seed_of(t) for t in planned if t.pair == trial.pair} for trial in planned}
    assert all(len(seeds) == 1 for seeds in by_pair.values())
    assert len(set().union(*by_pair.values())) == len(by_pair)


def test_probes_send_everything_at_once_and_runs_what_was_found() -> None:
    probing = plan(probes=True, rate_per_s=None)
    warm_up, probe, run = trials(probing)[0], trials(probing)[1], trials(probing)[-1]
    assert [rate_of(probing, trial, 2.0) for trial in (probe, run)] == ["inf", 2.0]
    assert rate_of(probing, warm_up, None) == "inf"


def test_placeholders_are_replaced_and_other_braces_are_not() -> None:
    values = values_of(trials(plan())[1], "/x/result.json", 2.5)
    words = filled(('{"a": {seed}}', "{result}", "--r={rate}", "{run}", "{other}"), values)
    assert words == ('{"a": 1}', "/x/result.json", "--r=2.5", "1", "{other}")


@pytest.mark.parametrize(("capacities", "rate"), [([10.0], 8.0), ([12.4, 30.0], 9.9), ([0.1], 0.08), ([1234.0], 980.0)])
def test_the_rate_is_80_percent_of_the_slower_arm_rounded_down(capacities: list[float], rate: float) -> None:
    assert rate_found(capacities) == pytest.approx(rate)


def test_more_pairs_and_steadier_runs_see_smaller_effects() -> None:
    assert detectable(20, 0.05) < detectable(10, 0.05) < detectable(10, 0.10)
    assert detectable(10, 0.05) == pytest.approx(1.07, abs=0.01)


def test_the_forecast_counts_server_starts_and_says_the_longest_time() -> None:
    text = render_forecast(plan(), "/out")
    assert text.splitlines()[0] == "19 server starts (1 warm-up, 6 × far, near, near again), files in /out"
    assert "at most 38 min" in text
    assert "compares the median ITL; would see" in text
    assert "near: node 0" in text


def test_a_dry_run_shows_what_is_started_around_what() -> None:
    text = render_dry_run(plan(client_cpus="8-9", notes=("said once",)), "/out")
    assert text.count("numactl --physcpubind=4-7 --membind=1 serve --port 8000") == 6
    assert text.count("numactl --physcpubind=0-3 --membind=0 serve --port 8000") == 13
    assert text.count("taskset -c 8-9 bench --seed=6 --rate 4\n") == 3
    assert text.count("said once") == 1


def test_a_resumed_experiment_counts_and_shows_what_is_left() -> None:
    assert "17 of them finished before, 2 left; time: known after the first run; at most 4 min" in render_forecast(
        plan(), "/out", 17
    )
    left = render_dry_run(plan(), "/out", 17)
    assert [line.split(",")[0] for line in left.splitlines() if line.startswith("#")] == ["# run 17", "# run 18"]
    finished = render_dry_run(plan(), "/out", 19)
    assert "nothing is left to start" in finished
    assert "# run" not in finished
    assert "at most" not in finished


@pytest.mark.parametrize(
    ("words", "engine", "url"),
    [
        (("vllm", "serve", "m"), "vllm", "http://127.0.0.1:8000/health"),
        (("vllm", "serve", "m", "--port=81"), "vllm", "http://127.0.0.1:81/health"),
        (("x", "--port", "80", "--port", "82"), "generic", "http://127.0.0.1:82/health"),
        (("sglang",), "sglang", "http://127.0.0.1:30000/health"),
    ],
)
def test_where_a_server_tells_that_it_is_ready(words: tuple[str, ...], engine: Any, url: str) -> None:
    assert default_ready_url(words, engine) == url


@pytest.mark.parametrize(("seconds", "words"), [(40, "40 s"), (720, "12 min"), (12600, "3.5 h")])
def test_times_as_a_person_says_them(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:8000/health", "http://localhost/v1/models", "https://[::1]:1/", "http://127.9.9.9:65535/?a=b"],
)
def test_addresses_of_this_machine(url: str) -> None:
    refuse_beyond_loopback(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.evil.com/health", "http://127.0.0.1.evil.com/", "http://user@10.0.0.1/", "http://0.0.0.0:1/", "http:///x",
        "http://127.0.0.1:99999/", "http://127.0.0.1:0/", "http://127.0.0.1:x/", "http://127.0.0.1/a b", "http://127.0.0.1/\n",
        "http://127.0.0.1@evil.com/", "http://[::1/", "ftp://127.0.0.1/", "",
    ],
)  # fmt: skip
def test_addresses_that_are_none_of_this_machine(url: str) -> None:
    with pytest.raises(UsageError, match="not an http address of this machine"):
        refuse_beyond_loopback(url)


@pytest.mark.parametrize("port", ["0", "65536", "99999", "eight"])
def test_a_port_that_cannot_be_one(port: str) -> None:
    with pytest.raises(UsageError, match=f"--port '{port}' is none"):
        default_ready_url(("serve", "--port", port), "vllm")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"order": ("far", "current")}, "an order that is none"),
        ({"order": ("near", "near")}, "an order that is none"),
        ({"order": ("near", "current")}, "an arm is missing"),
        ({"pairs": 10**9}, "1000000000 pairs"),
        ({"client": ()}, "a server without a client"),
    ],
)
def test_plans_that_somebody_changed(changes: dict[str, Any], why: str) -> None:
    assert why in (why_unusable(plan(**changes)) or "")
    assert why_unusable(plan()) is None


def test_the_bar_of_a_run_that_is_under_way() -> None:
    trial = trials(plan())[9]
    assert render_underway(*Underway(trial, 9, 19, 41.2, 400.0)) == (
        "[###########-------------] 9/19 pair 3, near again: 41 s, about 7 min left"
    )
    assert render_underway(*Underway(trials(plan())[0], 0, 19, 3.0, None)) == (
        "[------------------------] 0/19 warm-up, near: 3 s"
    )
