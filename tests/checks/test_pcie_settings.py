"""HD203, HD206, HD207, HD208, HD209, HD210, HD211."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from hostdoctor.diagnosis import Ask
from hostdoctor.facts import Gpu, Host, Link, LinkReading, Measured, MeasuredLink, PciErrors, Sample, System
from tests.support.build import METAL, SPEED_GTS, Switch, gpu, host, link, nic, slot
from tests.support.build_memory import fires, gap, judge, load, quiet

gpu_link_slow = load("pcie", "gpu_link_slow")
acs_redirect = load("pcie", "acs_redirect")
iommu_translating = load("pcie", "iommu_translating")
max_payload_mismatch = load("pcie", "max_payload_mismatch")
bar1_small = load("pcie", "bar1_small")
pcie_errors = load("pcie", "pcie_errors")
aspm_powersave = load("pcie", "aspm_powersave")

NOT_ROOT = (gap("pci_devices.config", "/sys/bus/pci/devices/*/config", "only 64 bytes", "denied"),)
KVM = System(architecture="x86_64", virtualization="kvm")
GIB = 1 << 30


def with_devices(given: Host, changes: dict[str, dict[str, Any]]) -> Host:
    """Return a host whose PCI functions differ by address; ``*`` is all of them."""
    devices = tuple(
        msgspec.structs.replace(device, **(changes.get("*", {}) | changes.get(device.bdf, {})))
        for device in given.pci_devices
    )
    return msgspec.structs.replace(given, pci_devices=devices)


def driver_link(gen: int, most: int = 5) -> Link:
    return Link(width_lanes=16, max_width_lanes=16, speed_gts=SPEED_GTS[gen], max_speed_gts=SPEED_GTS[most])


def while_copying(speeds_gts: dict[str, int], taken_at: str = "2026-11-30") -> Measured:
    """Return what a file of ``measure copy`` says of the GPU in the slot below bus 15."""
    reading = LinkReading(bdf="0000:16:00.0", readings=sum(speeds_gts.values()), speeds_gts=speeds_gts)
    return Measured(
        links=(MeasuredLink(file="copies.json", taken_at=taken_at, gpu_bdf="0000:16:00.0", links=(reading,)),)
    )


class TestGpuLinkSlow:
    def test_a_lower_generation_in_p0(self) -> None:
        given = host(
            [slot(0, 0x15, pstate=0, driver_link=driver_link(3)), slot(1, 0x25, pstate=0, driver_link=driver_link(5))]
        )
        found = fires(gpu_link_slow, given)
        assert (found.subject, found.severity) == ("GPU0", "warning")
        assert "runs Gen3 in P0, both ends can do Gen5" in found.message
        assert found.evidence[0].value == "8 GT/s of 32"

    def test_the_slot_is_the_limit(self) -> None:
        given = host([slot(0, 0x15, port_at=link(gen=4), pstate=0, driver_link=driver_link(4))])
        assert quiet(gpu_link_slow, given) is None

    def test_a_slow_uplink_counts(self) -> None:
        switch = Switch(0x15, uplink=link(gen=5, now=4))
        card = switch.gpu(0, pstate=0, driver_link=driver_link(5))
        found = fires(gpu_link_slow, host([card], switch.ports))
        assert "Gen4" in found.message
        assert found.evidence[0].source.endswith("0000:15:01.0/current_link_speed")

    @pytest.mark.parametrize(("pstate", "why"), [(8, "not in P0 (P8)"), (None, "P-state not known")])
    def test_idle_gpus_are_skipped_with_the_reason(self, pstate: int | None, why: str) -> None:
        given = host([slot(0, 0x15, at=link(gen=5, now=1), pstate=pstate, driver_link=driver_link(1))])
        findings, skips = judge(gpu_link_slow, given)
        assert (findings, skips[0].kind) == ([], "no-evidence")
        assert why in skips[0].reason

    def test_what_sysfs_shows_of_the_gpu_at_another_time_does_not_count(self) -> None:
        given = host([slot(0, 0x15, at=link(gen=5, now=1), pstate=0, driver_link=driver_link(5))])
        assert quiet(gpu_link_slow, given) is None

    def test_what_was_read_during_copies_counts_whatever_the_p_state(self) -> None:
        given = host([slot(0, 0x15, at=link(gen=5, now=1), pstate=8)], measured=while_copying({"16": 30, "2.5": 10}))
        found = fires(gpu_link_slow, given)
        assert (found.subject, found.severity) == ("GPU0", "warning")
        assert "PCIe link runs Gen4 while copying, both ends can do Gen5" in found.message
        (evidence,) = found.evidence
        assert evidence.source == "copies.json (2026-11-30): /sys/bus/pci/devices/0000:16:00.0/current_link_speed"
        assert evidence.value == "16 GT/s of 32, the fastest of 40 readings (30 times)"

    def test_a_link_that_speeds_up_for_copies_passes(self) -> None:
        given = host([slot(0, 0x15, at=link(gen=5, now=1), pstate=8)], measured=while_copying({"32": 38, "2.5": 2}))
        assert quiet(gpu_link_slow, given) is None

    def test_few_readings_are_no_evidence(self) -> None:
        given = host([slot(0, 0x15, at=link(gen=5, now=1), pstate=8)], measured=while_copying({"2.5": 9}))
        findings, skips = judge(gpu_link_slow, given)
        assert (findings, skips[0].kind) == ([], "no-evidence")

    def test_a_gpu_that_was_not_measured_is_still_skipped(self) -> None:
        cards = [slot(0, 0x15, pstate=8), slot(1, 0x25, pstate=8)]
        findings, skips = judge(gpu_link_slow, host(cards, measured=while_copying({"32": 40})))
        assert findings == []
        assert skips[0].reason.startswith("GPU1: not in P0 (P8)")

    def test_a_slow_uplink_during_copies_counts(self) -> None:
        switch = Switch(0x15, uplink=link(gen=5))
        card = switch.gpu(0, pstate=8)
        speeds = {bdf: {"32": 20} for bdf in (*card.upstream, str(card.bdf))} | {card.upstream[0]: {"8": 20}}
        speeds[card.upstream[1]] = {"8": 20}
        readings = tuple(LinkReading(bdf=bdf, readings=20, speeds_gts=counted) for bdf, counted in speeds.items())
        measured = Measured(
            links=(MeasuredLink(file="copies.json", taken_at="", gpu_bdf=str(card.bdf), links=readings),)
        )
        found = fires(gpu_link_slow, host([card], switch.ports, measured=measured))
        assert "Gen3 while copying" in found.message

    def test_the_latest_of_several_files_counts(self) -> None:
        slow, fine = while_copying({"2.5": 40}, "2026-11-29").links, while_copying({"32": 40}, "2026-11-30").links
        given = host([slot(0, 0x15, pstate=8)], measured=Measured(links=(*fine, *slow)))
        assert quiet(gpu_link_slow, given) is None

    def test_guests_are_not_judged(self) -> None:
        given = host([slot(0, 0x15, pstate=0, driver_link=driver_link(1))], system=KVM)
        assert quiet(gpu_link_slow, given) == "not-applicable"


class TestAcsRedirect:
    def below_a_switch(self, redirects: bool | None, cards: int = 2, **more: Any) -> Host:
        switch = Switch(0x15)
        gpus = [switch.gpu(i) for i in range(cards)]
        nics = (nic("mlx5_0", *switch.place()),) if more.pop("with_nic", False) else ()
        given = host(gpus, switch.ports, nics=nics, **more)
        return with_devices(given, {device.bdf: {"acs_redirects": redirects} for device in switch.ports})

    def test_two_gpus_below_one_switch_warn(self) -> None:
        found = fires(acs_redirect, self.below_a_switch(True))
        assert (found.subject, found.severity) == ("GPU0, GPU1", "warning")
        assert "4 of 4 bridges" in found.message
        assert found.remedy.risk == "isolation"

    def test_a_gpu_and_its_nic_warn(self) -> None:
        assert fires(acs_redirect, self.below_a_switch(True, cards=1, with_nic=True)).severity == "warning"

    def test_alone_it_is_information(self) -> None:
        assert fires(acs_redirect, self.below_a_switch(True, cards=1)).severity == "info"

    def test_guests_need_it(self) -> None:
        given = self.below_a_switch(True)
        passed = with_devices(given, {given.gpus[1].bdf or "": {"driver": "vfio-pci"}})
        assert fires(acs_redirect, passed, Ask(gpus=(0,))).severity == "info"

    def test_no_bits_set(self) -> None:
        assert quiet(acs_redirect, self.below_a_switch(False)) is None

    def test_without_root_it_says_what_root_adds(self) -> None:
        _, skips = judge(acs_redirect, self.below_a_switch(None, gaps=NOT_ROOT))
        assert skips[0].kind == "needs-root"
        assert "redirect peer-to-peer" in skips[0].reason
        assert quiet(acs_redirect, self.below_a_switch(None)) == "no-evidence"

    def test_guests_are_not_judged(self) -> None:
        assert quiet(acs_redirect, self.below_a_switch(True, system=KVM)) == "not-applicable"


class TestIommuTranslating:
    def groups(self, kind: str | None, system: System = METAL, **more: Any) -> Host:
        return with_devices(host([slot(0, 0x15), slot(1, 0x25)], system=system, **more), {"*": {"iommu_type": kind}})

    @pytest.mark.parametrize("kind", ["DMA", "DMA-FQ"])
    def test_translation_is_information(self, kind: str) -> None:
        found = fires(iommu_translating, self.groups(kind))
        assert (found.subject, found.severity) == ("GPU0, GPU1", "info")
        assert "iommu=pt" in found.remedy.text

    @pytest.mark.parametrize("system", [KVM, System(architecture="aarch64")])
    def test_passthrough_is_proposed_on_x86_bare_metal_only(self, system: System) -> None:
        assert "iommu=pt" not in fires(iommu_translating, self.groups("DMA", system)).remedy.text

    def test_nor_where_guests_need_isolation(self) -> None:
        given = with_devices(self.groups("DMA"), {"0000:26:00.0": {"driver": "vfio-pci"}})
        assert "iommu=pt" not in fires(iommu_translating, given).remedy.text

    @pytest.mark.parametrize(("kind", "skip"), [("identity", None), ("off", None), (None, "no-evidence")])
    def test_quiet(self, kind: str | None, skip: str | None) -> None:
        assert quiet(iommu_translating, self.groups(kind)) == skip


class TestMaxPayloadMismatch:
    def sizes(self, port: int | None, card: int | None, **more: Any) -> Host:
        given = host([slot(0, 0x15)], **more)
        return with_devices(
            given, {"0000:15:01.0": {"max_payload_bytes": port}, "0000:16:00.0": {"max_payload_bytes": card}}
        )

    def test_unlike_ends(self) -> None:
        found = fires(max_payload_mismatch, self.sizes(512, 256))
        assert (found.subject, found.severity) == ("GPU0", "info")
        assert "(256, 512 bytes)" in found.message

    def test_drives_and_nics_are_looked_at_too(self) -> None:
        given = self.sizes(256, 256, nics=(nic("mlx5_0", "0000:26:00.0", "0000:15:01.0"),))
        given = with_devices(given, {"0000:26:00.0": {"max_payload_bytes": 128}})
        assert fires(max_payload_mismatch, given).subject == "mlx5_0"

    def test_quiet(self) -> None:
        assert quiet(max_payload_mismatch, self.sizes(256, 256)) is None
        assert quiet(max_payload_mismatch, self.sizes(None, None, gaps=NOT_ROOT)) == "needs-root"
        assert quiet(max_payload_mismatch, self.sizes(256, None)) == "no-evidence"
        assert quiet(max_payload_mismatch, Host()) == "not-applicable"


class TestBar1Small:
    @pytest.mark.parametrize(
        ("bar1", "memory", "kind"),
        [(128, 80, None), (80, 80, None), (None, 80, "no-evidence"), (32, None, "no-evidence")],
    )
    def test_quiet(self, bar1: int | None, memory: int | None, kind: str | None) -> None:
        card = gpu(0, bar1_bytes=bar1 and bar1 * GIB, memory_bytes=memory and memory * GIB)
        assert quiet(bar1_small, host([card])) == kind

    def test_a_window_smaller_than_the_memory(self) -> None:
        found = fires(bar1_small, host([gpu(0, "0000:16:00.0", bar1_bytes=GIB // 4, memory_bytes=24 * GIB)]))
        assert (found.subject, found.severity) == ("GPU0", "info")
        assert "BAR1 0.2 GiB is smaller than the memory, 24.0 GiB" in found.message

    def test_chip_to_chip_needs_no_window(self) -> None:
        assert quiet(bar1_small, host([gpu(0, c2c=True, bar1_bytes=1, memory_bytes=2)])) == "not-applicable"


def aer(seconds: float, *rises: tuple[str, int]) -> Sample:
    before = {f"aer.{name}": 1000 for name, _ in rises}
    return Sample(seconds=seconds, before=before, after={f"aer.{name}": 1000 + by for name, by in rises})


class TestPcieErrors:
    def counting(self, *samples: Sample, correctable: Iterable[int] = (0, 0, 0)) -> Host:
        given = host([slot(i, 0x15 + 16 * i) for i in range(3)], samples=samples)
        totals = dict(zip(("0000:16:00.0", "0000:26:00.0", "0000:36:00.0"), correctable, strict=True))
        told = {bdf: {"errors": PciErrors(correctable=n, nonfatal=0, fatal=0)} for bdf, n in totals.items()}
        return with_devices(given, told)

    def test_totals_are_information(self) -> None:
        found = fires(pcie_errors, self.counting(correctable=(7, 0, 3)))
        assert (found.subject, found.severity) == ("GPU0, GPU2", "info")
        assert "since boot: 10" in found.message
        assert found.evidence[0].source == "/sys/bus/pci/devices/0000:16:00.0/aer_dev_correctable"

    @pytest.mark.parametrize("kind", ["nonfatal", "fatal"])
    def test_severe_errors_that_rise_are_critical(self, kind: str) -> None:
        found = fires(pcie_errors, self.counting(aer(10, (f"0000:16:00.0.{kind}", 1))))
        assert (found.subject, found.severity) == ("GPU0", "critical")

    def test_the_upstream_port_counts(self) -> None:
        found = fires(pcie_errors, self.counting(aer(10, ("0000:15:01.0.fatal", 1))))
        assert (found.subject, found.severity) == ("port 0000:15:01.0", "critical")

    def test_a_high_rate_over_ten_minutes_is_a_warning(self) -> None:
        rates = (("0000:16:00.0.correctable", 150), ("0000:26:00.0.correctable", 3), ("0000:36:00.0.correctable", 0))
        found = fires(pcie_errors, self.counting(aer(600, *rates)))
        assert (found.subject, found.severity) == ("GPU0", "warning")
        assert "15 a minute" in found.message

    @pytest.mark.parametrize(
        ("seconds", "rises"),
        [(600, (90, 0, 0)), (60, (500, 0, 0)), (600, (150, 100, 100))],
        ids=["slow", "too short", "like its siblings"],
    )
    def test_what_is_no_warning(self, seconds: float, rises: tuple[int, int, int]) -> None:
        named = zip(("0000:16:00.0", "0000:26:00.0", "0000:36:00.0"), rises, strict=True)
        taken = aer(seconds, *((f"{bdf}.correctable", by) for bdf, by in named))
        assert quiet(pcie_errors, self.counting(taken)) is None

    def test_replays_count_as_correctable(self) -> None:
        replays = Sample(seconds=600, before={"nvml.1.pcie_replays": 0}, after={"nvml.1.pcie_replays": 400})
        found = fires(pcie_errors, self.counting(replays))
        assert (found.subject, found.severity) == ("GPU1", "warning")

    def test_quiet(self) -> None:
        assert quiet(pcie_errors, self.counting()) is None
        assert quiet(pcie_errors, host([slot(0, 0x15)])) == "no-evidence"
        assert quiet(pcie_errors, Host()) == "not-applicable"


class TestAspmPowersave:
    def policy(self, text: str | None, cards: tuple[Gpu, ...] = (gpu(0),)) -> Host:
        return host(cards, settings={} if text is None else {"pcie_aspm.policy": text})

    @pytest.mark.parametrize("chosen", ["powersave", "powersupersave"])
    def test_sleeping_links_are_information(self, chosen: str) -> None:
        words = ["default", "performance", "powersave", "powersupersave"]
        text = " ".join(f"[{word}]" if word == chosen else word for word in words)
        found = fires(aspm_powersave, self.policy(text))
        assert (found.subject, found.severity) == ("host", "info")
        assert chosen in found.message

    def test_quiet(self) -> None:
        assert quiet(aspm_powersave, self.policy("[default] performance powersave powersupersave")) is None
        assert quiet(aspm_powersave, self.policy("default [performance] powersave")) is None
        assert quiet(aspm_powersave, self.policy(None)) == "no-evidence"
        assert quiet(aspm_powersave, self.policy("[powersave]", ())) == "not-applicable"
