"""Walks through memory at random for some seconds, then prints where this process is; for tests of experiments."""

import mmap
import random
import time

from tests.lab import placed

SIZE_BYTES = 96 << 20
SECONDS = 1.0


def main() -> None:
    """Touch memory, follow one random cycle through its pages, and say where it lies."""
    memory = mmap.mmap(-1, SIZE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages = list(range(0, SIZE_BYTES, mmap.PAGESIZE))
    random.Random(1).shuffle(pages)
    for here, there in zip(pages, (*pages[1:], pages[0]), strict=True):
        memory[here : here + 4] = there.to_bytes(4, "little")
    end, at = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        for _ in range(1000):
            at = int.from_bytes(memory[at : at + 4], "little")
    placed.main()


if __name__ == "__main__":
    main()
