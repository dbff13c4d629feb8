"""HD119, HD904: what the agent remembers of a host, against the host now."""

from typing import Any

import msgspec
import pytest

from hostdoctor.diagnosis.drift import baseline_of, completed
from hostdoctor.facts import Gpu, Host, PlacedBefore
from tests.support.build import drive, gpu, host, link, nic
from tests.support.build_memory import GIB, fires, judge, load, node, quiet

placement_drifted = load("affinity", "placement_drifted")
map_drifted = load("doctor", "map_drifted")

BUSES = ("1b", "43", "9b", "d1")


def card(index: int, bus: str = "", **more: Any) -> Gpu:
    name = bus or BUSES[index]
    return gpu(index, f"0000:{name}:00.0", f"0000:{name}:01.0", uuid=f"GPU-{name}", **more)


def whole(*cards: Gpu, **more: Any) -> Host:
    given: dict[str, Any] = {
        "nics": (nic("mlx5_0", "0000:1c:00.0", numa_node=0),),
        "nvme": (drive("nvme0", "0000:2c:00.0", numa_node=0),),
    }
    return host(cards or [card(n) for n in range(4)], **(given | more))


def against(before: Host, now: Host) -> Host:
    return msgspec.structs.replace(now, baseline=baseline_of(before, "2026-01-02T03:04:05+00:00"))


class TestMapDrifted:
    def test_the_accepted_map_itself(self) -> None:
        assert quiet(map_drifted, against(whole(), whole())) is None

    def test_a_gpu_that_vanished_is_critical_and_the_others_have_not_changed_their_order(self) -> None:
        left = (card(0), msgspec.structs.replace(card(2), index=1), msgspec.structs.replace(card(3), index=2))
        found = fires(map_drifted, against(whole(), whole(*left)))
        assert (found.subject, found.severity) == ("GPU1", "critical")
        assert "was GPU1 (GPU-43)" in found.evidence[0].value

    def test_a_drive_that_vanished_is_a_warning(self) -> None:
        found = fires(map_drifted, against(whole(), whole(nvme=())))
        assert (found.subject, found.severity) == ("nvme0", "warning")
        assert "accept-baseline" in found.remedy.text

    def test_a_link_that_narrowed(self) -> None:
        cards = (card(0), card(1, at=link(8)), card(2), card(3))
        found = fires(map_drifted, against(whole(), whole(*cards)))
        assert (found.subject, found.severity) == ("GPU1", "warning")
        assert "GPU1 x8 (was x16)" in found.message
        assert found.evidence[0].source == "/sys/bus/pci/devices/0000:43:00.0/current_link_width"

    def test_a_wider_link_and_an_unknown_one_are_no_finding(self) -> None:
        narrow = (card(0, at=link(8)), card(1, at=link(None)), card(2), card(3))
        assert quiet(map_drifted, against(whole(*narrow), whole())) is None
        assert quiet(map_drifted, against(whole(), whole(card(0), card(1, at=link(None)), card(2), card(3)))) is None

    def test_another_order_of_the_same_cards(self) -> None:
        swapped = (card(0, BUSES[1]), card(1, BUSES[0]), card(2), card(3))
        found = fires(map_drifted, against(whole(), whole(*swapped)))
        assert found.message == "GPUs are numbered in another order than accepted: GPU0 was GPU1, GPU1 was GPU0"
        assert found.severity == "warning"

    def test_a_card_that_moved_to_another_slot_and_node(self) -> None:
        moved = msgspec.structs.replace(card(1), bdf="0000:e1:00.0", numa_node=1, numa_nodes=(1,))
        found = fires(map_drifted, against(whole(), whole(card(0), moved, card(2), card(3))))
        assert found.message == "near another NUMA node than accepted: GPU1 node 1 (was node 0)"

    def test_without_the_driver_cards_are_known_by_their_addresses(self) -> None:
        silent = [msgspec.structs.replace(card(n), uuid=None, index=None) for n in range(4)]
        assert quiet(map_drifted, against(whole(), whole(*silent))) is None

    def test_what_was_not_known_at_first_is_added_and_what_was_known_stays(self) -> None:
        silent = [msgspec.structs.replace(card(n), uuid=None, index=n) for n in range(4)]
        first = baseline_of(whole(*silent), "2026-01-02T03:04:05+00:00")
        narrow = (card(0, at=link(8)), card(1), card(2), card(3))
        whole_map = completed(first, baseline_of(whole(*narrow), "later"))
        assert [(d.uuid, d.index, d.width_lanes) for d in whole_map.devices[:2]] == [
            ("GPU-1b", 0, 16),
            ("GPU-43", 1, 16),
        ]
        assert whole_map.accepted_at == first.accepted_at
        swapped = (card(0, BUSES[1]), card(1, BUSES[0]), card(2), card(3))
        now = msgspec.structs.replace(whole(*swapped), baseline=whole_map)
        assert "GPU0 was GPU1" in fires(map_drifted, now).message

    def test_another_card_in_the_same_slot(self) -> None:
        other = msgspec.structs.replace(card(1), uuid="GPU-new")
        findings, _ = judge(map_drifted, against(whole(), whole(card(0), other, card(2), card(3))))
        assert [(f.severity, f.subject) for f in findings] == [("critical", "GPU1"), ("info", "GPU1")]
        assert "not in the accepted map" in findings[1].message

    @pytest.mark.parametrize(("gib", "says"), [(448.0, "448.0 GiB (was 512.0 GiB)"), (0.0, "0.0 GiB (was 512.0 GiB)")])
    def test_a_node_with_less_memory(self, gib: float, says: str) -> None:
        found = fires(map_drifted, against(whole(), whole(numa_nodes=(node(0, "0-7"), node(1, "8-15", gib)))))
        assert (found.subject, found.severity) == ("node 1", "warning")
        assert says in found.message

    def test_the_kernels_own_share_and_more_memory_are_no_drift(self) -> None:
        nodes = (node(0, "0-7", 511.0), node(1, "8-15", 768.0))
        assert quiet(map_drifted, against(whole(), whole(numa_nodes=nodes))) is None

    def test_a_node_whose_memory_nobody_tells_is_no_drift(self) -> None:
        assert quiet(map_drifted, against(whole(), whole(numa_nodes=(node(0, "0-7"), node(1, "8-15", None))))) is None

    def test_without_a_baseline_or_functions_nobody_can_tell(self) -> None:
        assert quiet(map_drifted, whole()) == "no-evidence"
        assert quiet(map_drifted, against(whole(), Host())) == "no-evidence"


