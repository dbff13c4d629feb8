"""What the caller may use of a node: its CPU set, its memory nodes, without the CPUs that the boot line isolates."""

from hostdoctor.diagnosis.engines import ISOLATED
from hostdoctor.diagnosis.nodes import lacks
from hostdoctor.diagnosis.subjects import cpuset
from hostdoctor.facts import Fact, Host, NumaNode


class Reach(Fact, frozen=True, kw_only=True):
    """``cpus`` and ``mems`` may be used (None: not told, taken as all); ``isolated`` CPUs are to be left alone."""

    cpus: frozenset[int] | None
    mems: frozenset[int] | None
    isolated: frozenset[int]

    def allowed(self, node: NumaNode) -> frozenset[int]:
        """Return the node's CPUs that the caller may use, isolated ones too; none where its memory is kept out."""
        if self.mems is not None and node.id not in self.mems:
            return frozenset()
        cpus = cpuset(node.cpus) or frozenset()
        return cpus if self.cpus is None else cpus & self.cpus

    def bindable(self, node: NumaNode) -> frozenset[int]:
        """Return the node's CPUs to bind to."""
        return self.allowed(node) - self.isolated

    def is_home(self, node: NumaNode) -> bool:
        """Whether a process can be bound to the node, CPUs and memory; unknown memory is not told from none."""
        return not lacks(node) and bool(node.memory_bytes) and bool(self.bindable(node))


def reach_of(host: Host, *, use_isolated: bool) -> Reach:
    """Return what the caller may use.

    Outside a container the inherited mask lacks isolated CPUs, and binding to them widens it again.
    """
    isolated = frozenset[int]().union(*(cpuset(host.settings.get(name)) or () for name in ISOLATED))
    cpus = cpuset(host.allowed.cpus)
    if cpus is not None and use_isolated and not host.system.container:
        cpus |= isolated
    return Reach(cpus=cpus, mems=cpuset(host.allowed.mems), isolated=frozenset() if use_isolated else isolated)
