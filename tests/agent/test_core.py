"""The agent from turn to turn, by clocks that are set by hand."""

import contextlib
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hostdoctor.agent.core import Setup
from hostdoctor.agent.settings import Settings
from hostdoctor.agent.signals import Watched, WatchedFunction
from hostdoctor.agent.state import State
from hostdoctor.agent.surveying import Counted, Wish
from hostdoctor.errors import OutputError, UsageError
from hostdoctor.facts import Baseline, IoBaseline
from hostdoctor.sources.forked import JobError
from tests.agent.rig import GPU, Rig, failed, found, passed, skipped

GPU0 = WatchedFunction(bdf=GPU, device="GPU0", kind="gpu")
BASELINE = Baseline(accepted_at="2026-01-02T03:04:05+00:00")


def settled(**settings: object) -> Rig:
    """Return an agent whose first survey found nothing."""
    rig = Rig(**settings)  # type: ignore[arg-type]
    rig.run()
    rig.survey(passed())
    return rig


class TestSurveys:
    def test_the_first_one_begins_at_once_and_the_next_after_the_interval(self) -> None:
        rig = settled(interval_s=300.0)
        assert len(rig.jobs) == 1
        rig.run(299)
        assert len(rig.jobs) == 1
        rig.run(2)
        assert len(rig.jobs) == 2

    def test_what_it_finds_is_published_with_its_age(self) -> None:
        rig = settled()
        assert rig.snapshot.survey is not None
        assert (rig.snapshot.survey.status, rig.snapshot.survey.reason) == ("ok", "start")
        rig.run(30)
        assert rig.snapshot.survey is not None
        assert 29 <= rig.snapshot.survey.age_s <= 30
        assert rig.snapshot.hostname == "node-1"
        assert rig.snapshot.counters.surveys == 1

    def test_one_that_hangs_is_killed_and_the_agent_lives_on(self) -> None:
        rig = Rig(timeout_s=5.0)
        rig.run(41)
        assert rig.jobs[0].is_killed
        assert "killed" in rig.problems()["survey"]
        assert rig.snapshot.counters.survey_failures == 1
        rig.run(60)
        rig.survey(passed())
        assert rig.problems() == {}
        assert rig.log.said("survey: works again")

    def test_one_that_raises_keeps_what_was_found_before(self) -> None:
        rig = Rig()
        rig.run()
        rig.survey(failed(found()))
        rig.run(301)
        rig.jobs[-1].error = JobError("ValueError: boom")
        rig.run()
        assert rig.problems() == {"survey": "ValueError: boom"}
        assert [check.severity for check in rig.snapshot.checks] == ["critical"]
        assert rig.log.transitions() == [("appeared", "HD201")]

    def test_an_answer_that_is_none_is_a_failure(self) -> None:
        rig = Rig()
        rig.run()
        rig.jobs[0].answer = b"\x01"
        rig.run()
        assert "survey" in rig.problems()

    def test_failing_checks_are_told(self) -> None:
        rig = Rig()
        rig.run()
        broken = msgspec.structs.replace(passed(), status="error", reason="KeyError: 'x'")
        rig.survey(broken)
        assert rig.problems() == {"checks": "failed to run: HD201 (KeyError: 'x')"}

    def test_another_status_and_an_acceptance_that_ended_are_logged_once(self) -> None:
        rig = settled()
        for _ in range(2):
            rig.run(301)
            rig.survey(passed(), status="unknown", unknown="the NVIDIA driver: no answer", notes=("HD201 ended",))
        assert rig.log.said("status") == ["status ok", "status unknown (the NVIDIA driver: no answer), was ok"]
        assert rig.log.said("HD201 ended") == ["HD201 ended"]

    def test_the_driver_vanishes_and_returns(self) -> None:
        rig = Rig()
        rig.run()
        rig.survey(failed(found()), passed("HD501"))
        rig.run(301)
        rig.survey(skipped(), failed(found("host", "driver not loaded"), id="HD501"))
        assert [check.findings[0].is_judged for check in rig.snapshot.checks] == [False, True]
        rig.run(301)
        rig.survey(failed(found()), passed("HD501"))
        assert rig.log.transitions() == [("appeared", "HD201"), ("appeared", "HD501"), ("cleared", "HD501")]