def placed(before: dict[str, float], now: dict[str, float], **more: Any) -> PlacedBefore:
    given: dict[str, Any] = {
        "unit": "vllm.service",
        "names": ("VLLM::Worker",),
        "pids": (77,),
        "gpus": (0,),
        "source": "/sys/fs/cgroup/system.slice/vllm.service/memory.numa_stat",
        "since": "2026-01-02T03:04:05+00:00",
        "bytes": 64 * GIB,
    }
    return PlacedBefore(before=before, now=now, **(given | more))


class TestPlacementDrifted:
    def test_memory_that_moved_with_a_restart(self) -> None:
        found = fires(placement_drifted, whole(placed_before=(placed({"0": 0.98, "1": 0.02}, {"0": 0.4, "1": 0.6}),)))
        assert found.subject == "VLLM::Worker of vllm.service"
        assert "memory by node is node 0 40%, node 1 60%, before the restart node 0 98%, node 1 2%" in found.message
        assert found.evidence[0].source.endswith("vllm.service/memory.numa_stat")

    def test_ten_points_are_not_yet_a_drift(self) -> None:
        split = placed({"0": 0.95, "1": 0.05}, {"0": 0.85, "1": 0.15})
        assert quiet(placement_drifted, whole(placed_before=(split,))) is None

    def test_a_node_that_had_nothing_before(self) -> None:
        assert fires(placement_drifted, whole(placed_before=(placed({"0": 1.0}, {"0": 0.8, "1": 0.2}),)))

    def test_each_reason_to_skip(self) -> None:
        assert quiet(placement_drifted, whole()) == "no-evidence"
        one = whole(numa_nodes=(node(0, "0-15"),), placed_before=(placed({"0": 1.0}, {"0": 0.5}),))
        assert quiet(placement_drifted, one) == "not-applicable"
