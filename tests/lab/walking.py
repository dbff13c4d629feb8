"""Walks through memory, then prints where this process is; for tests of experiments.

hostdoctor looks at a command at 1, 2, 4 … seconds. So it walks for longer than it took to get there, however slow the
guest is: at least one look comes meanwhile.
"""

import mmap
import os
import time
from pathlib import Path

SIZE_BYTES = 16 << 20
STRIDE_PAGES = 1097  # odd, so that one cycle leads through all pages
LEAST_S = 1.0


def main() -> None:
    """Touch memory, follow one cycle through its pages, and say where it lies."""
    memory = mmap.mmap(-1, SIZE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    step = STRIDE_PAGES * mmap.PAGESIZE
    for here in range(0, SIZE_BYTES, mmap.PAGESIZE):
        memory[here : here + 4] = ((here + step) % SIZE_BYTES).to_bytes(4, "little")
    end, at = time.monotonic() + max(LEAST_S, 2 * _age_s()), 0
    while time.monotonic() < end:
        for _ in range(1000):
            at = int.from_bytes(memory[at : at + 4], "little")
    from tests.lab import placed  # its imports take longer in the guest than the memory does

    placed.main()


def _age_s() -> float:
    """Return how long ago this process was started."""
    started = int(Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
