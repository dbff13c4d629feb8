"""Runs in the guest, as root: brings the kernel into one state after another, and keeps what hostdoctor says of each.

To add a scenario, add a row to ``LOOKING`` or ``EXPERIMENTS``: each is one boot. Each scenario leaves
/out/SCENARIO/kernel.json (what the kernel showed meanwhile) and for each of its runs /out/SCENARIO/RUN.json (exit
status and both streams); ``Guest.run`` reads them.
"""

import json
import re
import subprocess  # noqa: TID251  runs the command line from outside
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from hostdoctor.cli.app import COMMANDS
from tests.lab import copies, memory
from tests.lab.forking import read_modules, start
from tests.lab.machine import DISKS, GPUS
from tests.lab.opened import ROOT, let_everybody_read
from tests.lab.processes import LOOKS, PROCESSES, named, numastat, running
from tests.lab.reader import read_kernel

OUT = Path("/out")
NOBODY = 65534
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NEAR0 = "/sys/fs/cgroup/near0"
IN_CGROUP = ("/bin/sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"')

Preparation = Callable[[ExitStack], None]


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A state of the guest and what is run in it: by name, hostdoctor's arguments or another command's words."""

    runs: dict[str, tuple[str, ...]]
    tools: dict[str, tuple[str, ...]] = {}
    prepare: Preparation = lambda _state: None
    before: tuple[str, ...] = ()  # words before the command
    group: str | None = None  # the control group to run in
    user: int | None = None
    path: str = PATH


def settings(state: ExitStack) -> None:
    """Set what an administrator can set badly."""
    near0, near1, nowhere = (_namespace(serial) for serial in DISKS)
    state.enter_context(
        written(
            {
                "/proc/sys/vm/zone_reclaim_mode": "1",
                "/proc/sys/kernel/numa_balancing": "0",
                "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages": "40",
                f"/sys/block/{near0}/queue/scheduler": "mq-deadline",
                f"/sys/block/{near1}/queue/iostats": "0",
            }
        )
    )
    _tool("mke2fs", f"/dev/{near0}")
    _tool("mount", "-t", "ext4", f"/dev/{near0}", "/mnt")
    state.callback(_tool, "umount", "/mnt")
    _tool("mkswap", f"/dev/{nowhere}")
    _tool("swapon", f"/dev/{nowhere}")
    state.callback(_tool, "swapoff", f"/dev/{nowhere}")


def cpuset(state: ExitStack) -> None:
    """Make a control group that leaves out node 1."""
    root = Path("/sys/fs/cgroup")
    group = Path(NEAR0)
    (root / "cgroup.subtree_control").write_text("+cpuset")
    group.mkdir()
    state.callback(group.rmdir)
    (group / "cpuset.cpus").write_text("0-3")
    (group / "cpuset.mems").write_text("0")


def bare_metal(state: ExitStack) -> None:
    """Take away what says that this is a virtual machine, so that its ports are judged."""
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="ascii")
    state.enter_context(replaced("/proc/cpuinfo", cpuinfo.replace(" hypervisor", "")))
    state.enter_context(replaced("/sys/class/dmi/id/sys_vendor", "Example\n"))
    state.enter_context(replaced("/sys/class/dmi/id/product_name", "Two-socket board\n"))


def narrow(state: ExitStack) -> None:
    """Let the GPU on node 0 come up with half of its lanes."""
    bare_metal(state)
    for bdf in (GPUS[0], "0000:20:00.0"):
        state.enter_context(written({f"/sys/bus/pci/devices/{bdf}/current_link_width": "8"}))


def cpus_offline(state: ExitStack) -> None:
    """Take two CPUs of node 1 away, which is also where one queue of the drive at the x4 port has its users."""
    state.enter_context(written({f"/sys/devices/system/cpu/cpu{cpu}/online": "0" for cpu in (6, 7)}))


def without_numactl(state: ExitStack) -> None:
    """Take numactl away, in the guest's own layer."""
    place = Path("/usr/bin/numactl")
    place.rename("/usr/bin/numactl.away")
    state.callback(Path("/usr/bin/numactl.away").rename, place)


def slow_link(state: ExitStack) -> None:
    """Let the GPU on node 0 run a lower generation than it can, also while something is copied to it."""
    bare_metal(state)
    for bdf in (GPUS[0], "0000:20:00.0"):
        state.enter_context(written({f"/sys/bus/pci/devices/{bdf}/current_link_speed": "16.0 GT/s PCIe"}))
    if copies.is_built():
        copies.keep()


def copying(what: str) -> tuple[str, ...]:
    """Return the command that measures copies in the way that ``tests/lab/copies.py`` calls so."""
    return (sys.executable, "-m", "tests.lab.copies", what)


CHECK = ("check", "--format", "json")
WRAPPER = "/run/wrapper-"
PLACED = (sys.executable, "-m", "tests.lab.placed", "a word", "$(b)")
BINDINGS = {
    "gpu0": ("--gpus", "0", "--policy", "bind"),
    "gpu1": ("--gpus", "1", "--policy", "bind"),
    "auto0": ("--gpus", "0"),
    "far0": ("--gpus", "0", "--arm", "far", "--policy", "bind"),
    "preferred1": ("--gpus", "1", "--policy", "preferred"),
    "interleave0": ("--gpus", "0", "--policy", "interleave"),
    "both": ("--gpus", "0,1"),
}
WRAPPED = ("gpu0", "gpu1", "far0", "preferred1", "interleave0", "both")


def run_bound(*names: str) -> dict[str, tuple[str, ...]]:
    """Return ``hostdoctor run`` under these bindings, by name."""
    return {f"run-{name}": ("run", *BINDINGS[name], "--", *PLACED) for name in names}


def written_wrappers(*names: str) -> dict[str, tuple[str, ...]]:
    """Return ``hostdoctor wrap`` with these bindings, each to a file of its own, by name."""
    return {f"written-{name}": ("wrap", *BINDINGS[name], "-o", f"{WRAPPER}{name}", "--", *PLACED) for name in names}


def run_wrapped(*names: str, strict: bool = False) -> dict[str, tuple[str, ...]]:
    """Return the wrappers that were written, as commands, by name."""
    before = ("env", "HOSTDOCTOR_STRICT=1") if strict else ()
    return {f"wrap-{name}{'-strict' * strict}": (*before, f"{WRAPPER}{name}") for name in names}


def run_strictly(name: str) -> dict[str, tuple[str, ...]]:
    """Return ``hostdoctor run`` under a binding of which nothing may be left out."""
    words = (sys.executable, "-m", "hostdoctor", "run", *BINDINGS[name], "--", *PLACED)
    return {f"run-{name}-strict": ("env", "HOSTDOCTOR_STRICT=1", *words)}


def filtered(how: str) -> tuple[str, ...]:
    """Return the words that have a command's memory policy calls refused."""
    return (sys.executable, "-m", "tests.lab.without_mempolicy", how)


def compared(name: str, *options: str) -> tuple[str, ...]:
    """Return hostdoctor's arguments for an experiment whose files are left beside its answer."""
    plain = ("--pairs", "6", "--no-control", "--warm-ups", "0", "--format", "json")
    walk = (sys.executable, "-m", "tests.lab.walking")
    return ("compare", "--out", str(OUT / name / "experiment"), *plain, *options, "--", *walk)


CAPTURE = {"capture": ("capture", "-o", str(OUT / "plain" / "capture.tar.gz"))} if "capture" in COMMANDS else {}
MEASURED = (sys.executable, "-m", "tests.lab.measuring")
MEMORY = ("memory", "--size-mib", "16", "--rounds", "2", "--warmup", "0.1", "--quick", "--format", "json")
NVME = ("nvme", "--seconds", "1", "--repeats", "1", "--block-kib", "16", "--depth", "8", "--quick", "--format", "json")
LOOKING = {
    "plain": Scenario(
        runs={
            "topo": ("topo", "--format", "json"),
            "topo-text": ("topo",),
            "check": CHECK,
            "budget": memory.BUDGET,
            "report": ("report",),
            **CAPTURE,
        },
        tools={
            "meminfo": ("cat", "/proc/meminfo"),
            "bug-report": (sys.executable, "-m", "tests.support.bug_report"),
            "numactl": ("numactl", "--hardware"),
            "lspci": ("lspci", "-D", "-nnvvv"),
            "lspci-tree": ("lspci", "-tv"),
            "lscpu": ("lscpu",),
            "interrupts": ("cat", "/proc/interrupts"),
        },
    ),
    "nobody": Scenario(runs={"check": CHECK}, user=NOBODY),
    "no-tools": Scenario(runs={"check": CHECK}, path="/nonexistent"),
    "settings": Scenario(runs={"check": CHECK}, prepare=settings),
    "cpuset": Scenario(runs={"check": CHECK}, prepare=cpuset, group=NEAR0),
    "bare-metal": Scenario(runs={"check": CHECK, "topo-text": ("topo",)}, prepare=bare_metal),
    "narrow": Scenario(runs={"check": CHECK}, prepare=narrow),
    "placed": Scenario(runs=run_bound(*BINDINGS) | written_wrappers(*WRAPPED), tools=run_wrapped(*WRAPPED)),
    "placed-cpuset": Scenario(
        runs=run_bound("gpu0", "gpu1") | written_wrappers("gpu0", "gpu1"),
        tools=run_wrapped("gpu0"),
        prepare=cpuset,
        group=NEAR0,
    ),
    "placed-refused": Scenario(
        runs=run_bound("gpu1") | written_wrappers("gpu1"),
        tools=run_wrapped("gpu1") | run_wrapped("gpu1", strict=True) | run_strictly("gpu1"),
        before=filtered("eperm"),
    ),
    "placed-killed": Scenario(
        runs=run_bound("gpu1") | written_wrappers("gpu1"), tools=run_wrapped("gpu1"), before=filtered("kill")
    ),
    "placed-no-numactl": Scenario(
        runs=run_bound("gpu1") | written_wrappers("gpu1"),
        tools=run_wrapped("gpu1") | run_wrapped("gpu1", strict=True),
        prepare=without_numactl,
    ),
    **{
        f"memory-{state}": Scenario(
            runs={"budget": memory.BUDGET}, tools=memory.MEASURE, prepare=prepare, before=memory.ELSEWHERE
        )
        for state, prepare in memory.STATES.items()
    },
    **{
        f"group-{state}": Scenario(runs={"budget": memory.BUDGET}, tools=tools, prepare=prepare, group=memory.GROUP)
        for state, (prepare, tools) in memory.GROUPS.items()
    },
    "membind": Scenario(runs={"budget": memory.TOO_MUCH}, tools=memory.BOUND),
    "processes": Scenario(
        runs=LOOKS, tools={f"numastat-{name}": numastat(name) for name in PROCESSES}, prepare=running
    ),
    "processes-nobody": Scenario(runs={"all": LOOKS["all"]}, prepare=running, user=NOBODY),
    "cpus-offline": Scenario(runs={"check": CHECK}, tools={"numactl": ("numactl", "--hardware")}, prepare=cpus_offline),
}
EXPERIMENTS = {
    "compare": Scenario(
        runs={
            "near-far": compared("compare", "--node", "0", "--arms", "near,far"),
            "no-driver": ("compare", "--gpus", "0", "--", "true"),
        }
    ),
    "compare-cpuset": Scenario(
        runs={
            "near-far": compared("compare-cpuset", "--node", "0", "--arms", "near,far"),
            "far-node": compared("compare-cpuset", "--node", "1", "--far-node", "0"),
        },
        prepare=cpuset,
        group=NEAR0,
    ),
    "copies": Scenario(
        runs={"no-driver": ("measure", "copy", "--gpu", "0")},
        tools={what: copying(what) for what in ("1.0", "1.3", "2.0", "placed", "contended")},
    ),
    "copies-cpuset": Scenario(runs={"copy": ("measure", "copy", "--gpu", "0")}, prepare=cpuset, group=NEAR0),
    "copies-slow-link": Scenario(
        runs={"check": (*CHECK, "--measured", str(copies.DOCUMENT)), "idle": CHECK}, prepare=slow_link
    ),
    "measure": Scenario(
        runs={},
        tools={
            "memory": (*MEASURED, *MEMORY, "--native-chase"),
            "memory-interpreted": (*MEASURED, *MEMORY, "--no-bandwidth"),
            "nvme-near1": (*MEASURED, *NVME, "--drive", "serial:NEAR1"),
        },
    ),
    "measure-cpuset": Scenario(
        runs={},
        tools={"memory": (*MEASURED, *MEMORY, "--native-chase", "--no-bandwidth")},
        prepare=cpuset,
        group=NEAR0,
    ),
}
PARTS = {"looks": LOOKING, "experiments": EXPERIMENTS}


@contextmanager
def written(values: dict[str, str]) -> Iterator[None]:
    """Write settings and put the former values back; of a choice (``[none] mq-deadline``) the chosen one."""
    former = {}
    for name, value in values.items():
        old = Path(name).read_text(encoding="ascii")
        chosen = re.search(r"\[(\S+)\]", old)
        former[name] = chosen[1] if chosen else old
        Path(name).write_text(value, encoding="ascii")
    yield
    for name, value in former.items():
        Path(name).write_text(value, encoding="ascii")


@contextmanager
def replaced(name: str, text: str) -> Iterator[None]:
    """Show another text in place of a file of the kernel's."""
    instead = Path("/run") / name.replace("/", "_")
    instead.write_text(text, encoding="ascii")
    _tool("mount", "--bind", str(instead), name)
    yield
    _tool("umount", name)


def main() -> None:
    """Go through one part of the scenarios."""
    part = PARTS[sys.argv[1]]
    _wait_for_drives()
    let_everybody_read()
    read_modules()
    for name, scenario in part.items():
        _play(OUT / name, scenario)


def _play(folder: Path, scenario: Scenario) -> None:
    folder.mkdir()
    for left in Path("/run").glob("wrapper-*"):
        left.unlink()
    with ExitStack() as state:
        scenario.prepare(state)
        _keep(folder / "kernel.json", read_kernel())
        for run, words in scenario.runs.items():
            _keep(folder / f"{run}.json", _start(scenario, words))
        for run, words in scenario.tools.items():
            _keep(folder / f"{run}.json", _run(scenario, words))


def _start(scenario: Scenario, words: tuple[str, ...]) -> dict[str, Any]:
    """Return how hostdoctor ended."""
    if scenario.before:
        return _run(scenario, (sys.executable, "-m", "hostdoctor", *words))
    return start(named(words), _environment(scenario), folder=ROOT, user=scenario.user, group=scenario.group)


def _run(scenario: Scenario, words: tuple[str, ...]) -> dict[str, Any]:
    """Return how any command ended."""
    before = (*(() if scenario.group is None else (*IN_CGROUP, scenario.group)), *scenario.before)
    done = subprocess.run(
        (*before, *words),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=_environment(scenario),
        user=scenario.user,
        group=scenario.user,
        extra_groups=None if scenario.user is None else [],
    )
    return {"status": done.returncode, "out": done.stdout, "err": done.stderr}


def _environment(scenario: Scenario) -> dict[str, str]:
    return {"PATH": scenario.path, "HOME": "/nonexistent"}


def _keep(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document), encoding="utf-8")


def _wait_for_drives() -> None:
    limit = time.monotonic() + 60
    while len(list(Path("/sys/block").glob("nvme*/mq/0"))) < len(DISKS):
        if time.monotonic() > limit:
            raise TimeoutError("the NVMe drives are not there")
        time.sleep(0.1)


def _namespace(serial: str) -> str:
    """Return a drive's block device; the numbers depend on which drive answered first."""
    return next(
        next(link.glob("nvme*n1")).name
        for link in Path("/sys/class/nvme").iterdir()
        if (link / "serial").read_text(encoding="ascii").strip() == serial
    )


def _tool(*words: str) -> None:
    subprocess.run(("busybox", *words), check=True, stdout=subprocess.DEVNULL, env={"PATH": PATH})


if __name__ == "__main__":
    main()
