"""Counters read twice, from a host whose files change between the readings."""

from typing import Any

import msgspec
import pytest

from hostdoctor.diagnosis.counters import rise, rises
from hostdoctor.facts import BlockDevice, Cgroup, Host, NvidiaDriver, PciDevice, PciErrors, Sample
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import MemoryTree
from hostdoctor.survey.samples import read_counters, take_samples

GPU = "0000:3b:00.0"
HOST = Host(
    is_live=True,
    cgroups=(Cgroup(path="/kubepods/pod1", folder="/sys/fs/cgroup/kubepods/pod1"),),
    pci_devices=(PciDevice(bdf=GPU, errors=PciErrors(correctable=0)), PciDevice(bdf="0000:00:00.0")),
    block_devices=(BlockDevice(name="nvme0n1"),),
)


def files(n: int) -> dict[str, str]:
    """Return what the kernel shows the n-th time."""
    return {
        "/proc/vmstat": f"nr_free_pages 7\nnuma_hint_faults {100 + n}\npswpin {n}\npswpout 0\n",
        "/proc/stat": f"cpu  1 1 1 1 1 1 1 1 0 0\ncpu0 10 0 0 {80 + 9 * n} 0 0 0 {10 + n} 0 0\ncpu1 1 2 3\nintr 5\n",
        "/proc/pressure/memory": f"some avg10=0.00 avg60=0.00 avg300=0.00 total={50 * n}\nfull avg10=0.00 total=0\n",
        "/sys/fs/cgroup/kubepods/pod1/cpu.stat": f"usage_usec 5\nnr_periods 9\nnr_throttled {3 * n}\n",
        f"/sys/bus/pci/devices/{GPU}/aer_dev_correctable": f"BadTLP {n}\nTOTAL_ERR_COR {n}\n",
        "/sys/block/nvme0n1/stat": f" {n} 0 8 1 2 0 16 3 4 5 6 0 0 0 0 1 2\n",
    }


class Changing(RootSource):
    """A root whose files are read anew after each wait."""

    def __init__(self, driver: Sample | None = None) -> None:
        self.turn = 0
        self.driver = driver
        self.asked: list[float] = []
        self.show()

    def show(self) -> None:
        told = {path: text.encode() for path, text in files(self.turn).items()}
        super().__init__(MemoryTree(told, {}), "changing")

    def nvml_sample(self, seconds: float) -> Sample | None:
        self.asked.append(seconds)
        return self.driver


def taken(source: Changing, host: Host = HOST, seconds: float = 10.0, clock: Any = None) -> tuple[Sample, ...]:
    def wait(_: float) -> None:
        source.turn += 1
        source.show()

    ticks = iter(clock or (100.0, 100.5, 100.0 + seconds))
    return take_samples(source, host, seconds, wait=wait, clock=lambda: next(ticks))


def test_names_and_rises() -> None:
    (sample,) = taken(Changing())
    assert sample.seconds == 10.0
    host = msgspec.structs.replace(HOST, samples=(sample,))
    expected = {
        "vmstat.numa_hint_faults": 1,
        "vmstat.pswpin": 1,
        "vmstat.pswpout": 0,
        "cpu0.steal": 1,
        "cpu0.idle": 9,
        "cpu0.total": 10,
        "psi.memory.some.total_us": 50,
        "psi.memory.full.total_us": 0,
        "cgroup./kubepods/pod1.nr_throttled": 3,
        "cgroup./kubepods/pod1.nr_periods": 0,
        f"aer.{GPU}.correctable": 1,
        "block.nvme0n1.read_ios": 1,
        "block.nvme0n1.write_ticks_ms": 0,
    }
    assert {name: r.by for name in expected if (r := rise(host, name))} == expected
    assert [r.name for r in rises(host, "cgroup.", ".nr_throttled")] == ["cgroup./kubepods/pod1.nr_throttled"]
    assert "block.nvme0n1." not in sample.before


def test_only_what_is_there_is_counted() -> None:
    empty = RootSource(MemoryTree({}, {}), "empty")
    assert read_counters(empty, HOST) == {}


@pytest.mark.parametrize("text", ["", "junk\n", "numa_hint_faults -1\n", "numa_hint_faults " + "9" * 5000 + "\n"])
def test_what_is_no_number_is_left_out(text: str) -> None:
    names = ("/proc/vmstat", "/proc/stat", "/proc/pressure/memory", "/sys/block/nvme0n1/stat")
    odd = RootSource(MemoryTree(dict.fromkeys(names, text.encode()), {}), "odd")
    assert read_counters(odd, HOST) == {}


def test_the_driver_is_asked_only_where_it_answered() -> None:
    own = Sample(seconds=9.5, before={"nvml.0.pcie_replays": 1}, after={"nvml.0.pcie_replays": 4})
    silent = Changing(own)
    assert len(taken(silent)) == 1
    assert silent.asked == []
    answering = Changing(own)
    samples = taken(answering, msgspec.structs.replace(HOST, nvidia=NvidiaDriver(state="ok")))
    assert (answering.asked, samples[1]) == ([10.0], own)


def test_a_slow_driver_makes_the_sample_longer_not_wrong() -> None:
    (sample,) = taken(Changing(), clock=(100.0, 140.0, 140.0))
    assert sample.seconds == 40.0
