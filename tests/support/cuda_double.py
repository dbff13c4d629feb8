"""A ``libcuda.so.1`` for tests, built from ``tests/doubles/cuda/cuda_double.c``, whose keys stand there."""

import subprocess  # noqa: TID251  compiles the double
from pathlib import Path

from tests.support.nvml_double import compiler

SOURCE = Path(__file__).parents[1] / "doubles" / "cuda" / "cuda_double.c"
LIBRARY = "libcuda.so.1"

# CUresult, by what happened.
OUT_OF_MEMORY, NO_DEVICE, ILLEGAL_ADDRESS, NOT_SUPPORTED, DRIVER_MISMATCH = 2, 100, 700, 801, 803


def build_cuda(folder: Path) -> Path:
    """Compile the library into a folder, which then goes into LD_LIBRARY_PATH; raise CalledProcessError."""
    library = folder / LIBRARY
    flags = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(library))
    subprocess.run((compiler() or "cc", *flags, str(SOURCE)), check=True, capture_output=True, text=True)
    return library


def describe_cuda(bdf: str, **keys: object) -> str:
    """Return the description of a driver with one GPU near node 0; ``fail__cuInit=100`` is the key ``fail.cuInit``."""
    rows = {"bdf": bdf, "near_node": 0, "fixed_ns": 20_000, "ns_per_mib": 40_000, **keys}
    return "".join(f"{key.replace('__', '.')}={value}\n" for key, value in rows.items())
