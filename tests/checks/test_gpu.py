"""HD501, HD502."""

from typing import Any

import pytest

from hostdoctor.diagnosis import Ask
from hostdoctor.facts import Gpu, Host, NvidiaDriver, PciDevice, System
from tests.support.build_memory import fires, gap, judge, load, quiet

gpu_missing_from_driver = load("gpu", "gpu_missing_from_driver")
nvidia_driver_unusable = load("gpu", "nvidia_driver_unusable")

MISMATCH = "Driver/library version mismatch"
NOT_LOADED = "Driver Not Loaded"
DENIED = "Insufficient Permissions"
POD = System(container="kubepods")
VISIBLE = {"env.NVIDIA_VISIBLE_DEVICES": "all"}


def answer(state: Any, reason: str | None = None, count: int | None = None) -> NvidiaDriver:
    return NvidiaDriver(state=state, reason=reason, gpu_count=count)


def with_gpus(*drivers: str | None, vendor: str = "10de", visible: bool | None = None, **more: Any) -> Host:
    """A host with one GPU for each kernel driver named."""
    bdfs = [f"0000:{0x10 + i:02x}:00.0" for i in range(len(drivers))]
    gpus = tuple(
        Gpu(index=i, bdf=bdf, driver=driver, visible=visible)
        for i, (bdf, driver) in enumerate(zip(bdfs, drivers, strict=True))
    )
    return Host(gpus=gpus, pci_devices=tuple(PciDevice(bdf=bdf, vendor_id=vendor) for bdf in bdfs), **more)


