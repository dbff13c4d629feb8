"""Running what other programs make of a launch wrapper; a test whose program is missing is skipped and says so."""

import os
import shutil
import subprocess  # noqa: TID251  runs shells and the tools that read the wrappers
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

SHELLS: tuple[tuple[str, ...], ...] = (("dash",), ("bash",), ("busybox", "sh"))

# Prints what the kernel was given: its own path, then the words, NUL-separated.
_PRINTER = """#!/bin/sh
cat /proc/$$/environ >"$TOLD.environ"
cat /proc/$$/cmdline >"$TOLD"
"""
# Runs its command as numactl does, unless this option may not be used; writes its options down.
_NUMACTL = """#!/bin/sh
options=''
while :; do
  case $1 in
    --) shift; break ;;
    --*) options="$options $1"; shift ;;
    *) break ;;
  esac
done
for refused in $REFUSED; do
  case "$options " in *" $refused="*) echo "set_mempolicy: Operation not permitted" >&2; echo usage >&2; exit 1 ;; esac
done
case $1 in true) ;; *) echo "$options" >"$TOLD.numactl" ;; esac
exec "$@"
"""


def needs(name: str) -> str:
    """Return a program's path, or skip the test."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (`make packages` installs it where it can)")
    return found


def run(*argv: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(argv, env=environment, capture_output=True, timeout=60)


class Bench:
    """A folder with a machine's nodes, and a numactl and a command that write down what they were told."""

    def __init__(self, folder: Path, nodes: Mapping[int, Sequence[int]], *, numactl: bool = True) -> None:
        self.bin, self.sysfs, self.told = folder / "bin", folder / "node", folder / "told"
        self.bin.mkdir(parents=True)
        for node, cpus in nodes.items():
            for cpu in cpus:
                (self.sysfs / f"node{node}" / f"cpu{cpu}").mkdir(parents=True)
        for tool in ("sh", "cat", "true", "env", "taskset"):
            (self.bin / tool).symlink_to(needs(tool))
        self.command("printer")
        if numactl:
            self.script("numactl", _NUMACTL)

    def command(self, name: str) -> None:
        self.script(name, _PRINTER)

    def script(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def start(
        self, text: str, *words: str, shell: tuple[str, ...] = ("dash",), variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a wrapper on this machine; ``told`` then has the words that arrived."""
        script = self.bin.parent / "wrapper.sh"
        moved = text.replace("hd_sysfs=/sys/devices/system/node", f"hd_sysfs={self.sysfs}")
        script.write_bytes(moved.encode("utf-8", "surrogateescape"))
        for old in self.told.parent.glob("told*"):
            old.unlink()
        environment = {"PATH": str(self.bin), "TOLD": str(self.told), **(variables or {})}
        return run(needs(shell[0]), *shell[1:], str(script), *words, environment=environment)

    @property
    def words(self) -> list[str]:
        """Return the words that the command was started with, without the interpreter's."""
        return [os.fsdecode(word) for word in self.told.read_bytes().split(b"\0")[2:-1]]

    @property
    def options(self) -> str:
        """Return the options that numactl was told when it started the command; empty where it did not."""
        path = Path(f"{self.told}.numactl")
        return path.read_text().strip() if path.exists() else ""

    @property
    def environ(self) -> list[str]:
        return [os.fsdecode(entry) for entry in Path(f"{self.told}.environ").read_bytes().split(b"\0")]
