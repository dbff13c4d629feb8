"""``numactl --hardware``: NUMA nodes with their CPUs, memory and distances (numactl.c, ``hardware()``).

::

    available: 2 nodes (0-1)
    node 0 cpus: 0 1 2 3
    node 0 size: 1931 MB
    node 0 free: 1700 MB
    …
    node distances:
    node   0   1
      0:  10  21
      1:  21  10
"""

import re

import msgspec

from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact, Gap
from hostdoctor.parsers.cpulist import shared_cpus
from hostdoctor.parsers.numactl_text import Output, Reader
from hostdoctor.parsers.text import excerpt

MIB = 1 << 20
_MARKS = ("node distances:", " cpus:", " nodes (", "No NUMA ")
_MEGABYTES = re.compile(r"\s*(\d{1,12})\s*MB\b")
_FIELDS = ("cpus", "memory_bytes", "free_bytes", "distances")


class NumactlNode(Fact, frozen=True, kw_only=True):
    """A node. ``cpus`` is ``""`` where it has none and None when not told; ``distances`` is ``{}`` when not told."""

    id: int
    cpus: str | None = None
    memory_bytes: int | None = None
    free_bytes: int | None = None
    distances: dict[str, int] = msgspec.field(default_factory=dict)


class NumactlHardware(Fact, frozen=True, kw_only=True):
    """One output: its nodes by id, those included that are only said to be there; ``elided``: lines were left out."""

    nodes: tuple[NumactlNode, ...]
    gaps: tuple[Gap, ...] = ()
    elided: bool = False


def parse_numactl(text: str, source: str = "numactl --hardware") -> NumactlHardware:
    """Return the nodes that the first complete output in a text tells of, else those of the fullest one.

    Facts in gaps carry node ids (``numa_nodes[8].cpus``), or none where they concern all nodes
    (``numa_nodes.distances``). Raises ParseError when there is no output of ``--hardware``.
    """
    reader = Reader(excerpt(text, _MARKS))
    records = [_record(output, source) for output in reader.outputs]
    records = [record for record in records if record.nodes]
    if records:
        complete = (record for record in records if all(gap.fact == "numa_nodes.distances" for gap in record.gaps))
        return next(complete, None) or max(records, key=_told)
    if any(output.count == 0 for output in reader.outputs):
        return NumactlHardware(nodes=(), gaps=(Gap(fact="numa_nodes", source=source, reason="sees no node"),))
    if reader.says_no_numa and "physcpubind:" not in text:
        return _without_numa(source)
    first = next((line for line in text[:4096].splitlines() if line.strip()), "")
    raise ParseError(source, 0, first, "no output of numactl --hardware")


def _record(output: Output, source: str) -> NumactlHardware:
    gaps: dict[str, str] = {}
    distances = output.table.distances(output.listed) if output.table else {}
    ids = output.printed | {int(column) for row in distances.values() for column in row} | set(output.listed or ())
    nodes = tuple(_node(node, output, distances.get(node, {}), gaps) for node in sorted(ids))
    nodes = _without_shared_cpus(nodes, gaps)
    if output.count is not None and output.count != len(nodes):
        gaps["numa_nodes"] = f"{output.count} nodes are available, {len(nodes)} printed"
    for field in _FIELDS:
        _join_gaps(field, nodes, gaps)
    told = tuple(Gap(fact=fact, source=source, reason=reason) for fact, reason in gaps.items())
    return NumactlHardware(nodes=nodes, gaps=told, elided=output.is_elided)


def _node(node: int, output: Output, distances: dict[str, int], gaps: dict[str, str]) -> NumactlNode:
    fact = f"numa_nodes[{node}]"
    if node not in output.printed:
        gaps[fact] = "left out of the text" if output.is_elided else "said to be available, but not printed"
    else:
        if node not in output.cpus:
            gaps[f"{fact}.cpus"] = "not printed"
        if not distances:
            gaps[f"{fact}.distances"] = "no row that can be aligned" if output.table else "no distance table"
    return NumactlNode(
        id=node,
        cpus=_cpus(node, output, gaps),
        memory_bytes=_bytes(node, output.memory, "memory_bytes", gaps) if node in output.printed else None,
        free_bytes=_bytes(node, output.free, "free_bytes", gaps) if node in output.printed else None,
        distances=distances,
    )


def _cpus(node: int, output: Output, gaps: dict[str, str]) -> str | None:
    if node not in output.cpus:
        return None
    try:
        return output.cpus[node].cpus("")
    except ParseError as error:
        gaps[f"numa_nodes[{node}].cpus"] = error.reason
        return None


def _bytes(node: int, values: dict[int, str], field: str, gaps: dict[str, str]) -> int | None:
    printed = values.get(node, "").strip()
    match = _MEGABYTES.match(printed)
    if match is None:
        gaps[f"numa_nodes[{node}].{field}"] = printed[:40] or "not printed"
        return None
    return int(match.group(1)) * MIB


def _without_shared_cpus(nodes: tuple[NumactlNode, ...], gaps: dict[str, str]) -> tuple[NumactlNode, ...]:
    """Return the nodes without the lists of those that share a CPU: it has one node, so a list is damaged."""
    shared = shared_cpus({node.id: node.cpus for node in nodes if node.cpus})
    for node in sorted(shared):
        gaps[f"numa_nodes[{node}].cpus"] = "a CPU is listed under several nodes"
    return tuple(msgspec.structs.replace(node, cpus=None) if node.id in shared else node for node in nodes)


def _join_gaps(field: str, nodes: tuple[NumactlNode, ...], gaps: dict[str, str]) -> None:
    """Make one gap of a field's gaps where no node has it, for the same reason."""
    facts = [fact for fact in gaps if fact.endswith(f"].{field}")]
    reasons = {gaps[fact] for fact in facts}
    if len(facts) > 1 and len(reasons) == 1 and all(getattr(node, field) in (None, {}) for node in nodes):
        for fact in facts:
            del gaps[fact]
        gaps[f"numa_nodes.{field}"] = reasons.pop()


def _told(record: NumactlHardware) -> int:
    """Count the values that a record has."""
    values = [value for node in record.nodes for value in (node.cpus, node.memory_bytes, node.free_bytes)]
    return sum(value is not None for value in values) + sum(bool(node.distances) for node in record.nodes)


def _without_numa(source: str) -> NumactlHardware:
    """Return one node of which nothing is known: the kernel has no NUMA, or a container is refused the call."""
    reason = "No NUMA available on this system: the kernel has none, or does not let this process ask"
    gap = Gap(fact="numa_nodes[0]", source=source, reason=reason)
    return NumactlHardware(nodes=(NumactlNode(id=0),), gaps=(gap,))