class TestDriverUnusable:
    @pytest.mark.parametrize(
        ("reason", "word"),
        [(MISMATCH, "reload"), (NOT_LOADED, "Install"), (DENIED, "/dev/nvidiactl"), (None, "Install")],
    )
    def test_an_error_is_critical_and_quoted(self, reason: str | None, word: str) -> None:
        found = fires(nvidia_driver_unusable, with_gpus("nvidia", "nvidia", nvidia=answer("error", reason)))
        assert found.severity == "critical"
        assert found.subject == "GPU0, GPU1"
        assert (reason or "no reason given") in found.message
        assert word in found.remedy.text

    @pytest.mark.parametrize("state", ["error", "absent"])
    def test_no_driver_bound(self, state: str) -> None:
        found = fires(nvidia_driver_unusable, with_gpus(None, nvidia=answer(state, "library not found")))
        assert found.evidence[1].value == "none"

    def test_nouveau_is_named(self) -> None:
        found = fires(nvidia_driver_unusable, with_gpus("nouveau", nvidia=answer("absent", "library not found")))
        assert "nouveau holds a GPU" in found.message

    def test_a_loaded_driver_without_a_library_here_is_no_verdict(self) -> None:
        absent = answer("absent", "library not found")
        assert quiet(nvidia_driver_unusable, with_gpus("nvidia", nvidia=absent)) == "no-evidence"
        loaded = with_gpus(None, nvidia=absent, system=System(nvidia_driver="570.86.15"))
        assert quiet(nvidia_driver_unusable, loaded) == "no-evidence"

    @pytest.mark.parametrize("driver", ["vfio-pci", "nvgrace_gpu_vfio_pci", "pci-stub", "xen-pciback"])
    @pytest.mark.parametrize("state", ["error", "absent", None])
    def test_passed_through_is_quiet(self, driver: str, state: str | None) -> None:
        assert quiet(nvidia_driver_unusable, with_gpus(driver, driver, nvidia=answer(state))) == "not-applicable"

    def test_only_what_is_left_of_a_passthrough_host_is_named(self) -> None:
        found = fires(nvidia_driver_unusable, with_gpus("vfio-pci", "nvidia", nvidia=answer("error", MISMATCH)))
        assert found.subject == "GPU1"

    @pytest.mark.parametrize("state", [None, "timeout"])
    def test_not_asked_and_too_late_are_no_evidence(self, state: str | None) -> None:
        assert quiet(nvidia_driver_unusable, with_gpus("nvidia", nvidia=answer(state))) == "no-evidence"

    def test_a_working_driver_passes(self) -> None:
        assert quiet(nvidia_driver_unusable, with_gpus("nvidia", nvidia=answer("ok", count=1))) is None

    def test_other_vendors_are_not_judged(self) -> None:
        host = with_gpus("amdgpu", vendor="1002", nvidia=answer("absent", "library not found"))
        assert quiet(nvidia_driver_unusable, host) == "not-applicable"

    @pytest.mark.parametrize(
        ("nvidia", "settings"),
        [
            (answer("absent", "library not found"), VISIBLE),
            (answer("absent", "library not found"), {}),
            (answer("error", NOT_LOADED), {}),
            (answer("error", NOT_LOADED), {"env.NVIDIA_VISIBLE_DEVICES": "void"}),
        ],
    )
    @pytest.mark.parametrize("driver", ["nvidia", None])
    def test_a_container_without_gpus_is_never_critical(
        self, nvidia: NvidiaDriver, settings: dict[str, str], driver: str | None
    ) -> None:
        host = with_gpus(driver, nvidia=nvidia, settings=settings, system=POD)
        assert quiet(nvidia_driver_unusable, host) == "no-evidence"

    def test_a_container_that_was_given_gpus_is_judged(self) -> None:
        broken = answer("error", "Unknown Error")
        assert fires(nvidia_driver_unusable, with_gpus("nvidia", nvidia=broken, settings=VISIBLE, system=POD))
        assert fires(nvidia_driver_unusable, with_gpus("nvidia", nvidia=broken, visible=True, system=POD))

    @pytest.mark.parametrize("reason", [DENIED, "Unknown Error"])
    @pytest.mark.parametrize("more", [{}, {"system": POD}, {"settings": VISIBLE}])
    def test_a_driver_that_refuses_every_gpu_is_unusable(self, reason: str, more: dict[str, Any]) -> None:
        gaps = tuple(gap(f"gpus[{i}].handle", "NVML", reason) for i in range(2))
        host = with_gpus("nvidia", "nvidia", nvidia=answer("ok", count=2), gaps=gaps, **more)
        if reason == DENIED or more:
            found = fires(nvidia_driver_unusable, host)
            assert (found.severity, found.evidence[0].value) == ("critical", f"every GPU: {reason}")
        else:  # HD502 tells of GPUs that fail on a host that has them all
            assert quiet(nvidia_driver_unusable, host) is None
            assert fires(gpu_missing_from_driver, host)

    @pytest.mark.parametrize("reasons", [(DENIED,), (), ("GPU is lost", "GPU is lost")])
    def test_a_driver_that_refuses_some_or_lost_some_is_there(self, reasons: tuple[str, ...]) -> None:
        gaps = tuple(gap(f"gpus[{i}].handle", "NVML", reason) for i, reason in enumerate(reasons))
        host = with_gpus("nvidia", "nvidia", nvidia=answer("ok", count=2), gaps=gaps)
        assert quiet(nvidia_driver_unusable, host) is None

    def test_hidden_gpus_of_the_host_are_context(self) -> None:
        host = with_gpus("nvidia", nvidia=answer("error", NOT_LOADED), visible=False, settings=VISIBLE, system=POD)
        assert quiet(nvidia_driver_unusable, host) == "not-applicable"

    def test_only_gpus_asked_for_are_named(self) -> None:
        host = with_gpus("nvidia", "nvidia", nvidia=answer("error", MISMATCH))
        assert fires(nvidia_driver_unusable, host, Ask(gpus=(1,))).subject == "GPU1"


def fallen(**more: Any) -> Host:
    """Three GPUs bound to nvidia, of which the driver lists two."""
    host = with_gpus("nvidia", "nvidia", nvidia=more.pop("nvidia", answer("ok", count=2)), **more)
    gone = Gpu(index=None, bdf="0000:9b:00.0", driver="nvidia", visible=False)
    return Host(**{name: getattr(host, name) for name in host.__struct_fields__} | {"gpus": (*host.gpus, gone)})


