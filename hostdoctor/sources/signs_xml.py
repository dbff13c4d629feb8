"""XML documents in a text: hwloc's, by ``<topology`` with objects in it, and NCCL's, by ``<system`` with CPUs."""

from hostdoctor.parsers.prefix import common_prefix, cut_prefix
from hostdoctor.sources.base import TextKind

_ROOTS: tuple[tuple[TextKind, str, str, str], ...] = (
    ("hwloc-xml", "<topology", "<object ", "</topology>"),
    ("nccl-xml", "<system ", "<cpu ", "</system>"),
)
_PROLOG = ("<?xml", "<!DOCTYPE")
_LEAD = 8  # lines above the root element that its prolog may take
_NEAR = 200  # lines, and characters of a line, within which a root element's first child stands
_NEAR_CHARACTERS = 4096
MAX_TRIES = 256  # lines that look like a root element


def may_hold_documents(text: str) -> bool:
    """Tell, at the cost of a search, whether a text may hold one."""
    return any(root in text and child in text for _, root, child, _ in _ROOTS)


def take_documents(lines: list[str]) -> list[tuple[TextKind, int, str]]:
    """Return kind, index of the first line and text of every document, and blank its lines.

    A document without its end goes on to the end of the text. What a log puts before every line is taken off.
    """
    found: list[tuple[TextKind, int, str]] = []
    at = tries = 0
    while at < len(lines) and tries < MAX_TRIES:
        if not any(root in lines[at] for _, root, _, _ in _ROOTS):
            at += 1
            continue
        tries += 1
        root = _root(lines, at)
        if root is None:
            at += 1
            continue
        kind, end = root
        first = _first(lines, at, found[-1][1] if found else 0)
        last = next((i for i in range(at, len(lines)) if end in lines[i]), len(lines) - 1)
        found.append((kind, first, "\n".join(_without_prefix(lines[first : last + 1], at - first)) + "\n"))
        lines[first : last + 1] = [""] * (last + 1 - first)
        at = last + 1
    return found


def _root(lines: list[str], at: int) -> tuple[TextKind, str] | None:
    for kind, root, child, end in _ROOTS:
        position = lines[at].find(root)
        if position < 0:
            continue
        near = [
            lines[at][position : position + _NEAR_CHARACTERS],
            *(line[:_NEAR] for line in lines[at + 1 : at + _NEAR]),
        ]
        if any(child in line for line in near):
            return kind, end
    return None


def _first(lines: list[str], at: int, floor: int) -> int:
    """Return the line where the prolog above a root element begins."""
    first = at
    for i in range(at, max(floor, at - _LEAD) - 1, -1):
        if any(mark in lines[i] for mark in _PROLOG):
            first = i
    return first


def _without_prefix(lines: list[str], root: int) -> list[str]:
    column = min(at for mark in (*_PROLOG, *(r[1] for r in _ROOTS)) if (at := lines[root].find(mark)) >= 0)
    pattern = common_prefix(lines, {root: column})
    return lines if pattern is None else cut_prefix(lines, pattern)
