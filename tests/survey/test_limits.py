"""What only checks ask for, read from the kernel's files: power, memory modules, limits, drive health."""

import os
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from hostdoctor.facts import Dimm, Host, NvmeController, NvmeHealth
from hostdoctor.sources.base import Command, Output, nvme_smart
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import MemoryTree
from hostdoctor.survey.details import with_details
from hostdoctor.survey.dimms import read_dimms
from hostdoctor.survey.health import with_health
from hostdoctor.survey.power import read_cpu_power

CPUS = "/sys/devices/system/cpu"
EDAC = "/sys/devices/system/edac/mc"
MIB = 1 << 20


def root(files: dict[str, str]) -> RootSource:
    return RootSource(MemoryTree({path: f"{text}\n".encode() for path, text in files.items()}, {}), "test")


def policies(*governors: str, **values: str) -> dict[str, str]:
    files = {f"{CPUS}/cpufreq/policy{i}/scaling_governor": name for i, name in enumerate(governors)}
    named = {f"{CPUS}/cpufreq/policy{i}/{name}": v for i in range(len(governors)) for name, v in values.items()}
    return files | named


class TestPower:
    def test_governors_are_counted_over_all_policies(self) -> None:
        files = policies(*["powersave"] * 11, "performance", scaling_driver="intel_pstate")
        files[f"{CPUS}/cpufreq/policy0/energy_performance_preference"] = "balance_performance"
        files[f"{CPUS}/cpufreq/policy11/energy_performance_preference"] = "performance"
        power = read_cpu_power(root(files))
        assert power.governors == {"powersave": 11, "performance": 1}
        assert power.driver == "intel_pstate"
        assert power.energy_preferences == ("balance_performance", "performance")

    def test_kernels_with_a_folder_in_each_cpu_only(self) -> None:
        files = {f"{CPUS}/cpu0/cpufreq/scaling_governor": "ondemand", f"{CPUS}/cpu0/cpufreq/scaling_driver": "x"}
        power = read_cpu_power(root(files))
        assert (power.governors, power.driver) == ({"ondemand": 1}, "x")

    def test_idle_states_from_shallow_to_deep(self) -> None:
        files: dict[str, str] = {}
        for number, name, latency, disable in ((0, "POLL", "0", "0"), (2, "C6", "133", "1"), (10, "C10", "x", "")):
            folder = f"{CPUS}/cpu0/cpuidle/state{number}"
            files |= {f"{folder}/name": name, f"{folder}/latency": latency, f"{folder}/disable": disable}
        found = [(s.name, s.exit_latency_us, s.disabled) for s in read_cpu_power(root(files)).idle_states]
        assert found == [("POLL", 0, False), ("C6", 133, True), ("C10", None, None)]

    def test_nothing_is_known_of_a_virtual_machine(self) -> None:
        power = read_cpu_power(root({f"{CPUS}/online": "0-1"}))
        assert (power.driver, power.governors, power.idle_states) == (None, {}, ())


def module(mc: int, slot: int, name: str, label: str, size: object = 32768, location: str = "") -> dict[str, str]:
    folder = f"{EDAC}/mc{mc}"
    return {
        f"{folder}/mc_name": name,
        f"{folder}/dimm{slot}/dimm_label": label,
        f"{folder}/dimm{slot}/dimm_location": location,
        f"{folder}/dimm{slot}/size": str(size),
    }


