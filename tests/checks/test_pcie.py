"""HD201, HD202, HD204, HD212."""

from typing import Any

import pytest

from hostdoctor.diagnosis import Ask
from hostdoctor.diagnosis.api import Check
from hostdoctor.diagnosis.paths import Tree, is_c2c, lane_gbs, link_gbs, spell
from hostdoctor.facts import Gpu, Host, Link, PciDevice, System
from tests.support.build import Slot, Switch, drive, gpu, host, link, nic, port, slot
from tests.support.build_memory import fires, judge, load, quiet

gpu_link_narrow = load("pcie", "gpu_link_narrow")
slot_narrower_than_gpu = load("pcie", "slot_narrower_than_gpu")
uplink_shared = load("pcie", "uplink_shared")
nic_or_nvme_link_narrow = load("pcie", "nic_or_nvme_link_narrow")

GPU_CHECKS = [gpu_link_narrow, slot_narrower_than_gpu, uplink_shared]
KVM = System(virtualization="kvm")
IDLE = link(now=1)


def dgx(**more: Any) -> Host:
    """Eight GPUs, each with a NIC and some with a drive, each pair of ports below an uplink of its own; idle."""
    cards, nics = [], []
    ports = [port(f"0000:e{i}:01.0", at=link(4, 4)) for i in range(4)]
    drives = tuple(drive(f"nvme{i}", f"0000:f{i}:00.0", ports[i].bdf) for i in range(4))
    for i in range(8):
        switch = Switch(0x10 + 0x18 * i, uplink=link())
        cards.append(switch.gpu(i, at=IDLE, numa_node=i // 4))
        nics.append(nic(f"mlx5_{i}", *switch.place(), label=f"NIC{i}"))
        ports += switch.ports
    return host(cards, ports, nics=tuple(nics), nvme=drives, **more)


def farm(*sizes: int, **more: Any) -> Host:
    """GPUs below switches of the given sizes, 0 being a slot of its own; all Gen4 x16, idle."""
    cards: list[Gpu | Slot] = []
    ports: list[PciDevice] = []
    at = link(gen=4, now=1)
    for i, size in enumerate(sizes):
        bus = 0x10 + 0x18 * i
        if size == 0:
            cards.append(slot(len(cards), bus, at=at))
            continue
        switch = Switch(bus, uplink=link(gen=4))
        cards += [switch.gpu(len(cards) + n, at=at) for n in range(size)]
        ports += switch.ports
    return host(cards, ports, **more)


def radeon(root_at: Link, edge_at: Link, inner_at: Link, ids: str = "1002:1478") -> Host:
    """A card with a switch on it: root port, the card's edge, an inner port, the GPU."""
    chain = ("0000:00:01.1", "0000:01:00.0", "0000:02:00.0")
    ports = [
        port(chain[0], at=root_at, ids="1022:14ab"),
        port(chain[1], chain[0], at=edge_at, ids=ids),
        port(chain[2], *chain[:2], at=inner_at, ids="1002:1479"),
        PciDevice(bdf="0000:03:00.0", upstream=chain, link=inner_at, vendor_id="1002", device_id="744c"),
    ]
    return host([gpu(0, "0000:03:00.0", *chain, at=inner_at, name="Radeon")], ports)


def grace_blackwell(c2c: bool | None, **more: Any) -> Gpu:
    """A GB200 GPU, whose PCIe registers say x1 of x16 at Gen1."""
    return gpu(0, "0008:01:00.0", "0008:00:00.0", at=link(1, 16, now=1), c2c=c2c, **more)


class TestEverywhere:
    @pytest.mark.parametrize("function", [*GPU_CHECKS, nic_or_nvme_link_narrow])
    def test_a_dgx_at_rest_is_quiet(self, function: Check) -> None:
        assert quiet(function, dgx()) is None

    @pytest.mark.parametrize("function", GPU_CHECKS)
    def test_a_workstation_with_one_gpu_is_quiet(self, function: Check) -> None:
        card = slot(0, 0x00, at=link(gen=4, now=1), port_at=link(gen=5, now=1))
        assert quiet(function, host([card], nvme=(drive("nvme0", "0000:05:00.0", "0000:00:1d.0"),))) is None

    @pytest.mark.parametrize("function", [*GPU_CHECKS, nic_or_nvme_link_narrow])
    def test_a_guest_is_not_judged(self, function: Check) -> None:
        cards = [slot(0, 0x15, at=link(8, 16))]
        given = host(cards, system=KVM, nvme=(drive("nvme0", "0000:05:00.0", "0000:00:1d.0", at=link(2, 4)),))
        assert quiet(function, given) == "not-applicable"

    @pytest.mark.parametrize("function", GPU_CHECKS)
    def test_virtual_ports_are_not_judged_where_no_hypervisor_was_named(self, function: Check) -> None:
        given = host(
            [slot(0, 0x15, at=link(8, 16)).card], [port("0000:15:01.0", ids="1b36:000c", at=link(32, 32, gen=4))]
        )
        assert quiet(function, given) == "no-evidence"

    @pytest.mark.parametrize("function", GPU_CHECKS)
    @pytest.mark.parametrize(
        "more",
        [
            {"c2c": True},
            {"c2c": None, "name": "NVIDIA GB200"},
            {"c2c": None, "name": "NVIDIA GH200 480GB"},
            {"c2c": None, "name": "GB20B [GB10]"},
            {"c2c": None, "memory_numa_node": 2},
        ],
    )
    def test_chip_to_chip_gpus_are_not_judged(self, function: Check, more: dict[str, Any]) -> None:
        given = host([grace_blackwell(**more)], [port("0008:00:00.0")])
        assert quiet(function, given) == "not-applicable"

    @pytest.mark.parametrize("name", ["NVIDIA B200", "GB202 [GeForce RTX 5090]", "GB100 [B200]", "NVIDIA H100", None])
    def test_gpus_on_pcie_are_not_taken_for_superchips(self, name: str | None) -> None:
        assert not is_c2c(gpu(0, name=name))

    @pytest.mark.parametrize("function", GPU_CHECKS)
    def test_virtual_functions_are_not_judged(self, function: Check) -> None:
        ports = [
            port("0000:15:01.0"),
            PciDevice(bdf="0000:16:00.4", upstream=("0000:15:01.0",), is_virtual_function=True),
        ]
        given = host([gpu(0, "0000:16:00.4", "0000:15:01.0", at=Link())], ports)
        assert quiet(function, given) == "not-applicable"

    @pytest.mark.parametrize("function", GPU_CHECKS)
    @pytest.mark.parametrize(
        "card", [gpu(0), gpu(0, "0000:16:00.0"), gpu(0, "0000:16:00.0", "0000:15:01.0", at=Link())]
    )
    def test_text_that_names_no_link_is_no_evidence(self, function: Check, card: Gpu) -> None:
        expected = None if function is uplink_shared and card.upstream else "no-evidence"
        assert quiet(function, host([card])) == expected

    @pytest.mark.parametrize(
        ("speed", "lane"), [(2.5, 0.25), (5.0, 0.5), (8.0, 0.985), (16.0, 1.969), (32.0, 3.938), (64.0, 8.0)]
    )
    def test_lane_rates(self, speed: float, lane: float) -> None:
        assert lane_gbs(speed) == pytest.approx(lane, abs=0.001)

    def test_link_rate_and_spelling(self) -> None:
        assert link_gbs(16, 32.0) == pytest.approx(63.0, abs=0.02)
        assert link_gbs(None, 32.0) is link_gbs(16, None) is None
        assert [spell(16, 32.0), spell(8, None), spell(None, 2.5), spell(4, 128.0)] == [
            "x16 Gen5",
            "x8",
            "x? Gen1",
            "x4 128 GT/s",
        ]


class TestGpuLinkNarrow:
    def test_half_the_lanes_is_critical(self) -> None:
        found = fires(gpu_link_narrow, host([slot(0, 0x15), slot(3, 0x25, at=link(8, 16, now=1))]))
        assert (found.subject, found.severity) == ("GPU3", "critical")
        assert found.message == "GPU3: PCIe link has x8, both ends can do x16"
        assert [(e.source, e.value) for e in found.evidence] == [
            ("/sys/bus/pci/devices/0000:26:00.0/current_link_width", "8"),
            ("/sys/bus/pci/devices/0000:26:00.0/max_link_width", "16"),
            ("/sys/bus/pci/devices/0000:25:01.0/max_link_width", "16"),
        ]
        assert "31.5 instead of 63.0 GB/s" in found.effect

    def test_like_links_are_one_finding(self) -> None:
        cards = [slot(i, 0x15 + 16 * i, at=link(8, 16)) for i in range(4)]
        found = fires(gpu_link_narrow, host(cards))
        assert found.subject == "GPU0, GPU1, GPU2, GPU3"
        assert found.message.startswith("GPU0-GPU3: ")

    def test_unlike_links_are_two(self) -> None:
        findings, _ = judge(gpu_link_narrow, host([slot(0, 0x15, at=link(8, 16)), slot(1, 0x25, at=link(1, 16))]))
        assert [f.subject for f in findings] == ["GPU0", "GPU1"]

    def test_a_narrow_uplink_concerns_all_below(self) -> None:
        switch = Switch(0x15, uplink=link(8, 16, gen=4))
        cards = [switch.gpu(i) for i in range(4)]
        found = fires(gpu_link_narrow, host(cards, switch.ports))
        assert found.subject == "GPU0, GPU1, GPU2, GPU3"
        assert "uplink 0000:15:01.0-0000:16:00.0 has x8" in found.message

    def test_the_two_ports_of_one_switch_are_no_link(self) -> None:
        switch = Switch(0x15, uplink=link(16, 16))
        cards = [switch.gpu(0, at=link(8, 8))]
        assert quiet(gpu_link_narrow, host(cards, switch.ports)) is None

    def test_a_card_of_fewer_lanes_in_a_wide_slot(self) -> None:
        assert quiet(gpu_link_narrow, host([slot(0, 0x15, at=link(8, 8), port_at=link(8, 16))])) is None

    def test_a_slot_of_fewer_lanes(self) -> None:
        assert quiet(gpu_link_narrow, host([slot(0, 0x15, at=link(8, 16), port_at=link(8, 8))])) is None

    @pytest.mark.parametrize("width", [None, 0])
    def test_unknown_width_is_no_pass(self, width: int | None) -> None:
        given = host([slot(0, 0x15), slot(1, 0x25, at=link(width, 16))])
        assert quiet(gpu_link_narrow, given) == "no-evidence"

    def test_what_the_port_can_do_must_be_known(self) -> None:
        assert quiet(gpu_link_narrow, host([slot(0, 0x15, at=link(8, 16)).card])) == "no-evidence"

    def test_a_port_maximum_below_its_current_width_is_no_maximum(self) -> None:
        given = host([slot(0, 0x15, at=link(8, 16), port_at=link(8, 4))])
        assert quiet(gpu_link_narrow, given) == "no-evidence"

    def test_ends_that_differ_are_not_one_link(self) -> None:
        given = host([slot(0, 0x15, at=link(8, 16), port_at=link(16, 16))])
        assert quiet(gpu_link_narrow, given) == "no-evidence"

    def test_gpus_out_of_scope_are_context(self) -> None:
        given = host([slot(0, 0x15), slot(1, 0x25, at=link(8, 16), visible=False)])
        assert quiet(gpu_link_narrow, given) is None
        assert fires(gpu_link_narrow, given, Ask(gpus=(1,))).subject == "GPU1"

    def test_unknown_ports_in_the_middle_leave_the_own_link(self) -> None:
        chain = ("0000:15:01.0", "0000:17:00.0")
        ports = [port(chain[0]), port(chain[1], chain[0], at=link(8, 16))]
        assert fires(gpu_link_narrow, host([gpu(0, "0000:18:00.0", *chain, at=link(8, 16))], ports))
        ports = [port(chain[0], at=link(8, 16)), port(chain[1], chain[0])]
        assert quiet(gpu_link_narrow, host([gpu(0, "0000:18:00.0", *chain)], ports)) is None

    def test_the_slot_link_of_a_card_with_its_own_switch(self) -> None:
        given = radeon(link(8, 16, gen=5), link(8, 16, gen=5), link(16, 16, gen=5))
        found = fires(gpu_link_narrow, given)
        assert "0000:01:00.0/current_link_width" in found.evidence[0].source
        assert found.message == "GPU0: PCIe link has x8, both ends can do x16"

    @pytest.mark.parametrize("inner", [link(1, 16, now=1), link(1, 1, gen=1)])
    def test_the_link_inside_such_a_card_says_nothing(self, inner: Link) -> None:
        for function in GPU_CHECKS:
            assert quiet(function, radeon(link(), link(), inner)) is None
            assert quiet(function, radeon(link(), link(), inner, ids="1022:1470")) is None

    def test_split_desktop_ports_state_lanes_they_do_not_have(self) -> None:
        ports = [port(f"0000:00:01.{i}", at=link(8, 16, gen=3)) for i in range(2)]
        cards = [gpu(i, f"0000:0{i + 1}:00.0", ports[i].bdf, at=link(8, 16, gen=3)) for i in range(2)]
        assert quiet(gpu_link_narrow, host(cards, ports)) is None
        found = fires(slot_narrower_than_gpu, host(cards, ports))
        assert (found.subject, found.severity) == ("GPU0, GPU1", "info")
        assert found.evidence[1].value == "x16 Gen3, wired x8"
        assert fires(gpu_link_narrow, host(cards[:1], ports[:1]))

    def test_desktop_chipsets_state_more_lanes_than_the_socket_has(self) -> None:
        switch = Switch(0x00, uplink=link(4, 8, gen=4), ids="1022:57ad")
        card = gpu(0, *switch.place(at=link(4, 4, gen=4)), at=link(4, 16, gen=4))
        given = host([card], switch.ports)
        assert quiet(gpu_link_narrow, given) is None
        assert "carries x4 Gen4" in fires(slot_narrower_than_gpu, given).message


class TestSlotNarrowerThanGpu:
    def test_a_lower_generation_everywhere_is_information(self) -> None:
        cards = [slot(i, 0x15 + 16 * i, at=IDLE, port_at=link(gen=4, now=1)) for i in range(4)]
        found = fires(slot_narrower_than_gpu, host(cards))
        assert (found.subject, found.severity) == ("GPU0, GPU1, GPU2, GPU3", "info")
        assert found.message == "GPU0-GPU3: card can do x16 Gen5, its path carries x16 Gen4"
        assert "31.5 instead of 63.0 GB/s" in found.effect

    def test_a_sibling_in_a_better_slot_warns(self) -> None:
        given = host([slot(0, 0x15), slot(1, 0x25, at=link(4, 16), port_at=link(4, 4))])
        found = fires(slot_narrower_than_gpu, given)
        assert (found.subject, found.severity) == ("GPU1", "warning")
        assert "a sibling has more" in found.message

    def test_siblings_of_two_grades_are_two_findings(self) -> None:
        widths = (8, 8, 4)
        cards = [slot(i, 0x15 + 16 * i, at=link(w, 16), port_at=link(w, w)) for i, w in enumerate(widths)]
        findings, _ = judge(slot_narrower_than_gpu, host(cards))
        assert [(f.subject, f.severity) for f in findings] == [("GPU0, GPU1", "info"), ("GPU2", "warning")]

    def test_other_models_are_no_siblings(self) -> None:
        other = slot(1, 0x25, at=link(4, 16), port_at=link(4, 4), name="NVIDIA A2")
        assert fires(slot_narrower_than_gpu, host([slot(0, 0x15), other])).severity == "info"

    def test_siblings_without_a_name_are_told_by_their_ids(self) -> None:
        cards = [slot(0, 0x15, name=None), slot(1, 0x25, at=link(4, 16), port_at=link(4, 4), name=None)]
        ports = [p for card in cards for p in card.ports] + [
            PciDevice(bdf=c.card.bdf or "", link=c.card.link, vendor_id="10de", device_id="2330") for c in cards
        ]
        assert fires(slot_narrower_than_gpu, host([c.card for c in cards], ports)).severity == "warning"

    def test_gpus_that_may_not_be_used_are_no_siblings(self) -> None:
        given = host([slot(0, 0x15, visible=False), slot(1, 0x25, at=link(4, 16), port_at=link(4, 4))])
        assert fires(slot_narrower_than_gpu, given).severity == "info"

    def test_a_bridge_further_up(self) -> None:
        switch = Switch(0x15, uplink=link(8, 8, gen=4))
        found = fires(slot_narrower_than_gpu, host([switch.gpu(0)], switch.ports))
        assert "its path carries x8 Gen4" in found.message
        assert "0000:15:01.0" in found.evidence[1].source

    def test_fewer_lanes_of_a_faster_generation_carry_the_same(self) -> None:
        switch = Switch(0x15, uplink=link(8, 8, gen=5))
        assert quiet(slot_narrower_than_gpu, host([switch.gpu(0, at=link(gen=4))], switch.ports)) is None

    def test_a_narrow_link_is_another_check(self) -> None:
        assert quiet(slot_narrower_than_gpu, host([slot(0, 0x15, at=link(8, 16))])) is None

    def test_a_maximum_below_the_current_value_is_no_maximum(self) -> None:
        doubtful = Link(width_lanes=16, max_width_lanes=16, speed_gts=32.0, max_speed_gts=2.5)
        assert quiet(slot_narrower_than_gpu, host([slot(0, 0x15, port_at=doubtful)])) == "no-evidence"


class TestUplinkShared:
    def test_ten_gpus_below_two_switches(self) -> None:
        found = fires(uplink_shared, farm(5, 5))
        assert found.severity == "info"
        assert found.message == "GPU0-GPU4 share 0000:10:01.0 (5.0:1); GPU5-GPU9 share 0000:28:01.0 (5.0:1)"
        assert found.subject == ", ".join(f"GPU{i}" for i in range(10))
        assert found.evidence[0].value.startswith("x16 Gen4, 31.5 GB/s; below: GPU0 31.5, ")

    def test_many_alike_are_counted(self) -> None:
        found = fires(uplink_shared, farm(2, 2, 2, 2))
        assert found.message == "4 uplinks are shared by 2 GPUs each (2.0:1)"
        assert len(found.evidence) == 4

    @pytest.mark.parametrize("sizes", [(2, 0), (4, 1), (4, 0, 0)])
    def test_a_sibling_with_its_own_uplink_warns(self, sizes: tuple[int, ...]) -> None:
        found = fires(uplink_shared, farm(*sizes))
        assert found.severity == "warning"
        assert "of the same model: alone" in found.message

    def test_unequal_groups_are_still_shared_by_all(self) -> None:
        assert fires(uplink_shared, farm(3, 2)).severity == "info"

    def test_another_model_on_its_own_is_no_sibling(self) -> None:
        switch = Switch(0x15, uplink=link(gen=4))
        cards: list[Gpu | Slot] = [switch.gpu(0), switch.gpu(1), slot(2, 0x55, name="NVIDIA A2")]
        assert fires(uplink_shared, host(cards, switch.ports)).severity == "info"

    def test_a_sibling_on_an_unknown_path_is_not_called_alone(self) -> None:
        switch = Switch(0x15, uplink=link())
        cards = [switch.gpu(0), switch.gpu(1), gpu(2, "0000:90:00.0")]
        assert fires(uplink_shared, host(cards, switch.ports)).severity == "info"

    def test_nics_are_named_but_not_added(self) -> None:
        switch = Switch(0x15, uplink=link())
        cards = [switch.gpu(i) for i in range(2)]
        nics = tuple(nic(f"mlx5_{i}", *switch.place(), label=f"NIC{i}") for i in range(2))
        found = fires(uplink_shared, host(cards, switch.ports, nics=nics))
        assert "(2.0:1)" in found.message
        assert found.evidence[0].value.endswith("; not added: NIC0, NIC1")

    def test_one_gpu_and_its_nic_are_no_contention(self) -> None:
        switch = Switch(0x15, uplink=link(8, 8))
        card, peer = switch.gpu(0, at=link(8, 16)), nic("mlx5_0", *switch.place())
        assert quiet(uplink_shared, host([card], switch.ports, nics=(peer,))) is None

    def test_drives_are_added_and_make_no_warning(self) -> None:
        switch = Switch(0x15, uplink=link())
        cards: list[Gpu | Slot] = [switch.gpu(0), slot(1, 0x55)]
        disk = drive("nvme0", *switch.place(at=link(4, 4)))
        found = fires(uplink_shared, host(cards, switch.ports, nvme=(disk,)))
        assert (found.subject, found.severity) == ("GPU0", "info")
        assert found.message == "GPU0, nvme0 share 0000:15:01.0 (1.2:1)"

    def test_what_the_uplink_carries_is_quiet(self) -> None:
        switch = Switch(0x15, uplink=link(gen=5))
        cards = [switch.gpu(i, at=link(8, 8, gen=5)) for i in range(2)]
        assert quiet(uplink_shared, host(cards, switch.ports)) is None

    def test_rates_unknown(self) -> None:
        switch = Switch(0x15, uplink=Link())
        cards = [switch.gpu(i, at=Link()) for i in range(2)]
        given = Host(gpus=tuple(cards))
        assert fires(uplink_shared, given).message == "GPU0, GPU1 share 0000:15:01.0 (link rates not known)"

    def test_drives_of_other_hosts_gpus_are_context(self) -> None:
        given = farm(2, 2)
        assert fires(uplink_shared, given, Ask(gpus=(0,))).message == "GPU0, GPU1 share 0000:10:01.0 (2.0:1)"

    def test_nested_switches_with_the_same_sharers_are_one_line(self) -> None:
        outer = Switch(0x15, uplink=link(gen=4))
        top, *above = outer.place(at=link(gen=3))
        inner = [port(top, *above, at=link(gen=3))]
        cards = []
        for i in range(2):
            down = f"0000:40:0{i}.0"
            inner.append(port(down, *above, top))
            cards.append(gpu(i, f"0000:5{i}:00.0", *above, top, down))
        found = fires(uplink_shared, host(cards, [*outer.ports, *inner]))
        assert found.message == f"GPU0, GPU1 share {above[-1]} (8.0:1)"

    def test_a_gpu_with_functions_of_its_own_is_not_sharing(self) -> None:
        assert quiet(uplink_shared, radeon(link(), link(), link())) is None


class TestNicOrNvmeLinkNarrow:
    NARROW = drive("nvme0", "0000:16:00.0", "0000:15:01.0", at=link(2, 4))
    ROOT = port("0000:15:01.0", at=link(2, 4))

    def test_a_drive_on_half_its_lanes(self) -> None:
        found = fires(nic_or_nvme_link_narrow, host(ports=[self.ROOT], nvme=(self.NARROW,)))
        assert (found.subject, found.severity) == ("nvme0", "warning")
        assert "x2, both ends can do x4" in found.message

    def test_two_ports_of_one_nic_are_one_finding(self) -> None:
        nics = tuple(nic(f"mlx5_{i}", f"0000:16:00.{i}", "0000:15:01.0", at=link(8, 16)) for i in range(2))
        found = fires(nic_or_nvme_link_narrow, host(ports=[port("0000:15:01.0", at=link(8, 16))], nics=nics))
        assert found.subject == "mlx5_0, mlx5_1"

    def test_an_uplink_shared_with_a_gpu_is_the_gpus(self) -> None:
        switch = Switch(0x15, uplink=link(8, 16))
        given = host([switch.gpu(0)], switch.ports, nics=(nic("mlx5_0", *switch.place()),))
        assert fires(gpu_link_narrow, given)
        assert quiet(nic_or_nvme_link_narrow, given) is None

    def test_devices_far_from_the_scope_are_context(self) -> None:
        cards = [slot(0, 0x25, numa_node=0), slot(1, 0x35, numa_node=1, visible=False)]
        far = drive("nvme0", "0000:16:00.0", "0000:15:01.0", at=link(2, 4), numa_node=1, root_complex="0000:15")
        ports = [self.ROOT, *cards[0].ports, *cards[1].ports]
        given = host([c.card for c in cards], ports, nvme=(far,))
        assert quiet(nic_or_nvme_link_narrow, given) == "not-applicable"
        assert fires(nic_or_nvme_link_narrow, given, Ask(gpus=(1,))).subject == "nvme0"
        assert fires(nic_or_nvme_link_narrow, given, Ask(gpus=(0, 1))).subject == "nvme0"

    def test_virtual_functions_and_fabrics_are_not_judged(self) -> None:
        function = PciDevice(bdf="0000:16:00.2", upstream=("0000:15:01.0",), is_virtual_function=True)
        given = host(
            ports=[self.ROOT, function],
            nics=(nic("mlx5_2", "0000:16:00.2", "0000:15:01.0", at=Link()),),
            nvme=(drive("nvme9", "", at=Link()),),
        )
        assert quiet(nic_or_nvme_link_narrow, given) == "not-applicable"

    @pytest.mark.parametrize("width", [None, 0])
    def test_unknown_width_is_no_pass(self, width: int | None) -> None:
        dark = drive("nvme0", "0000:16:00.0", "0000:15:01.0", at=link(width, 4))
        given = host(ports=[port("0000:15:01.0", at=link(width, 4))], nvme=(dark,))
        assert Tree(given).hops(dark)
        assert quiet(nic_or_nvme_link_narrow, given) == "no-evidence"

    def test_a_drive_without_a_name(self) -> None:
        nameless = drive("", "0000:16:00.0", "0000:15:01.0", at=link(2, 4))
        assert fires(nic_or_nvme_link_narrow, host(ports=[self.ROOT], nvme=(nameless,))).subject == "0000:16:00.0"
