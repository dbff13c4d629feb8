"""``/proc/zoneinfo``: the zones of every node, their watermarks and what they keep back from one another, in pages.

A zone starts with ``Node 0, zone   Normal``. ``pages free`` and the lines below it hold name and number; ``protection:
(0, 3019, …)`` is lowmem_reserve; ``nr_*`` lines are counters. A node's own counters stand under ``per-node stats`` in
its first populated zone, and end at ``pages free``. What follows ``pagesets`` is for each CPU and is passed over.
"""

import re
from collections.abc import Iterator

from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact
from hostdoctor.parsers.text import clean_lines

MAX_ZONES = 1 << 16  # a thousand nodes have six each
_HEAD = re.compile(r"\s*Node (\d{1,6}), zone\s+(\w{1,20})\s*")
_NUMBER = re.compile(r"\s*(?:pages )?(\w{1,40}):?\s+(\d{1,18})\s*")
_PROTECTION = re.compile(r"\s*protection: \(([0-9, ]{1,400})\)\s*")
_WANTED = frozenset(("free", "min", "low", "high", "present", "managed", "nr_free_cma"))
# Kernels before 4.8 counted the page cache's lists by zone under the names that are now a node's.
_FILE = ("nr_zone_active_file", "nr_zone_inactive_file")
_OLD_FILE = ("nr_active_file", "nr_inactive_file")
_NEEDED = ("free", "min", "low", "high", "managed")


class ZoneInfo(Fact, frozen=True, kw_only=True):
    """One zone, in pages. ``high`` and the others hold the boost; ``reserve`` is the largest protection."""

    node: int
    name: str
    free: int
    min: int
    low: int
    high: int
    managed: int
    reserve: int
    free_cma: int | None = None
    file: int | None = None


def parse_zoneinfo(text: str, source: str = "/proc/zoneinfo") -> tuple[ZoneInfo, ...]:
    """Return the zones in the order printed, unpopulated ones too.

    Raises ParseError for a zone without a watermark or ``managed``, one that comes twice, and a text without zones.
    """
    zones: dict[tuple[int, str], ZoneInfo] = {}
    for number, head, rows in _blocks(clean_lines(text), source):
        zone = _zone(head, rows, number, source)
        if (zone.node, zone.name) in zones or len(zones) >= MAX_ZONES:
            raise ParseError(source, number, head[0], "given twice" if len(zones) < MAX_ZONES else "too many zones")
        zones[zone.node, zone.name] = zone
    if not zones:
        raise ParseError(source, 0, "", "no zone")
    return tuple(zones.values())


def _blocks(lines: list[str], source: str) -> Iterator[tuple[int, re.Match[str], list[str]]]:
    """Yield each zone's line number, its head and the rows below it."""
    head: re.Match[str] | None = None
    began, rows = 0, list[str]()
    for number, row in enumerate(lines, 1):
        match = _HEAD.fullmatch(row) if "zone" in row else None
        if match is None:
            if head is None and row:
                raise ParseError(source, number, row, "before the first zone")
            rows.append(row)
            continue
        if head is not None:
            yield began, head, rows
        head, began, rows = match, number, []
    if head is not None:
        yield began, head, rows


def _zone(head: re.Match[str], rows: list[str], number: int, source: str) -> ZoneInfo:
    values, reserve = _values(rows)
    missing = next((name for name in _NEEDED if name not in values), None)
    if missing or reserve is None:
        raise ParseError(source, number, head[0], f"no {missing or 'protection'}")
    file = [values[name] for name in _FILE if name in values] or [values[name] for name in _OLD_FILE if name in values]
    return ZoneInfo(
        node=int(head[1]),
        name=head[2],
        free=values["free"],
        min=values["min"],
        low=values["low"],
        high=values["high"],
        managed=values["managed"],
        reserve=reserve,
        free_cma=values.get("nr_free_cma"),
        file=sum(file) if len(file) == len(_FILE) else None,
    )


def _values(rows: list[str]) -> tuple[dict[str, int], int | None]:
    """Return the numbers of a zone by name and its largest protection."""
    values: dict[str, int] = {}
    reserve = None
    of_node = False
    for row in rows:
        word = row.strip()
        if word == "pagesets":
            break
        if word == "per-node stats":
            of_node = True
        elif word.startswith("pages free"):
            of_node = False
        if of_node:
            continue
        if word.startswith("protection:"):
            reserve = _largest(row)
        elif word.startswith(("pages free", *_WANTED, *_FILE, *_OLD_FILE)) and (match := _NUMBER.fullmatch(row)):
            values.setdefault(match[1], int(match[2]))
    return values, reserve


def _largest(row: str) -> int | None:
    match = _PROTECTION.fullmatch(row)
    parts = [part.strip() for part in match[1].split(",")] if match else []
    return max(map(int, parts)) if parts and all(part.isdigit() and len(part) < 19 for part in parts) else None
