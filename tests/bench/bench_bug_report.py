"""How long a 30 MB bug report takes to read, and how much memory: part of ``make bench``."""

import subprocess  # noqa: TID251  times whole processes
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.bench_startup import peak_mib
from tests.support.bug_report import pack, padded
from tests.support.built_bug_report import of_built
from tests.support.hostbuilder import build_files, load_host

SIZE_BYTES = 30 << 20


def main() -> None:
    """Print seconds and MiB for a plain and a packed report."""
    with tempfile.TemporaryDirectory() as folder:
        text = padded(of_built(build_files(load_host("dgx-h100")), "dgx-h100"), SIZE_BYTES)
        for name, data in (("plain", text.encode()), ("packed", pack(text))):
            path = Path(folder) / f"{name}.log"
            path.write_bytes(data)
            argv = (sys.executable, "-m", "hostdoctor", "topo", "--from", str(path))
            began = time.perf_counter()
            subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
            seconds = time.perf_counter() - began
            print(f"topo, bug report of 30 MiB, {name:6} {seconds:6.2f} s  {peak_mib(argv):5.0f} MiB peak")


if __name__ == "__main__":
    main()
