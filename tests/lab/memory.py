"""States of the guest's memory: a node that is empty, full of page cache, full of anonymous memory; control groups."""

import subprocess  # noqa: TID251  prepares the guest
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.lab.machine import DISKS

MIB = 1 << 20
NODE = 1
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TAKER = (sys.executable, "-m", "tests.lab.pinning")
GROUP = "/sys/fs/cgroup/limited"
LIMIT_BYTES = 500 * MIB
FILL_BYTES = 400 * MIB  # four fifths of the limit

Words = tuple[str, ...]
BUDGET = ("budget", "--format", "json", "--reserve-gib", "0", "--page-cache-percent", "0", "--anon-gib", "0")
TOO_MUCH = (*BUDGET, "--gpus", "1", "--tp", "1", "--cpu-offload-gib", "0.6", "--reserve-gib", "0.05")
# The commands' own memory (30 MB for budget, 3 % of the node) is not to come and go on the node that is looked at.
ELSEWHERE = ("numactl", "--cpunodebind=0", "--membind=0")
MEASURE: dict[str, Words] = {"measure": (*TAKER, "measure", str(NODE))}
BOUND: dict[str, Words] = {
    "bound": ("numactl", f"--membind={NODE}", *TAKER, "take", str(1200 * MIB)),
    "preferred": ("numactl", f"--preferred={NODE}", *TAKER, "take", str(1200 * MIB)),
}


def empty(state: ExitStack) -> None:
    """Drop what is cached, and let the kernel keep as small a part free as it does on large nodes.

    khugepaged raises min_free_kbytes to some 100 MiB whatever the size of the host. The distance between watermarks is
    what the taker has to notice in time.
    """
    for name, value in (("min_free_kbytes", "8192"), ("watermark_scale_factor", "60"), ("watermark_boost_factor", "0")):
        setting = Path("/proc/sys/vm") / name
        state.callback(setting.write_text, setting.read_text(encoding="ascii"), encoding="ascii")
        setting.write_text(value, encoding="ascii")
    _run("busybox", "sync")
    Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")


def cache_full(state: ExitStack) -> None:
    """Fill node 1 with the page cache of a file that has no blocks on its disk."""
    empty(state)
    file = _sparse(state, 850 * MIB)
    _run("numactl", "--cpunodebind=0", f"--membind={NODE}", "busybox", "dd", f"if={file}", "of=/dev/null", "bs=1M")


def anon_filled(state: ExitStack) -> None:
    """Let a process have half of node 1."""
    empty(state)
    child = subprocess.Popen(
        (*TAKER, "hold", str(NODE), str(500 * MIB)), stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    state.callback(child.wait)
    state.callback(child.kill)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"


def group_with_cache(state: ExitStack) -> None:
    """Make a group that has filled four fifths of its limit with page cache."""
    _group(state)
    file = _sparse(state, FILL_BYTES)
    _in_group("busybox", "dd", f"if={file}", "of=/dev/null", "bs=1M")


def group_with_shared_memory(state: ExitStack) -> None:
    """Make a group that has filled four fifths of its limit with shared memory, as pinned memory shows."""
    _group(state)
    file = Path("/dev/shm/filled")
    state.callback(file.unlink)
    _in_group("busybox", "dd", "if=/dev/zero", f"of={file}", "bs=1M", f"count={FILL_BYTES // MIB}")


# The cache comes first: kswapd gives a node up once it found nothing there to take back, until somebody else does.
STATES = {"cache": cache_full, "empty": empty, "anon": anon_filled}
GROUPS: dict[str, tuple[Callable[[ExitStack], None], dict[str, Words]]] = {
    "cache": (group_with_cache, {"take": (*TAKER, "take", str(350 * MIB))}),
    "shared": (group_with_shared_memory, {"take": (*TAKER, "take", str(150 * MIB))}),
}


def _sparse(state: ExitStack, size: int) -> Path:
    disk = f"/dev/{_namespace(DISKS[0])}"
    _run("busybox", "mke2fs", disk)
    _run("busybox", "mount", "-t", "ext4", disk, "/mnt")
    state.callback(_run, "busybox", "umount", "/mnt")
    file = Path("/mnt/sparse")
    with file.open("wb") as stream:
        stream.truncate(size)
    return file


def _group(state: ExitStack) -> None:
    group = Path(GROUP)
    (group.parent / "cgroup.subtree_control").write_text("+memory", encoding="ascii")
    group.mkdir()
    state.callback(group.rmdir)
    (group / "memory.max").write_text(str(LIMIT_BYTES), encoding="ascii")


def _in_group(*words: str) -> None:
    _run("/bin/sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', GROUP, *words)


def _namespace(serial: str) -> str:
    links = Path("/sys/class/nvme").iterdir()
    link = next(link for link in links if (link / "serial").read_text(encoding="ascii").strip() == serial)
    return next(link.glob("nvme*n1")).name


def _run(*words: str) -> None:
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={"PATH": PATH})