class TestDimms:
    def test_a_module(self) -> None:
        label = "CPU_SrcID#1_MC#0_Chan#1_DIMM#0"
        files = module(2, 3, "Intel_10nm Socket#1 IMC#0", label, location="channel 1 slot 0 ")
        assert read_dimms(root(files)) == (
            Dimm(label=label, controller="mc2", package=1, location="channel 1 slot 0", size_bytes=32768 * MIB),
        )

    @pytest.mark.parametrize(
        ("mc", "name", "label", "package"),
        [
            (3, "Skylake Socket#1 IMC#1", "CPU_SrcID#1_MC#1_Chan#0_DIMM#0", 1),
            (1, "Broadwell SrcID#1_Ha#0", "CPU_SrcID#1_Ha#0_Chan#2_DIMM#0", 1),
            (0, "i10nm", "CPU_SrcID#0_MC#0_Chan#0_DIMM#0", 0),
            (1, "F19h_M10h", "mc#1csrow#0channel#3", 1),
            (1, "F1Ah", "mc#1csrow#0channel#3", 1),
            (1, "F17h_M30h", "mc#1csrow#0channel#3", 1),
            (3, "F17h", "mc#3csrow#0channel#1", None),
            (0, "ghes_edac", "P1_Node0_Channel0_Dimm0", 1),
            (0, "ghes_edac", "CPU1 DIMM_A1", 1),
            (0, "ghes_edac", "PROC 2 DIMM 3", 2),
            (0, "ghes_edac", "A1", None),
            (0, "ghes_edac", "P1DIMMA1", None),
        ],
    )
    def test_the_socket_of_each_driver(self, mc: int, name: str, label: str, package: int | None) -> None:
        (dimm,) = read_dimms(root(module(mc, 0, name, label)))
        assert dimm.package == package

    def test_empty_and_unreadable_sizes(self) -> None:
        files = module(0, 0, "x", "a", 0) | module(0, 10, "x", "b", "?") | module(0, 9, "x", "c", 16)
        assert [(d.label, d.size_bytes) for d in read_dimms(root(files))] == [("c", 16 * MIB), ("b", None)]

    def test_no_driver(self) -> None:
        assert read_dimms(root({"/sys/devices/system/edac/power/control": "auto"})) == ()


LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max locked memory         8388608              unlimited            bytes
Max address space         unlimited            unlimited            bytes"""


class TestSettings:
    def test_limits_and_huge_pages(self) -> None:
        folder = "/sys/kernel/mm/transparent_hugepage"
        files = {
            "/proc/self/limits": LIMITS,
            f"{folder}/enabled": "always [madvise] never",
            f"{folder}/defrag": "always defer [defer+madvise] madvise never",
            f"{folder}/shmem_enabled": "always within_size advise [never] deny force",
        }
        assert with_details(root(files), Host(settings={"a": "b"}), ()).settings == {
            "a": "b",
            "rlimit.memlock.soft": "8388608",
            "rlimit.memlock.hard": "unlimited",
            "transparent_hugepage.enabled": "madvise",
            "transparent_hugepage.defrag": "defer+madvise",
            "transparent_hugepage.shmem_enabled": "never",
        }

    @pytest.mark.parametrize("text", ["", "Max locked memory", "Max locked memory  many  few  bytes"])
    def test_what_is_not_a_limit_is_unknown(self, text: str) -> None:
        assert with_details(root({"/proc/self/limits": text}), Host(), ()).settings == {}


class Live(RootSource):
    """A host that is alive: SMART logs by command, files from a tree."""

    is_live = True

    def __init__(self, files: dict[str, str], answer: Callable[[Command], Output]) -> None:
        super().__init__(MemoryTree({path: text.encode() for path, text in files.items()}, {}), "this host")
        self.answer = answer
        self.asked: list[str] = []

    def run(self, command: Command) -> tuple[Output, ...]:
        self.asked.append(command.label)
        return (self.answer(command),)


def drive(number: int, **more: Any) -> NvmeController:
    return NvmeController(name=f"nvme{number}", **({"transport": "pcie", "state": "live"} | more))


def healthy(command: Command) -> Output:
    text = '{\n  "critical_warning" : 0,\n  "media_errors" : "0"\n}\n'
    return Output(source=command.label, text=text)


DEV = {f"/dev/nvme{i}": "" for i in (0, 1, 2, 10)}
LOG = NvmeHealth(critical_warning=0, media_errors=0)


class TestHealth:
    @pytest.fixture(autouse=True)
    def _as_root(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 0)

    def test_root_reads_each_drive(self) -> None:
        source = Live(DEV, healthy)
        drives, gaps = with_health(source, (drive(0), drive(10)))
        assert [(d.name, d.health) for d in drives] == [("nvme0", LOG), ("nvme10", LOG)]
        assert gaps == ()
        assert source.asked == ["nvme smart-log -o json /dev/nvme0", "nvme smart-log -o json /dev/nvme10"]

    @pytest.mark.parametrize("other", [{"transport": "tcp"}, {"state": "dead"}, {"name": None}, {"state": None}])
    def test_what_may_never_answer_is_not_asked(self, other: dict[str, Any]) -> None:
        source = Live(DEV, healthy)
        with_health(source, (msgspec.structs.replace(drive(0), **other),))
        assert source.asked == []

    def test_without_root_or_a_device_node_nothing_is_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        source = Live({"/dev/null": ""}, healthy)
        with_health(source, (drive(0),))
        source = Live(DEV, healthy)
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        with_health(source, (drive(0),))
        assert source.asked == []

    def test_a_missing_tool_is_one_gap(self) -> None:
        source = Live(DEV, lambda command: Output(source=command.label, reason="nvme: command not found"))
        drives, gaps = with_health(source, (drive(0), drive(1)))
        assert [(gap.source, gap.kind) for gap in gaps] == [("nvme smart-log", "missing")]
        assert [d.health for d in drives] == [None, None]

    def test_one_bad_drive_costs_itself_only(self) -> None:
        def answer(command: Command) -> Output:
            if command.label.endswith("nvme1"):
                return Output(source=command.label, reason="did not answer within 5 s", kind="timeout")
            return Output(source=command.label, text="garbage") if command.label.endswith("nvme2") else healthy(command)

        drives, gaps = with_health(Live(DEV, answer), (drive(0), drive(1), drive(2)))
        assert [d.health for d in drives] == [LOG, None, None]
        assert [gap.kind for gap in gaps] == ["timeout", "unreadable"]
        assert "garbage" in gaps[1].reason

    @pytest.mark.parametrize(
        "name", ["nvme_smart-log_.dev.nvme3n1", "nvme_smart-log_-o_json_dev_nvme3", "nvme_smart-log_.dev.nvme3.txt"]
    )
    def test_a_capture_holds_logs_under_sosreports_names(self, name: str) -> None:
        source = root({f"/sos_commands/nvme/{name}": "critical_warning : 0x4\nmedia_errors : 0\n"})
        drives, gaps = with_health(source, (drive(3), drive(30)))
        assert [d.health.critical_warning if d.health else None for d in drives] == [4, None]
        assert gaps == ()

    def test_the_sensor_needs_no_root(self) -> None:
        folder = "/sys/class/nvme/nvme0/hwmon7"
        files = {f"{folder}/temp1_input": "41850\n", f"{folder}/temp1_alarm": "0\n"}
        (seen,), _ = with_health(root(files), (drive(0),))
        assert (seen.temperature_celsius, seen.temperature_alarm) == (41.85, False)

    @pytest.mark.parametrize("files", [{}, {"temp1_input": ""}, {"temp1_input": "hot", "temp1_alarm": "?"}])
    def test_no_sensor_no_temperature(self, files: dict[str, str]) -> None:
        paths = {f"/sys/class/nvme/nvme0/hwmon7/{name}": text for name, text in files.items()}
        (seen,), _ = with_health(root(paths), (drive(0),))
        assert (seen.temperature_celsius, seen.temperature_alarm) == (None, None)

    def test_details_bring_it_all_together(self) -> None:
        host = with_details(Live(DEV, healthy), Host(nvme=(drive(0), drive(3))), ())
        assert [d.health for d in host.nvme] == [LOG, None]


def test_the_command_is_an_argument_list() -> None:
    assert nvme_smart("nvme0").argv == ("nvme", "smart-log", "-o", "json", "/dev/nvme0")
