"""``nvme list``: the NVMe drives, their namespaces and models, from its tables and its JSON.

Serial numbers, UUIDs and NQNs that stand beside them are dropped.
"""

from collections.abc import Iterable

from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact, Gap
from hostdoctor.parsers.nvme_list_json import find_json
from hostdoctor.parsers.nvme_list_rows import Row
from hostdoctor.parsers.nvme_list_table import find_tables

_NONE_THERE = "No NVMe devices detected"


class NvmeListed(Fact, frozen=True, kw_only=True):
    """An NVMe controller with the namespaces it reaches.

    The plain table and the flat JSON print namespaces only: there ``controller`` is what ``nvme0n1`` suggests, which
    native multipath can make wrong for a drive with several controllers. ``bdf`` is None for fabrics and where no
    address is printed. ``size_bytes`` adds up the namespaces, None unless all sizes are exact (JSON).
    """

    controller: str | None = None
    namespaces: tuple[str, ...] = ()
    model: str | None = None
    firmware: str | None = None
    bdf: str | None = None
    transport: str | None = None
    size_bytes: int | None = None


class NvmeList(Fact, frozen=True, kw_only=True):
    """The drives in the order they are listed; none is an answer too."""

    drives: tuple[NvmeListed, ...] = ()
    gaps: tuple[Gap, ...] = ()


def parse_nvme_list(text: str, source: str = "nvme list") -> NvmeList:
    """Return the drives of ``nvme list``: table, ``--verbose`` tables, or JSON of any version.

    Raises ParseError when the text holds none of them.
    """
    found = find_json(text)
    rows, gaps = found.rows, {"nvme": "the JSON is cut off"} if found.is_cut else {}
    if not found.is_list and not rows:
        tables = find_tables(text)
        rows, gaps = tables.rows, dict(tables.doubts)
        if tables.has_header and not rows:
            gaps["nvme"] = "the table has no rows"
        elif not rows and _NONE_THERE not in text:
            first = next((line for line in text[:4096].splitlines() if line.strip()), "")
            raise ParseError(source, 0, first, "no list of NVMe drives")
    drives = tuple(_drives(rows, gaps))
    if any(row.is_flat for row in rows):
        gaps["nvme.bdf"] = "the plain list prints no addresses"
    return NvmeList(drives=drives, gaps=tuple(Gap(fact=k, source=source, reason=v) for k, v in gaps.items()))


def _drives(rows: Iterable[Row], gaps: dict[str, str]) -> Iterable[NvmeListed]:
    rows = list(rows)
    by_controller: dict[str | None, list[Row]] = {}
    named = {namespace for row in rows if not row.is_derived for namespace in row.namespaces}
    for row in rows:
        if not (row.is_derived and named.intersection(row.namespaces)):
            by_controller.setdefault(row.controller, []).append(row)
    for controller, group in by_controller.items():
        derived = [row for row in group if row.is_derived]
        if len(derived) == len(group) and not _are_one_drive(derived):
            gaps[f"nvme[{controller}]"] = "its namespaces are on different drives"
            yield from (_drive(None, [row], gaps) for row in group)
        else:
            yield _drive(controller, group, gaps)


def _are_one_drive(rows: Iterable[Row]) -> bool:
    rows = list(rows)
    return all(
        len({value for row in rows if (value := getattr(row, key))}) <= 1 for key in ("serial", "model", "firmware")
    )


def _drive(controller: str | None, rows: list[Row], gaps: dict[str, str]) -> NvmeListed:
    namespaces = tuple(dict.fromkeys(namespace for row in rows for namespace in row.namespaces))
    sizes = {namespace: size for row in rows for namespace, size in row.sizes.items()}
    sized = bool(namespaces) and all(namespace in sizes for namespace in namespaces)
    return NvmeListed(
        controller=controller,
        namespaces=namespaces,
        model=_agreed(controller, "model", rows, gaps),
        firmware=_agreed(controller, "firmware", rows, gaps),
        bdf=_agreed(controller, "bdf", rows, gaps),
        transport=_agreed(controller, "transport", rows, gaps),
        size_bytes=sum(sizes[namespace] for namespace in namespaces) if sized else None,
    )


def _agreed(controller: str | None, key: str, rows: list[Row], gaps: dict[str, str]) -> str | None:
    values: list[str] = list(dict.fromkeys(value for row in rows if (value := getattr(row, key))))
    if len(values) > 1:
        gaps[f"nvme[{controller}].{key}"] = "two values are listed"
        return None
    return values[0] if values else None
