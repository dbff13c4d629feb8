"""The kernel's cpulist and nodelist format, ``0-3,8,10-14:2/4`` (Documentation/admin-guide/kernel-parameters.rst)."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping

from hostdoctor.errors import ParseError

MAX_ID = 1 << 16  # far above any kernel's NR_CPUS (8192); bounds time and memory on hostile ranges


def parse_cpulist(text: str, source: str = "cpulist") -> frozenset[int]:
    """Return the ids of a list such as ``0-3,8``; an empty or blank text is the empty set.

    Accepts blanks around commas, the kernel's ``a-b:used/group`` and util-linux' ``a-b:stride``.
    Raises ParseError on anything else, and on a list that names more ids than there can be.
    """
    ids: set[int] = set()
    budget = 2 * MAX_ID
    for span in cpulist_ranges(text, source):
        budget -= len(span)
        if budget < 0:
            raise ParseError(source, 1, text, "too many ids")
        ids.update(span)
    return frozenset(ids)


def cpulist_ranges(text: str, source: str = "cpulist") -> list[range]:
    """Return the runs of ids that a list names, as it names them: in its order, overlapping where it overlaps.

    Raises ParseError as :func:`parse_cpulist` does.
    """
    stripped = text.strip()
    if not stripped:
        return []
    if stripped.count(",") > MAX_ID:
        raise ParseError(source, 1, text, "too many items")
    ranges: list[range] = []
    for item in stripped.split(","):
        ranges += _item(item.strip(), text, source)
        if len(ranges) > 2 * MAX_ID:
            raise ParseError(source, 1, text, "too many ids")
    return ranges


def canonical_cpulist(text: str, source: str = "cpulist") -> str:
    """Return a printed list as the kernel spells it: ``0,1,2,8`` becomes ``0-2,8``.

    Raises ParseError as :func:`parse_cpulist` does, and where ids do not ascend: programs print them in order, so
    such a text was cut or glued on its way.
    """
    runs: list[tuple[int, int]] = []
    for span in cpulist_ranges(text, source):
        if runs and span.start <= runs[-1][1]:
            raise ParseError(source, 1, text, "ids do not ascend")
        first = runs.pop()[0] if runs and span.start == runs[-1][1] + 1 else span.start
        runs.append((first, span.stop - 1))
    return _format(runs)


def format_cpulist(ids: Iterable[int]) -> str:
    """Return ids as the kernel prints them: ascending, runs as ``a-b``; the empty set is ``""``."""
    runs: list[tuple[int, int]] = []
    for i in sorted(set(ids)):
        first = runs.pop()[0] if runs and i == runs[-1][1] + 1 else i
        runs.append((first, i))
    return _format(runs)


def count_cpulist(text: str) -> int:
    """Return how many ids a list of ascending ids names."""
    return sum(map(len, cpulist_ranges(text)))


def is_within(text: str, others: Iterable[str]) -> bool:
    """Tell whether each id of a list is in one of the others."""
    spans = sorted((span.start, span.stop) for other in others for span in cpulist_ranges(other))
    runs: list[tuple[int, int]] = []
    for start, stop in spans:
        first, last = runs.pop() if runs and start <= runs[-1][1] else (start, stop)
        runs.append((first, max(last, stop)))
    ends = [bisect_right(runs, (span.start, MAX_ID + 2)) for span in cpulist_ranges(text)]
    return all(end > 0 and span.stop <= runs[end - 1][1] for end, span in zip(ends, cpulist_ranges(text), strict=True))


def shared_cpus(lists: Mapping[int, str]) -> frozenset[int]:
    """Return the keys (node ids, say) of those lists that have an id in common with another one."""
    spans = sorted((span.start, span.stop, key) for key, text in lists.items() for span in cpulist_ranges(text))
    shared: set[int] = set()
    end, owner = 0, -1
    for start, stop, key in spans:
        if start < end and key != owner:
            shared |= {key, owner}
        if stop > end:
            end, owner = stop, key
    return frozenset(shared)


def _format(runs: Iterable[tuple[int, int]]) -> str:
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _item(item: str, text: str, source: str) -> list[range]:
    span, colon, pattern = item.partition(":")
    first, dash, last = span.partition("-")
    a = _number(first, text, source)
    b = _number(last, text, source) if dash else a
    if b < a:
        raise ParseError(source, 1, text, "range runs backwards")
    if not colon:
        return [range(a, b + 1)]
    used, slash, size = pattern.partition("/")
    if not slash:
        used, size = "1", pattern
    used_count, group_size = _number(used, text, source), _number(size, text, source)
    if not 0 < used_count <= group_size:
        raise ParseError(source, 1, text, "not a cpulist")
    return [range(group, min(group + used_count, b + 1)) for group in range(a, b + 1, group_size)]


def _number(digits: str, text: str, source: str) -> int:
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 7 or int(digits) > MAX_ID:
        raise ParseError(source, 1, text, "not a cpulist")
    return int(digits)
