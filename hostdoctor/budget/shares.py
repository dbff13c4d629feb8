"""Splitting bytes so that the parts are whole and add up to the byte."""

from collections.abc import Sequence


def split(total_bytes: int, weights: Sequence[int]) -> tuple[int, ...]:
    """Return the total split in proportion to the weights; what is left over goes byte by byte to the first parts.

    No weight at all splits evenly. ``split(x, ())`` is ``()``.
    """
    if not weights:
        return ()
    if not any(weights):
        weights = [1] * len(weights)
    whole = sum(weights)
    parts = [total_bytes * weight // whole for weight in weights]
    left = total_bytes - sum(parts)
    takers = [i for i, weight in enumerate(weights) if weight][:left]
    return tuple(part + (i in takers) for i, part in enumerate(parts))
