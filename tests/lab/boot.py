"""Boots the guest, has it run one command, and waits for its end."""

import contextlib
import os
import platform
import shlex
import shutil
import subprocess  # noqa: TID251  runs QEMU and cpio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.lab.kernel import Kernel, Unavailable, kernel
from tests.lab.machine import DISK_BYTES, DISKS, qemu_arguments, stand_ins
from tests.lab.results import Guest

ROOT = Path(__file__).parents[2]
QEMU = "qemu-system-x86_64"
TOOLS = {
    QEMU: "qemu-system-x86",
    "busybox": "busybox-static",
    "cpio": "cpio",
    "numactl": "numactl",
    "lspci": "pciutils",
    "lscpu": "util-linux",
    "fio": "fio",
}
# Each with all that it depends on; the checksums are looked up by name, so that nothing depends on them.
MODULES = ("virtio_pci", "9p", "9pnet_virtio", "overlay", "crc32c_generic", "crct10dif_generic", "ext4", "nvme")
# The check of the timer fails on a busy machine; what defends a real processor costs an emulated one some 5 %.
PARAMETERS = "console=ttyS0 quiet panic=1 no_timer_check mitigations=off init_on_alloc=0 clearcpuid=rep_good"
DEADLINE_S = 900  # on a machine that has much else to do
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class GuestFailed(Exception):  # noqa: N818  what it holds is a console
    """The guest did not come to its end; the text is what it said."""


def boot(command: Sequence[str], out: Path, *, more: Sequence[str] = (), parameters: str = "") -> None:
    """Run a command in the guest, which has ``out`` as /out; ``more`` and ``parameters`` are for QEMU and the kernel.

    Raises Unavailable where no guest can be started, GuestFailed where it or the command fails.
    """
    _want_tools()
    booted = kernel()
    (out / "command").write_text(
        f"cd {shlex.quote(str(ROOT))} && exec env -i PATH={PATH} HOME=/root {shlex.join(command)}\n", encoding="utf-8"
    )
    with tempfile.TemporaryDirectory(prefix="hostdoctor-lab-") as name:
        scratch = Path(name)
        console = scratch / "console"
        for disk in DISKS:
            with (scratch / disk).open("wb") as file:
                file.truncate(DISK_BYTES)
        arguments = [
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", f"file:{console}"),
            *("-kernel", str(booted.image), "-initrd", str(_initrd(booted, scratch))),
            *("-append", f"{PARAMETERS} {parameters}"),
            *qemu_arguments(scratch, {"host": (Path("/"), False), "out": (out, True)}),
            *more,
        ]
        said = _run([QEMU, *arguments])
        _judge(out, said + _text(console))


def played(part: str, out: Path) -> Guest:
    """Return what the guest left of one part of the scenarios (``PARTS`` of inside.py); skip where it cannot run."""
    try:
        boot([sys.executable, "-m", "tests.lab.inside", part], out)
    except Unavailable as reason:
        pytest.skip(f"no guest: {reason}")
    return Guest(out)


def _want_tools() -> None:
    if platform.machine() != "x86_64":
        raise Unavailable(f"the guest shares this machine's programs, and they are for {platform.machine()}")
    for tool, package in TOOLS.items():
        if shutil.which(tool) is None:
            raise Unavailable(f"{tool} is not here (package {package})")
    if b"/ld-linux" in _busybox().read_bytes()[:4096]:
        raise Unavailable("busybox is not a static one (package busybox-static)")


def _busybox() -> Path:
    return Path(shutil.which("busybox") or "busybox")


def _initrd(booted: Kernel, scratch: Path) -> Path:
    """Pack PID 1, busybox, the modules in the order to load them, and the stand-ins' files."""
    root = scratch / "initrd"
    for folder in ("bin", "proc", "sys", "dev", "modules"):
        (root / folder).mkdir(parents=True)
    shutil.copy(_busybox(), root / "bin" / "busybox")
    shutil.copy(Path(__file__).with_name("init.sh"), root / "init")
    (root / "init").chmod(0o755)
    for number, module in enumerate(booted.with_needed(MODULES)):
        shutil.copy(module, root / "modules" / f"{number:02}-{module.name}")
    for bdf, files in stand_ins().items():
        (root / "stand-ins" / bdf).mkdir(parents=True)
        for name, text in files.items():
            (root / "stand-ins" / bdf / name).write_text(f"{text}\n", encoding="ascii")
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    packed = scratch / "initrd.cpio"
    with packed.open("wb") as file:
        subprocess.run(("cpio", "--quiet", "-o", "-H", "newc"), input=names.encode(), stdout=file, cwd=root, check=True)
    return packed


def _run(command: list[str]) -> str:
    """Run QEMU to its end, or kill it at the deadline and whenever this process ends; return what it said."""
    guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    process = subprocess.Popen(
        [*guard, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        output, _ = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        return output.decode(errors="replace") + f"QEMU was killed after {DEADLINE_S} s\n"
    finally:
        with contextlib.suppress(OSError):
            process.kill()
        process.wait()
    return output.decode(errors="replace")


def _judge(out: Path, console: str) -> None:
    status = _text(out / "status").strip()
    if status != "0":
        ending = f"the command ended with status {status}" if status else "the guest did not come to its end"
        raise GuestFailed(f"{ending}\n{_tail(console)}\n{_tail(_text(out / 'log'))}")


def _text(path: Path) -> str:
    return path.read_bytes().decode(errors="replace") if path.exists() else ""


def _tail(text: str) -> str:
    return os.linesep.join(text.splitlines()[-40:])
