"""CPUs that the boot command line takes away from the scheduler (``isolcpus``) or from its tick (``nohz_full``)."""

import re

from hostdoctor.parsers.cpulist import format_cpulist
from hostdoctor.sources.base import Source
from hostdoctor.survey.values import ids, line

FOLDER = "/sys/devices/system/cpu"
# The option's flags, each with a comma behind it, and its CPUs.
_OPTION = {
    "isolated": re.compile(r"(?:^|\s)isolcpus=((?:[a-z_]{1,20},){0,9})(\S{0,4096})"),
    "nohz_full": re.compile(r"(?:^|\s)nohz_full=()(\S{0,4096})"),
}


def read_isolation(source: Source) -> dict[str, str]:
    """Return ``cpu.isolated`` and ``cpu.nohz_full`` as CPU lists, "" for none; a name is missing when not told."""
    found = {}
    cmdline = line(source, "/proc/cmdline")
    for name, option in _OPTION.items():
        cpus = _shown(source, name)
        if cpus is None and cmdline is not None:
            match = option.search(cmdline)
            cpus = _listed(*match.groups()) if match else frozenset()
        if cpus is not None:
            found[f"cpu.{name}"] = format_cpulist(cpus)
    return found


def _listed(flags: str, cpus: str) -> frozenset[int] | None:
    """Return the CPUs that an option names, None for a spelling that is not read (``all``, ``0-N:2/4``).

    ``isolcpus`` with flags, but not ``domain``, leaves the CPUs to the scheduler.
    """
    if flags and "domain" not in flags.split(","):
        return frozenset()
    return ids(cpus) or None


def _shown(source: Source, name: str) -> frozenset[int] | None:
    text = source.read(f"{FOLDER}/{name}")
    return frozenset() if (text or "").strip() == "(null)" else ids(text)
