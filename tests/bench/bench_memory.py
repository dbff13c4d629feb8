"""``measure memory``'s machine code against a compiled pointer chase on the same chain: ``make bench-memory``.

Both walk the same buffer in turns, so that what else the machine does reaches both; the figure is the ratio of the
medians of the batches' means, which should lie between 0.9 and 1.1.
"""

import argparse
import ctypes
import subprocess  # noqa: TID251  compiles the yardstick
import tempfile
from array import array
from pathlib import Path
from statistics import median
from typing import Any

from hostdoctor.measure.chase import STRIDE_BYTES, Chase, NativeChase, NativeCode, random_cycle, write_chain
from hostdoctor.measure.placing import bound_buffer

ROUNDS, LOADS, SKIPPED = 60, 50_000, 3


class CompiledChase:
    """A walk by the compiled loop."""

    def __init__(self, folder: Path, start: int) -> None:
        library = folder / "chase.so"
        source = Path(__file__).with_name("chase.c")
        subprocess.run(("gcc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source)), check=True)
        self._follow: Any = ctypes.CDLL(str(library)).chase_ns
        self._follow.argtypes = (ctypes.POINTER(ctypes.c_uint64), ctypes.c_uint64)
        self._follow.restype = ctypes.c_uint64
        self._at = ctypes.c_uint64(start)

    def batch(self, loads: int) -> int:
        """Follow the chain; return the time in ns."""
        return int(self._follow(ctypes.byref(self._at), loads))


def _opposite(cycle: "array[int]") -> int:
    """Return the line half a cycle away from the first: one walk must not find in the cache what the other brought."""
    line = 0
    for _ in range(len(cycle) // 2):
        line = cycle[line]
    return line


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser()
    options.add_argument("--size-mib", type=int, default=512)
    options.add_argument("--rounds", type=int, default=ROUNDS)
    told = options.parse_args()
    size = told.size_mib << 20
    with bound_buffer(0, size) as buffer, tempfile.TemporaryDirectory() as folder:
        cycle = random_cycle(size // STRIDE_BYTES, seed=1)
        write_chain(buffer, cycle, addresses=True)
        start = buffer.address + _opposite(cycle) * STRIDE_BYTES
        walks: dict[str, Chase] = {
            "machine code": NativeChase(NativeCode(), buffer.address),
            "compiled": CompiledChase(Path(folder), start),
        }
        means: dict[str, list[float]] = {name: [] for name in walks}
        for round_ in range(told.rounds + SKIPPED):
            for name, walk in walks.items() if round_ % 2 else reversed(walks.items()):
                means[name].append(walk.batch(LOADS) / LOADS)
        huge = buffer.huge_bytes()
    medians = {name: median(values[SKIPPED:]) for name, values in means.items()}
    print(f"{told.size_mib} MiB, {huge} bytes of it in huge pages, {told.rounds} interleaved batches of {LOADS} loads")
    for name, value in medians.items():
        print(f"{name:>14}  p50 of batch means {value:7.1f} ns")
    print(f"{'ratio':>14}  {medians['machine code'] / medians['compiled']:.3f}")


if __name__ == "__main__":
    main()
