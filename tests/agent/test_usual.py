"""What is usual for drives and engines."""

from typing import Any

from hostdoctor.agent.model import DriveRates, NodeShare, Placement
from hostdoctor.agent.usual import ENOUGH, KEPT, Group, Means, remember, usual_latency, with_means
from hostdoctor.facts import IoBaseline

GIB = 1 << 30
SINCE = "2026-01-02T03:04:05+00:00"


def rates(read_ms: float | None, name: str = "nvme0n1", depth: float = 0.0) -> DriveRates:
    return DriveRates(name=name, drive="nvme0", seconds=900, r_await_ms=read_ms, queue_depth=depth)


def group(near_gib: float, far_gib: float, *starts: int, age_s: float | None = 3600.0, **more: Any) -> Group:
    nodes = (
        NodeShare(node=0, anon_bytes=int(near_gib * GIB), file_bytes=GIB),
        NodeShare(node=1, shared_bytes=int(far_gib * GIB)),
    )
    given: dict[str, Any] = {"cgroup": "/vllm.service", "unit": "vllm.service", "names": ("VLLM",), "gpus": (0,)}
    placed = Placement(pids=starts, nodes=nodes, **(given | more))
    return Group(placement=placed, starts=starts, youngest_s=age_s)


class TestDrives:
    def test_the_median_of_what_was_seen_once_that_is_enough(self) -> None:
        means: Means = {}
        for n in range(ENOUGH - 1):
            means = with_means(means, [rates(0.1 + n / 100)])
        assert usual_latency(means) == {}
        means = with_means(means, [rates(99.0)])
        assert usual_latency(means) == {"nvme0n1": IoBaseline(r_await_ms=0.135)}

    def test_quiet_times_count_for_nothing(self) -> None:
        means: Means = {}
        for _ in range(2 * ENOUGH):
            means = with_means(means, [rates(None)])
        assert usual_latency(means) == {}

    def test_a_day_is_kept_and_a_drive_that_is_gone_forgotten(self) -> None:
        means: Means = {}
        for _ in range(2 * KEPT):
            means = with_means(means, [rates(0.1, depth=2.0)])
        assert [len(values) for values in means["nvme0n1"]] == [KEPT, 0, KEPT]
        assert with_means(means, [rates(0.1, "nvme1n1")]).keys() == {"nvme1n1"}


class TestEngines:
    def test_a_restart_is_compared_with_the_first_split(self) -> None:
        splits, placed = remember({}, [group(9, 1, 500)], SINCE)
        assert placed == ()
        splits, placed = remember(splits, [group(8, 2, 500)], "later")
        assert placed == ()
        splits, placed = remember(splits, [group(5, 5, 700)], "later")
        (one,) = placed
        assert (one.before, one.now, one.since, one.bytes) == (
            {"0": 0.9, "1": 0.1},
            {"0": 0.5, "1": 0.5},
            SINCE,
            10 * GIB,
        )
        assert one.source == "/sys/fs/cgroup/vllm.service/memory.numa_stat"
        assert splits["vllm.service VLLM 0"].starts == (500,)

    def test_one_that_still_loads_is_small_or_of_unknown_age_waits(self) -> None:
        young, small, unknown = group(9, 1, 500, age_s=599), group(0.01, 0, 500), group(9, 1, 500, age_s=None)
        assert remember({}, [young, small, unknown], SINCE) == ({}, ())

    def test_other_gpus_or_another_program_are_another_engine(self) -> None:
        splits, _ = remember({}, [group(9, 1, 500)], SINCE)
        splits, placed = remember(splits, [group(5, 5, 700, gpus=(1,)), group(5, 5, 700, names=("sglang",))], SINCE)
        assert (len(splits), placed) == (3, ())
