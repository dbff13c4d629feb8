"""HD309, HD310, HD312, HD313, HD314, HD316."""

from typing import Any

import pytest

from hostdoctor.diagnosis import Ask
from hostdoctor.facts import CpuPower, Dimm, Gpu, Host, IdleState, Nic, Sample, System
from tests.support.build_memory import GIB, fires, gap, load, quiet, two_nodes

cpu_power_saving = load("memory", "cpu_power_saving")
max_map_count_low = load("memory", "max_map_count_low")
memlock_limited = load("memory", "memlock_limited")
memory_channels_uneven = load("memory", "memory_channels_uneven")
swapping = load("memory", "swapping")
transparent_hugepages = load("memory", "transparent_hugepages")

GPU = Gpu(index=0, numa_node=0, numa_nodes=(0,))


def limited(soft: str, hard: str = "unlimited", **more: Any) -> Host:
    settings = {"rlimit.memlock.soft": soft, "rlimit.memlock.hard": hard}
    return two_nodes(settings=settings, **({"gpus": (GPU,)} | more))


class TestMemlock:
    def test_a_finite_limit_is_information_and_not_about_cuda(self) -> None:
        found = fires(memlock_limited, limited("8388608"))
        assert found.severity == "info"
        assert "8.0 MiB" in found.message
        assert "not pinned CUDA memory" in found.message
        assert found.evidence[0].value == "soft 8388608, hard unlimited"
        assert found.remedy.scope == "process"

    def test_an_rdma_adapter_is_enough(self) -> None:
        assert fires(memlock_limited, limited("65536", "65536", gpus=(), nics=(Nic(name="mlx5_0", rdma=True),)))

    def test_unlimited_passes(self) -> None:
        assert quiet(memlock_limited, limited("unlimited")) is None

    def test_a_host_that_needs_neither_is_not_judged(self) -> None:
        assert quiet(memlock_limited, limited("65536", gpus=(), nics=(Nic(name="eth0", rdma=False),))) == (
            "not-applicable"
        )

    def test_unknown_is_no_evidence(self) -> None:
        assert quiet(memlock_limited, two_nodes(gpus=(GPU,))) == "no-evidence"


PLAN = Ask(model_path="/models")


class TestMaxMapCount:
    def test_the_kernels_default_is_information_under_a_plan(self) -> None:
        host = two_nodes(settings={"vm.max_map_count": "65530"})
        found = fires(max_map_count_low, host, PLAN)
        assert found.severity == "info"
        assert found.evidence[0].value == "65530"
        assert fires(max_map_count_low, host, Ask(kv_path="/kv"))

    def test_no_plan_no_word(self) -> None:
        assert quiet(max_map_count_low, two_nodes(settings={"vm.max_map_count": "65530"})) == "no-plan"

    @pytest.mark.parametrize(
        ("settings", "kind"),
        [({"vm.max_map_count": "1048576"}, None), ({}, "no-evidence"), ({"vm.max_map_count": "?"}, "no-evidence")],
    )
    def test_raised_passes_and_unknown_is_no_pass(self, settings: dict[str, str], kind: str | None) -> None:
        assert quiet(max_map_count_low, two_nodes(settings=settings), PLAN) == kind


def sampled(**rises: int) -> Host:
    """Return a host that was read twice, 10 s apart."""
    names = {"pswpin": "vmstat.pswpin", "pswpout": "vmstat.pswpout", "some": "psi.memory.some.total_us"}
    before = {names[name]: 1000 for name in rises}
    after = {names[name]: 1000 + rise for name, rise in rises.items()}
    return two_nodes(samples=(Sample(seconds=10.0, before=before, after=after),), is_live=True)


