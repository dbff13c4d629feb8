"""Asking the CUDA driver for its version, in a process of its own: a driver that hangs costs a child."""

import os
import sys
import time

_ASK = (
    "import ctypes; v = ctypes.c_int();"
    "failed = ctypes.CDLL('libcuda.so.1').cuDriverGetVersion(ctypes.byref(v)); print('' if failed else v.value)"
)


def installed_cuda(timeout_s: float) -> str | None:
    """Return the newest CUDA version that the driver speaks, ``12.8``; None where nothing tells it in time."""
    from hostdoctor.sources.commands import Running

    completed = Running((sys.executable, "-I", "-c", _ASK), time.monotonic() + timeout_s, os.environ).wait()
    text = completed.text.strip() if completed.reason is None else ""
    return version_words(int(text)) if text.isascii() and text.isdecimal() and len(text) < 9 else None


def version_words(number: int) -> str:
    """Return a version as people say it: 12080 is 12.8 (``cuda.h``: 1000 × major + 10 × minor)."""
    return f"{number // 1000}.{number % 1000 // 10}"
