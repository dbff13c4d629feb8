"""Deciding where each GPU is from what its sources tell: ranked, compared, differences kept."""

from collections.abc import Mapping

import msgspec

from hostdoctor.facts import Allowed, Gpu, NumaNode
from hostdoctor.parsers.cpulist import format_cpulist, parse_cpulist
from hostdoctor.survey.gpu_records import Seen, Told
from hostdoctor.survey.notes import Notes
from hostdoctor.survey.values import ids


def settle_gpus(seen: list[Seen], nodes: tuple[NumaNode, ...], allowed: Allowed, notes: Notes) -> tuple[Gpu, ...]:
    """Return the GPUs with their nodes and CPUs decided; differing sources leave disagreements."""
    return tuple(_settle(s, f"gpus[{i}]", nodes, allowed, notes) for i, s in enumerate(seen))


def gpu_memory_nodes(seen: list[Seen], nodes: tuple[NumaNode, ...]) -> frozenset[int]:
    """Return the nodes that GPUs' own memory forms: told by a driver, and without CPUs."""
    with_cpus = {node.id for node in nodes if node.cpus}
    told = {t.memory_node for s in seen for t in s.told.values() if t.memory_node is not None}
    return frozenset(told - with_cpus)


def _settle(s: Seen, fact: str, nodes: tuple[NumaNode, ...], allowed: Allowed, notes: Notes) -> Gpu:
    with_cpus = {node.id: node for node in nodes if node.cpus}
    if nodes:
        s.told = {
            source: _on_known_nodes(t, {n.id for n in nodes}, fact, source, notes) for source, t in s.told.items()
        }
    near = _near_nodes(fact, s.told, frozenset(with_cpus), notes)
    memory = [t.memory_node for t in s.told.values() if t.memory_node is not None and t.memory_node not in with_cpus]
    cpus = _near_cpus(fact, s.told, nodes, allowed, notes)
    if cpus and not near:
        near = _node_of(cpus, with_cpus)
    if cpus is None and near and all(node in with_cpus for node in near):
        cpus = format_cpulist(cpu for node in near for cpu in parse_cpulist(with_cpus[node].cpus or ""))
    return msgspec.structs.replace(
        s.gpu,
        numa_nodes=near,
        numa_node=near[0] if len(near) == 1 else None,
        cpus=cpus,
        memory_numa_node=memory[0] if memory else None,
    )


def _on_known_nodes(told: Told, known: set[int], fact: str, source: str, notes: Notes) -> Told:
    """Return what a source told without nodes that the host does not list."""
    strange = [node for node in (*told.nodes, told.memory_node) if node is not None and node not in known]
    for node in strange:
        notes.gap(f"{fact}.numa_node", source, f"{node}, but the host lists no such node", "unlisted-node")
    nodes = tuple(node for node in told.nodes if node in known)
    memory_node = told.memory_node if told.memory_node in known else None
    return msgspec.structs.replace(told, nodes=nodes, memory_node=memory_node)


def _node_of(cpus: str, with_cpus: Mapping[int, NumaNode]) -> tuple[int, ...]:
    """Return the one node of several that holds all of a GPU's near CPUs."""
    near = parse_cpulist(cpus)
    holding = [node for node, record in with_cpus.items() if near & parse_cpulist(record.cpus or "")]
    return tuple(holding) if len(holding) == 1 and len(with_cpus) > 1 else ()


def _near_nodes(fact: str, told: Mapping[str, Told], cpu_nodes: frozenset[int], notes: Notes) -> tuple[int, ...]:
    """Return the nodes near a GPU as the first source tells them.

    A source that names every CPU node of several says no more than that it does not know which.
    """
    known = {source: _told_nodes(t, cpu_nodes) for source, t in told.items()}
    known = {source: nodes for source, nodes in known.items() if nodes}
    narrow = {s: nodes for s, nodes in known.items() if len(nodes) == 1 or not frozenset(nodes) >= cpu_nodes}
    chosen = narrow or known
    if len(set(chosen.values())) > 1:
        shown = {source: nodes[0] if len(nodes) == 1 else format_cpulist(nodes) for source, nodes in chosen.items()}
        notes.disagree(f"{fact}.numa_node", shown)
    return next(iter(chosen.values()), ())


def _told_nodes(told: Told, cpu_nodes: frozenset[int]) -> tuple[int, ...]:
    """Return the near nodes; a driver's node id that has CPUs is the near node, not the GPU's own memory."""
    if told.nodes:
        return tuple(sorted(told.nodes))
    return (told.memory_node,) if told.memory_node is not None and told.memory_node in cpu_nodes else ()


def _near_cpus(
    fact: str, told: Mapping[str, Told], nodes: tuple[NumaNode, ...], allowed: Allowed, notes: Notes
) -> str | None:
    """Return the first CPU list told; lists that differ on online and allowed CPUs are a disagreement."""
    known = {source: t.cpus for source, t in told.items() if t.cpus}
    online = frozenset(cpu for node in nodes for cpu in parse_cpulist(node.cpus or ""))
    usable = online & (ids(allowed.cpus) or online)
    sets = {source: parse_cpulist(cpus) & usable if usable else parse_cpulist(cpus) for source, cpus in known.items()}
    narrow = {source: cpus for source, cpus in sets.items() if cpus != usable} if len(nodes) > 1 else sets
    if len(set(narrow.values())) > 1:
        notes.disagree(f"{fact}.cpus", {source: known[source] for source in narrow})
    return next(iter(known.values()), None)
