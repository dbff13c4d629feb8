"""HD405, HD407: how drives are, and whether they answer as they usually do."""

from typing import Any

import pytest

from hostdoctor.facts import BlockDevice, Host, IoBaseline, NvmeHealth, Sample
from tests.support.build_memory import drive, fires, gap, judge, load, quiet, two_nodes

nvme_health = load("nvme", "nvme_health")
nvme_latency_high = load("nvme", "nvme_latency_high")

GOOD = NvmeHealth(critical_warning=0, spare_percent=100, spare_threshold_percent=10, used_percent=2, media_errors=0)


def health(**changes: Any) -> NvmeHealth:
    given = {name: getattr(GOOD, name) for name in GOOD.__struct_fields__}
    return NvmeHealth(**(given | changes))


def host(*logs: NvmeHealth | None, **more: Any) -> Host:
    return two_nodes(nvme=tuple(drive(f"nvme{i}", health=log) for i, log in enumerate(logs)), **more)


class TestHealth:
    @pytest.mark.parametrize(
        ("bits", "words"),
        [
            (1, "spare capacity below"),
            (2, "temperature beyond"),
            (4, "reliability degraded"),
            (8, "read-only"),
            (12, "reliability degraded, read-only"),
            (128, "a reserved bit"),
        ],
    )
    def test_a_critical_warning_is_critical(self, bits: int, words: str) -> None:
        found = fires(nvme_health, host(GOOD, health(critical_warning=bits)))
        assert found.severity == "critical"
        assert found.subject == "nvme1"
        assert words in found.message
        assert found.evidence[0].value == f"0x{bits:02x}"

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"media_errors": 3}, "3 media errors"),
            ({"spare_percent": 10}, "10 % spare left"),
            ({"spare_percent": 5, "media_errors": 1}, "1 media error, 5 % spare left"),
        ],
    )
    def test_wear_warns(self, changes: dict[str, int], words: str) -> None:
        found = fires(nvme_health, host(health(**changes)))
        assert found.severity == "warning"
        assert words in found.message

    def test_spare_that_the_drive_warns_of_is_said_once(self) -> None:
        assert fires(nvme_health, host(health(critical_warning=1, spare_percent=4))).severity == "critical"

    def test_failing_and_worn_drives_are_two_causes(self) -> None:
        findings, _ = judge(nvme_health, host(health(critical_warning=4), health(media_errors=1)))
        assert [(f.severity, f.subject) for f in findings] == [("critical", "nvme0"), ("warning", "nvme1")]

    def test_the_sensors_alarm_needs_no_root(self) -> None:
        hot = drive("nvme0", temperature_celsius=84.6, temperature_alarm=True)
        findings, skips = judge(nvme_health, two_nodes(nvme=(hot,), is_live=True))
        assert [f.severity for f in findings] == ["critical"]
        assert "85 °C" in findings[0].message
        assert findings[0].evidence[0].source == "/sys/class/nvme/nvme0/hwmon*/temp1_alarm"
        assert [skip.kind for skip in skips] == ["needs-root"]

    def test_the_alarm_that_smart_tells_too_is_said_once(self) -> None:
        hot = drive("nvme0", temperature_alarm=True, health=health(critical_warning=2))
        assert len(fires(nvme_health, two_nodes(nvme=(hot,))).evidence) == 1

    def test_good_drives_pass(self) -> None:
        assert quiet(nvme_health, host(GOOD, GOOD, is_live=True)) is None

    def test_unknown_fields_are_no_fault_and_no_media_error(self) -> None:
        assert quiet(nvme_health, host(NvmeHealth(critical_warning=0))) is None

    def test_without_root_it_says_what_root_would_add(self) -> None:
        findings, skips = judge(nvme_health, host(None, is_live=True))
        assert not findings
        assert skips[0].kind == "needs-root"
        assert "media errors" in skips[0].reason

    def test_root_without_the_tool_and_captures_are_no_evidence(self) -> None:
        missing = gap("source:nvme-smart", "nvme smart-log", "nvme: command not found", "missing")
        assert quiet(nvme_health, host(None, is_live=True, gaps=(missing,))) == "no-evidence"
        assert quiet(nvme_health, host(None)) == "no-evidence"

    def test_no_drive(self) -> None:
        assert quiet(nvme_health, two_nodes()) == "not-applicable"