class TestSwapping:
    def test_pages_that_move_warn(self) -> None:
        found = fires(swapping, sampled(pswpin=12, pswpout=0, some=0))
        assert found.severity == "warning"
        assert "12 pages swapped in" in found.message
        assert [seen.value for seen in found.evidence] == ["+12"]
        assert "swapoff" not in found.remedy.text

    def test_waiting_for_memory_warns(self) -> None:
        found = fires(swapping, sampled(pswpin=0, pswpout=0, some=500_000))
        assert "waited 0.50 s of 10 s" in found.message
        assert found.evidence[0].source.startswith("/proc/pressure/memory")

    def test_both_are_one_cause(self) -> None:
        assert len(fires(swapping, sampled(pswpin=1, pswpout=2, some=9_000_000)).evidence) == 3

    @pytest.mark.parametrize("some_us", [0, 100, 99_000])
    def test_ordinary_reclaim_passes(self, some_us: int) -> None:
        assert quiet(swapping, sampled(pswpin=0, pswpout=0, some=some_us)) is None

    def test_a_kernel_without_pressure_counters_is_judged_by_swap_alone(self) -> None:
        assert quiet(swapping, sampled(pswpin=0, pswpout=0)) is None

    def test_other_counters_are_no_evidence(self) -> None:
        host = two_nodes(samples=(Sample(seconds=1.0, before={"x": 1}, after={"x": 2}),))
        assert quiet(swapping, host) == "no-evidence"

    @pytest.mark.parametrize(("is_live", "kind"), [(True, "no-evidence"), (False, "live-only")])
    def test_one_reading_tells_no_rate(self, is_live: bool, kind: str) -> None:
        assert quiet(swapping, two_nodes(is_live=is_live)) == kind


STATES = (
    IdleState(name="POLL", exit_latency_us=0, disabled=False),
    IdleState(name="C1", exit_latency_us=1, disabled=False),
    IdleState(name="C1E", exit_latency_us=10, disabled=True),
    IdleState(name="C6", exit_latency_us=170, disabled=False),
)


def powered(driver: str | None, *governors: str, epp: tuple[str, ...] = (), **more: Any) -> Host:
    power = CpuPower(
        driver=driver,
        governors={name: governors.count(name) for name in governors},
        energy_preferences=epp,
        idle_states=STATES,
    )
    return two_nodes(cpu_power=power, **more)


class TestCpuPower:
    @pytest.mark.parametrize("driver", ["acpi-cpufreq", "intel_cpufreq", "amd-pstate", "cppc_cpufreq"])
    def test_another_driver_warns_on_bare_metal(self, driver: str) -> None:
        found = fires(cpu_power_saving, powered(driver, "schedutil", "schedutil", "performance"))
        assert found.severity == "warning"
        assert f"schedutil on 2 of 3 policies ({driver})" in found.message
        assert found.remedy.scope == "host"
        assert found.remedy.undo == "Set the governor back to schedutil."

    @pytest.mark.parametrize("driver", ["intel_pstate", "amd-pstate-epp"])
    def test_the_active_drivers_ordinary_state_is_information(self, driver: str) -> None:
        found = fires(cpu_power_saving, powered(driver, "powersave", epp=("balance_performance",)))
        assert found.severity == "info"
        assert "preference balance_performance" in found.message

    def test_enabled_deep_states_are_told_with_their_latency(self) -> None:
        found = fires(cpu_power_saving, powered("intel_pstate", "powersave"))
        assert found.message.endswith("wake-up from C6 170 µs")
        assert found.evidence[-1].value == "170 µs"

    def test_full_preference_is_no_saving(self) -> None:
        assert quiet(cpu_power_saving, powered("intel_pstate", "powersave", epp=("performance",))) is None
        assert fires(cpu_power_saving, powered("acpi-cpufreq", "powersave", epp=("performance",)))

    @pytest.mark.parametrize("system", [System(virtualization="kvm"), System(container="docker")])
    def test_a_guest_or_container_cannot_change_it(self, system: System) -> None:
        assert fires(cpu_power_saving, powered("acpi-cpufreq", "schedutil", system=system)).severity == "info"

    def test_bare_metal_and_driver_have_to_be_known(self) -> None:
        unsure = (gap("system.virtualization", "/proc/cpuinfo", "no source could tell"),)
        assert fires(cpu_power_saving, powered("acpi-cpufreq", "ondemand", gaps=unsure)).severity == "info"
        assert fires(cpu_power_saving, powered(None, "ondemand")).severity == "info"

    def test_performance_passes_whatever_the_idle_states(self) -> None:
        assert quiet(cpu_power_saving, powered("acpi-cpufreq", "performance", "performance")) is None

    def test_no_governor_is_no_evidence(self) -> None:
        assert quiet(cpu_power_saving, powered(None)) == "no-evidence"