class TestSignals:
    def test_links_are_read_every_fifteen_seconds(self) -> None:
        rig = settled()
        rig.files.link(GPU, 16, speed="2.5 GT/s PCIe")
        rig.run(16)
        (link,) = rig.snapshot.links
        assert (link.device, link.width_lanes, link.speed_gts, link.max_speed_gts) == ("GPU0", 16, 2.5, 32.0)
        assert len(rig.jobs) == 1  # an idle link that slows down is no news

    def test_a_link_that_narrows_is_surveyed_within_five_seconds_of_the_reading(self) -> None:
        rig = settled()
        rig.files.link(GPU, 8)
        rig.run(15 + 5)
        assert len(rig.jobs) == 2
        assert rig.log.said("has 8 lanes, had 16")
        rig.survey(failed(found()))
        assert rig.snapshot.survey is not None
        assert rig.snapshot.survey.reason == "signal"
        rig.run(100)
        assert len(rig.jobs) == 2

    def test_a_link_that_narrows_while_a_survey_is_at_work_is_surveyed_again(self) -> None:
        wide, narrow = (Watched(functions=(replace(GPU0, width_lanes=lanes),)) for lanes in (16, 8))
        rig = settled()
        rig.agent.events(["add nvme0"])
        rig.run(5)
        rig.files.link(GPU, 8)  # after the survey has looked, before any reading
        rig.survey(passed(), watched=wide)
        rig.run(6)
        assert len(rig.jobs) == 3
        assert rig.log.said(f"surveying: the link of {GPU} has 8 lanes, had 16")
        rig.survey(failed(found()), watched=narrow)
        rig.run(100)
        assert len(rig.jobs) == 3

    def test_a_gpu_that_falls_off_the_bus_while_a_survey_is_at_work_is_surveyed_again(self) -> None:
        rig = settled()
        rig.agent.events(["add nvme0"])
        rig.run(5)
        rig.files.link(GPU, 63)  # the register reads all ones; no event tells
        watched = Watched(functions=(replace(GPU0, width_lanes=16),))
        rig.survey(passed(), watched=watched)
        rig.run(6)
        assert len(rig.jobs) == 3
        assert rig.log.said(f"surveying: the link of {GPU} has None lanes, had 16")
        rig.survey(failed(found()), watched=watched)  # told so by a source that knows better than the files
        rig.run(100)
        assert len(rig.jobs) == 3

    def test_a_node_that_loses_memory_while_a_survey_is_at_work_is_surveyed_again(self) -> None:
        path, watched = "/sys/devices/system/node/node0/meminfo", Watched(nodes=(0,))
        rig = Rig()
        rig.files.texts[path] = "Node 0 MemTotal: 1024 kB\n"
        rig.run()
        rig.survey(passed(), watched=watched)
        rig.agent.events(["add nvme0"])
        rig.run(5)
        rig.files.texts[path] = "Node 0 MemTotal: 512 kB\n"
        rig.survey(passed(), watched=watched)
        rig.run(6)
        assert len(rig.jobs) == 3
        rig.survey(passed(), watched=watched)
        rig.run(100)
        assert len(rig.jobs) == 3

    def test_a_link_that_never_rests_is_surveyed_again_as_seldom_as_events_are(self) -> None:
        wide = Watched(functions=(replace(GPU0, width_lanes=16),))
        rig = settled(interval_s=3000.0)
        rig.files.link(GPU, 8)
        for _ in range(500):
            rig.run(1)
            if rig.agent.job is not None:
                rig.survey(passed(), watched=wide)
        assert len(rig.jobs) == 13
        assert "events" in rig.problems()

    def test_severe_errors_while_a_survey_is_at_work_ask_for_another(self) -> None:
        rig = settled()
        rig.agent.events(["add nvme0"])
        rig.run(5)
        rig.files.link(GPU, 16, fatal=1)
        rig.survey(passed())
        rig.run(6)
        assert len(rig.jobs) == 3

    def test_a_function_that_is_gone(self) -> None:
        rig = settled()
        rig.files.remove(GPU)
        rig.run(20)
        assert len(rig.jobs) == 2
        assert not rig.snapshot.links[0].is_present
        assert rig.snapshot.links[0].width_lanes is None

    def test_fatal_errors_ask_for_a_survey(self) -> None:
        rig = settled()
        rig.files.link(GPU, 16, fatal=1)
        rig.run(20)
        assert len(rig.jobs) == 2
        assert rig.snapshot.errors[0].fatal == 1


