"""What gives each kind of text away: the lines that only its output has, and those that may stand between them."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from hostdoctor.sources.base import TextKind

TAIL = 200  # where the name of an interrupt stands, behind a count for every CPU


class Mark(NamedTuple):
    """A line that gives a format away: by which sign, and at which column the output itself begins (-1: not told).

    ``key`` stands once in an output, so that a second one begins another. ``opens``: only other opening lines come
    before it. ``weak``: it continues an output close above and begins none.
    """

    sign: str
    column: int
    key: str = ""
    opens: bool = False
    weak: bool = False


class Format(NamedTuple):
    """One kind of text. A line with none of ``words`` is never marked; ``enough`` judges how often each sign was seen.

    ``belongs`` finds unmarked lines that are part of it; ``misses`` is how many others may stand between.
    """

    kind: TextKind
    words: tuple[str, ...]
    mark: Callable[[str], Mark | None]
    belongs: Callable[[str], object]
    enough: Callable[[Mapping[str, int]], bool]
    misses: int
