"""What py-cpuinfo calls the CPU: asked through a child process when a host is captured, read from captures only."""

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hostdoctor.facts import Fact
from hostdoctor.sources.base import Source

if TYPE_CHECKING:  # what runs commands is slow to import, and captures are read without
    from hostdoctor.sources.commands import Completed, Running

CHILD = Path(__file__).with_name("cpu_child.py")
CPU_PATH = "/hostdoctor/cpu.json"
MAX_BRAND = 200  # characters


class CpuDescription(Fact, frozen=True, kw_only=True):
    """A CPU as py-cpuinfo describes it: ``AMD EPYC 9654 96-Core Processor``, ``AuthenticAMD``, ``X86_64``."""

    brand: str
    vendor: str | None = None
    arch: str | None = None
    flags: tuple[str, ...] = ()


def start_cpu(timeout_s: float) -> "Running":
    """Start the reader; :func:`cpu_output` takes what it returns."""
    from hostdoctor.sources.commands import Running

    return Running((sys.executable, str(CHILD)), time.monotonic() + timeout_s, os.environ)


def cpu_output(completed: "Completed") -> CpuDescription | str:
    """Return what the child printed, or why there is nothing."""
    if completed.reason is not None:
        return completed.reason
    try:
        return msgspec.json.decode(completed.text.strip().rpartition("\n")[2], type=CpuDescription)
    except (msgspec.DecodeError, RecursionError):
        return "no answer that is understood"


def captured_brand(source: Source) -> str | None:
    """Return the CPU's name as it was when the host was captured, None when it was not asked; never this machine's."""
    told = captured_cpu(source)
    return None if told is None else " ".join(told.brand.split())[:MAX_BRAND] or None


def captured_cpu(source: Source) -> CpuDescription | None:
    """Return the CPU as a capture describes it, None where none does; never this machine's."""
    text = None if source.is_live else source.read(CPU_PATH)
    try:
        return None if text is None else msgspec.json.decode(text, type=CpuDescription)
    except (msgspec.DecodeError, RecursionError):
        return None