USUAL = IoBaseline(r_await_ms=0.1, w_await_ms=0.05, queue_depth=2.0)


def loaded(seconds: float = 10.0, baseline: IoBaseline | None = USUAL, is_live: bool = True, **rises: int) -> Host:
    """Return a host whose nvme0n1 was read twice; counters that are not named did not move."""
    counters = ("read_ios", "read_ticks_ms", "write_ios", "write_ticks_ms", "time_in_queue_ms")
    before = {f"block.nvme0n1.{name}": 5000 for name in counters}
    after = {f"block.nvme0n1.{name}": 5000 + rises.get(name, 0) for name in counters}
    return two_nodes(
        nvme=(drive(),),
        block_devices=(BlockDevice(name="nvme0n1", baseline=baseline), BlockDevice(name="nvme1n1")),
        samples=(Sample(seconds=seconds, before=before, after=after),),
        is_live=is_live,
    )


class TestLatency:
    def test_reads_far_above_the_baseline_warn(self) -> None:
        found = fires(nvme_latency_high, loaded(read_ios=10_000, read_ticks_ms=5_000, time_in_queue_ms=5_000))
        assert found.severity == "warning"
        assert found.subject == "nvme0n1"
        assert "read 0.50 ms (usually 0.10 ms)" in found.message
        assert "in flight" not in found.message

    def test_writes_and_queue_depth_too(self) -> None:
        found = fires(nvme_latency_high, loaded(write_ios=10_000, write_ticks_ms=90_000, time_in_queue_ms=90_000))
        assert "write 9.00 ms (usually 0.05 ms)" in found.message
        assert "in flight 9.00 (usually 2.00)" in found.message

    def test_three_times_the_baseline_is_not_far(self) -> None:
        assert quiet(nvme_latency_high, loaded(read_ios=10_000, read_ticks_ms=3_000, time_in_queue_ms=3_000)) is None

    def test_too_few_milliseconds_are_rounding(self) -> None:
        assert quiet(nvme_latency_high, loaded(read_ios=3, read_ticks_ms=99, time_in_queue_ms=99)) is None

    @pytest.mark.parametrize("rises", [{}, {"read_ticks_ms": -5000, "reads": -5000}, {"read_ticks_ms": 500}])
    def test_idle_reset_and_odd_counters_say_nothing(self, rises: dict[str, Any]) -> None:
        assert quiet(nvme_latency_high, loaded(**rises)) is None

    def test_a_baseline_may_lack_a_value(self) -> None:
        partial = IoBaseline(r_await_ms=0.1)
        assert quiet(nvme_latency_high, loaded(baseline=partial, writes=10, write_ticks_ms=5_000)) is None

    def test_the_last_sample_counts(self) -> None:
        slow = loaded(read_ios=10_000, read_ticks_ms=50_000)
        calm = loaded(read_ios=10_000, read_ticks_ms=1_000)
        both = two_nodes(nvme=slow.nvme, block_devices=slow.block_devices, samples=(*slow.samples, *calm.samples))
        assert quiet(nvme_latency_high, both) is None

    def test_without_a_baseline_nothing_is_far(self) -> None:
        assert quiet(nvme_latency_high, loaded(baseline=None, reads=1, read_ticks_ms=60_000)) == "no-evidence"

    @pytest.mark.parametrize(("is_live", "kind"), [(True, "no-evidence"), (False, "live-only")])
    def test_one_reading_tells_no_rate(self, is_live: bool, kind: str) -> None:
        assert quiet(nvme_latency_high, two_nodes(nvme=(drive(),), is_live=is_live)) == kind