class TestEvents:
    def test_a_survey_follows_within_five_seconds(self) -> None:
        rig = settled()
        rig.agent.events(("add nvme0",))
        rig.run(5)
        assert len(rig.jobs) == 2
        assert rig.log.said("surveying: add nvme0")

    def test_ten_thousand_in_ten_seconds_are_one_survey(self) -> None:
        rig = settled()
        for _ in range(100):
            rig.agent.events(tuple(f"change {n}" for n in range(100)))
            rig.run(0.1, step_s=0.1)
        rig.run(5)
        assert len(rig.jobs) == 2
        rig.survey(passed())
        rig.run(60)
        assert len(rig.jobs) == 2
        assert rig.snapshot.counters.events == 10_000

    def test_those_that_come_during_a_survey_bring_another(self) -> None:
        rig = settled()
        rig.run(301)
        rig.agent.events(("remove nvme0",))
        rig.run(10)
        assert len(rig.jobs) == 2
        rig.survey(passed())
        rig.run(1)
        assert len(rig.jobs) == 3

    def test_lost_events_count_as_some(self) -> None:
        rig = settled()
        rig.agent.events((), lost=True)
        rig.run(5)
        assert len(rig.jobs) == 2
        assert rig.agent.counters.events_lost == 1

    def test_a_device_without_rest_is_told(self) -> None:
        rig = settled(interval_s=3000.0)
        for _ in range(20):
            rig.agent.events(("change nvme0",))
            rig.run(5)
            if rig.agent.job is not None:
                rig.survey(passed())
        assert len(rig.jobs) == 13
        assert "events" in rig.problems()


class TestClock:
    def test_a_jump_moves_no_survey(self) -> None:
        rig = settled()
        rig.clock.offset += 10 * 365 * 86400
        rig.run(200)
        assert len(rig.jobs) == 1
        assert rig.snapshot.survey is not None
        assert rig.snapshot.survey.age_s == 195
        assert rig.snapshot.counters.clock_jumps == 1
        rig.clock.offset -= 20 * 365 * 86400
        rig.run(102)
        assert len(rig.jobs) == 2
        assert len(rig.log.said("the clock was set by")) == 2

    def test_a_jump_costs_no_history(self, tmp_path: Path) -> None:
        rig = Rig(tmp_path / "s.db")
        rig.run()
        rig.survey(failed(found()))
        rig.run(1800, step_s=60)
        rig.clock.offset += 10 * 365 * 86400
        rig.run(7200, step_s=60)
        assert len(rig.agent.recorder._state.events(10)) == 1  # type: ignore[union-attr]