def huge(**values: str) -> Host:
    return two_nodes(settings={f"transparent_hugepage.{name}": value for name, value in values.items()})


class TestTransparentHugePages:
    def test_unusual_values_are_told_together(self) -> None:
        found = fires(transparent_hugepages, huge(enabled="always", defrag="always", shmem_enabled="force"))
        assert found.severity == "info"
        assert "enabled always (every process gets them)" in found.message
        assert "shmem_enabled force" in found.message
        assert len(found.evidence) == 3

    def test_never_is_unusual_too(self) -> None:
        assert "no process gets them" in fires(transparent_hugepages, huge(enabled="never")).message

    @pytest.mark.parametrize("shmem", ["never", "advise"])
    def test_the_usual_values_pass(self, shmem: str) -> None:
        host = huge(enabled="madvise", defrag="madvise", shmem_enabled=shmem)
        assert quiet(transparent_hugepages, host) is None

    def test_unknown_is_no_evidence(self) -> None:
        assert quiet(transparent_hugepages, two_nodes()) == "no-evidence"


def dimm(package: int | None, controller: int, channel: int, gib: int | None = 64) -> Dimm:
    return Dimm(
        label=f"CPU_SrcID#{package}_MC#{controller}_Chan#{channel}_DIMM#0",
        controller=f"mc{controller}",
        package=package,
        location=f"channel {channel} slot 0 ",
        size_bytes=None if gib is None else gib * GIB,
    )


FULL = tuple(dimm(mc // 4, mc, channel) for mc in range(8) for channel in (0, 1))


class TestMemoryModules:
    def test_a_missing_module_on_one_socket_warns(self) -> None:
        found = fires(memory_channels_uneven, two_nodes(dimms=FULL[:-1]))
        assert found.severity == "warning"
        assert found.subject == "socket 0, socket 1"
        assert "socket 0 8 × 64 GiB" in found.message
        assert "socket 1 7 × 64 GiB" in found.message

    def test_unlike_sizes_between_sockets_warn(self) -> None:
        found = fires(memory_channels_uneven, two_nodes(dimms=(*FULL[:-1], dimm(1, 7, 1, 32))))
        assert "socket 1 1 × 32 GiB + 7 × 64 GiB" in found.message

    def test_unlike_channels_within_sockets_are_information(self) -> None:
        doubled = (dimm(0, 0, 0), dimm(1, 4, 0))
        found = fires(memory_channels_uneven, two_nodes(dimms=(*FULL, *doubled)))
        assert found.severity == "info"
        assert found.subject == "socket 0 mc0 channel 0, socket 1 mc4 channel 0"
        assert "(most: 1 × 64 GiB)" in found.message

    def test_like_sockets_and_channels_pass(self) -> None:
        assert quiet(memory_channels_uneven, two_nodes(dimms=FULL)) is None
        assert quiet(memory_channels_uneven, two_nodes(dimms=FULL[:8])) is None

    @pytest.mark.parametrize("lost", [dimm(None, 7, 1), dimm(1, 7, 1, None)])
    def test_a_module_of_unknown_place_or_size_cannot_be_compared(self, lost: Dimm) -> None:
        assert quiet(memory_channels_uneven, two_nodes(dimms=(*FULL[:-1], lost))) == "no-evidence"

    def test_without_edac_nobody_tells_not_even_root(self) -> None:
        assert quiet(memory_channels_uneven, two_nodes()) == "no-evidence"
        guest = two_nodes(system=System(virtualization="kvm"))
        assert quiet(memory_channels_uneven, guest) == "not-applicable"
