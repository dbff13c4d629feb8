"""``/sys/devices/system/node/nodeN/meminfo``: one ``Node 0 MemFree:  13993792 kB`` a line."""

import re

from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact
from hostdoctor.parsers.text import clean_lines

KIB = 1024
_ROW = re.compile(r"\s*Node (\d{1,6}) ([A-Za-z_()0-9]{1,40}):\s*(\d{1,15})(?: (kB))?\s*")


class NodeMeminfo(Fact, frozen=True, kw_only=True):
    """A node's counters by the kernel's names: bytes where the kernel says kB, plain counts (huge pages) elsewhere."""

    node: int
    values: dict[str, int]


def parse_node_meminfo(text: str, source: str = "meminfo") -> NodeMeminfo:
    """Return a node's counters; raise ParseError for a line of another shape, another node, or a name given twice."""
    node: int | None = None
    values: dict[str, int] = {}
    for number, row in enumerate(clean_lines(text), 1):
        if not row:
            continue
        match = _ROW.fullmatch(row)
        if match is None:
            raise ParseError(source, number, row)
        if node not in (None, int(match[1])):
            raise ParseError(source, number, row, f"another node than {node}")
        if match[2] in values:
            raise ParseError(source, number, row, "given twice")
        node = int(match[1])
        values[match[2]] = int(match[3]) * (KIB if match[4] else 1)
    if node is None:
        raise ParseError(source, 0, "", "empty")
    return NodeMeminfo(node=node, values=values)
