"""In the guest: ``measure copy`` against the CUDA double, and what the kernel shows of its processes meanwhile.

Run by ``inside.py``: ``python -m tests.lab.copies FACTOR|placed|contended`` prints JSON or what hostdoctor prints.
Looks at /proc by itself: shares no code with hostdoctor.
"""

import json
import os
import re
import signal
import subprocess  # noqa: TID251  runs the command line from outside
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.lab.machine import GPUS
from tests.support.cuda_double import LIBRARY, describe_cuda

LIBRARIES = Path("/out/cuda")  # built before the guest is booted: a compiler takes long in it
DESCRIPTION = Path("/run/cuda.txt")
DOCUMENT = Path("/run/copies.json")
BUFFER_MIB = 8
WORDS = ("--gpu", "0", "--sizes", "16KiB", "--buffer-mib", str(BUFFER_MIB), "--format", "json")
PINNED = (*WORDS, "--memory", "pinned", "--directions", "to-gpu")
LARGE = (*PINNED, "--loops", "bandwidth", "--pairs", "4")
# One small and one large kind of copy, that are long beside what a busy machine adds, and cost nothing.
JUDGED = (*PINNED, "--loops", "closed,bandwidth", "--pairs", "6", "--copies", "120")
LONG = {"fixed_ns": 1_000_000_000, "jitter": 0.04, "virtual": 1}
_MAP = re.compile(r"^([0-9a-f]+) (\S+) (.*)$", re.MULTILINE)


def command(*words: str, **keys: object) -> dict[str, Any]:
    """Describe the driver, and return how to start ``measure copy`` with it."""
    DESCRIPTION.write_text(describe_cuda(GPUS[0], **keys), encoding="ascii")
    environment = {"LD_LIBRARY_PATH": str(LIBRARIES), "CUDA_DOUBLE": str(DESCRIPTION)}
    if keys.get("virtual"):
        environment["LD_PRELOAD"] = str(LIBRARIES / LIBRARY)
    return {
        "args": (sys.executable, "-m", "hostdoctor", "measure", "copy", *words),
        "env": os.environ | environment,
    }


def is_built() -> bool:
    """Tell whether there is a driver to measure with."""
    return (LIBRARIES / LIBRARY).exists()


def keep() -> None:
    """Measure in the guest's present state and keep the document."""
    subprocess.run(**command(*LARGE, "-o", str(DOCUMENT)), check=True, stdout=subprocess.DEVNULL)


def placed() -> dict[str, Any]:
    """Start a long measurement, look at its processes, end it by Ctrl-C, and return what was seen."""
    process = subprocess.Popen(
        **command(*WORDS, "--loops", "closed", "--pairs", "500", "--copies", "50"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    _until(process, lambda workers: len(workers) == 2 and all(len(w["buffers"]) == 4 for w in workers))
    before = [worker["answers"] for worker in map(_seen, _workers())]
    # each visit to a cell is a question; the warm-up has twelve to one of them
    _until(process, lambda workers: all(w["answers"] > n + 40 for w, n in zip(workers, before, strict=True)))
    workers = [_seen(pid) for pid in _workers()]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    return {
        "workers": workers,
        "status": process.returncode,
        "out": out,
        "err": err,
        "left": _workers(),
    }


def _until(process: "subprocess.Popen[str]", condition: Callable[[list[dict[str, Any]]], bool]) -> None:
    """Wait until the workers meet a condition, at most two minutes, and while there is something to wait for."""
    limit = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < limit and not condition([_seen(pid) for pid in _workers()]):
        time.sleep(0.2)


def _workers() -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if b"hostdoctor.measure.copies_worker" in words:
            found.append(int(folder.name))
    return sorted(found)


def _seen(pid: int) -> dict[str, Any]:
    """Return a process' affinity, its threads', and its mappings of about a buffer's size with their pages by node."""
    folder = Path(f"/proc/{pid}")
    threads = {}
    for task in (folder / "task").iterdir():
        status = (task / "status").read_text(encoding="ascii")
        threads[task.name] = re.search(r"Cpus_allowed_list:\s*(\S+)", status)[1]  # type: ignore[index]
    status = (folder / "status").read_text(encoding="ascii")
    return {
        "pid": pid,
        "threads": threads,
        "answers": int(re.findall(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.MULTILINE)[0]),
        "buffers": [told for told in _maps(folder) if told["kb"] == BUFFER_MIB << 10],
    }


def _maps(folder: Path) -> list[dict[str, Any]]:
    """Return what numa_maps tells of each mapping: its policy, what it is, and its size in use by node."""
    found = []
    for _, policy, rest in _MAP.findall((folder / "numa_maps").read_text(encoding="ascii", errors="replace")):
        pages = {node: int(count) for node, count in re.findall(r"\bN(\d+)=(\d+)", rest)}
        page_kb = int((re.search(r"kernelpagesize_kB=(\d+)", rest) or ["", "0"])[1])
        found.append({"policy": policy, "file": "file=" in rest, "pages": pages, "kb": sum(pages.values()) * page_kb})
    return found


def main() -> int:
    """Do what is asked."""
    what = sys.argv[1]
    if what == "placed":
        print(json.dumps(placed()))  # noqa: T201
        return 0
    if what == "contended":  # emulated CPUs take turns: with load on all of them nothing would get done
        os.sched_setaffinity(0, {0, 1, 4, 5})
    words, keys = (LARGE, {}) if what == "contended" else (JUDGED, {"far_memory": what, **LONG})
    more = ("--pairs", "1", "--contend") if what == "contended" else ()
    return subprocess.run(**command(*words, *more, **keys), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
