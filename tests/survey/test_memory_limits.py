"""The memory of the host as a whole, and the control groups that limit the caller's."""

from collections.abc import Mapping

import pytest

from hostdoctor.facts import HostMemory, MemoryGroup
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import MemoryTree
from hostdoctor.survey.cgroups import read_memory_groups
from hostdoctor.survey.memory_limits import read_host_memory

GIB = 1 << 30
MEMINFO = "MemTotal: 1048576 kB\nMemFree: 524288 kB\nMemAvailable: 786432 kB\nCommitLimit: 9 kB\nCommitted_AS: 8 kB\n"
KUBELET = "/var/lib/kubelet/config.yaml"


def source(files: Mapping[str, str]) -> RootSource:
    return RootSource(MemoryTree({path: text.encode() for path, text in files.items()}, {}), "x")


def memory(**files: str) -> HostMemory:
    paths = {"meminfo": "/proc/meminfo", "vmstat": "/proc/vmstat", "mountinfo": "/proc/self/mountinfo"}
    return read_host_memory(source({paths[name]: text for name, text in files.items()}), 4096)[0]


def test_meminfo_is_bytes_and_silence_is_not_zero() -> None:
    told = memory(meminfo=MEMINFO)
    assert (told.total_bytes, told.free_bytes, told.available_bytes) == (GIB, GIB // 2, 3 * GIB // 4)
    assert (told.commit_limit_bytes, told.committed_bytes) == (9 * 1024, 8 * 1024)
    assert (told.pinned_bytes, told.shm, told.kubelet_eviction_bytes) == (None, None, None)
    assert memory() == HostMemory()


def test_pages_pinned_now() -> None:
    vmstat = "nr_free_pages 9\nnr_foll_pin_acquired 1000\nnr_foll_pin_released 400\n"
    assert memory(vmstat=vmstat).pinned_bytes == 600 * 4096
    assert read_host_memory(source({"/proc/vmstat": vmstat}), None)[0].pinned_bytes is None
    assert memory(vmstat="nr_free_pages 9\n").pinned_bytes is None


@pytest.mark.parametrize(
    ("options", "size"),
    [("rw,size=65536k", 64 << 20), ("rw", GIB // 2), ("rw,size=1g,inode64", GIB), ("rw,size=x", GIB // 2)],
)
def test_the_size_of_shm_by_its_mount(options: str, size: int) -> None:
    row = f"40 30 0:40 / /dev/shm rw,nosuid,nodev - tmpfs shm {options}\n"
    place = memory(mountinfo=row, meminfo=MEMINFO).shm
    assert place is not None
    assert (place.size_bytes, place.available_bytes) == (size, None)


def test_a_folder_shm_on_another_file_system_is_none() -> None:
    assert memory(mountinfo="40 30 8:1 / / rw - ext4 /dev/sda1 rw\n", meminfo=MEMINFO).shm is None


def test_kubelets_threshold_and_its_gap() -> None:
    config = "kind: KubeletConfiguration\nevictionHard:\n  memory.available: 25%\n"
    told, gaps = read_host_memory(source({"/proc/meminfo": MEMINFO, KUBELET: config}), 4096)
    assert (told.kubelet_eviction_bytes, gaps) == (GIB // 4, ())
    told, gaps = read_host_memory(source({KUBELET: "nonsense\n"}), 4096)
    assert told.kubelet_eviction_bytes is None
    assert [(gap.source, gap.kind) for gap in gaps] == [(KUBELET, "unreadable")]


def test_version_2_groups_up_to_the_root() -> None:
    base = "/sys/fs/cgroup/kubepods/pod1"
    files = {
        "/proc/self/cgroup": "0::/kubepods/pod1\n",
        f"{base}/memory.max": "1073741824\n",
        f"{base}/memory.high": "max\n",
        f"{base}/memory.current": "4096\n",
        f"{base}/memory.stat": "anon 1\nfile 9\nshmem 4\ninactive_file 2\nactive_file 3\n",
        "/sys/fs/cgroup/kubepods/memory.max": "max\n",
        "/sys/fs/cgroup/kubepods/memory.high": "2147483648\n",
    }
    assert read_memory_groups(source(files)) == (
        MemoryGroup(
            path="/kubepods/pod1",
            folder=base,
            version=2,
            max_bytes=GIB,
            charged_bytes=4096,
            active_file_bytes=3,
            inactive_file_bytes=2,
        ),
        MemoryGroup(path="/kubepods", folder="/sys/fs/cgroup/kubepods", version=2, high_bytes=2 * GIB),
    )


def test_version_1_groups_take_what_limits_them_from_above() -> None:
    base = "/sys/fs/cgroup/memory/docker/x"
    files = {
        "/proc/self/cgroup": "5:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n",
        f"{base}/memory.limit_in_bytes": "9223372036854771712\n",
        f"{base}/memory.usage_in_bytes": "100\n",
        f"{base}/memory.stat": (
            "inactive_file 1\nhierarchical_memory_limit 1073741824\ntotal_inactive_file 7\ntotal_active_file 8\n"
        ),
        "/sys/fs/cgroup/memory/memory.usage_in_bytes": "300\n",
    }
    assert read_memory_groups(source(files)) == (
        MemoryGroup(
            path="/docker/x",
            folder=base,
            version=1,
            max_bytes=GIB,
            charged_bytes=100,
            active_file_bytes=8,
            inactive_file_bytes=7,
        ),
        MemoryGroup(path="/", folder="/sys/fs/cgroup/memory", version=1, charged_bytes=300),
    )


def test_no_groups_where_none_is_told() -> None:
    assert read_memory_groups(source({})) == ()
