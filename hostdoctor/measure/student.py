"""Student's t for whole degrees of freedom, in closed form: no table and no scipy."""

import math
from functools import lru_cache

_STEPS = 80  # bisection: beyond the last digit of a float


def t_cdf(t: float, df: int) -> float:
    """Return P(T ≤ t) for ``df`` ≥ 1 degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    theta = math.atan(t / math.sqrt(df))
    cosine_squared = math.cos(theta) ** 2
    term, total = 1.0, 0.0
    for k in range(df // 2):
        total += term
        term *= cosine_squared * ((2 * k + 2) / (2 * k + 3) if df % 2 else (2 * k + 1) / (2 * k + 2))
    if df % 2:
        return 0.5 + (theta + math.sin(theta) * math.cos(theta) * total) / math.pi
    return 0.5 + math.sin(theta) * total / 2


@lru_cache(maxsize=256)
def t_quantile(p: float, df: int) -> float:
    """Return the t below which a share ``p`` (0 < p < 1) lies."""
    if p < 0.5:
        return -t_quantile(1 - p, df)
    low, high = 0.0, 2.0
    while t_cdf(high, df) < p:
        high *= 2
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if t_cdf(middle, df) < p else (low, middle)
    return (low + high) / 2
