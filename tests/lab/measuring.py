"""Runs an experiment of hostdoctor's in the guest and watches it from outside, by the kernel's files alone.

Prints one JSON document: how the experiment ended, and what was seen meanwhile: the CPUs that its threads were bound
to, the pages of its bound mappings by policy and node, what fio's threads were bound to, and how the nodes' counters
rose.
"""

import contextlib
import json
import re
import subprocess  # noqa: TID251  runs the command line from outside
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COUNTERS = ("numa_hit", "numa_miss", "numa_foreign")
LOOK_S = 0.2  # looking takes time from what is looked at
BIG_PAGES = 1024  # of 4 KiB: smaller mappings are not the experiment's


class Seen:
    """What was seen so far."""

    def __init__(self) -> None:
        self.affinities: set[str] = set()
        self.bound: dict[str, dict[str, int]] = {}
        self.fio: set[tuple[str, str]] = set()

    def look(self, pid: int, *, drives: bool) -> None:
        """Look at the experiment, and at a running fio where there are drives to read."""
        for task in _tasks(pid):
            self.affinities.add(_allowed(task))
        for row in _text(Path(f"/proc/{pid}/numa_maps")).splitlines():
            pages = {node: int(count) for node, count in re.findall(r"\bN(\d+)=(\d+)", row)}
            if " bind:" in row and sum(pages.values()) >= BIG_PAGES:
                policy = self.bound.setdefault(row.split()[1], {})
                policy.update({node: max(count, policy.get(node, 0)) for node, count in pages.items()})
        for folder in Path("/proc").glob("[0-9]*") if drives else ():
            if b"--name=hostdoctor" in _bytes(folder / "cmdline"):
                self._look_at_fio(int(folder.name))

    def _look_at_fio(self, pid: int) -> None:
        for task in _tasks(pid):
            policy = re.search(r"^\S+ (bind:\S+)", _text(task / "numa_maps"), re.MULTILINE)
            if policy:
                self.fio.add((policy[1], _allowed(task)))


def main() -> None:
    """Run, watch, tell."""
    words = [_named(word) for word in sys.argv[1:]]
    before = _counters()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        command = (sys.executable, "-m", "hostdoctor", "measure", *words)
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        seen = Seen()
        while child.poll() is None:
            seen.look(child.pid, drives=words[0] == "nvme")
            time.sleep(LOOK_S)
        out.seek(0)
        err.seek(0)
        told: dict[str, Any] = {"status": child.returncode, "out": out.read(), "err": err.read()}
    rose = {
        node: {name: value - before[node][name] for name, value in now.items()} for node, now in _counters().items()
    }
    told |= {"affinities": sorted(seen.affinities - {""}), "bound": seen.bound, "fio": sorted(seen.fio), "rose": rose}
    sys.stdout.write(json.dumps(told))


def _named(word: str) -> str:
    """Replace ``serial:NEAR1`` by the drive's name, which depends on the order in which drives answered."""
    if not word.startswith("serial:"):
        return word
    folders = Path("/sys/class/nvme").iterdir()
    return next(folder.name for folder in folders if _text(folder / "serial").strip() == word.removeprefix("serial:"))


def _tasks(pid: int) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from sorted(Path(f"/proc/{pid}/task").iterdir())


def _allowed(task: Path) -> str:
    found = re.search(r"^Cpus_allowed_list:\s*(\S+)$", _text(task / "status"), re.MULTILINE)
    return found[1] if found else ""


def _counters() -> dict[str, dict[str, int]]:
    rows = {
        folder.name: _text(folder / "numastat").split() for folder in Path("/sys/devices/system/node").glob("node*")
    }
    return {
        node.removeprefix("node"): {name: int(words[words.index(name) + 1]) for name in COUNTERS}
        for node, words in rows.items()
    }


def _text(path: Path) -> str:
    return _bytes(path).decode("ascii", "replace")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended meanwhile
        return b""


if __name__ == "__main__":
    main()
