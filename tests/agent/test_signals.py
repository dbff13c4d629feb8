"""The cheap readings and what two of them tell."""

from typing import Any

from msgspec.structs import replace

from hostdoctor.agent.model import Placement
from hostdoctor.agent.signals import (
    Reading,
    Watched,
    WatchedDrive,
    WatchedFunction,
    drive_rates,
    error_totals,
    link_states,
    read_signals,
    why_survey,
    why_survey_again,
)
from hostdoctor.facts import IoBaseline
from tests.agent.rig import GPU, Files

KIB = 1024
GPU0 = WatchedFunction(bdf=GPU, device="GPU0", kind="gpu", numa_node=0, severe_errors=0)
DRIVE = WatchedDrive(name="nvme0n1", drive="nvme0", numa_node=1)
GROUP = Placement(cgroup="/vllm.service", unit="vllm.service", pids=(7, 8), names=("VLLM",), gpus=(0,), gpu_nodes=(0,))
FOLDER = "/sys/fs/cgroup/vllm.service"
MIB = 1 << 20


def files(**texts: str) -> Files:
    made = Files()
    made.link(GPU, 16)
    return made


def disk(reads: int, read_ms: int, queued_ms: int, name: str = "nvme0n1") -> str:
    """Return a row of /proc/diskstats: reads of 8 sectors, no writes."""
    return f" 259       0 {name} {reads} 0 {reads * 8} {read_ms} 0 0 0 0 3 {read_ms} {queued_ms} 0 0 0 0 0 0\n"


def reading(source: Files, watched: Watched, at: float = 100.0) -> Reading:
    return read_signals(source, watched, at)


def test_links_and_errors_of_the_watched_functions() -> None:
    watched = Watched(functions=(GPU0,))
    seen = reading(files(), watched)
    (link,) = link_states(watched, seen)
    assert (link.device, link.kind, link.numa_node, link.width_lanes, link.speed_gts) == ("GPU0", "gpu", 0, 16, 32.0)
    (errors,) = error_totals(watched, seen)
    assert (errors.correctable, errors.nonfatal, errors.fatal) == (5, None, 0)


def test_the_link_of_a_gpu_on_c2c_is_not_looked_at_but_its_presence_is() -> None:
    watched = Watched(functions=(replace(GPU0, has_link=False),))
    source = files()
    wide = reading(source, watched)
    source.link(GPU0.bdf, 1)
    narrow = reading(source, watched)
    assert why_survey(wide, narrow) is None
    (told,) = link_states(watched, narrow)
    assert (told.is_present, told.width_lanes) == (True, None)
    source.remove(GPU0.bdf)
    without = reading(source, watched)
    assert why_survey(narrow, without) == f"{GPU0.bdf} is gone"
    assert why_survey(without, narrow) == f"{GPU0.bdf} is there again"


def test_what_changed_since_the_survey_looked() -> None:
    def why(link: int, fatal: int = 0, **seen: int | None) -> str | None:
        source, watched = files(), Watched(functions=(replace(GPU0, **seen),))
        source.link(GPU0.bdf, link, fatal=fatal)
        return why_survey_again(watched, Reading(at=0.0), reading(source, watched))

    assert why(8, width_lanes=16) == f"the link of {GPU0.bdf} has 8 lanes, had 16"
    assert why(16, fatal=2, severe_errors=1) == f"{GPU0.bdf} counts more severe PCIe errors"
    assert why(16, fatal=1, width_lanes=16, severe_errors=1) is None
    assert why(16, width_lanes=None) is None  # the survey saw none: it would see none again
    assert why(16, fatal=2, severe_errors=None) is None


def test_what_is_gone_since_the_survey_looked() -> None:
    source, watched = files(), Watched(functions=(replace(GPU0, width_lanes=16),))
    before = reading(source, watched)
    source.remove(GPU0.bdf)
    gone = reading(source, watched)
    assert why_survey_again(watched, before, gone) == f"{GPU0.bdf} is gone"
    assert why_survey_again(watched, gone, gone) is None  # other sources list it, the files never did
    assert why_survey_again(Watched(functions=(GPU0,)), before, gone) is None  # the survey saw that it was gone


def test_a_link_that_shows_no_lanes_since_the_survey_looked() -> None:
    source, watched = files(), Watched(functions=(replace(GPU0, width_lanes=16),))
    wide = reading(source, watched)
    source.link(GPU0.bdf, 63)
    none = reading(source, watched)
    for before in (wide, Reading(at=0.0)):
        assert why_survey_again(watched, before, none) == f"the link of {GPU0.bdf} has None lanes, had 16"
    assert why_survey_again(watched, none, none) is None  # the survey has it from another source


def test_a_function_without_a_link_has_none_and_is_not_gone() -> None:
    source = files()
    source.texts = {path: text for path, text in source.texts.items() if path.endswith("/class")}
    watched = Watched(functions=(GPU0,))
    seen = reading(source, watched)
    (told,) = link_states(watched, seen)
    assert (told.is_present, told.width_lanes, told.max_speed_gts) == (True, None, None)
    assert why_survey(seen, seen) is None


