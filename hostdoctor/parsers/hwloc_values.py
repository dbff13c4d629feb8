"""Values in the attributes of hwloc's XML; what is none of the kind asked for is None."""

from hostdoctor.errors import ParseError
from hostdoctor.parsers.bitmap import parse_bitmap
from hostdoctor.parsers.hwloc_objects import Element


def all_cpus(element: Element) -> int | None:
    """Return an object's CPUs, those that were hidden from who made the file included."""
    cpus = mask(element, "complete_cpuset")
    return mask(element, "cpuset") if cpus is None else cpus


def mask(element: Element, name: str) -> int | None:
    """Return a bitmap; None where there is none, or it is infinite."""
    try:
        return parse_bitmap(element.attributes[name])
    except (KeyError, ParseError):
        return None


def integer(text: str | None, digits: int) -> int | None:
    """Return a number of at most that many digits."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= digits else None
