"""How long ``topo`` and ``check`` take, as ratios within one run: ``make bench``.

The yardstick is ``python -c "import typer, msgspec"``: what any tool built on these libraries pays before it does
anything. Each figure is the median of interleaved runs, so that a busy machine slows all alike.
"""

import os
import statistics
import subprocess  # noqa: TID251  times whole processes
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support.corpus import ROOT
from tests.support.hostbuilder import big_description, build_files, load_host, write_tree

ROUNDS = 15
CAPTURE = ROOT / "hwloc" / "32em64t-2n8c+dax+nvme+mic+dimms.tar.bz2"


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        small, name = _small(Path(folder) / "small")
        big = Path(folder) / "big"
        write_tree(build_files(big_description()), big)
        tool = (sys.executable, "-m", "hostdoctor")
        commands = {
            "import typer, msgspec": (sys.executable, "-c", "import typer, msgspec"),
            f"topo, {name}": (*tool, "topo", "--from", str(small)),
            f"check, {name}": (*tool, "check", "--from", str(small)),
            "topo, 4,096 functions": (*tool, "topo", "--from", str(big)),
            "check, 4,096 functions": (*tool, "check", "--from", str(big)),
        }
        _print(commands, _times(commands))


def _small(target: Path) -> tuple[Path, str]:
    if CAPTURE.exists():
        with tarfile.open(CAPTURE) as archive:
            archive.extractall(target, filter="tar")
        return target, "137-device capture"
    write_tree(build_files(load_host("dgx-h100")), target)
    return target, "constructed DGX H100 (the capture is not here)"


def _times(commands: dict[str, tuple[str, ...]]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {label: [] for label in commands}
    for _ in range(ROUNDS):
        for label, argv in commands.items():
            began = time.perf_counter()
            subprocess.run(argv, stdout=subprocess.DEVNULL, check=False, env=os.environ)
            times[label].append(time.perf_counter() - began)
    return times


def _print(commands: dict[str, tuple[str, ...]], times: dict[str, list[float]]) -> None:
    medians = {label: statistics.median(values) for label, values in times.items()}
    base, topo, check = list(medians.values())[:3]
    for label, seconds in medians.items():
        print(f"{label:60} {seconds * 1000:7.0f} ms  {seconds / base:5.2f} × the import", end="")
        print(f"  {peak_mib(commands[label]):5.0f} MiB peak")
    big_topo, big_check = list(medians.values())[3:]
    print(f"big / small: topo {big_topo / topo:.1f} ×, check {big_check / check:.1f} ×")


def peak_mib(argv: Sequence[str]) -> float:
    """Return the peak resident memory of one run, in MiB."""
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=True)
    return int(done.stdout) / 1024


if __name__ == "__main__":
    main()
