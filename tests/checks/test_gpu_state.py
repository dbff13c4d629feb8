"""HD503, HD504, HD505, HD506, HD507, HD508, HD509."""

from typing import Any

import pytest

from hostdoctor.diagnosis import Ask
from hostdoctor.facts import Fabric, Gpu, Host, Sample, System
from tests.support.build import H100, gpu, host, nic
from tests.support.build_memory import fires, judge, load, quiet

persistence_off = load("gpu", "persistence_off")
device_order_ambiguous = load("gpu", "device_order_ambiguous")
mig_enabled = load("gpu", "mig_enabled")
rdma_path_missing = load("gpu", "rdma_path_missing")
gpu_fabric_not_ready = load("gpu", "gpu_fabric_not_ready")
nvlink_below_siblings = load("gpu", "nvlink_below_siblings")
gpu_throttled = load("gpu", "gpu_throttled")

ZERO = "00000000-0000-0000-0000-000000000000"
CLUSTER = "0f4d1c1e-6a86-4f3b-9c61-3f8f5f1a2b3c"


def cards(*fields: dict[str, Any]) -> list[Gpu]:
    return [gpu(i, f"0000:{i + 1:02x}:00.0", **more) for i, more in enumerate(fields)]


class TestPersistenceOff:
    def test_all_that_have_it_off_are_one_line(self) -> None:
        found = fires(
            persistence_off, host(cards({"persistence": False}, {"persistence": True}, {"persistence": False}))
        )
        assert (found.subject, found.severity) == ("GPU0, GPU2", "info")
        assert "nvidia-persistenced" in found.remedy.text

    @pytest.mark.parametrize(("mode", "kind"), [(True, None), (None, "no-evidence")])
    def test_quiet(self, mode: bool | None, kind: str | None) -> None:
        assert quiet(persistence_off, host(cards({"persistence": mode}))) == kind


class TestDeviceOrderAmbiguous:
    def mixed(self, visible: str | None = "0,1", order: str | None = None, second: str = "NVIDIA A2") -> Host:
        told = {"env.CUDA_VISIBLE_DEVICES": visible, "env.CUDA_DEVICE_ORDER": order}
        settings = {name: value for name, value in told.items() if value is not None}
        return host(cards({}, {"name": second}), settings=settings)

    @pytest.mark.parametrize("order", [None, "FASTEST_FIRST"])
    def test_indices_of_unlike_models(self, order: str | None) -> None:
        found = fires(device_order_ambiguous, self.mixed(order=order))
        assert found.severity == "warning"
        assert "NVIDIA A2, NVIDIA H100" in found.message
        assert found.evidence[1].value == (order or "not set")

    @pytest.mark.parametrize(
        ("given", "kind"),
        [
            ({"second": H100}, None),
            ({"order": "PCI_BUS_ID"}, "not-applicable"),
            ({"visible": "GPU-0f4d1c1e"}, "not-applicable"),
            ({"visible": None}, "not-applicable"),
            ({"visible": ""}, "not-applicable"),
        ],
    )
    def test_quiet(self, given: dict[str, Any], kind: str | None) -> None:
        assert quiet(device_order_ambiguous, self.mixed(**given)) == kind

    def test_gpus_without_names(self) -> None:
        nameless = host(cards({"name": None}), settings={"env.CUDA_VISIBLE_DEVICES": "0"})
        assert quiet(device_order_ambiguous, nameless) == "no-evidence"

    def test_indices_of_no_gpu_at_all(self) -> None:
        assert quiet(device_order_ambiguous, host([], settings={"env.CUDA_VISIBLE_DEVICES": "0"})) == "not-applicable"


class TestMigEnabled:
    def test_divided_gpus(self) -> None:
        found = fires(mig_enabled, host(cards({"mig": True}, {"mig": False})))
        assert (found.subject, found.severity) == ("GPU0", "info")

    @pytest.mark.parametrize(("mig", "kind"), [(False, None), (None, "no-evidence")])
    def test_quiet(self, mig: bool | None, kind: str | None) -> None:
        assert quiet(mig_enabled, host(cards({"mig": mig}))) == kind


class TestRdmaPathMissing:
    def driven(self, modules: str | None = "", flavour: str | None = "proprietary", **more: Any) -> Host:
        told = {"modules.peer_memory": modules, "modules.nvidia": flavour}
        settings = {name: value for name, value in told.items() if value is not None}
        nics = (nic("mlx5_0", "0000:a0:00.0", rdma=more.pop("rdma", True)),)
        kernel = System(kernel=more.pop("kernel", "5.15.0-113-generic"))
        return host(cards({"driver": more.pop("driver", "nvidia")}), nics=nics, settings=settings, system=kernel)

    @pytest.mark.parametrize(("flavour", "kernel"), [("proprietary", "6.8.0"), ("open", "5.4.0-42-generic")])
    def test_no_module_and_no_dma_buf(self, flavour: str, kernel: str) -> None:
        found = fires(rdma_path_missing, self.driven(flavour=flavour, kernel=kernel))
        assert (found.subject, found.severity) == ("GPU0", "info")
        assert "mlx5_0 cannot reach GPU memory" in found.message

    @pytest.mark.parametrize(
        ("given", "kind"),
        [
            ({"modules": "nvidia_peermem"}, None),
            ({"flavour": "open"}, None),
            ({"modules": None}, "no-evidence"),
            ({"flavour": None}, "no-evidence"),
            ({"kernel": None}, "no-evidence"),
            ({"rdma": False}, "not-applicable"),
            ({"driver": "amdgpu"}, "not-applicable"),
        ],
    )
    def test_quiet(self, given: dict[str, Any], kind: str | None) -> None:
        assert quiet(rdma_path_missing, self.driven(**given)) == kind


