"""What a run meets, from what the kernel shows before and after it."""

import pytest

from hostdoctor.facts import Cgroup, Host
from hostdoctor.measure.trial_watch import Watch
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import MemoryTree

CLOCK = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq"
HOST = Host(is_live=True, cgroups=(Cgroup(path="/pod", folder="/sys/fs/cgroup/pod"),))


class Changing(RootSource):
    """A host whose files are replaced."""

    def show(self, **files: str) -> None:
        super().__init__(MemoryTree({path: text.encode() for path, text in files.items()}, {}), "changing")


def stat(*cpus: tuple[int, int, int]) -> str:
    """Return /proc/stat with user, idle and stolen ticks of CPUs."""
    return "".join(f"cpu{n} {user} 0 0 {idle} 0 0 0 {steal} 0 0\n" for n, (user, idle, steal) in enumerate(cpus))


def test_shares_are_of_the_time_of_the_cpus_in_question() -> None:
    source = Changing(MemoryTree({}, {}), "changing")
    before = {"/proc/stat": stat((0, 0, 0), (0, 0, 0)), "/sys/fs/cgroup/pod/cpu.stat": "throttled_usec 0\n"}
    source.show(**before, **{CLOCK.format(0): "3000000\n", CLOCK.format(1): "800000\n"})
    watch = Watch(source, HOST, (0, 1), ())
    watch.tick()
    source.show(
        **{
            "/proc/stat": stat((90, 0, 10), (0, 100, 0)),
            "/sys/fs/cgroup/pod/cpu.stat": "throttled_usec 500\n",
            "/proc/7/io": "rchar: 5\nread_bytes: 4096\n",
            "/proc/8/io": "read_bytes: 100\n",
        }
    )
    watch.look((7, 8, 9))
    met = watch.finish()
    assert met.steal_share == pytest.approx(0.05)
    assert met.cpu_mhz == 3000  # the other CPU was idle, and its clock means nothing
    assert met.read_bytes == 4196
    assert met.throttled_share is not None
    assert met.throttled_share > 0
    assert met.gpu_throttled_s is None


def test_what_is_not_told_is_not_zero() -> None:
    met = Watch(RootSource(MemoryTree({}, {}), "empty"), Host(), (0,), ()).finish()
    assert (met.steal_share, met.throttled_share, met.cpu_mhz, met.read_bytes) == (None,) * 4