class TestMissingFromDriver:
    def test_the_gpu_that_is_not_listed_is_named(self) -> None:
        found = fires(gpu_missing_from_driver, fallen())
        assert found.severity == "critical"
        assert found.subject == "0000:9b:00.0"
        assert "gives 2 GPUs, but 3" in found.message

    def test_which_one_is_not_guessed(self) -> None:
        host = with_gpus("nvidia", "nvidia", "nvidia", nvidia=answer("ok", count=2))
        assert fires(gpu_missing_from_driver, host).subject == "GPU0, GPU1, GPU2"

    def test_a_gpu_that_the_driver_counts_but_lost(self) -> None:
        lost = gap("gpus[2].handle", "NVML", "GPU is lost", "error")
        found = fires(gpu_missing_from_driver, fallen(nvidia=answer("ok", count=3), gaps=(lost,)))
        assert found.subject == "0000:9b:00.0"
        assert found.evidence[1].value == "GPU is lost"

    def test_a_gpu_that_a_container_was_given_and_lost(self) -> None:
        lost = gap("gpus[1].handle", "NVML", "GPU is lost", "error")
        system = System(container="kubernetes")
        found = fires(gpu_missing_from_driver, fallen(nvidia=answer("ok", count=2), gaps=(lost,), system=system))
        assert (found.subject, found.severity) == ("GPU1", "critical")

    def test_a_gpu_of_another_job_is_not_lost(self) -> None:
        foreign = gap("gpus[2].handle", "NVML", "Insufficient Permissions", "error")
        assert quiet(gpu_missing_from_driver, fallen(nvidia=answer("ok", count=3), gaps=(foreign,))) is None

    @pytest.mark.parametrize("more", [{"system": POD}, {"settings": VISIBLE}, {"settings": VISIBLE, "system": POD}])
    def test_a_subset_is_not_judged(self, more: dict[str, Any]) -> None:
        assert quiet(gpu_missing_from_driver, fallen(**more)) == "not-applicable"

    @pytest.mark.parametrize("nvidia", [answer("timeout"), answer("error", MISMATCH)])
    @pytest.mark.parametrize("more", [{"system": POD}, {"settings": VISIBLE}])
    def test_a_subset_whose_driver_stopped_answering_is_not_known(
        self, nvidia: NvidiaDriver, more: dict[str, Any]
    ) -> None:
        assert quiet(gpu_missing_from_driver, fallen(nvidia=nvidia, **more)) == "no-evidence"

    @pytest.mark.parametrize(
        "nvidia", [answer(None), answer("timeout", count=2), answer("error", MISMATCH), answer("absent"), answer("ok")]
    )
    def test_without_a_list_there_is_no_verdict(self, nvidia: NvidiaDriver) -> None:
        assert quiet(gpu_missing_from_driver, fallen(nvidia=nvidia)) == "no-evidence"

    def test_all_listed_passes(self) -> None:
        assert quiet(gpu_missing_from_driver, with_gpus("nvidia", "nvidia", nvidia=answer("ok", count=2))) is None
        assert quiet(gpu_missing_from_driver, with_gpus("nvidia", None, nvidia=answer("ok", count=1))) is None

    def test_virtual_functions_are_not_listed_by_design(self) -> None:
        pf = PciDevice(bdf="0000:10:00.0", vendor_id="10de")
        vf = PciDevice(bdf="0000:10:00.4", vendor_id="10de", is_virtual_function=True)
        gpus = tuple(Gpu(bdf=device.bdf, driver="nvidia") for device in (pf, vf))
        host = Host(gpus=gpus, pci_devices=(pf, vf), nvidia=answer("ok", count=1))
        assert quiet(gpu_missing_from_driver, host) is None

    def test_passed_through_is_information(self) -> None:
        found = fires(gpu_missing_from_driver, with_gpus("nvidia", "vfio-pci", nvidia=answer("ok", count=1)))
        assert found.severity == "info"
        assert found.subject == "GPU1"
        assert "1 of 2" in found.message

    def test_a_host_for_guests_only(self) -> None:
        findings, skips = judge(gpu_missing_from_driver, with_gpus("vfio-pci", nvidia=answer("absent")))
        assert [f.severity for f in findings] == ["info"]
        assert [s.kind for s in skips] == ["no-evidence"]