class TestReload:
    def test_a_new_interval_holds_from_then_on(self) -> None:
        rig = settled()
        rig.loaded = Setup(Settings(interval_s=20.0), Wish(), ())
        rig.agent.reload()
        rig.run()
        rig.survey(passed())
        rig.run(21)
        assert len(rig.jobs) == 3
        assert rig.teller.told[-1] != "reloading"

    def test_a_configuration_that_is_not_valid_changes_nothing_and_is_told(self) -> None:
        rig = settled()
        rig.loaded = UsageError("config.toml: unknown field `intervall`")
        rig.agent.reload()
        assert rig.agent.setup.settings.interval_s == 300
        assert "the former configuration stays" in rig.problems()["config"]
        assert rig.teller.told[-2:] == ["reloading", "ready"]
        rig.loaded = Setup(Settings(), Wish(), ())
        rig.agent.reload()
        assert rig.problems() == {}
        assert rig.agent.counters.reload_failures == 1

    def test_a_reload_that_fails_in_a_way_that_nobody_foresaw_changes_nothing_either(self) -> None:
        rig = settled()
        rig.loaded = RecursionError("a site's own check")
        rig.agent.reload()
        assert "the former configuration stays: RecursionError" in rig.problems()["config"]
        assert rig.teller.told[-1] == "ready"

    def test_publishers_that_stay_are_not_replaced(self) -> None:
        rig = settled()
        rig.agent.reload()
        assert not rig.collector.is_closed
        rig.loaded = Setup(Settings(textfile="/x"), Wish(), ())
        rig.agent.reload()
        assert len(rig.collector.snapshots) > 0


class TestPublishers:
    def test_one_that_fails_is_told_once_and_asked_again(self) -> None:
        rig = settled()
        rig.collector.error = OutputError("no space left on device")
        rig.run(60)
        assert rig.problems() == {"publisher collector": "no space left on device"}
        assert len(rig.log.said("no space left")) == 1
        assert rig.agent.counters.publish_failures == 4
        rig.collector.error = None
        rig.run(15)
        assert rig.problems() == {}

    def test_a_defect_in_one_does_not_end_the_service(self) -> None:
        rig = settled()
        rig.collector.error = KeyError("x")
        rig.run(15)
        assert rig.problems() == {"publisher collector": "KeyError: 'x'"}

    def test_it_is_closed_at_the_end(self) -> None:
        rig = settled()
        rig.agent.stop()
        assert rig.collector.is_closed


class TestWatchdog:
    def test_it_is_patted_well_within_its_time_also_while_a_survey_hangs(self) -> None:
        rig = Rig(watchdog_s=30.0)
        rig.run(60)
        assert rig.teller.told.count("alive") >= 5
        assert rig.agent.wake_at() <= rig.clock.now + 10

    def test_without_one_nobody_is_patted(self) -> None:
        rig = settled()
        rig.run(60)
        assert "alive" not in rig.teller.told

    def test_the_status_names_what_warns(self) -> None:
        rig = Rig()
        rig.run()
        rig.survey(failed(found()))
        assert rig.teller.told[-1].startswith("status critical: HD201; survey took")


class TestWhatSurveysAreGiven:
    def test_counters_of_the_last_survey_and_of_ten_minutes_ago(self) -> None:
        rig = Rig()
        rig.run()
        for n in range(4):
            counters = {"aer.x.correctable": n, "vmstat.pswpin": n}
            rig.survey(passed(), counted=Counted(at=rig.clock.now, counters=counters))
            rig.run(301)
        known = rig.jobs[-1].known
        assert known.last is not None
        assert known.long_ago is not None
        assert known.last.counters == {"aer.x.correctable": 3, "vmstat.pswpin": 3}
        assert known.long_ago.counters == {"aer.x.correctable": 2}

    def test_the_first_whole_map_becomes_the_baseline(self) -> None:
        rig = settled()
        assert rig.snapshot.baseline_accepted_at is None
        rig.run(301)
        rig.survey(passed(), candidate=BASELINE)
        assert rig.snapshot.baseline_accepted_at == 1767323045.0
        rig.run(301)
        assert rig.jobs[-1].known.baseline == BASELINE
        rig.survey(passed(), candidate=Baseline(accepted_at="2027-01-01T00:00:00+00:00"))
        rig.run(301)
        assert rig.jobs[-1].known.baseline == BASELINE

    def test_nothing_is_usual_yet(self) -> None:
        assert settled().jobs[0].known.usual == dict[str, IoBaseline]()


