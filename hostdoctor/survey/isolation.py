"""CPUs that the boot command line takes away from the scheduler (``isolcpus``) or from its tick (``nohz_full``)."""

import re

from hostdoctor.parsers.cpulist import format_cpulist
from hostdoctor.sources.base import Source
from hostdoctor.survey.values import ids, line

FOLDER = "/sys/devices/system/cpu"
_OPTION = {
    "isolated": re.compile(r"(?:^|\s)isolcpus=(?:[a-z_]+,)*([0-9,-]+)(?=\s|$)"),
    "nohz_full": re.compile(r"(?:^|\s)nohz_full=([0-9,-]+)(?=\s|$)"),
}


def read_isolation(source: Source) -> dict[str, str]:
    """Return ``cpu.isolated`` and ``cpu.nohz_full`` as CPU lists, "" for none; a name is missing when not told."""
    found = {}
    cmdline = line(source, "/proc/cmdline")
    for name, option in _OPTION.items():
        cpus = _shown(source, name)
        if cpus is None and cmdline is not None:
            match = option.search(cmdline)
            cpus = ids(match.group(1)) if match else frozenset()
        if cpus is not None:
            found[f"cpu.{name}"] = format_cpulist(cpus)
    return found


def _shown(source: Source, name: str) -> frozenset[int] | None:
    text = source.read(f"{FOLDER}/{name}")
    return frozenset() if (text or "").strip() == "(null)" else ids(text)
