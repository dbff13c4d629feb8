"""Which pairs count, and what near, far and current then say: runs whose truth is known."""

from typing import Any

import msgspec
import pytest

from hostdoctor.errors import MeasureError
from hostdoctor.facts.runs import RunResult
from hostdoctor.measure.trial_judge import conclude, reasons_against
from hostdoctor.measure.trial_model import Conditions, Experiment, Place, Plan, Role, Trial, TrialRecord
from hostdoctor.measure.trial_plan import trials
from hostdoctor.outputs.style import Style
from hostdoctor.outputs.trial_text import render_experiment
from tests.measure.runs import arm
from tests.measure.test_trial_plan import plan

QUIET = Conditions(seconds=10.0, steal_share=0.0, throttled_share=0.0, cpu_mhz=3000.0, read_bytes=1 << 20)
RIGHT = Place(when="start", processes=1, threads=4, threads_inside=1.0, memory_inside=0.99)


def record(trial: Trial, **changes: Any) -> TrialRecord:
    shape: dict[str, Any] = {"conditions": QUIET, "places": (RIGHT,), "result": f"runs/{trial.number}.json"}
    return TrialRecord(trial=trial, seed=1, rate_per_s=4.0, began="now", seconds=20.0, **shape | changes)


def made(ratios: dict[Role, float], changes: Any = lambda _trial: {}, **plan_changes: Any) -> Experiment:
    """Return the experiment whose roles have these latencies, in units of near's."""
    planned = plan(order=tuple(ratios), pairs=10, **plan_changes)
    streams = {role: iter(arm(ratio, seed=n)) for n, (role, ratio) in enumerate(ratios.items())}
    records, results = [], {}
    for trial in trials(planned):
        records.append(record(trial, **changes(trial)))
        if trial.pair is not None:
            results[trial.number] = next(streams[trial.role])
    return conclude(planned, records, results)


def pair(**changes: Any) -> tuple[str, ...]:
    """Return what speaks against a quiet near run and a far one that met this."""
    one, other = (Trial(number=n, kind="run", role=role, pair=0) for n, role in ((1, "near"), (2, "far")))  # type: ignore[arg-type]
    met = msgspec.structs.replace(QUIET, **changes)
    return reasons_against(record(one), record(other, conditions=met))


class TestVerdicts:
    def test_production_is_near_against_current_and_far_the_positive_control(self) -> None:
        found = made({"far": 1.5, "current": 1.0, "near": 1.0, "again": 1.0})
        assert found.arms == ("near", "far")
        assert found.primary.verdict == "near-faster"
        assert found.production is not None
        assert found.production.arms == ("near", "current")
        assert found.production.primary.verdict == "no-measurable-difference"
        text = render_experiment(found, Style())
        assert text.startswith("near against current, as launched today:\nno measurable difference")
        assert "near against far, the positive control:\nnear is faster by" in text

    def test_current_that_is_slower_is_called_current(self) -> None:
        found = made({"current": 1.4, "near": 1.0, "again": 1.0})
        assert found.arms == ("near", "current")
        assert found.production is None
        assert found.primary.words.startswith("near is faster by")
        slower = made({"current": 0.7, "near": 1.0, "again": 1.0})
        assert slower.primary.words.startswith("current is faster by")
        assert "current ms" in render_experiment(slower, Style())

    def test_near_that_differs_from_near_disqualifies_the_host(self) -> None:
        assert made({"far": 1.5, "near": 1.0, "again": 1.3}).primary.verdict == "unstable"

    def test_near_against_itself_has_no_further_control(self) -> None:
        found = made({"near": 1.0, "again": 1.0})
        assert found.arms == ("near", "near again")
        assert found.primary.verdict == "no-measurable-difference"
        assert "no near-against-near control" not in render_experiment(found, Style())

    def test_an_interrupted_experiment_says_so(self) -> None:
        planned = plan(order=("far", "near"), pairs=6)
        done = [record(trial) for trial in trials(planned)[:6]]
        streams: dict[Role, list[RunResult]] = {"far": arm(1.2, seed=1), "near": arm(seed=2)}
        results = {r.trial.number: streams[r.trial.role][r.trial.pair or 0] for r in done if r.trial.pair is not None}
        found = conclude(planned, done, results)
        assert not found.complete
        assert (found.pairs, found.runs_planned) == (2, 13)
        assert render_experiment(found, Style()).startswith("interrupted: 6 of 13 runs\ninsufficient (2 of 6 pairs)")

    def test_a_raw_file_that_was_lost_takes_its_pair_away_and_nothing_else(self) -> None:
        planned = plan(order=("far", "near"), pairs=8)
        done = [record(trial) for trial in trials(planned)]
        streams: dict[Role, list[RunResult]] = {"far": arm(1.2, seed=1), "near": arm(seed=2)}
        results = {r.trial.number: streams[r.trial.role][r.trial.pair or 0] for r in done if r.trial.pair is not None}
        del results[3]
        found = conclude(planned, done, results)
        assert (found.pairs, found.primary.verdict) == (7, "near-faster")
        assert "run 3 (near) left out: runs/3.json is lost or broken" in found.warnings

    def test_no_pair_is_no_document(self) -> None:
        with pytest.raises(MeasureError, match=r"no pair of runs to compare yet$"):
            conclude(plan(), [], {})


