"""Reading single values out of kernel files: what is not a value of the kind asked for is None."""

from hostdoctor.errors import ParseError
from hostdoctor.parsers.cpulist import format_cpulist, parse_cpulist
from hostdoctor.sources.base import Source

MAX_DIGITS = 18  # fits 64 bits


def line(source: Source, path: str) -> str | None:
    """Return a file's first line without surrounding blanks, None when there is none."""
    text = (source.read(path) or "").strip()
    return text.splitlines()[0].strip() if text else None


def integer(text: str | None) -> int | None:
    """Return a non-negative integer; the kernel's -1 (not told) is None."""
    stripped = (text or "").strip()
    return int(stripped) if stripped.isascii() and stripped.isdigit() and len(stripped) <= MAX_DIGITS else None


def ids(text: str | None) -> frozenset[int] | None:
    """Return the ids of a cpulist or nodelist (the empty list is the empty set), None when it is not one."""
    try:
        return None if text is None else parse_cpulist(text)
    except ParseError:
        return None


def cpulist(text: str | None) -> str | None:
    """Return a CPU list in canonical form, None when it is empty or not one."""
    found = ids(text)
    return format_cpulist(found) if found else None
