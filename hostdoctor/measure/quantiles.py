"""Sample quantiles as they are: an order statistic, no interpolation and no interval."""

import math
from collections.abc import Sequence


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return the smallest sample that at least this share (0 to 1) of the samples does not exceed; None without any."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
