"""Prometheus' text format: ``name{label="value"} 1.5e3 [timestamp]`` (prometheus.io, "Exposition formats")."""

import math
import re

from hostdoctor.errors import ParseError

_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_MAX_NUMBER_CHARS = 40


def parse_prometheus(text: str, source: str) -> dict[str, float]:
    """Return each metric's value, added up over its label sets; NaN and infinite samples are left out.

    Raises ParseError when no line is a sample: another page, or a message.
    """
    totals: dict[str, float] = {}
    understood = False
    for row in text.splitlines():
        name, value = _sample(row)
        if name is None or value is None:
            continue
        understood = True
        if math.isfinite(value):
            totals[name] = totals.get(name, 0.0) + value
    if not understood:
        raise ParseError(source, 1, text.strip().partition("\n")[0], "no Prometheus metrics")
    return totals


def _sample(row: str) -> tuple[str | None, float | None]:
    """Return a line's metric and value, None for what is neither comment nor sample."""
    match = _NAME.match(row)
    if match is None:
        return None, None
    rest = row[match.end() :]
    if rest.startswith("{"):
        rest = rest[rest.rfind("}") + 1 :]  # a label's value may hold a brace, what follows the labels cannot
    words = rest.split()
    if not rest[:1].isspace() or len(words) not in (1, 2) or len(words[0]) > _MAX_NUMBER_CHARS:
        return None, None
    try:
        return match.group(), float(words[0])
    except ValueError:
        return None, None
