"""Asking the installed package of an engine for its version, without importing it."""

import os
import shutil
import time
from pathlib import Path

from hostdoctor.placement.engines import EngineCommand
from hostdoctor.placement.model import EngineName
from hostdoctor.placement.prefixes import RAISERS
from hostdoctor.placement.versions import Version, parse_version
from hostdoctor.placement.words import basename

_PACKAGES: dict[EngineName, str] = {
    "vllm": "vllm",
    "sglang": "sglang",
    "tensorrt-llm": "tensorrt_llm",
    "torchrun": "torch",
}
_ASK = (
    "import sys; sys.path = [p for p in sys.path if p]; "  # the working folder may hold a file called csv.py
    "import importlib.metadata as m; print(m.version(sys.argv[1]))"
)
_MAX_SHEBANG_BYTES = 512


def installed_version(command: EngineCommand, timeout_s: float) -> Version | None:
    """Return the version of the engine that a command line starts, as its own Python's packages say it.

    None where that cannot be told: another runner, no such program, no answer within ``timeout_s`` seconds.
    """
    from hostdoctor.sources.commands import Running

    package = _PACKAGES.get(command.engine)
    python = _python(command) if package and command.recognised else None
    if package is None or python is None:
        return None
    argv = (*python, "-c", _ASK, package)
    completed = Running(argv, time.monotonic() + timeout_s, os.environ).wait()
    return None if completed.reason is not None else parse_version(completed.text)


def _python(command: EngineCommand) -> tuple[str, ...] | None:
    """Return the interpreter that runs the engine: named in the command line or in its program's first line."""
    if command.runner is not None or "PATH" in command.prefix.environment or set(RAISERS) & set(command.prefix.names):
        return None
    program = shutil.which(command.argv[command.program])
    if program is None:
        return None
    return (program,) if basename(program).startswith("python") else _shebang(program)


def _shebang(program: str) -> tuple[str, ...] | None:
    try:
        with Path(program).open("rb") as file:
            head = file.read(_MAX_SHEBANG_BYTES)
    except OSError:
        return None
    first = head.split(b"\n", 1)[0].decode("utf-8", "replace")
    if not first.startswith("#!") or b"\n" not in head:
        return None
    words = tuple(first[2:].split())
    return words if any(basename(word).startswith("python") for word in words) else None
