"""How long ``capture`` takes on a root of 4,096 functions, against ``check`` on it, and how large its file is.

``make bench`` prints it. Each figure is the median of interleaved runs, so that a busy machine slows all alike. The
promise is at most 3 times the time of ``check``, and at most 100 MB.
"""

import statistics
import subprocess  # noqa: TID251  times whole processes
import sys
import tempfile
import time
from pathlib import Path

from tests.support.hostbuilder import big_description, build_files, write_tree

ROUNDS = 7


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        root, plain, redacted = (Path(folder) / name for name in ("root", "plain.tar.gz", "redacted.tar.gz"))
        write_tree(build_files(big_description()), root)
        tool = (sys.executable, "-m", "hostdoctor")
        capture = (*tool, "capture", "--force", "--from", str(root), "-o")
        commands = {
            "check, the root": (*tool, "check", "--from", str(root)),
            "capture": (*capture, str(plain)),
            "capture --redact": (*capture, str(redacted), "--redact"),
            "check, its capture": (*tool, "check", "--from", str(plain)),
        }
        times: dict[str, list[float]] = {label: [] for label in commands}
        for _ in range(ROUNDS):
            for label, argv in commands.items():
                began = time.perf_counter()
                subprocess.run(argv, stdout=subprocess.DEVNULL, check=False)
                times[label].append(time.perf_counter() - began)
        medians = {label: statistics.median(seconds) for label, seconds in times.items()}
        for label, seconds in medians.items():
            print(
                f"{label:60} {seconds * 1000:7.0f} ms  {seconds / medians['check, the root']:5.2f} × check of the root"
            )
        print(f"the capture's size: {plain.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
