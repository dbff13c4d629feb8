"""Measured documents as they are shown: verdicts, tables, drawings."""

import msgspec

from hostdoctor.facts import Fact
from hostdoctor.measure.matrix.model import MatrixDocument
from hostdoctor.outputs.page.comparisons import of_comparison
from hostdoctor.outputs.page.copies import of_copies
from hostdoctor.outputs.page.documents import Comparison, Copies, Document, Experiment, Memory, Nvme
from hostdoctor.outputs.page.drives import of_reads, of_watch
from hostdoctor.outputs.page.matrix import of_matrix
from hostdoctor.outputs.page.memory import of_memory
from hostdoctor.outputs.page.model import Measurement


class Room(Fact, frozen=True, kw_only=True):
    """How much of a document is shown."""

    charts: int = 24
    tables: int = 48
    rows: int = 100


def measurements(document: Document, name: str) -> list[Measurement]:
    """Return what a document is shown as, cut where it is endless; ``name`` is its file's."""
    return [cut(told, Room()) for told in _all(document, name)]


def hostname_of(document: Document) -> str | None:
    """Return on which host a document was made, None where it does not tell."""
    if isinstance(document, Comparison):
        return document.plan.hostname if isinstance(document, Experiment) and document.plan else None
    return document.hostname if isinstance(document, MatrixDocument) else document.circumstances.hostname


def _all(document: Document, name: str) -> list[Measurement]:
    if isinstance(document, Comparison):
        return of_comparison(document, name)
    if isinstance(document, MatrixDocument):
        return of_matrix(document, name)
    if isinstance(document, Copies):
        return [of_copies(document, name)]
    if isinstance(document, Nvme):
        return [of_reads(document, name)]
    return [of_memory(document, name) if isinstance(document, Memory) else of_watch(document, name)]


def cut(told: Measurement, room: Room) -> Measurement:
    """Return what is shown of a document where there is room for so much; what is left out is counted."""
    lists = {"verdicts": room.rows, "tables": room.tables, "charts": room.charts, "notes": room.rows}
    left = {name: len(getattr(told, name)) - most for name, most in lists.items()}
    words = [f"{count} more {name} are in the document" for name, count in left.items() if count > 0]
    tables = tuple(msgspec.structs.replace(one, rows=one.rows[: room.rows]) for one in told.tables[: room.tables])
    long = [one for one in told.tables if len(one.rows) > room.rows]
    words += [f"{one.caption}: the first {room.rows} of {len(one.rows)} rows" for one in long]
    return msgspec.structs.replace(
        told,
        verdicts=told.verdicts[: room.rows],
        tables=tables,
        charts=told.charts[: room.charts],
        notes=(*told.notes[: room.rows], *words[: room.rows]),
    )
