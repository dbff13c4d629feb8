"""The CPU lists of ``lscpu``'s node lines, and which of them can be trusted."""

import re
from collections.abc import Mapping, Sequence

from hostdoctor.errors import ParseError
from hostdoctor.parsers.cpulist import count_cpulist, is_within, shared_cpus
from hostdoctor.parsers.lscpu_labels import cpus_of, node_id
from hostdoctor.parsers.lscpu_text import Pair


class NodeLists:
    """The node lines of one output."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.is_mask = any(pair.label.endswith("CPU(s) mask") for pair in pairs)
        self.pairs = _node_pairs(pairs)

    def lists(self, online: str | None, count: int | None, gaps: dict[str, str]) -> dict[int, str | None]:
        """Return each node's CPUs, None where they cannot be trusted; ``gaps`` then says why."""
        lists: dict[int, str | None] = {}
        for node, pair in self.pairs.items():
            lists[node], doubt = self._list(pair, online)
            if doubt:
                gaps[f"numa_nodes[{node}].cpus"] = doubt
        for node, pair in self.pairs.items():
            if pair.is_cut and lists[node] is not None and not _is_whole(node, lists, online, count):
                lists[node] = None
                gaps[f"numa_nodes[{node}].cpus"] = "the text ends here"
        for node in shared_cpus({node: cpus for node, cpus in lists.items() if cpus}):
            lists[node] = None
            gaps[f"numa_nodes[{node}].cpus"] = "a CPU is listed under several nodes"
        _drop_short(lists, online if count == len(lists) else None, gaps)
        if count is not None and count != len(lists):
            gaps["numa_nodes"] = f"{count} nodes counted, {len(lists)} listed"
        elif not lists:
            gaps["numa_nodes"] = "no NUMA lines: the kernel has no NUMA, or they are not in the text"
        return lists

    def _list(self, pair: Pair, online: str | None) -> tuple[str | None, str | None]:
        """Return a line's CPUs and no doubt, or none and why."""
        try:
            cpus = cpus_of(pair.value, is_mask=self.is_mask and bool(pair.value))
        except ParseError as error:
            return None, f"{error.reason}: {pair.value[:40]!r}"
        if pair.is_glued and not is_within(cpus, [online or ""]):
            return None, "the list is wrapped, and what follows may not belong to it"
        return cpus, None


def _drop_short(lists: dict[int, str | None], online: str | None, gaps: dict[str, str]) -> None:
    """Drop lists where all of them leave out a CPU that is online; one with exactly its share of the CPUs stays."""
    known = [cpus for cpus in lists.values() if cpus is not None]
    # A node that sysfs does not show leaves its CPUs out, too; node 0 is hardly ever absent by itself.
    if not online or 0 not in lists or len(known) < len(lists) or is_within(online, known):
        return
    for node, cpus in lists.items():
        if count_cpulist(cpus or "") * len(lists) != count_cpulist(online):
            lists[node] = None
            gaps[f"numa_nodes[{node}].cpus"] = "the nodes' lists leave out a CPU that is online"


def _node_pairs(pairs: Sequence[Pair]) -> dict[int, Pair]:
    """Return the node lines by node. A blank one only counts among others of its kind: a heading looks the same."""
    found = {node: pair for pair in pairs if (node := node_id(pair)) is not None}
    kinds = {_kind(pair) for pair in found.values() if pair.value}
    return {node: pair for node, pair in found.items() if pair.value or _kind(pair) in kinds}


def _kind(pair: Pair) -> str:
    return re.sub(r"\d+", "#", pair.label)


def _is_whole(node: int, lists: Mapping[int, str | None], online: str | None, count: int | None) -> bool:
    """Tell whether the last list of a text that ends inside its line is whole, as far as others tell."""
    if online is not None:
        return is_within(online, (cpus or "" for cpus in lists.values()))
    size = count_cpulist(lists[node] or "")
    others = {count_cpulist(cpus) for other, cpus in lists.items() if cpus and other != node}
    return count == len(lists) and size > 0 and others == {size}
