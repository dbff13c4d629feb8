"""Settings and limits of memory that checks judge: transparent huge pages, locked memory."""

import re

from hostdoctor.sources.base import Source
from hostdoctor.survey.values import line

HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage"
HUGE_PAGE_SETTINGS = {
    "enabled": ("always", "madvise", "never"),
    "defrag": ("always", "defer", "defer+madvise", "madvise", "never"),
    "shmem_enabled": ("always", "within_size", "advise", "never", "deny", "force"),
}


def read_huge_pages(source: Source) -> dict[str, str]:
    """Return the transparent huge page settings, of which the kernel brackets the one in force."""
    found = {}
    for name, choices in HUGE_PAGE_SETTINGS.items():
        chosen = re.search(r"\[([a-z_+]{1,20})\]", line(source, f"{HUGE_PAGES}/{name}") or "")
        if chosen and chosen.group(1) in choices:
            found[f"transparent_hugepage.{name}"] = chosen.group(1)
    return found


def read_locked_memory(source: Source) -> dict[str, str]:
    """Return the soft and hard limit of locked memory: bytes or "unlimited"."""
    limits = source.read("/proc/self/limits") or ""
    match = re.search(r"^Max locked memory\s+(unlimited|\d{1,20})\s+(unlimited|\d{1,20})\b", limits, re.MULTILINE)
    return {"rlimit.memlock.soft": match.group(1), "rlimit.memlock.hard": match.group(2)} if match else {}
