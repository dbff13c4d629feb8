"""Near memory against far memory, verdicts from the visits: visit i of one cell is paired with visit i of another."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from hostdoctor.facts import Fact
from hostdoctor.measure.comparison import Verdict
from hostdoctor.measure.paired import Paired, compare_pairs, holm
from hostdoctor.measure.verdicts import judge

Statistic = Literal["latency", "read", "write", "copy"]
# By CPU node and memory node, in the order in which they were made; lower is better.
Visits = Mapping[tuple[int, int], Sequence[float]]


class MemoryComparison(Fact, frozen=True, kw_only=True):
    """Memory of one node against the CPU node's own. ``ratio`` is far/near of times: of a load, or of a byte moved.

    ``p_value`` is adjusted for all comparisons of this statistic (Holm). ``reason`` says why there is no verdict.
    """

    cpu_node: int
    memory_node: int
    statistic: Statistic
    pairs: int
    ratio: float | None = None
    ratio_ci: tuple[float, float] | None = None
    p_value: float | None = None
    detectable_ratio: float | None = None
    verdict: Verdict
    reason: str = ""


def compare_memory(statistic: Statistic, visits: Visits) -> tuple[MemoryComparison, ...]:
    """Return what the visits of each far cell say beside those of the near cell of the same CPUs."""
    pairs = {cell: both for cell, both in _pairs(visits) if both[0]}
    paired = {cell: compare_pairs(*both, tests=len(pairs)) for cell, both in pairs.items()}
    adjusted = _adjusted(paired)
    return tuple(
        _comparison(cell, statistic, found, adjusted.get(cell), _control(visits[cell[0], cell[0]]))
        for cell, found in paired.items()
    )


def _pairs(visits: Visits) -> Iterator[tuple[tuple[int, int], tuple[list[float], list[float]]]]:
    for (cpu_node, memory_node), far in visits.items():
        near = visits.get((cpu_node, cpu_node), ())
        if cpu_node != memory_node:
            both = list(zip(near, far, strict=False))  # an interrupted round lacks its second half
            yield (cpu_node, memory_node), ([pair[0] for pair in both], [pair[1] for pair in both])


def _adjusted(paired: Mapping[tuple[int, int], Paired]) -> dict[tuple[int, int], float]:
    told = [(cell, found.p_value) for cell, found in paired.items() if found.p_value is not None]
    return dict(zip((cell for cell, _ in told), holm([p_value for _, p_value in told]), strict=True))


def _control(near: Sequence[float]) -> Paired:
    """Compare near with itself: each second visit with the one before."""
    both = list(zip(near[::2], near[1::2], strict=False))
    return compare_pairs([pair[0] for pair in both], [pair[1] for pair in both])


def _comparison(
    cell: tuple[int, int], statistic: Statistic, found: Paired, p_value: float | None, control: Paired
) -> MemoryComparison:
    verdict, reason = judge(found, p_value, None, control if control.pairs >= control.pairs_needed else None)
    return MemoryComparison(
        cpu_node=cell[0],
        memory_node=cell[1],
        statistic=statistic,
        pairs=found.pairs,
        ratio=found.ratio,
        ratio_ci=found.ratio_ci,
        p_value=p_value,
        detectable_ratio=found.detectable_ratio,
        verdict=verdict,
        reason=reason,
    )
