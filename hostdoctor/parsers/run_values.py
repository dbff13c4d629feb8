"""Values of benchmark results, each either sensible or None."""

import math
import re
from collections.abc import Iterable
from typing import Any, Literal

MAX_MS = 1e9  # eleven days
MIN_QUANTILE_MS = 1e-6  # clients write 0 where there was nothing to measure
MAX_COUNT = 10**12
_NUMBER = re.compile(r"[+-]?\d{1,20}(?:\.\d{1,20})?(?:[eE][+-]?\d{1,3})?")
_VERSION_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_. -]{0,40}version", re.IGNORECASE)


def number(value: Any) -> float | None:
    """Return a finite number, also one written as a string (as ``--metadata`` does), else None."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def count(value: Any) -> int | None:
    """Return a number of things, 0 and more, else None."""
    found = number(value)
    return int(found) if found is not None and 0 <= found <= MAX_COUNT and found == int(found) else None


def seed(value: Any) -> int | None:
    """Return a seed."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def positive(value: Any) -> float | None:
    """Return a number above 0, else None."""
    found = number(value)
    return found if found is not None and found > 0 else None


def word(value: Any) -> str | None:
    """Return a non-empty text, shortened to 300 characters, else None; halves of a character become ``?``."""
    return value.strip()[:300].encode("utf-8", "replace").decode() or None if isinstance(value, str) else None


def rate(value: Any) -> float | Literal["inf"] | None:
    """Return requests a second; ``"inf"`` where all are sent at once."""
    return "inf" if isinstance(value, str) and value.strip().lower() in ("inf", "infinity") else positive(value)


def milliseconds(value: Any, scale: float = 1.0) -> float | None:
    """Return a quantile in milliseconds, None for what is none: 0, negative, absurdly large."""
    found = number(value) if not isinstance(value, str) else None
    if found is None or not MIN_QUANTILE_MS <= found * scale <= MAX_MS:
        return None
    return found * scale


def times_ms(values: Iterable[Any], scale: float) -> list[float]:
    """Return the samples that are times, in milliseconds; 0 is one (two tokens in one packet)."""
    return [
        x * scale for x in values if isinstance(x, int | float) and not isinstance(x, bool) and 0 <= x * scale <= MAX_MS
    ]


def inner(parent: Any, *keys: str) -> Any:
    """Return what lies under a path of keys, None where an object on the way is missing."""
    for key in keys:
        parent = parent.get(key) if isinstance(parent, dict) else None
    return parent


def items(value: Any) -> list[Any]:
    """Return a list as it is, ``[]`` for anything else."""
    return value if isinstance(value, list) else []


def versions(document: Any) -> dict[str, str]:
    """Return every top-level text whose key ends in ``version``, but for the file's own schema version."""
    told = document.items() if isinstance(document, dict) else ()
    return {
        key: text
        for key, value in list(told)[:500]
        if _VERSION_KEY.fullmatch(key) and key != "schema_version" and (text := word(value))
    }
