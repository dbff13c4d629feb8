"""A drive read from near and from far CPUs: verdicts from the runs, repeat i of one with repeat i of the other."""

from collections.abc import Sequence
from typing import Literal

from hostdoctor.facts import Fact
from hostdoctor.measure.against_near import AgainstNear, against_near

Statistic = Literal["p50", "p99"]
STATISTICS: tuple[Statistic, ...] = ("p50", "p99")
Kind = tuple[int, int]  # bytes of a read, reads in flight


class RunTimes(Fact, frozen=True, kw_only=True):
    """fio's quantiles of one run; None where it made too few reads."""

    kind: Kind
    cpu_node: int
    near: bool
    p50_ns: int | None = None
    p99_ns: int | None = None


class NvmeComparison(Fact, frozen=True, kw_only=True):
    """Reads of one kind from the CPUs of a far node against those from the drive's own node."""

    cpu_node: int
    block_bytes: int
    queue_depth: int
    statistic: Statistic
    result: AgainstNear


def compare_runs_of(runs: Sequence[RunTimes]) -> tuple[NvmeComparison, ...]:
    """Return what the runs of each kind say; they come in the order in which they were made.

    A kind of which any run failed or lacks the quantile is left out: what would be paired is not known.
    """
    return tuple(comparison for statistic in STATISTICS for comparison in _compared(statistic, runs))


def _compared(statistic: Statistic, runs: Sequence[RunTimes]) -> list[NvmeComparison]:
    times: dict[tuple[Kind, int], list[float]] = {}
    near = {run.kind: run.cpu_node for run in runs if run.near}
    lacking = {run.kind for run in runs if not _value(run, statistic)}
    for run in runs:
        if run.kind not in lacking:
            times.setdefault((run.kind, run.cpu_node), []).append(float(_value(run, statistic) or 0))

    def near_of(cell: tuple[Kind, int]) -> tuple[Kind, int] | None:
        node = near.get(cell[0])
        return None if node is None or node == cell[1] else (cell[0], node)

    return [
        NvmeComparison(cpu_node=node, block_bytes=kind[0], queue_depth=kind[1], statistic=statistic, result=result)
        for (kind, node), result in against_near(times, near_of).items()
    ]


def _value(run: RunTimes, statistic: Statistic) -> int | None:
    return run.p50_ns if statistic == "p50" else run.p99_ns
