"""Prints where this process is: its CPUs, its memory policy and on which nodes its pages lie; for tests of bindings."""

import json
import mmap
import os
import re
import subprocess  # noqa: TID251  numactl --show, from inside the binding
import sys
from pathlib import Path

SIZE_BYTES = 64 << 20


def main() -> None:
    """Touch memory, then print one JSON document; further arguments are printed back."""
    memory = mmap.mmap(-1, SIZE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for start in range(0, SIZE_BYTES, mmap.PAGESIZE):
        memory[start] = 1
    status = Path("/proc/self/status").read_text(encoding="ascii")
    print(
        json.dumps(
            {
                "pid": os.getpid(),
                "cpus": re.search(r"^Cpus_allowed_list:\s*(\S*)", status, re.MULTILINE)[1],  # type: ignore[index]
                "policy": _largest()[0],
                "pages": _largest()[1],
                "numactl": _numactl(),
                "argv": sys.argv[1:],
                "environment": {k: v for k, v in os.environ.items() if k.startswith(("CUDA_", "NCCL_", "UCX_"))},
            }
        )
    )


def _largest() -> tuple[str, dict[str, int]]:
    """Return the policy of the largest anonymous mapping and its pages by node."""
    best: tuple[str, dict[str, int]] = ("", {})
    for line in Path("/proc/self/numa_maps").read_text(encoding="ascii").splitlines():
        pages = {node: int(count) for node, count in re.findall(r" N(\d+)=(\d+)", line)}
        if " anon=" in line and sum(pages.values()) > sum(best[1].values()):
            best = (line.split()[1], pages)
    return best


def _numactl() -> str | None:
    try:
        return subprocess.run(("numactl", "--show"), capture_output=True, text=True, check=False).stdout
    except OSError:
        return None


if __name__ == "__main__":
    main()
