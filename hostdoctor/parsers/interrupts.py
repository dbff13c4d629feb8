"""``/proc/interrupts`` and ``lsirq``: which interrupt serves which NVMe queue, and on which CPUs it has fired.

A row is ``IRQ:``, one count a CPU, the chip, the hardware interrupt with its trigger, and the handlers' names.
What a queue's CPU mask is cannot be told from counts: a vector that never fired still has one.
"""

import re
from collections.abc import Iterable

from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact, Gap
from hostdoctor.parsers.bdf import canonical_bdf
from hostdoctor.parsers.cpulist import format_cpulist
from hostdoctor.parsers.interrupts_rows import MAX_LINES, QUEUE, Row, Table, out_of_order, split_lines

_CUT_QUEUE = re.compile(r"nvme\d*q?")
_COUNT_DIGITS = 20
_TEXT_CHARS = 1 << 25


class Interrupt(Fact, frozen=True, kw_only=True):
    """A numbered interrupt that has a handler: its name as printed (``eth0-TxRx-0``, ``PCIe PME, aerdrv``)."""

    irq: int
    name: str
    chip: str | None = None


class NvmeVector(Fact, frozen=True, kw_only=True):
    """The interrupt of an NVMe queue (0 is the admin queue). Queues may share one.

    ``fired_cpus`` are the CPUs that have served it, ``""`` when none has; they are not the queue's CPUs.
    ``total`` counts the interrupt, over all queues that share it. ``bdf`` only where the chip's name carries one.
    """

    controller: str
    queue: int
    irq: int
    fired_cpus: str | None = None
    total: int | None = None
    bdf: str | None = None


class Interrupts(Fact, frozen=True, kw_only=True):
    """What a table tells. ``cpus`` are the header's columns (offline CPUs have none), ``()`` without a header."""

    cpus: tuple[int, ...] = ()
    vectors: tuple[NvmeVector, ...] = ()
    interrupts: tuple[Interrupt, ...] = ()
    gaps: tuple[Gap, ...] = ()


def parse_interrupts(text: str, source: str = "/proc/interrupts") -> Interrupts:
    """Return the numbered interrupts that have a handler, and among them the NVMe queues' vectors.

    Reads the kernel's table with or without its header, ``grep``'s rows of it, and ``lsirq``. Vectors are sorted by
    controller and queue; a queue that two interrupts bear is left out. Raises ParseError when there is no such row.
    """
    lines = split_lines(text[:_TEXT_CHARS])
    table = Table(lines)
    if not table.rows or not (table.cpus or table.is_recognised):
        number, line = next(((i, x) for i, x in enumerate(lines[:1000], 1) if x.strip()), (0, ""))
        raise ParseError(source, number, line[:200], "no interrupts table")
    misnumbered = out_of_order(table.rows)
    rows = [row for i, row in enumerate(table.rows) if i not in misnumbered]
    vectors, ambiguous = _vectors(rows, _can_sum(table))
    gaps = _gaps(table, ambiguous)
    for i in misnumbered:
        gaps.update(dict.fromkeys(_irq_facts(table.rows[i]), "the interrupt's number is out of order"))
    if len(text) > _TEXT_CHARS or len(lines) == MAX_LINES:
        gaps["interrupts"] = "too long, the end was not read"
    return Interrupts(
        cpus=table.cpus,
        vectors=vectors,
        interrupts=tuple(Interrupt(irq=row.irq, name=row.name, chip=row.chip) for row in rows if row.name),
        gaps=tuple(Gap(fact=fact, source=source, reason=reason) for fact, reason in gaps.items()),
    )


def _vectors(rows: Iterable[Row], can_sum: bool) -> tuple[tuple[NvmeVector, ...], list[tuple[str, int]]]:
    found: dict[tuple[str, int], NvmeVector] = {}
    ambiguous: dict[tuple[str, int], None] = {}
    for row in rows:
        for vector in _row_vectors(row, can_sum) if "nvme" in row.name else ():
            key = (vector.controller, vector.queue)
            if found.setdefault(key, vector).irq != vector.irq:
                ambiguous[key] = None
            found[key] = vector
    kept = (vector for key, vector in found.items() if key not in ambiguous)
    return tuple(sorted(kept, key=lambda v: (len(v.controller), v.controller, v.queue))), list(ambiguous)


def _row_vectors(row: Row, can_sum: bool) -> Iterable[NvmeVector]:
    nonzero = [(i, count) for i, count in enumerate(row.counts) if count != "0" and count.strip("0")]
    fired = format_cpulist(row.cpus[i] for i, _ in nonzero) if row.is_whole else None
    can_sum = row.is_total or row.is_whole or (can_sum and not row.cpus)
    can_sum = can_sum and all(len(count) <= _COUNT_DIGITS and count.isdecimal() for _, count in nonzero)
    total = sum(int(count) for _, count in nonzero) if can_sum else None
    bdf = canonical_bdf(row.chip.rpartition("-")[2]) if row.chip else None
    for match in QUEUE.finditer(row.name):
        yield NvmeVector(controller=match[1], queue=int(match[2]), irq=row.irq, fired_cpus=fired, total=total, bdf=bdf)


def _irq_facts(row: Row) -> Iterable[str]:
    return (f"nvme[{match[1]}].queues[{match[2]}].irq" for match in QUEUE.finditer(row.name))


def _can_sum(table: Table) -> bool:
    # Without a header a row cannot be seen to be cut, save by its neighbours.
    rows = [row for row in table.rows if not (row.is_total or row.cpus)]
    return len({row.width for row in rows}) <= 1 and not any(row.elided for row in rows)


def _gaps(table: Table, ambiguous: Iterable[tuple[str, int]]) -> dict[str, str]:
    gaps: dict[str, str] = {} if table.cpus else {"interrupts.cpus": "no CPU columns are named"}
    if table.has_conflicting_headers:
        gaps["interrupts.cpus"] = "two tables with different CPUs"
    for row in table.rows:
        if "nvme" in row.name and row.cpus and not row.is_whole:
            gaps["interrupts.fired_cpus"] = "a row has other columns than the header"
        elif _CUT_QUEUE.fullmatch(row.name):
            gaps["nvme.queues"] = "the name of a vector is cut off"
    for controller, queue in ambiguous:
        gaps[f"nvme[{controller}].queues[{queue}].irq"] = "two interrupts bear the queue's name"
    return gaps