def fabric(state: str = "completed", status: str = "Success", clique: int = 0, cluster: str = ZERO) -> Fabric:
    return Fabric(state=state, status=status, clique_id=clique, cluster_uuid=cluster)


class TestGpuFabricNotReady:
    @pytest.mark.parametrize(
        ("told", "why"),
        [
            (fabric("in progress"), "state in progress"),
            (fabric("not started"), "state not started"),
            (fabric(status="Insufficient Resources"), "status Insufficient Resources"),
        ],
    )
    def test_anything_but_completed_and_success(self, told: Fabric, why: str) -> None:
        found = fires(gpu_fabric_not_ready, host(cards({"fabric": told}, {"fabric": fabric()})))
        assert (found.subject, found.severity) == ("GPU0", "critical")
        assert why in found.message

    @pytest.mark.parametrize(
        ("told", "why"),
        [
            (fabric(), "cluster UUID and clique id zero"),
            (fabric(cluster=CLUSTER), "clique id zero"),
            (fabric(clique=32766), "cluster UUID zero"),
        ],
    )
    def test_a_rack_needs_cluster_and_clique(self, told: Fabric, why: str) -> None:
        given = host(cards({"fabric": told, "name": "NVIDIA GB200", "c2c": True}))
        assert f"({why})" in fires(gpu_fabric_not_ready, given).message

    def test_quiet(self) -> None:
        assert quiet(gpu_fabric_not_ready, host(cards({"fabric": fabric()}))) is None
        rack = {"fabric": fabric(clique=32766, cluster=CLUSTER), "name": "NVIDIA GB300"}
        assert quiet(gpu_fabric_not_ready, host(cards(rack))) is None
        assert quiet(gpu_fabric_not_ready, host(cards({}))) == "not-applicable"
        assert quiet(gpu_fabric_not_ready, host(cards({"fabric": Fabric()}))) == "not-applicable"


class TestNvlinkBelowSiblings:
    def joined(self, *counts: int | None, **more: Any) -> Host:
        return host(cards(*({"nvlinks": count} | more for count in counts)))

    def test_one_link_less_is_critical(self) -> None:
        found = fires(nvlink_below_siblings, self.joined(18, 17, 18))
        assert (found.subject, found.severity) == ("GPU1", "critical")
        assert "(17 of 18)" in found.message

    def test_none_on_a_board_is_critical(self) -> None:
        assert fires(nvlink_below_siblings, self.joined(18, 0, 18, 0)).subject == "GPU1, GPU3"
        assert fires(nvlink_below_siblings, self.joined(12, 0, name="NVIDIA A100-SXM4-80GB")).subject == "GPU1"

    @pytest.mark.parametrize("name", ["NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA RTX A6000", "Some card"])
    def test_cards_without_a_bridge_are_built_so(self, name: str) -> None:
        assert quiet(nvlink_below_siblings, self.joined(12, 12, 0, name=name)) is None
        assert fires(nvlink_below_siblings, self.joined(12, 11, 0, name=name)).subject == "GPU1"

    def test_siblings_outside_the_question_count(self) -> None:
        assert fires(nvlink_below_siblings, self.joined(18, 17), Ask(gpus=(1,))).subject == "GPU1"

    def test_other_models_and_mig_do_not(self) -> None:
        other = host(cards({"nvlinks": 18}, {"nvlinks": 12, "name": "NVIDIA A2"}))
        assert quiet(nvlink_below_siblings, other) is None
        assert quiet(nvlink_below_siblings, host(cards({"nvlinks": 18}, {"nvlinks": 0, "mig": True}))) is None

    def test_quiet(self) -> None:
        assert quiet(nvlink_below_siblings, self.joined(18, 18)) is None
        assert quiet(nvlink_below_siblings, self.joined(0, 0)) is None
        assert quiet(nvlink_below_siblings, self.joined(None, 18)) == "no-evidence"


class TestGpuThrottled:
    def slowed(self, seconds: float = 10.0, **ns: int) -> Host:
        before = {f"nvml.0.throttle_{reason}_ns": 5_000 for reason in ns}
        after = {f"nvml.0.throttle_{reason}_ns": 5_000 + by for reason, by in ns.items()}
        return host(cards({}), samples=(Sample(seconds=seconds, before=before, after=after),), is_live=True)

    @pytest.mark.parametrize(
        ("reason", "words"),
        [
            ("hw_thermal", "hardware thermal slowdown"),
            ("hw_power_brake", "power brake"),
            ("sw_thermal", "thermal slowdown"),
            ("thermal", "thermal slowdown"),
        ],
    )
    def test_heat_and_power_brake_warn(self, reason: str, words: str) -> None:
        found = fires(gpu_throttled, self.slowed(**{reason: 2_500_000_000}))
        assert (found.subject, found.severity) == ("GPU0", "warning")
        assert f"{words} for up to 25% of the time" in found.message

    def test_the_power_limit_is_information(self) -> None:
        assert fires(gpu_throttled, self.slowed(sw_power_cap=10_000_000_000, hw_thermal=0)).severity == "info"

    def test_one_per_cent_is_quiet(self) -> None:
        assert quiet(gpu_throttled, self.slowed(hw_thermal=100_000_000)) is None

    def test_without_counters(self) -> None:
        other = Sample(seconds=10, before={"vmstat.pswpin": 0}, after={"vmstat.pswpin": 0})
        assert quiet(gpu_throttled, host(cards({}), samples=(other,))) == "no-evidence"
        _, skips = judge(gpu_throttled, host(cards({})))
        assert skips[0].kind == "live-only"
        assert "--sample 10" in skips[0].reason
        assert quiet(gpu_throttled, host(cards({}), is_live=True)) == "no-evidence"
