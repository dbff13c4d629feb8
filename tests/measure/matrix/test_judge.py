"""One cell: its p99 against the limit, with an interval, over repeats that agree or do not."""

import random

import pytest

from hostdoctor.facts.runs import Latency, RunResult
from hostdoctor.measure.matrix.experiment import Slo
from hostdoctor.measure.matrix.judge import Judged, judge, settled
from tests.measure.runs import told

SLO = Slo(ttft_p99_ms=200.0)


def result(scale: float, *, count: int = 400, seed: int = 1, failed: int = 0) -> RunResult:
    """Return a run whose p99 is about 4.6 × scale."""
    source = random.Random(seed)
    samples = tuple(source.expovariate(1 / scale) for _ in range(count))
    return RunResult(
        source="r", tool="hostdoctor", latencies={"ttft": Latency(samples_ms=samples, count=count)},
        completed=count, failed=failed,
    )  # fmt: skip


def of(*scales: float, count: int = 400) -> Judged:
    return judge([result(scale, count=count, seed=seed) for seed, scale in enumerate(scales)], SLO)


def test_far_below_the_limit_it_holds_and_far_above_it_breaks() -> None:
    low, high = of(10, 10, 10), of(200, 200, 200)
    assert (low.state, low.is_in, low.reason) == ("holds", True, None)
    assert (high.state, high.is_in) == ("breaks", False)
    for judged in (low, high):
        (tail,) = judged.tails
        assert tail.low_ms is not None
        assert tail.low_ms < (tail.value_ms or 0)
        assert tail.samples == 1200


def test_too_few_samples_never_hold_but_may_break() -> None:
    assert of(10, count=300).state == "neither"
    assert of(10, count=370).state == "holds"
    assert of(400, count=100).state == "breaks"


def test_repeats_on_both_sides_are_neither_whatever_the_pool_says() -> None:
    judged = of(10, 10, 10, 10, 60)
    assert judged.state == "neither"
    assert judged.repeats_disagree
    assert (judged.reason or "").startswith("repeats disagree: p99 TTFT ")


def test_failed_requests_make_a_failed_cell() -> None:
    judged = judge([result(10), result(10, seed=2, failed=20)], SLO)
    assert (judged.state, judged.is_in, judged.reason) == ("failed", False, "20 of 820 requests failed")
    assert judge([result(10), result(10, seed=2, failed=8)], SLO).state == "holds"


def test_one_latency_beyond_is_enough_to_break() -> None:
    fast = told(metric="ttft", p99=50.0)
    slow = told(metric="itl", p99=60.0)
    both = RunResult(source="r", tool="hostdoctor", latencies=fast.latencies | slow.latencies, completed=400)
    judged = judge([both], Slo(ttft_p99_ms=100.0, itl_p99_ms=50.0))
    assert (judged.state, judged.reason) == ("breaks", "p99 ITL 60 ms, limit 50")
    assert [tail.basis for tail in judged.tails] == ["one-run", "one-run"]


def test_a_latency_that_no_file_tells_is_neither() -> None:
    judged = judge([told(metric="ttft", p99=50.0)], Slo(ttft_p99_ms=100.0, itl_p99_ms=50.0))
    assert (judged.state, judged.reason) == ("neither", "a result tells no p99 of ITL")
    assert not judged.is_in


@pytest.mark.parametrize(("rate", "kept"), [("inf", 392), (None, 392), (4.0, 400)])
def test_the_ramp_of_a_closed_loop_is_left_out(rate: float | None, kept: int) -> None:
    run = RunResult(**{**{n: getattr(result(10), n) for n in RunResult.__struct_fields__}, "request_rate": rate})
    samples = settled(run, 8).latencies["ttft"].samples_ms
    assert samples is not None
    assert len(samples) == kept
    assert samples == (run.latencies["ttft"].samples_ms or ())[-kept:]
