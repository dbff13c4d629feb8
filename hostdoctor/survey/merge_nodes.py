"""NUMA nodes as sysfs, ``numactl`` and ``lscpu`` tell them, joined by id."""

from collections.abc import Iterable, Mapping

from hostdoctor.facts import NodeKind, NumaNode
from hostdoctor.parsers.cpulist import format_cpulist
from hostdoctor.sources.base import HWLOC_XML, NCCL_XML
from hostdoctor.survey.notes import Notes
from hostdoctor.survey.texts import Texts
from hostdoctor.survey.xml_records import xml_nodes

MIB = 1 << 20
PARTIAL = {HWLOC_XML.label, NCCL_XML.label}  # what does not list every node
FIELDS = ("cpus", "memory_bytes", "free_bytes", "distances")


def merge_nodes(sysfs: tuple[NumaNode, ...], texts: Texts, notes: Notes) -> tuple[NumaNode, ...]:
    """Return one record a node id, ascending; the first source to tell a value gives it."""
    told: list[tuple[str, dict[int, NumaNode]]] = [("sysfs", _by_id(sysfs))]
    for hardware in texts.numactl:
        nodes = (
            NumaNode(id=n.id, cpus=n.cpus, memory_bytes=n.memory_bytes, free_bytes=n.free_bytes, distances=n.distances)
            for n in hardware.nodes
        )
        told.append(("numactl --hardware", _by_id(nodes)))
    told += [("lscpu", _by_id(NumaNode(id=n.id, cpus=n.cpus) for n in lscpu.nodes)) for lscpu in texts.lscpu]
    told += [(source, _by_id(nodes)) for source, nodes in xml_nodes(texts)]
    ids = {source: sorted(nodes) for source, nodes in told if nodes}
    _compare_ids(ids, notes)
    # the kernel's own list is whole; what only a text lists is another time or another machine
    chosen = ids.get("sysfs") or sorted({node for listed in ids.values() for node in listed})
    merged = tuple(_merge(node, _of(node, told), notes) for node in chosen)
    _note_open(merged, texts, notes)
    _note_xml(merged, set(ids), texts, notes)
    return merged


def _compare_ids(ids: Mapping[str, list[int]], notes: Notes) -> None:
    """Keep that sources list different nodes; the XMLs may leave some out."""
    whole = {source: listed for source, listed in ids.items() if source not in PARTIAL}
    known = {node for listed in whole.values() for node in listed}
    compared = whole | {source: listed for source, listed in ids.items() if known and not known.issuperset(listed)}
    if len({tuple(listed) for listed in compared.values()}) > 1:
        notes.disagree("numa_nodes", {source: format_cpulist(listed) for source, listed in compared.items()})


def _note_open(merged: tuple[NumaNode, ...], texts: Texts, notes: Notes) -> None:
    """Keep what the texts could not tell of a node, where no other source told it."""
    by_fact = {f"numa_nodes[{node.id}].{field}": getattr(node, field) for node in merged for field in FIELDS}
    if merged:
        notes.settled("numa_nodes")
    for fact, value in by_fact.items():
        if value not in (None, {}):
            notes.settled(fact)
    gaps = [gap for hardware in texts.numactl for gap in hardware.gaps]
    gaps += [gap for lscpu in texts.lscpu for gap in lscpu.gaps]
    for gap in gaps:
        fields = [value for name, value in by_fact.items() if name == gap.fact or _covers(gap.fact, name)]
        if not fields or any(value in (None, {}) for value in fields):
            notes.add((gap,))


def _covers(fact: str, name: str) -> bool:
    """Tell whether a gap about a whole node, or one field of all nodes, speaks of this fact."""
    if fact.endswith("]"):
        return name.startswith(fact + ".")
    return fact.startswith("numa_nodes.") and name.endswith("]." + fact.removeprefix("numa_nodes."))


def with_kinds(nodes: tuple[NumaNode, ...], gpu_memory: frozenset[int]) -> tuple[NumaNode, ...]:
    """Return the nodes with their kinds; ``gpu_memory`` are the nodes that GPUs' own memory forms."""
    import msgspec

    return tuple(msgspec.structs.replace(node, kind=_kind(node, node.id in gpu_memory)) for node in nodes)


def _note_xml(merged: tuple[NumaNode, ...], told: set[str], texts: Texts, notes: Notes) -> None:
    """Keep what the XMLs could not tell of nodes and no other source told either."""
    with_cpus = {f"numa_nodes[{node.id}].cpus" for node in merged if node.cpus is not None}
    settled = with_cpus if told <= PARTIAL else {*with_cpus, "numa_nodes"}
    gaps = [gap for hwloc in texts.hwloc for gap in hwloc.gaps] + [gap for nccl in texts.nccl for gap in nccl.gaps]
    notes.add(gap for gap in gaps if gap.fact not in settled)
    if told == {NCCL_XML.label}:
        notes.gap("numa_nodes", NCCL_XML.label, "it leaves out nodes without a GPU or NIC in use")


def _kind(node: NumaNode, is_gpu_memory: bool) -> NodeKind | None:
    if node.cpus is None or node.memory_bytes is None:
        return None
    if is_gpu_memory and not node.cpus:
        return "gpu-memory"
    if node.cpus:
        return "cpu+memory" if node.memory_bytes else "cpu-only"
    return "memory-only" if node.memory_bytes else "empty"


def _merge(node: int, told: Mapping[str, NumaNode], notes: Notes) -> NumaNode:
    fact = f"numa_nodes[{node}]"
    sizes = {source: n.memory_bytes for source, n in told.items()}
    return NumaNode(
        id=node,
        cpus=notes.pick(f"{fact}.cpus", {source: n.cpus for source, n in told.items()}),
        memory_bytes=_memory(fact, sizes, notes),
        free_bytes=next((n.free_bytes for n in told.values() if n.free_bytes is not None), None),
        distances=_distances(fact, told, notes),
        package=next((n.package for n in told.values() if n.package is not None), None),
        hugepages=next((n.hugepages for n in told.values() if n.hugepages), ()),
    )


def _memory(fact: str, sizes: Mapping[str, int | None], notes: Notes) -> int | None:
    """Return the first size told; numactl rounds down to MiB, so only larger differences count."""
    known = {source: size for source, size in sizes.items() if size is not None}
    first = next(iter(known.values()), None)
    if first is not None and any(abs(size - first) > MIB for size in known.values()):
        notes.disagree(f"{fact}.memory_bytes", known)
    return first


def _distances(fact: str, told: Mapping[str, NumaNode], notes: Notes) -> dict[str, int]:
    known = {source: n.distances for source, n in told.items() if n.distances}
    first = next(iter(known.values()), {})
    if any(distances != first for distances in known.values()):
        shown = {source: " ".join(f"{k}:{v}" for k, v in d.items()) for source, d in known.items()}
        notes.disagree(f"{fact}.distances", shown)
    return first


def _by_id(nodes: Iterable[NumaNode]) -> dict[int, NumaNode]:
    return {node.id: node for node in nodes}


def _of(node: int, told: list[tuple[str, dict[int, NumaNode]]]) -> dict[str, NumaNode]:
    """Return what each source says of one node; a second output of the same command counts under its number."""
    found: dict[str, NumaNode] = {}
    for source, nodes in told:
        if node in nodes:
            found[source if source not in found else f"{source} ({len(found) + 1})"] = nodes[node]
    return found