def test_what_a_drive_did_between_two_readings() -> None:
    source, watched = files(), Watched(drives=(DRIVE,))
    source.texts["/proc/diskstats"] = disk(1000, 500, 700) + disk(9, 9, 9, "sda")
    before = reading(source, watched, 100.0)
    source.texts["/proc/diskstats"] = disk(3000, 900, 5700)
    (rates,) = drive_rates(watched, before, reading(source, watched, 110.0), {"nvme0n1": IoBaseline(r_await_ms=0.1)})
    assert (rates.read_iops, rates.write_iops, rates.read_bytes_per_second) == (200, 0, 200 * 8 * 512)
    assert (rates.r_await_ms, rates.w_await_ms, rates.queue_depth) == (0.2, None, 0.5)
    assert (rates.usual_r_await_ms, rates.drive, rates.numa_node, rates.seconds) == (0.1, "nvme0", 1, 10)


def test_too_few_requests_tell_no_latency() -> None:
    source, watched = files(), Watched(drives=(DRIVE,))
    source.texts["/proc/diskstats"] = disk(1000, 500, 700)
    before = reading(source, watched, 100.0)
    source.texts["/proc/diskstats"] = disk(1010, 502, 702)
    (rates,) = drive_rates(watched, before, reading(source, watched, 110.0), {})
    assert (rates.read_iops, rates.r_await_ms) == (1, None)


def test_a_drive_that_was_replaced_or_is_gone_has_no_rates() -> None:
    source, watched = files(), Watched(drives=(DRIVE,))
    source.texts["/proc/diskstats"] = disk(1000, 500, 700)
    before = reading(source, watched, 100.0)
    for text in (disk(5, 1, 1), "", "259 0 nvme0n1 1 2\n", disk(1000, 500, 700).replace("500", "x")):
        source.texts["/proc/diskstats"] = text
        assert drive_rates(watched, before, reading(source, watched, 110.0), {}) == ()
    assert drive_rates(watched, before, before, {}) == ()


def test_nodes_memory() -> None:
    source = files()
    source.texts["/sys/devices/system/node/node1/meminfo"] = (
        "Node 1 MemTotal:       1000 kB\nNode 1 MemFree:         400 kB\nNode 1 Active(file):     10 kB\n"
        "Node 1 HugePages_Total:     0\nNode 1 Mlocked:           8 kB\n"
    )
    (node,) = reading(source, Watched(nodes=(0, 1))).nodes
    assert (node.id, node.total_bytes, node.free_bytes, node.mlocked_bytes) == (1, 1000 * KIB, 400 * KIB, 8 * KIB)
    assert (node.shmem_bytes, node.available_bytes) == (None, None)


def test_where_the_memory_of_an_engines_control_group_is() -> None:
    source = files()
    source.texts[f"{FOLDER}/memory.numa_stat"] = (
        f"anon N0={MIB} N1=0\nfile N0={9 * MIB} N1={4 * MIB}\nshmem N0=0 N1={3 * MIB}\n"
    )
    (placed,) = reading(source, Watched(groups=(GROUP,))).placements
    assert placed.shares == {0: 0.25, 1: 0.75}
    assert (placed.unit, placed.pids, placed.nodes[1].file_bytes) == ("vllm.service", (7, 8), MIB)


def test_a_group_that_has_ended_or_is_not_understood_has_no_placement() -> None:
    source = files()
    assert reading(source, Watched(groups=(GROUP,))).placements == ()
    source.texts[f"{FOLDER}/memory.numa_stat"] = "total=81 N0=81\n"
    assert reading(source, Watched(groups=(GROUP,))).placements == ()
    assert GROUP.shares == {}


def test_pressure() -> None:
    source = files()
    source.texts["/proc/pressure/memory"] = (
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=17\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"
    )
    source.texts["/proc/pressure/cpu"] = "some avg10=0.00 avg60=0.00 avg300=0.00 total=9\n"
    told = {p.resource: (p.some_total_us, p.full_total_us) for p in reading(source, Watched()).pressure}
    assert told == {"cpu": (9, None), "memory": (17, 5)}


def test_only_small_files_are_read() -> None:
    opened: list[str] = []

    class Noting(Files):
        def read(self, path: str) -> str | None:
            opened.append(path)
            return super().read(path)

    read_signals(Noting(), Watched(functions=(GPU0,), drives=(DRIVE,), nodes=(0,), groups=(GROUP,)), 0.0)
    assert any(path.endswith("memory.numa_stat") for path in opened)
    assert not any("numa_maps" in path or "smaps" in path or path.endswith("/config") for path in opened)


class TestWhySurvey:
    def changed(self, change: Any) -> str | None:
        source, watched = files(), Watched(functions=(GPU0,), nodes=(0,))
        source.texts["/sys/devices/system/node/node0/meminfo"] = "Node 0 MemTotal: 1000 kB\n"
        before = reading(source, watched)
        change(source)
        return why_survey(before, reading(source, watched))

    def test_width_severe_errors_size_and_presence(self) -> None:
        assert self.changed(lambda source: source.link(GPU, 8)) == f"the link of {GPU} has 8 lanes, had 16"
        assert self.changed(lambda source: source.link(GPU, 16, fatal=2)) == f"{GPU} counts more severe PCIe errors"
        assert self.changed(lambda source: source.remove(GPU)) == f"{GPU} is gone"
        meminfo = "/sys/devices/system/node/node0/meminfo"
        assert self.changed(lambda source: source.texts.update({meminfo: "Node 0 MemTotal: 500 kB\n"})) == (
            "the memory of node 0 has changed"
        )

    def test_speed_is_no_reason(self) -> None:
        assert self.changed(lambda source: source.link(GPU, 16, speed="2.5 GT/s PCIe")) is None
