"""``nvme smart-log``: JSON (temperature in kelvin, counters as numbers or strings) or text (``38 °C (311 K)``)."""

import re

from hostdoctor.errors import ParseError
from hostdoctor.facts import NvmeHealth
from hostdoctor.parsers.text import clean_lines

_WINDOW_CHARS = 1 << 18  # a log has 3 KiB; a file may hold anything before it
_KELVIN_AT_ZERO_CELSIUS = 273  # nvme-cli's own rounding
_MAX_COUNT = (1 << 63) - 1  # beyond it a counter is damage, not errors
# In nvme-cli's verbose JSON the warning is an object that starts with its value.
_FIELD = re.compile(
    r"\b(critical_warning|temperature|avail_spare|available_spare|spare_thresh|available_spare_threshold"
    r'|percent_used|percentage_used|media_errors)"?[ \t]{0,40}:\s{0,40}(?:\{\s{0,40}"value"\s{0,9}:\s{0,9})?"?'
    r'((?:[^",{}\r\n]|,(?=\d{3}\b)){1,40})'
)
_NUMBER = re.compile(r"(0x[0-9a-fA-F]{1,16}|\d{1,39}(?:,\d{3}){0,12})(?:\.0{1,6})?[ \t]?%?")
_SENSIBLE_KELVIN = range(200, 500)


def parse_nvme_smart(text: str, source: str) -> NvmeHealth:
    """Return the fields that tell a drive's health; a field that the log lacks or garbles is None.

    Raises ParseError when none of them is there: another command's output, or a message instead of a log.
    """
    lines = clean_lines(text[:_WINDOW_CHARS])
    told = _fields("\n".join(lines))
    health = NvmeHealth(
        critical_warning=_number(told.get("critical_warning"), 0xFF),
        temperature_celsius=_celsius(told.get("temperature")),
        spare_percent=_number(told.get("avail_spare", told.get("available_spare")), 100),
        spare_threshold_percent=_number(told.get("spare_thresh", told.get("available_spare_threshold")), 100),
        used_percent=_number(told.get("percent_used", told.get("percentage_used")), 0xFF),
        media_errors=_number(told.get("media_errors"), _MAX_COUNT),
    )
    if health == NvmeHealth():
        number, first = next(((i, row.strip()) for i, row in enumerate(lines, start=1) if row.strip()), (0, ""))
        raise ParseError(source, number, first, "no SMART log")
    return health


def _fields(text: str) -> dict[str, str]:
    """Return the first value under each name, as printed."""
    told: dict[str, str] = {}
    for match in _FIELD.finditer(text):
        name, value = match.group(1), match.group(2).strip()
        is_flag = name == "available_spare" and not value.endswith("%")  # of verbose JSON's warning
        is_cut = match.end() == len(text)
        if not is_flag and not is_cut:
            told.setdefault(name, value)
    return told


def _number(text: str | None, most: int) -> int | None:
    """Return a count as nvme-cli's versions print it: ``3``, ``0x3``, ``100%``, ``1,234``, ``5.000000``."""
    match = _NUMBER.fullmatch(text or "")
    if match is None:
        return None
    digits = match.group(1).replace(",", "")
    value = int(digits, 16) if digits.startswith("0x") else int(digits)
    return value if value <= most else None


def _celsius(text: str | None) -> float | None:
    """Return degrees Celsius of kelvin, alone or in brackets after another unit; 0 K is not a measurement."""
    kelvin = re.search(r"\b(\d{1,3}) ?K|^(\d{1,3})$", text or "")
    if kelvin:
        value = int(kelvin.group(1) or kelvin.group(2))
        return float(value - _KELVIN_AT_ZERO_CELSIUS) if value in _SENSIBLE_KELVIN else None
    celsius = re.fullmatch(r"(-?\d{1,3}) ?°? ?C", text or "")
    return float(celsius.group(1)) if celsius else None
