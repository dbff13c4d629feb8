"""The firmware's NUMA distances in an hwloc XML: ``<distances2>``, and ``<distances>`` of version 1."""

from collections.abc import Iterable, Sequence

from hostdoctor.parsers.hwloc_objects import Element, Matrix

_FROM_OS, _LATENCY = 1, 4  # bits of a matrix's kind
_LONGEST = 5
_LOCAL = 10
MAX_DISTANCE = 65535


def node_distances(
    matrices: Iterable[Matrix], ids: Sequence[int], elements: Sequence[Element], machine: Element
) -> dict[int, dict[str, int]]:
    """Return each node's distance to every known node, ``{}`` where the file does not tell all of them.

    ``elements`` are the nodes in the order of the document, ``ids`` their numbers.
    """
    for matrix in matrices:
        if matrix.owner is None:
            order = _order(matrix, ids, elements)
            values = [_whole(text) for text in matrix.values]
        else:
            order = list(ids) if _is_of_nodes(matrix, elements, machine) else []
            values = _scaled(matrix)
        if order and len(values) == len(order) ** 2 and set(order) >= set(ids):
            return _table(order, values, ids)
    return {}


def _table(order: Sequence[int], values: Sequence[int | None], ids: Sequence[int]) -> dict[int, dict[str, int]]:
    rows = {node: values[i * len(order) : (i + 1) * len(order)] for i, node in enumerate(order)}
    told: dict[int, dict[str, int]] = {}
    for node in sorted(ids):
        by_id = dict(zip(order, rows[node], strict=True))
        row = {str(other): value for other in sorted(ids) if (value := by_id[other]) is not None}
        if len(row) == len(ids):
            told[node] = row
    return told if len(told) == len(ids) else {}


def _order(matrix: Matrix, ids: Sequence[int], elements: Sequence[Element]) -> list[int]:
    """Return the nodes in the matrix's order; ``[]`` for a matrix of something else."""
    attributes = matrix.attributes
    kind = _whole(attributes.get("kind", "")) or 0
    if attributes.get("type") != "NUMANode" or attributes.get("name", "NUMALatency") != "NUMALatency":
        return []
    if not (kind & _FROM_OS and kind & _LATENCY):
        return []
    by_name = {str(node): node for node in ids}
    if attributes.get("indexing") == "gp":
        by_name = {e.attributes.get("gp_index", ""): node for node, e in zip(ids, elements, strict=True)}
    order = [by_name[index] for index in matrix.indexes if index in by_name]
    return order if len(order) == len(matrix.indexes) == len(set(order)) else []


def _is_of_nodes(matrix: Matrix, elements: Sequence[Element], machine: Element) -> bool:
    """Tell whether a matrix of version 1 is of the machine's NUMA nodes.

    It names a depth in the tree, which is that of the document in files of hwloc 1 alone: as many values, and the
    firmware's 10 from each node to itself, tell it too.
    """
    count = len(elements)
    return (
        matrix.owner is machine
        and matrix.attributes.get("nbobjs") == str(count)
        and all(value == _LOCAL for value in _scaled(matrix)[:: count + 1])
    )


def _scaled(matrix: Matrix) -> list[int | None]:
    """Return the values of version 1: fractions of a base."""
    base = _fraction(matrix.attributes.get("latency_base", ""))
    values = [_fraction(text) for text in matrix.values]
    products = [None if base is None or value is None else base * value for value in values]
    return [
        round(product) if product is not None and abs(product - round(product)) < 0.01 and 1 <= product <= MAX_DISTANCE
        else None
        for product in products
    ]  # fmt: skip


def _fraction(text: str) -> float | None:
    digits = text.replace(".", "", 1)
    return float(text) if digits.isascii() and digits.isdigit() and len(text) <= 16 else None


def _whole(text: str) -> int | None:
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST):
        return None
    return int(text) if 0 < int(text) <= MAX_DISTANCE else None
