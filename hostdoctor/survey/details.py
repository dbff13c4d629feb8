"""What only checks ask for, so that a map alone is drawn without it: power, limits, DIMMs, health, planned paths."""

import re
from collections.abc import Iterable

import msgspec

from hostdoctor.facts import Host
from hostdoctor.sources.base import Source
from hostdoctor.survey.dimms import read_dimms
from hostdoctor.survey.health import with_health
from hostdoctor.survey.power import read_cpu_power
from hostdoctor.survey.storage import read_places
from hostdoctor.survey.values import line

HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage"
HUGE_PAGE_SETTINGS = ("enabled", "defrag", "shmem_enabled")


def with_details(source: Source, host: Host, paths: Iterable[str]) -> Host:
    """Return the host with everything that checks judge beyond the map; ``paths`` are those of the caller's plan."""
    nvme, gaps = with_health(source, host.nvme)
    return msgspec.structs.replace(
        host,
        nvme=nvme,
        gaps=(*host.gaps, *gaps),
        settings=host.settings | _huge_pages(source) | _locked_memory(source),
        cpu_power=read_cpu_power(source),
        dimms=read_dimms(source),
        places=read_places(source, paths),
    )


def _huge_pages(source: Source) -> dict[str, str]:
    """Return the transparent huge page settings, of which the kernel brackets the one in force."""
    found = {}
    for name in HUGE_PAGE_SETTINGS:
        chosen = re.search(r"\[([a-z_+]{1,20})\]", line(source, f"{HUGE_PAGES}/{name}") or "")
        if chosen:
            found[f"transparent_hugepage.{name}"] = chosen.group(1)
    return found


def _locked_memory(source: Source) -> dict[str, str]:
    """Return the soft and hard limit of locked memory: bytes or "unlimited"."""
    limits = source.read("/proc/self/limits") or ""
    match = re.search(r"^Max locked memory\s+(unlimited|\d{1,20})\s+(unlimited|\d{1,20})\b", limits, re.MULTILINE)
    return {"rlimit.memlock.soft": match.group(1), "rlimit.memlock.hard": match.group(2)} if match else {}
