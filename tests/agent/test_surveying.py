"""One survey of the agent's, on whole hosts made of files."""

from typing import Any

import pytest
from msgspec.structs import replace

from hostdoctor.agent.signals import Reading, link_states
from hostdoctor.agent.surveying import (
    Counted,
    Remembered,
    Surveyed,
    Wish,
    decode,
    encode,
    make_survey,
    unit_of,
    utc,
)
from hostdoctor.agent.usual import Split
from hostdoctor.diagnosis.drift import baseline_of
from hostdoctor.diagnosis.registry import load_rules
from hostdoctor.diagnosis.report import CheckResult
from hostdoctor.errors import SourceError
from hostdoctor.facts import IoBaseline, KnownDevice
from hostdoctor.sources.base import Source
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import MemoryTree
from hostdoctor.survey import survey
from tests.support.hostbuilder import build_files, load_host, rooted_files
from tests.support.processes import Running, process_files

RULES = load_rules()
GIB = 1 << 30
READ = {"read_ios": 100, "read_ticks_ms": 200, "time_in_queue_ms": 200}  # between two readings: 2 ms each


@pytest.fixture(scope="module")
def dgx() -> Source:
    built = build_files(load_host("dgx-h100"))
    links = {f"/{name.lstrip('/')}": target for name, target in built.links.items()}
    return RootSource(MemoryTree(rooted_files(built), links), "dgx")


def surveyed(source: Source, **known: Any) -> Surveyed:
    found = make_survey(source, RULES, Wish(), Remembered(**known), clock=iter((10.0, 11.0, 12.0)).__next__)
    assert not [result for result in found.results if result.status == "error"]
    return decode(encode(found))


def test_gpus_on_c2c_have_no_link_to_watch_and_none_that_drifts() -> None:
    built = build_files(load_host("gb200-tray"))
    links = {f"/{name.lstrip('/')}": target for name, target in built.links.items()}
    found = surveyed(RootSource(MemoryTree(rooted_files(built), links), "gb200"))
    kinds = {kind: [f.has_link for f in found.watched.functions if f.kind == kind] for kind in ("gpu", "nic")}
    assert (set(kinds["gpu"]), set(kinds["nic"])) == ({False}, {True})
    assert not all(function.has_link for function in found.watched.functions if function.kind == "port")
    assert found.candidate is not None
    assert {device.width_lanes for device in found.candidate.devices if device.kind == "GPU"} == {None}


def test_the_links_and_errors_that_it_saw_are_kept_to_compare_with(dgx: Source) -> None:
    found = surveyed(dgx)
    gpus = [function for function in found.watched.functions if function.kind == "gpu"]
    assert [(gpu.width_lanes, gpu.severe_errors) for gpu in gpus] == [(16, None)] * 8  # it counts no errors


def test_what_the_accepted_map_has_and_the_host_has_not_stays_watched(dgx: Source) -> None:
    whole = surveyed(dgx).candidate
    assert whole is not None
    lost = KnownDevice(kind="GPU", label="GPU9", uuid="GPU-gone", bdf="0000:fe:00.0", numa_nodes=(1,))
    moved = replace(whole.devices[0], bdf="0000:fd:00.0")  # the same card in another slot
    baseline = replace(whole, devices=(moved, *whole.devices[1:], lost))
    found = surveyed(dgx, baseline=baseline)
    (told,) = [function for function in found.watched.functions if function.bdf in (lost.bdf, moved.bdf)]
    assert (told.bdf, told.device, told.kind, told.numa_node) == (lost.bdf, "GPU9", "gpu", 1)
    (state,) = [link for link in link_states(found.watched, Reading(at=0.0)) if link.bdf == lost.bdf]
    assert not state.is_present


def test_a_healthy_host(dgx: Source) -> None:
    found = surveyed(dgx)
    assert (found.status, found.duration_s, found.counted.at) == ("ok", 2.0, 11.0)
    kinds = [function.kind for function in found.watched.functions]
    assert (kinds.count("gpu"), kinds.count("nvme"), found.watched.nodes) == (8, 10, (0, 1))
    assert kinds.count("port") > 8
    assert len(found.watched.drives) == 10
    assert [budget.id for budget in found.budgets] == [0, 1]
    assert found.candidate is not None
    assert len([device for device in found.candidate.devices if device.kind == "GPU"]) == 8


def result_of(found: Surveyed, id: str) -> CheckResult:
    return next(result for result in found.results if result.id == id)


