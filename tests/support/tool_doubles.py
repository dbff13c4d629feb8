"""Small programs that stand in for ``nvidia-smi`` and others: they print, fail, hang or flood."""

import shlex
import shutil
from pathlib import Path

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"


def nvidia_smi(folder: Path, topo_matrix: str) -> Path:
    """Write an ``nvidia-smi`` that knows ``topo -m`` alone."""
    text = folder / "topo-matrix.txt"
    text.write_text(topo_matrix, encoding="utf-8")
    body = f'[ "$*" = "topo -m" ] || {{ echo "invalid combination: $*" >&2; exit 2; }}\n{_tool("cat")} {_quoted(text)}'
    return _script(folder, "nvidia-smi", body)


def printing(folder: Path, name: str, text: str, *, status: int = 0) -> Path:
    """Write a tool that prints a text on standard output, as nvidia-smi prints its errors, and exits with a status."""
    return _script(folder, name, f"printf '%s\\n' {shlex.quote(text)}\nexit {status}")


def hanging(folder: Path, name: str, *, first: str = "") -> Path:
    """Write a tool that prints ``first`` and then never ends, and whose own child holds its output open as well."""
    forever = f"{_tool('sleep')} 100000"
    return _script(folder, name, f"printf '%s' {shlex.quote(first)}\ntrap '' TERM INT HUP\n{forever} &\n{forever}")


def flooding(folder: Path, name: str) -> Path:
    """Write a tool whose output never ends."""
    return _script(folder, name, f"exec {_tool('yes')} 'GPU0 X SYS 0-31'")


def linked(folder: Path, *names: str) -> None:
    """Put real tools into a folder by link; those that this machine lacks are left out."""
    for name in names:
        if path := shutil.which(name):
            (folder / name).symlink_to(path)


def _script(folder: Path, name: str, body: str) -> Path:
    script = folder / name
    script.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    script.chmod(0o755)
    return script


def _tool(name: str) -> str:
    """Return a tool's full path: the scripts run with whatever PATH a test gives them."""
    return _quoted(Path(shutil.which(name) or name))


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