class TestState:
    def test_what_stood_is_not_told_again_after_a_restart(self, tmp_path: Path) -> None:
        rig = Rig(tmp_path / "s.db")
        rig.run()
        rig.survey(failed(found()), candidate=BASELINE)
        rig.agent.stop()
        again = Rig(tmp_path / "s.db")
        again.run()
        assert again.jobs[0].known.baseline == BASELINE
        again.survey(failed(found()))
        assert again.log.transitions() == []
        again.run(301)
        again.survey(passed())
        assert again.log.transitions() == [("cleared", "HD201")]

    def test_an_accepted_map_is_noticed_within_one_reading(self, tmp_path: Path) -> None:
        rig = Rig(tmp_path / "s.db")
        rig.run()
        rig.survey(failed(found()), candidate=BASELINE)
        other = State(tmp_path / "s.db")
        other.open(0.0)
        newer = Baseline(accepted_at="2027-01-01T00:00:00+00:00")
        other.save(msgspec.structs.replace(other.load(), baseline=newer), ())
        other.close()
        rig.run(16)
        assert rig.jobs[-1].known.baseline == newer
        rig.survey(passed())
        assert rig.log.transitions() == [("appeared", "HD201"), ("cleared", "HD201")]
        rig.run(60)
        assert len(rig.jobs) == 2

    def test_a_map_that_is_accepted_while_a_survey_is_at_work_is_kept(self, tmp_path: Path) -> None:
        rig = Rig(tmp_path / "s.db")
        rig.run()
        newer = Baseline(accepted_at="2027-01-01T00:00:00+00:00")
        with contextlib.closing(State(tmp_path / "s.db")) as other:
            other.open(0.0)
            other.save(replace(other.load(), baseline=newer), ())
        rig.survey(passed(), candidate=BASELINE)  # the first map, made before
        rig.run(1)
        assert rig.jobs[1].known.baseline == newer
        assert not rig.log.said("this map is accepted")
        rig.survey(passed(), candidate=BASELINE)
        rig.run(60)
        assert len(rig.jobs) == 2
        with contextlib.closing(State(tmp_path / "s.db")) as other:
            other.open(0.0)
            assert other.load().baseline == newer

    def test_a_disk_that_is_full_is_told_and_nothing_is_lost_once_there_is_room(self, tmp_path: Path) -> None:
        folder = tmp_path / "state"
        folder.mkdir()
        rig = Rig(folder / "s.db")
        rig.run()
        rig.survey(passed())
        rig.agent.recorder._state.close()  # type: ignore[union-attr]
        folder.rename(tmp_path / "away")
        rig.run(301)
        rig.survey(failed(found()))
        assert "not written" in rig.problems()["state"]
        assert rig.log.transitions() == [("appeared", "HD201")]
        (tmp_path / "away").rename(folder)
        rig.run(20)
        assert rig.problems() == {}
        assert rig.log.said("state: written again")
        assert [event.id for event in rig.agent.recorder._state.events(9)] == ["HD201"]  # type: ignore[union-attr]

    def test_a_state_that_cannot_be_read_at_first_is_not_written_over(self, tmp_path: Path) -> None:
        folder = tmp_path / "state"
        folder.mkdir()
        rig = Rig(folder / "s.db")
        rig.run()
        rig.survey(failed(found()), candidate=BASELINE)
        rig.agent.stop()
        folder.rename(tmp_path / "away")
        again = Rig(folder / "s.db")
        assert "not read" in again.problems()["state"]
        again.run()
        newer = Baseline(accepted_at="2027-01-01T00:00:00+00:00")
        again.survey(passed(), candidate=newer)
        (tmp_path / "away").rename(folder)
        again.run(20)
        assert again.jobs[-1].known.baseline == BASELINE
        again.survey(passed())
        assert again.problems() == {}

    def test_a_damaged_state_is_set_aside_and_said(self, tmp_path: Path) -> None:
        (tmp_path / "s.db").write_bytes(b"not a database at all" * 500)
        (tmp_path / "s.db").chmod(0o600)
        rig = Rig(tmp_path / "s.db")
        assert rig.log.said("is damaged (file is not a database): set aside as s.db.damaged-")
        rig.run()
        rig.survey(failed(found()))
        assert rig.problems() == {}
        assert len(list(tmp_path.glob("s.db.damaged-*Z"))) == 1