class TestDiscards:
    def test_a_misplaced_run_takes_its_pair_away_and_says_where_it_was(self) -> None:
        elsewhere = Place(
            when="end", threads_inside=1.0, memory_inside=0.6, outside=("python (7): 40 MiB outside node 0",)
        )

        def changes(trial: Trial) -> dict[str, Any]:
            return {"places": (RIGHT, elsewhere)} if (trial.pair, trial.role) == (3, "near") else {}

        found = made({"far": 1.5, "near": 1.0, "again": 1.0}, changes)
        assert found.pairs == 9
        (gone,) = found.discarded
        assert (gone.pair, gone.roles) == (3, ("near", "far"))
        assert "60 % of its memory as intended at the end; python (7): 40 MiB outside node 0" in gone.reasons[0]
        assert any(note.startswith("pair 4 of near and far discarded") for note in found.warnings)

    def test_a_control_that_is_no_pair_is_left_out_alone(self) -> None:
        def changes(trial: Trial) -> dict[str, Any]:
            stolen = msgspec.structs.replace(QUIET, steal_share=0.2)
            return {"conditions": stolen} if (trial.pair, trial.role) == (0, "again") else {}

        found = made({"far": 1.5, "near": 1.0, "again": 1.0}, changes)
        assert found.pairs == 10
        assert found.discarded == ()
        assert found.metrics["itl"].p50.control_ratio_ci is not None

    @pytest.mark.parametrize(
        ("changes", "why"),
        [
            ({"steal_share": 0.03}, "stolen time 0.0 % and 3.0 % of the time"),
            ({"throttled_share": 0.5}, "throttled by a CPU quota 0.0 % and 50.0 %"),
            ({"cpu_mhz": 2400.0}, "CPU clocks 3000 and 2400 MHz"),
            ({"read_bytes": 1 << 30}, "far: 1023 MiB more read from storage (page cache cold)"),
        ],
    )
    def test_conditions_that_differ(self, changes: dict[str, Any], why: str) -> None:
        (reason,) = pair(**changes)
        assert why in reason

    def test_a_gpu_throttled_in_one_run(self) -> None:
        one, other = (Trial(number=n, kind="run", role="near", pair=0) for n in (1, 2))
        cool, hot = (msgspec.structs.replace(QUIET, gpu_throttled_s=seconds) for seconds in (0.1, 4.0))
        assert reasons_against(record(one, conditions=cool), record(other, conditions=hot)) == (
            "GPU throttled 1.0 % and 40.0 % of the time",
        )
        assert reasons_against(record(one, conditions=hot), record(other, conditions=hot)) == ()

    @pytest.mark.parametrize(
        "changes",
        [
            {},
            {"steal_share": None, "throttled_share": None, "cpu_mhz": None, "read_bytes": None},
            {"steal_share": 0.009, "cpu_mhz": 2900.0, "read_bytes": 60 << 20},
        ],
    )
    def test_conditions_that_do_not_differ_or_are_not_told(self, changes: dict[str, Any]) -> None:
        assert pair(**changes) == ()

    def test_a_placement_that_could_not_be_told_is_said(self) -> None:
        def changes(_: Trial) -> dict[str, Any]:
            return {"places": (msgspec.structs.replace(RIGHT, memory_inside=None, reason="permission denied"),)}

        found = made({"near": 1.0, "again": 1.0}, changes)
        assert found.pairs == 10
        assert any("could not be told in 20 runs: permission denied" in note for note in found.warnings)

    def test_when_every_pair_goes_the_reason_is_told(self) -> None:
        def changes(trial: Trial) -> dict[str, Any]:
            return {"conditions": msgspec.structs.replace(QUIET, steal_share=0.3 * (trial.role == "far"))}

        found = made({"far": 1.5, "near": 1.0}, changes)
        assert (found.pairs, len(found.discarded)) == (0, 10)
        assert found.primary.words == "insufficient (no pair of runs tells it)"
        assert "pair 10 of near and far discarded: stolen time 0.0 % and 30.0 %" in render_experiment(found, Style())


def test_plan_and_record_survive_json() -> None:
    for value in (plan(), record(trials(plan())[1])):
        assert msgspec.json.decode(msgspec.json.encode(value), type=type(value)) == value
    assert isinstance(plan(), Plan)
