"""Which CPUs are a NUMA node's own in an hwloc XML, and which nodes a set of CPUs is.

hwloc gives a node without CPUs the CPUs nearest to it, so that a set there says "local to", not "owner of". What
decides (read_node_initiators and fixup_cpuless_node_locality_from_distances in its topology-linux.c): a CPU belongs
to one node; the set of a node without CPUs is made of whole sets of nodes with CPUs; and nodes with CPUs have the
lower numbers, and stand first, everywhere. So a set that holds another node's set and more is no node's own, and of
nodes with one set the first owns it, unless it is memory that has no CPUs anywhere.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

# Memory that has no CPUs of its own, as hwloc names it; Xeon Max can run from HBM alone: then nobody owns its CPUs.
_SPECIAL = frozenset(("HBM", "MCDRAM", "NVM", "SPM", "CXL-DRAM", "GPUMemory"))


@dataclass(frozen=True, slots=True)
class Cpus:
    """The machine's CPUs: those that who made the file was shown, and all."""

    allowed: int
    complete: int


@dataclass(slots=True)
class Nodes:
    """The nodes' own CPUs: ``owners`` have some, ``without`` have none; of the others nothing is known."""

    owners: dict[int, int]
    without: frozenset[int]
    everything: int
    _known: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def near(self, cpus: int) -> tuple[int, ...]:
        """Return the nodes that a set of CPUs is made of, or the one that holds it; ``()`` where that is not told.

        Nothing is told by a set that is the whole machine of several nodes, or has CPUs of no known node.
        """
        if cpus not in self._known:
            self._known[cpus] = self._near(cpus)
        return self._known[cpus]

    def _near(self, cpus: int) -> tuple[int, ...]:
        if not cpus:
            return ()
        inside = [node for node, own in self.owners.items() if not own & ~cpus]
        if inside:
            union = _union(self.owners[node] for node in inside)
            whole = len(inside) > 1 and (len(inside) == len(self.owners) or not self.everything & ~cpus)
            return tuple(sorted(inside)) if union == cpus and not whole else ()
        return tuple(node for node, own in self.owners.items() if not cpus & ~own)


def own_cpus(local: Mapping[int, int | None], special: frozenset[int], cpus: Cpus, hidden: frozenset[int]) -> Nodes:
    """Return which nodes own their sets, given each node's local CPUs, in the order of the document.

    ``special`` nodes are memory of a kind that has no CPUs of its own. ``hidden`` ones were not shown to who made
    the file: such a node may own what a node with a higher number shows, unless its CPUs were hidden with it.
    """
    sets = {node: own for node, own in local.items() if own and node not in special}
    wide = _wide(sets)
    first: dict[int, int] = {}
    for node, own in sets.items():
        if node not in wide:
            first.setdefault(own, node)
    candidates = {node: own for own, node in first.items() if node == min(n for n in sets if sets[n] == own)}
    shared = _shared(candidates)
    owners = {node: own for node, own in candidates.items() if not own & shared}
    union = _union(owners.values())
    partition = bool(cpus.complete & ~union) and not cpus.allowed & ~union
    if not partition:
        owners = {node: own for node, own in owners.items() if not any(other < node for other in hidden)}
    known = not hidden and cpus.allowed and not cpus.allowed & ~_union(owners.values())
    without = frozenset(node for node in local if node not in owners) if known and not shared else frozenset()
    return Nodes(owners, without, cpus.allowed)


def is_special(subtype: str, *, is_dax: bool) -> bool:
    """Tell whether a node's subtype or a DAX device behind it says that it has no CPUs of its own."""
    return is_dax or subtype in _SPECIAL


def _wide(sets: Mapping[int, int]) -> frozenset[int]:
    """Return the nodes whose set holds another node's and more."""
    distinct = Counter(sets.values())
    holding = {a for a in distinct for b in distinct if a != b and not b & ~a}
    return frozenset(node for node, cpus in sets.items() if cpus in holding)


def _union(sets: Iterable[int]) -> int:
    union = 0
    for own in sets:
        union |= own
    return union


def _shared(sets: Mapping[int, int]) -> int:
    """Return the CPUs that are in more than one set."""
    seen = shared = 0
    for cpus in sets.values():
        shared |= seen & cpus
        seen |= cpus
    return shared
