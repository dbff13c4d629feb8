"""Telling which CPU lists of a ``numactl --hardware`` output a cut or a glued line damaged, by their neighbours."""

from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import Protocol

from hostdoctor.errors import ParseError
from hostdoctor.parsers.cpulist import parse_cpulist

_LEAST_EDGE = 40  # columns; nothing cuts shorter lines


class CpuList(Protocol):
    """A node's list. ``width``: its line's length, None where it was wrapped; ``is_glued``: more followed it there."""

    doubt: str | None
    is_glued: bool

    @property
    def width(self) -> int | None: ...
    def cpus(self, source: str) -> str: ...


def note_doubts(lists: Mapping[int, CpuList], followed: Collection[int], *, are_lines_whole: bool) -> None:
    """Set ``doubt`` where a list may be damaged.

    ``followed`` are the nodes that have a size or free line; ``are_lines_whole``: no other line of the text
    was run together.
    """
    for node, listed in lists.items():
        if followed and node not in followed:
            listed.doubt = listed.doubt or "the node's size does not follow it"
        if are_lines_whole and listed.is_glued and not _is_as_long_as_others(listed, lists.values()):
            listed.doubt = listed.doubt or "another line follows on its own"
    for listed in _cut_at_edge(list(lists.values())):
        listed.doubt = listed.doubt or "lines end at one column, where the lists may be cut"


def _is_as_long_as_others(listed: CpuList, lists: Iterable[CpuList]) -> bool:
    """Tell whether no other list stands on a line of its own, or all of those have as many CPUs."""
    others = [_ids(other) for other in lists if not other.is_glued]
    size = len(_ids(listed) or ())
    return all(ids is not None and len(ids) == size for ids in others)


def _cut_at_edge(lists: list[CpuList]) -> list[CpuList]:
    """Return the lists that reach a common right edge, if their CPUs show that something is missing there."""
    lists = [listed for listed in lists if not listed.is_glued]
    widths = [listed.width or 0 for listed in lists]
    edge = max(widths, default=0)
    # A blank at the edge is stripped.
    longest = [listed for listed, width in zip(lists, widths, strict=True) if width >= edge - 1]
    return longest if len(longest) > 1 and edge >= _LEAST_EDGE and all(widths) and _is_uneven(lists) else []


def _is_uneven(lists: Iterable[CpuList]) -> bool:
    """Tell whether a list is unreadable, nodes have different numbers of CPUs, or their ids no common stride."""
    listed = [_ids(one) for one in lists]
    known = [ids for ids in listed if ids]
    strides = {b - a for a, b in pairwise(sorted(frozenset[int]().union(*known)))}
    return None in listed or len({len(ids) for ids in known}) > 1 or len(strides) > 1


def _ids(listed: CpuList) -> frozenset[int] | None:
    try:
        return parse_cpulist(listed.cpus(""))
    except ParseError:
        return None
