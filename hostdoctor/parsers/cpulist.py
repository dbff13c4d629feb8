"""The kernel's cpulist and nodelist format, ``0-3,8,10-14:2/4`` (Documentation/admin-guide/kernel-parameters.rst)."""

from collections.abc import Iterable

from hostdoctor.errors import ParseError

MAX_ID = 1 << 20  # far above any kernel's NR_CPUS (8192); bounds memory on hostile ranges


def parse_cpulist(text: str, source: str = "cpulist") -> frozenset[int]:
    """Return the ids of a list such as ``0-3,8``; an empty or blank text is the empty set.

    Accepts blanks around commas and the kernel's ``a-b:used/group`` form. Raises ParseError on anything else.
    """
    ids: set[int] = set()
    stripped = text.strip()
    if not stripped:
        return frozenset()
    for item in stripped.split(","):
        ids.update(_item(item.strip(), text, source))
    return frozenset(ids)


def format_cpulist(ids: Iterable[int]) -> str:
    """Return ids as the kernel prints them: ascending, runs as ``a-b``; the empty set is ``""``."""
    runs: list[list[int]] = []
    for i in sorted(set(ids)):
        if runs and i == runs[-1][1] + 1:
            runs[-1][1] = i
        else:
            runs.append([i, i])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _item(item: str, text: str, source: str) -> Iterable[int]:
    span, _, stride = item.partition(":")
    first, dash, last = span.partition("-")
    a = _number(first, text, source)
    b = _number(last, text, source) if dash else a
    if b < a:
        raise ParseError(source, 1, text, "range runs backwards")
    if not stride:
        return range(a, b + 1)
    used, slash, group = stride.partition("/")
    if not slash:
        raise ParseError(source, 1, text, "not a cpulist")
    used_count, group_size = _number(used, text, source), _number(group, text, source)
    if not 0 < used_count <= group_size:
        raise ParseError(source, 1, text, "not a cpulist")
    return (i for i in range(a, b + 1) if (i - a) % group_size < used_count)


def _number(digits: str, text: str, source: str) -> int:
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 7 or int(digits) > MAX_ID:
        raise ParseError(source, 1, text, "not a cpulist")
    return int(digits)
