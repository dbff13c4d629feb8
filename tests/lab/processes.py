"""Processes in the guest whose CPUs and memory are where they should be, and elsewhere."""

import mmap
import subprocess  # noqa: TID251  starts what is looked at
import sys
from contextlib import ExitStack
from pathlib import Path

MIB = 1 << 20
HELD_MIB = 200
HUGE_MIB = 40
HUGE_PAGES = "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages"
MAP_HUGETLB = 0x40000
PRIVATE, SHARED = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS

PIDS = "/run/pids/"
NODE_0, JSON = ("--node", "0"), ("--format", "json")

# Name: how memory is mapped, how much of it, node of the CPUs, node of the memory.
PROCESSES = {
    "right": (SHARED, HELD_MIB, 0, 0),
    "private-far": (PRIVATE, HELD_MIB, 0, 1),
    "shared-far": (SHARED, HELD_MIB, 0, 1),
    "huge-far": (SHARED | MAP_HUGETLB, HUGE_MIB, 0, 1),
}
GROUPED = "shared-far"  # alone in a control group, which tells its memory to everybody
GROUP = Path("/sys/fs/cgroup/alone")
IN_GROUP = ("sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(GROUP))
HOLD = """
import mmap, sys
flags, size = int(sys.argv[1]), int(sys.argv[2]) << 20
held = mmap.mmap(-1, size, flags=flags)
for page in range(0, size, 4096):
    held[page] = 1
print("ready", flush=True)
sys.stdin.read()
"""


def running(state: ExitStack) -> None:
    """Start the processes, let each touch its memory, and leave their PIDs in ``/run/pids``."""
    pages = Path(HUGE_PAGES)
    pages.write_text(str(HUGE_MIB // 2))
    state.callback(pages.write_text, "0")
    (GROUP.parent / "cgroup.subtree_control").write_text("+memory")
    GROUP.mkdir()
    state.callback(GROUP.rmdir)
    pids = Path(PIDS)
    pids.mkdir(exist_ok=True)
    for name, (flags, size_mib, cpus, memory) in PROCESSES.items():
        bound = ("numactl", f"--cpunodebind={cpus}", f"--membind={memory}")
        command = (
            *(IN_GROUP if name == GROUPED else ()),
            *bound,
            sys.executable,
            "-S",
            "-c",
            HOLD,
            str(flags),
            str(size_mib),
        )
        process = state.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        state.callback(process.kill)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n", name
        (pids / name).write_text(str(process.pid))


def looked_at(*names: str, options: tuple[str, ...] = NODE_0) -> tuple[str, ...]:
    """Return hostdoctor's arguments that have ``ps`` look at the processes."""
    return ("ps", *(word for name in names for word in ("--pid", f"{PIDS}{name}")), *options)


def named(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return words with the PIDs that the processes have by now."""
    return tuple(Path(word).read_text(encoding="ascii") if word.startswith(PIDS) else word for word in words)


def numastat(name: str) -> tuple[str, ...]:
    """Return the command that has numastat look at a process."""
    return ("sh", "-c", f"exec numastat -p $(cat {PIDS}{name})")


LOOKS = {
    "all": looked_at(*PROCESSES, options=(*NODE_0, *JSON)),
    "far-for-gpu": looked_at("shared-far", options=("--gpus", "0", *JSON)),
    "right-for-gpu": looked_at("right", options=("--gpus", "0", *JSON)),
    "wrong-cpus": looked_at("shared-far", options=("--gpus", "1", *JSON)),
    "right-text": looked_at("right"),
    "far-text": looked_at("private-far"),
    "gone": ("ps", "--pid", "4194303", *JSON),
    "nothing-named": ("ps",),
}