def test_against_its_own_map_nothing_drifts_and_against_another_it_does(dgx: Source) -> None:
    baseline = baseline_of(survey(dgx), "2026-01-02T03:04:05+00:00")
    assert result_of(surveyed(dgx, baseline=baseline), "HD904").status == "pass"
    smaller = replace(baseline, devices=baseline.devices[1:])
    (finding,) = result_of(surveyed(dgx, baseline=smaller), "HD904").findings
    assert (finding.subject, finding.severity) == ("GPU0", "info")


def test_a_drive_far_above_what_is_usual_for_it_is_hd407(dgx: Source) -> None:
    now = {name: count for name, count in surveyed(dgx).counted.counters.items() if name.startswith("block.nvme0n1.")}
    before = now | {f"block.nvme0n1.{name}": now[f"block.nvme0n1.{name}"] - by for name, by in READ.items()}
    usual = {"nvme0n1": IoBaseline(r_await_ms=0.1)}
    found = surveyed(dgx, last=Counted(at=1.0, counters=before), usual=usual)
    (finding,) = result_of(found, "HD407").findings
    assert "nvme0n1 read 2.00 ms (usually 0.10 ms)" in finding.message


def test_an_empty_folder_is_no_host() -> None:
    with pytest.raises(SourceError, match="nothing: nothing could be established"):
        surveyed(RootSource(MemoryTree({}, {}), "nothing"))


class TestEngines:
    """A process of two nodes' host that uses GPU 0, in a service of its own."""

    def host(self, start: int, near: int, far: int) -> Running:
        group = "/sys/fs/cgroup/vllm.service"
        files = process_files(7, "VLLM::Worker", cgroup="/vllm.service", start=start) | {
            "/proc/uptime": "10000.00 1.00\n",
            f"{group}/cgroup.procs": "7\n",
            f"{group}/memory.numa_stat": (f"anon N0={near * GIB} N1={far * GIB}\nfile N0=0 N1=0\nshmem N0=0 N1=0\n"),
            "/sys/devices/system/node/node0/cpulist": "0-3\n",
            "/sys/devices/system/node/node1/cpulist": "4-7\n",
            "/sys/devices/system/node/online": "0-1\n",
        }
        return Running(files, {0: [7]})

    def test_its_placement_is_watched_and_numa_maps_never_opened(self) -> None:
        source = self.host(500, 9, 1)
        found = surveyed(source)
        (group,) = found.watched.groups
        assert (group.unit, group.pids, group.gpus, group.is_alone) == ("vllm.service", (7,), (0,), True)
        assert group.shares == {0: 0.9, 1: 0.1}
        assert found.splits["vllm.service VLLM::Worker 0"].shares == {"0": 0.9, "1": 0.1}
        assert not any("numa_maps" in path for path in source.opened)

    def test_another_split_after_a_restart_is_hd119(self) -> None:
        known = {
            "vllm.service VLLM::Worker 0": Split(
                since="2026-01-02T03:04:05+00:00", starts=(500,), shares={"0": 0.9, "1": 0.1}
            )
        }
        (result,) = (r for r in surveyed(self.host(900, 5, 5), splits=known).results if r.id == "HD119")
        assert [finding.subject for finding in result.findings] == ["VLLM::Worker of vllm.service"]
        (same,) = (r for r in surveyed(self.host(500, 5, 5), splits=known).results if r.id == "HD119")
        assert same.status == "skip"


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("/system.slice/vllm.service", "vllm.service"),
        (f"/system.slice/docker-{'3f' * 32}.scope", "system.slice/docker-*.scope"),
        (
            f"/kubepods.slice/kubepods-pod0a1b2c3d_1111_2222_3333_0a1b2c3d4e5f.slice/cri-containerd-{'ab' * 32}.scope",
            "kubepods-pod*.slice/cri-containerd-*.scope",
        ),
        ("/user.slice/user-1000.slice/session-12.scope", "session-*.scope"),
        ("/", "/"),
        ("/user.slice/app.slice/app-gnome-python3-48213.scope", "app-gnome-python3-*.scope"),
        ("/system.slice/run-u4711.service", "run-u*.service"),
        ("/system.slice/run-p1234-i5678.service", "run-p*.service"),
        ("/system.slice/vllm-8000.service", "vllm-8000.service"),
        ("/system.slice/vllm@8001.service", "vllm@8001.service"),
    ],
)
def test_what_of_a_control_group_survives_a_restart(cgroup: str, unit: str) -> None:
    assert unit_of(cgroup) == unit


def test_a_clock_out_of_all_bounds_still_has_a_time() -> None:
    assert utc(0) == "1970-01-01T00:00:00+00:00"
    assert utc(-5) == "1970-01-01T00:00:00+00:00"
    assert utc(1e18) == "9999-12-31T23:59:59+00:00"
