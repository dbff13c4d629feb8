"""How the samples of an arm are distributed, in few points: enough to draw a tail, too few to fill a file."""

import bisect
from collections.abc import Sequence

POINTS = 60

Points = tuple[tuple[float, float], ...]


def tail_of(ordered: Sequence[float]) -> Points:
    """Return (value, share of samples at or above it) of samples in ascending order; both exact.

    The shares are about equally far apart on a logarithmic scale, from 1 to that of the largest sample.
    """
    many = len(ordered)
    if not many:
        return ()
    wanted = (many ** (-step / (POINTS - 1)) for step in range(POINTS))
    values = dict.fromkeys(ordered[min(many - 1, many - round(share * many))] for share in wanted)
    return tuple((value, (many - bisect.bisect_left(ordered, value)) / many) for value in values)
