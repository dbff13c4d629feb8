"""Bug reports in the form that nvidia-bug-report.sh writes; run as a module, one of this machine."""

import gzip
import platform
import subprocess  # noqa: TID251  runs the real lspci and numactl
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from hostdoctor.facts import Fact
from tests.support.render_smi import render_query

RULE = "_" * 44
FILES = (
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/proc/sys/kernel/numa_balancing",
    *(f"/sys/devices/system/node/{name}" for name in ("has_cpu", "has_memory", "online", "possible")),
)
LATE_FILES = tuple(f"/proc/{name}" for name in ("cmdline", "cpuinfo", "interrupts", "meminfo", "version", "pci"))
PROLOGUE = """Start of NVIDIA bug report log file.  Please include this file, along
with a detailed description of your problem, when reporting a graphics
driver bug.

nvidia-bug-report.sh Version: 12345678

Date: {date}
uname: Linux {host} {kernel} #1 SMP x86_64 GNU/Linux
command line flags: {flags}
"""


class Content(Fact, frozen=True, kw_only=True):
    """What goes into a report. ``lspci`` maps options to outputs; ``query`` None: nvidia-smi is not installed."""

    read: Callable[[str], str | None]
    gpus: tuple[str, ...] = ()
    lspci: dict[str, str] = msgspec.field(default_factory=dict)
    numactl: str = ""
    query: str | None = None
    hostname: str = "gpu7"
    kernel: str = "6.8.0-60-generic"
    flags: str = ""
    date: str = "Mi 4. Jun 09:52:39 CEST 2025"


def write_report(content: Content) -> str:
    """Return the report's text."""
    prologue = PROLOGUE.format(
        date=content.date, host=content.hostname, kernel=content.kernel, flags=content.flags or ""
    )
    parts = [f"{RULE}\n\n{prologue}"]
    parts += [_file(content, f"/sys/bus/pci/devices/{gpu}/power/control") for gpu in content.gpus]
    parts += [f"{RULE}\n\n/usr/bin/lspci {options}\n\n{text}\n" for options, text in content.lspci.items()]
    parts.append(_file(content, FILES[0]))
    parts.append(f"{RULE}\n\n/usr/bin/numactl -H\n\n{content.numactl}" if content.numactl else f"{RULE}\n\n")
    gpu_files = (f"/sys/bus/pci/devices/{g}/{name}" for g in content.gpus for name in ("local_cpulist", "numa_node"))
    parts += [_file(content, path) for path in (*FILES[1:], *gpu_files)]
    parts += [_file(content, path) for path in LATE_FILES]
    parts.append(_file(content, "/proc/driver/nvidia/./version"))
    parts += [_file(content, f"/proc/driver/nvidia/./gpus/{gpu}/information") for gpu in content.gpus]
    parts.append(f'{RULE}\n\nbase64 "/tmp/nvidia-debugdump.log"\n\n' + ("QUJD" * 19 + "\n") * 20 + "\n")
    parts.append(_nvidia_smi(content))
    return "".join(parts) + f"{RULE}\n\nEnd of NVIDIA bug report log file.\n"


def padded(text: str, size_bytes: int) -> str:
    """Return a report made as large as this by kernel messages, a journal and a base64 blob in its middle."""
    at = text.index(f"{RULE}\n\n*** /proc/cmdline")
    missing = max(0, size_bytes - len(text))
    message = (
        "[    4.123456] NVRM: GPU at PCI:0000:1b:00: GPU-5f2a1c3e-1111-2222-3333-444455556666, lspci -nn 00:1f.0\n"
    )
    blob = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo" * 2 + "QUJDREU=\n"
    half = missing // 2
    filler = f"{RULE}\n\ndmesg:\n\n" + message * (half // len(message))
    filler += f'\n{RULE}\n\nbase64 "/tmp/blob"\n\n' + blob * (half // len(blob)) + "\n"
    return text[:at] + filler + text[at:]


def pack(text: str) -> bytes:
    """Return a report as the script packs it: one gzip member after another."""
    sections = text.split(RULE)
    members = [sections[0], *(RULE + section for section in sections[1:])]
    return b"".join(gzip.compress(member.encode(), 6, mtime=0) for member in members if member)


def of_machine(query: str | None = None, **more: object) -> str:
    """Return a report of the machine that this runs on, from its real lspci, numactl and files."""
    nvidia = _machine_gpus()
    given: dict[str, object] = {
        "read": _read,
        "gpus": nvidia,
        "lspci": {options: _output("lspci", options) for options in ("-nntv", "-nn", "-nnDvvvxxxx")},
        "numactl": _output("numactl", "-H"),
        "query": query,
        "hostname": platform.node(),
        "kernel": platform.release(),
    }
    return write_report(Content(**(given | more)))  # type: ignore[arg-type]


def _file(content: Content, path: str) -> str:
    text = content.read(path)
    if text is None:
        return f"{RULE}\n\n*** {path} does not exist\n\n"
    told = f"*** ls: -r--r--r-- 1 root root 4096 2025-06-04 09:50:00.000000000 +0200 {path}"
    return f"{RULE}\n\n*** {path}\n{told}\n{text}\n"


def _nvidia_smi(content: Content) -> str:
    if "--safe-mode" in content.flags:
        return f"{RULE}\n\nSkipping: nvidia-smi, vulkaninfo etc. Commands\nSkipping due to --safe-mode-argument\n\n\n"
    if content.query is None:
        return f"{RULE}\n\n{RULE}\n\nSkipping: nvidia-smi output\nnvidia-smi not found\n\n\n"
    unit = "\n==============NVSMI LOG==============\n\nAttached Units                            : 0\n"
    commands = {"--query": content.query, "--query --unit": unit, "nvlink --status": "GPU 0: NVIDIA (UUID: GPU-0)\n"}
    return f"{RULE}\n\n" + "".join(f"/usr/bin/nvidia-smi {words}\n\n{text}\n" for words, text in commands.items())


def _machine_gpus() -> tuple[str, ...]:
    folder = Path("/sys/bus/pci/devices")
    names = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    return tuple(name for name in names if (_read(f"{folder}/{name}/vendor") or "").strip() == "0x10de")


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _output(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


def _machine_query() -> str:
    """Return what the double of nvidia-smi says of this machine's GPU stand-ins."""
    gpus: Iterable[dict[str, object]] = (
        {"bdf": f"0000{bdf}".upper(), "name": "NVIDIA Example 80GB", "uuid": f"GPU-{n:032x}", "memory_bytes": 80 << 30}
        for n, bdf in enumerate(_machine_gpus())
    )
    return render_query({"driver_version": "570.86.15", "gpus": list(gpus)})


if __name__ == "__main__":
    sys.stdout.write(of_machine(_machine_query()))
