"""``nvme smart-log``: JSON (temperature in kelvin, counters as numbers or strings) or text (``38 °C (311 K)``)."""

import re

from hostdoctor.errors import ParseError
from hostdoctor.facts import NvmeHealth

_WINDOW_CHARS = 1 << 18  # a log has 3 KiB; a file may hold anything before it
_KELVIN_AT_ZERO_CELSIUS = 273  # nvme-cli's own rounding
_MAX_COUNT = (1 << 63) - 1  # beyond it a counter is damage, not errors
# In nvme-cli's verbose JSON the warning is an object that starts with its value.
_FIELD = re.compile(
    r"\b(critical_warning|temperature|avail_spare|available_spare|spare_thresh|available_spare_threshold"
    r'|percent_used|percentage_used|media_errors)"?[ \t]{0,40}:\s{0,40}(?:\{\s{0,40}"value"\s{0,9}:\s{0,9})?"?'
    r'([^",{}\r\n]{1,40})'
)
_NUMBER = re.compile(r"0x[0-9a-fA-F]{1,16}|\d{1,39}(?:,\d{3}){0,12}")
_KELVIN = re.compile(r"(\d{1,3}) ?K")


def parse_nvme_smart(text: str, source: str) -> NvmeHealth:
    """Return the fields that tell a drive's health; a field that the log lacks or garbles is None.

    Raises ParseError when none of them is there: another command's output, or a message instead of a log.
    """
    told: dict[str, str] = {}
    for match in _FIELD.finditer(text[:_WINDOW_CHARS]):
        told.setdefault(match.group(1), match.group(2).strip())
    health = NvmeHealth(
        critical_warning=_number(told.get("critical_warning"), 0xFF),
        temperature_celsius=_celsius(told.get("temperature")),
        spare_percent=_number(told.get("avail_spare", told.get("available_spare")), 100),
        spare_threshold_percent=_number(told.get("spare_thresh", told.get("available_spare_threshold")), 100),
        used_percent=_number(told.get("percent_used", told.get("percentage_used")), 0xFF),
        media_errors=_number(told.get("media_errors"), _MAX_COUNT),
    )
    if health == NvmeHealth():
        first = next((row for row in text[:_WINDOW_CHARS].splitlines() if row.strip()), "")
        raise ParseError(source, 1 if first else 0, first, "no SMART log")
    return health


def _number(text: str | None, most: int) -> int | None:
    """Return a count as nvme-cli's versions print it: ``3``, ``0x3``, ``100%``, ``1,234``, ``5.000000``."""
    match = _NUMBER.match(text or "")
    if match is None:
        return None
    digits = match.group().replace(",", "")
    value = int(digits, 16) if digits.startswith("0x") else int(digits)
    return value if value <= most else None


def _celsius(text: str | None) -> float | None:
    """Return degrees Celsius of kelvin, alone or in brackets after another unit; 0 K means that nobody measures."""
    kelvin = _KELVIN.search(text or "") or re.fullmatch(r"(\d{1,3})", text or "")
    if kelvin:
        value = int(kelvin.group(1))
        return float(value - _KELVIN_AT_ZERO_CELSIUS) if value else None
    celsius = re.match(r"(-?\d{1,3}) ?°? ?C", text or "")
    return float(celsius.group(1)) if celsius else None
