"""What is told of findings from survey to survey."""

from hostdoctor.agent.ledger import FLAP_WINDOW_S, NUMBERS_QUIET_S, Event, Held, Key, check_states, step
from hostdoctor.diagnosis.report import CheckResult
from tests.agent.rig import failed, found, passed, skipped


class Watch:
    """Surveys one after the other."""

    def __init__(self) -> None:
        self.held: dict[Key, Held] = {}
        self.now = 1000.0

    def sees(self, *results: CheckResult, after_s: float = 300.0) -> list[str]:
        """Return the transitions that a survey brings."""
        return [event.transition for event in self.events(*results, after_s=after_s)]

    def events(self, *results: CheckResult, after_s: float = 300.0) -> tuple[Event, ...]:
        self.now += after_s
        self.held, events = step(self.held, results, self.now)
        return events

    @property
    def standing(self) -> list[str]:
        return [one.finding.subject for one in self.held.values() if one.is_present]


def test_a_finding_is_told_when_it_appears_and_when_it_clears_and_not_in_between() -> None:
    watch = Watch()
    assert watch.sees(failed(found())) == ["appeared"]
    assert watch.sees(failed(found())) == []
    assert watch.standing == ["GPU0"]
    assert watch.sees(passed()) == ["cleared"]
    assert watch.sees(passed()) == []
    assert watch.standing == []


def test_another_severity_is_a_change() -> None:
    watch = Watch()
    watch.sees(failed(found(severity="warning")))
    (event,) = watch.events(failed(found(severity="critical")))
    assert (event.transition, event.severity, event.before) == ("changed", "critical", "warning: x8 of x16")


def test_other_words_are_a_change_at_once() -> None:
    watch = Watch()
    watch.sees(failed(found()))
    assert watch.sees(failed(found(message="no link"))) == ["changed"]


def test_other_numbers_are_told_once_an_hour_and_shown_at_once() -> None:
    watch = Watch()
    watch.sees(failed(found(message="12 errors")))
    assert watch.sees(failed(found(message="13 errors"))) == []
    assert [one.finding.message for one in watch.held.values()] == ["13 errors"]
    assert watch.sees(failed(found(message="99.5 errors")), after_s=NUMBERS_QUIET_S) == ["changed"]


def test_one_more_device_is_the_same_finding_changed() -> None:
    watch = Watch()
    watch.sees(failed(found("GPU0")))
    assert watch.sees(failed(found("GPU0, GPU1"))) == ["changed"]
    assert watch.standing == ["GPU0, GPU1"]


def test_another_device_is_another_finding() -> None:
    watch = Watch()
    watch.sees(failed(found("GPU0")))
    assert sorted(watch.sees(failed(found("GPU1")))) == ["appeared", "cleared"]


def test_what_cannot_be_judged_stands_as_it_was_seen() -> None:
    watch = Watch()
    watch.sees(failed(found()))
    assert watch.sees(skipped()) == []
    (state,) = check_states((skipped(),), watch.held)
    assert (state.status, state.severity) == ("skip", "critical")
    assert not state.findings[0].is_judged
    broken = CheckResult(id="HD201", name="gpu-link-narrow", severity="critical", status="error", reason="ValueError")
    assert watch.sees(broken) == []
    assert watch.sees(failed(found())) == []
    assert watch.held["HD201", "GPU0"].finding.is_judged


def test_a_question_that_no_longer_arises_is_answered() -> None:
    watch = Watch()
    watch.sees(failed(found()))
    assert watch.sees(skipped("not-applicable")) == ["cleared"]


def test_a_check_that_is_no_longer_run_takes_its_findings_along() -> None:
    watch = Watch()
    watch.sees(failed(found()))
    assert watch.sees(passed("HD502")) == ["cleared"]


def test_what_comes_and_goes_is_told_as_flapping_once_and_settles_when_quiet() -> None:
    watch = Watch()
    told = [watch.sees(failed(found()) if n % 2 == 0 else passed(), after_s=60) for n in range(10)]
    assert told == [["appeared"], ["cleared"], ["appeared"], ["flapping"], [], [], [], [], [], []]
    watch.sees(failed(found()), after_s=60)
    assert next(iter(watch.held.values())).finding.is_flapping
    assert watch.sees(failed(found()), after_s=FLAP_WINDOW_S / 2) == []
    (event,) = watch.events(failed(found()), after_s=FLAP_WINDOW_S)
    assert (event.transition, event.before) == ("settled", "present")
    assert watch.sees(passed()) == ["cleared"]


def test_one_that_settles_as_gone_is_forgotten() -> None:
    watch = Watch()
    for n in range(4):
        watch.sees(failed(found()) if n % 2 == 0 else passed(), after_s=60)
    (event,) = watch.events(passed(), after_s=FLAP_WINDOW_S + 1)
    assert (event.transition, event.before) == ("settled", "gone")
    assert watch.held == {}


def test_a_flapping_finding_that_gets_worse_is_told() -> None:
    watch = Watch()
    for n in range(5):
        watch.sees(failed(found(severity="warning")) if n % 2 == 0 else passed(), after_s=60)
    assert watch.sees(failed(found(severity="critical")), after_s=60) == ["changed"]


def test_a_clock_that_was_set_back_keeps_nothing_quiet() -> None:
    watch = Watch()
    watch.sees(failed(found(message="12 errors")))
    assert watch.sees(failed(found(message="13 errors")), after_s=-1e6) == ["changed"]
    assert watch.sees(passed()) == ["cleared"]
