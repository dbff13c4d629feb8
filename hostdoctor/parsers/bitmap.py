"""Bitmaps of CPUs and nodes as the kernel and hwloc print them: 32-bit hexadecimal words, most significant first."""

from hostdoctor.errors import ParseError
from hostdoctor.parsers.cpulist import format_cpulist

MAX_BITS = 1 << 14  # twice the largest NR_CPUS
_HEX = frozenset("0123456789abcdefABCDEF")


def parse_bitmap(text: str, source: str = "bitmap") -> int:
    """Return a bitmap as a number: ``0000ffff,ffffffff`` or hwloc's ``0x0000ffff,,0x3`` (an empty word is zero).

    Raises ParseError on anything else, on a blank text, and on hwloc's infinite ``0xf...f``.
    """
    words = text.strip().split(",")
    if len(words) * 32 > MAX_BITS:
        raise ParseError(source, 1, text, "more bits than there can be")
    bits = 0
    for word in words:
        digits = word.strip().removeprefix("0x")
        if len(digits) > 8 or not _HEX.issuperset(digits) or not (digits or len(words) > 1):
            raise ParseError(source, 1, text, "not a bitmap")
        bits = bits << 32 | int(digits or "0", 16)
    return bits


def bitmap_ids(bits: int) -> list[int]:
    """Return the positions of the set bits, ascending."""
    return [position for position, bit in enumerate(reversed(f"{bits:b}")) if bit == "1"]


def bitmap_cpulist(bits: int) -> str:
    """Return a bitmap as the kernel prints lists: ``0-15``."""
    return format_cpulist(bitmap_ids(bits))
