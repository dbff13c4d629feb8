"""How long ``report`` takes on a root of 16 GPUs and 4,096 functions, and how large its page is.

``make bench`` prints it. The promise is 2 s and 1 MB.
"""

import statistics
import subprocess  # noqa: TID251  times whole processes
import sys
import tempfile
import time
from pathlib import Path

from tests.support.hostbuilder import big_description, build_files, write_tree

ROUNDS = 5


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        root, page = Path(folder) / "root", Path(folder) / "page.html"
        write_tree(build_files(big_description()), root)
        argv = (sys.executable, "-m", "hostdoctor", "report", "--from", str(root), "-o", str(page), "--force")
        times = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            subprocess.run(argv, check=True)
            times.append(time.perf_counter() - began)
        print(f"{'report, the root':60} {statistics.median(times) * 1000:7.0f} ms")
        print(f"the page's size: {page.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
