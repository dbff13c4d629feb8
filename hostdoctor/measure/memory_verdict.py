"""Near memory against far memory, verdicts from the visits: visit i of one cell is paired with visit i of another."""

from collections.abc import Mapping, Sequence
from typing import Literal

from hostdoctor.facts import Fact
from hostdoctor.measure.against_near import AgainstNear, against_near

Statistic = Literal["latency", "read", "write", "copy"]
# By CPU node and memory node, in the order in which they were made; lower is better.
Visits = Mapping[tuple[int, int], Sequence[float]]


class MemoryComparison(Fact, frozen=True, kw_only=True):
    """Memory of one node against the CPU node's own, by the time of a load or of a byte moved."""

    cpu_node: int
    memory_node: int
    statistic: Statistic
    result: AgainstNear


def compare_memory(statistic: Statistic, visits: Visits) -> tuple[MemoryComparison, ...]:
    """Return what the visits of each far cell say beside those of the near cell of the same CPUs."""
    found = against_near(visits, lambda cell: (cell[0], cell[0]) if cell[0] != cell[1] else None)
    return tuple(
        MemoryComparison(cpu_node=cell[0], memory_node=cell[1], statistic=statistic, result=result)
        for cell, result in found.items()
    )
