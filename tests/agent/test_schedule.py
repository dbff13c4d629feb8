"""When events bring a survey."""

from hostdoctor.agent.schedule import LATEST_S, MOST, QUIET_S, STORM, WITHIN_S, Asked


def test_one_event_brings_a_survey_within_five_seconds() -> None:
    asked = Asked()
    asked.note(1, "add nvme0", 100.0)
    assert asked.due() == 100.0 + QUIET_S
    assert QUIET_S <= LATEST_S < 5


def test_events_that_keep_coming_bring_it_all_the_same() -> None:
    asked = Asked()
    for n in range(40):
        asked.note(1, "change nvme0", 100.0 + n / 10)
    assert asked.due() == 100.0 + LATEST_S


def test_of_a_storm_the_end_is_waited_for() -> None:
    asked = Asked()
    for n in range(10 * STORM):
        asked.note(1, "change net", 100.0 + n / STORM)
    assert asked.due() == 100.0 + (10 * STORM - 1) / STORM + QUIET_S


def test_no_event_brings_none_and_answered_ones_are_forgotten() -> None:
    asked = Asked()
    asked.note(0, "", 100.0)
    assert asked.due() is None
    asked.note(1, "add nvme0", 100.0)
    asked.answered(101.0, granted=True)
    assert asked.due() is None


def test_a_device_that_comes_and_goes_for_ever_is_put_off() -> None:
    asked = Asked()
    for n in range(MOST):
        asked.note(1, "change nvme0", 100.0 + n)
        asked.answered(100.0 + n, granted=True)
    asked.note(1, "change nvme0", 120.0)
    assert asked.is_held(120.0)
    assert asked.due() == 100.0 + WITHIN_S
