"""The experiment of ``hostdoctor measure memory``: each CPU node against each memory node, cells interleaved.

Latency first, then bandwidth, which overwrites the chains. In each round every cell is visited once, in the opposite
order of the round before, so that what drifts (clocks, other load) reaches all cells alike.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from statistics import median

from hostdoctor.errors import MeasureError
from hostdoctor.facts import Fact
from hostdoctor.measure.bandwidth import OPERATIONS, Operation, clear, measure_rate
from hostdoctor.measure.chase import (
    STRIDE_BYTES,
    Chase,
    NativeCode,
    chase_over,
    interpreter_overhead_ns,
    random_cycle,
    shuffling_s,
)
from hostdoctor.measure.clock import clock_floor
from hostdoctor.measure.documents import (
    Bandwidth,
    BatchLatency,
    Circumstances,
    LatencyDifference,
    MemoryCell,
    MemoryDocument,
    NodeBuffer,
)
from hostdoctor.measure.kernel import running_cpu
from hostdoctor.measure.memory_plan import MemoryPlan, Pair
from hostdoctor.measure.memory_verdict import MemoryComparison, compare_memory
from hostdoctor.measure.paired import pairs_needed
from hostdoctor.measure.placing import Buffer, Placement, bound_buffer, pinned_thread
from hostdoctor.measure.quantiles import quantile
from hostdoctor.parsers.cpulist import format_cpulist

NATIVE_LOADS, INTERPRETED_LOADS = 10_000, 2_000
ENOUGH_ON_NODE = 0.95
_S_PER_NS = 1e-9


class MemoryOptions(Fact, frozen=True, kw_only=True):
    """How long and how often: rounds over all cells, seconds of warm-up a CPU node, seconds of a visit."""

    rounds: int = 20
    warmup_s: float = 2.0
    latency_visit_s: float = 0.05
    bandwidth_rounds: int = 8
    bandwidth_visit_s: float = 0.25
    bandwidth: bool = True
    seed: int = 1

    @property
    def bandwidth_visits(self) -> int:
        """How often each cell is visited for each operation."""
        return self.bandwidth_rounds if self.bandwidth else 0


def enough_rounds(plan: MemoryPlan, most: int) -> int:
    """Return how many rounds a verdict on every far cell takes, at most so many."""
    far = sum(pair.cpu_node != pair.memory_node for pair in plan.measured)
    return min(most, max(MemoryOptions().bandwidth_rounds, pairs_needed(max(1, far))))


class _Measured:
    """What one cell has given so far."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.cpus_seen: set[int] = set()
        self.visits_ns: list[list[float]] = []
        self.rates: dict[Operation, list[float]] = {operation: [] for operation in OPERATIONS}


class _NodeMemory:
    """A node's buffer and what was seen of it."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.before = buffer.placement()
        self.after: Placement | None = None
        self.huge_bytes = buffer.huge_bytes()

    def strayed(self) -> str | None:
        """Say that pages are not where they were bound to; None when they are."""
        node = self.buffer.node
        for when, placement in (("before", self.before), ("after", self.after)):
            if placement is not None and placement.share_on(node) < ENOUGH_ON_NODE:
                return f"only {placement.share_on(node):.0%} of the pages were on node {node} {when} measuring"
        return None


class MemoryExperiment:
    """The experiment, step by step; :meth:`document` tells what was measured so far."""

    def __init__(self, plan: MemoryPlan, options: MemoryOptions, *, native: bool) -> None:
        """Prepare; raise MeasureError where machine code is asked for and cannot be had."""
        self._plan, self._options = plan, options
        self._code = NativeCode() if native else None
        self._loads = NATIVE_LOADS if native else INTERPRETED_LOADS
        self._clock = clock_floor()
        self._overhead_ns = None if native else interpreter_overhead_ns()
        self._cells = [_Measured(pair) for pair in plan.measured]
        self._memory: dict[int, _NodeMemory] = {}
        self._stopped: str | None = None

    @property
    def seconds(self) -> float:
        """About how long all steps take together."""
        options, cells = self._options, len(self._cells)
        chase = cells * options.rounds * options.latency_visit_s
        moving = cells * len(OPERATIONS) * options.bandwidth_visits * options.bandwidth_visit_s
        return self._setting_up_s() + len(self._plan.cpu_nodes) * options.warmup_s + chase + moving

    def steps(self) -> Iterator[float]:
        """Measure; yield after each step about how many seconds it took.

        Raises MeasureError where nothing can be measured; what fails later ends it, and what came before is kept.
        """
        try:
            yield from self._measure()
        except MeasureError as error:
            if not any(cell.visits_ns for cell in self._cells):
                raise
            self._stopped = str(error)

    def _measure(self) -> Iterator[float]:
        with ExitStack() as stack:
            yield from self._set_up(stack)
            chases = {node: self._chase(memory.buffer) for node, memory in self._memory.items()}
            yield self._setting_up_s() / 2
            yield from self._warm_up(chases)
            yield from self._latencies(chases)
            del chases
            yield from self._rates()
            self._look_again()

    def document(self, circumstances: Circumstances) -> MemoryDocument:
        """Return what was measured so far."""
        plan = self._plan
        done = {(cell.pair.cpu_node, cell.pair.memory_node): cell for cell in self._cells}
        own = {cell.pair.cpu_node: cell for cell in self._cells if cell.pair.cpu_node == cell.pair.memory_node}
        return MemoryDocument(
            circumstances=circumstances,
            method="interpreted" if self._code is None else "native",
            clock=self._clock,
            interpreter_overhead_ns=self._overhead_ns,
            size_bytes=plan.size_bytes,
            wanted_bytes=plan.wanted_bytes,
            stride_bytes=STRIDE_BYTES,
            l3_bytes=plan.l3_bytes,
            buffers=tuple(_node_buffer(node, memory) for node, memory in self._memory.items()),
            cells=tuple(self._cell(pair, done, own) for pair in plan.pairs),
            comparisons=tuple(self._comparisons()),
            stopped=self._stopped,
            notes=plan.notes,
        )

    def _comparisons(self) -> Iterator[MemoryComparison]:
        """Compare near and far; the interpreter's share would shrink a ratio of latencies, so that is left out."""
        cells = {
            (cell.pair.cpu_node, cell.pair.memory_node): cell for cell in self._cells if not self._strayed(cell.pair)
        }
        if self._code is not None:
            visits = {at: [median(visit) for visit in cell.visits_ns] for at, cell in cells.items()}
            yield from compare_memory("latency", visits)
        for operation in OPERATIONS:
            times = {at: [1 / rate for rate in cell.rates[operation]] for at, cell in cells.items()}
            yield from compare_memory(operation, times)

    def _setting_up_s(self) -> float:
        touching = len(self._plan.memory_nodes) * self._plan.size_bytes / 1e9
        return 1.0 + touching + shuffling_s(self._plan.size_bytes // STRIDE_BYTES)

    def _set_up(self, stack: ExitStack) -> Iterator[float]:
        nodes = self._plan.memory_nodes
        for node in nodes:
            buffer = stack.enter_context(bound_buffer(node, self._plan.size_bytes))
            self._memory[node] = _NodeMemory(buffer)
            stack.callback(self._look_again)  # before the buffers are given back, also when interrupted
            yield self._setting_up_s() / 2 / len(nodes)
        self._cycle = random_cycle(self._plan.size_bytes // STRIDE_BYTES, self._options.seed)

    def _chase(self, buffer: Buffer) -> Chase:
        return chase_over(buffer, self._cycle, self._code)

    def _warm_up(self, chases: Mapping[int, Chase]) -> Iterator[float]:
        """Let each CPU node work until its clocks have risen."""
        firsts = {cell.pair.cpu_node: cell for cell in reversed(self._cells)}
        for cell in firsts.values():
            with pinned_thread(cell.pair.cpus[:1]):
                self._follow(chases[cell.pair.memory_node], self._options.warmup_s)
            yield self._options.warmup_s

    def _latencies(self, chases: Mapping[int, Chase]) -> Iterator[float]:
        for round_ in range(self._options.rounds):
            for cell in self._in_turn(round_):
                chase = chases[cell.pair.memory_node]
                with pinned_thread(cell.pair.cpus[:1]):
                    _see(cell)
                    chase.batch(self._loads)  # wakes the CPU; not counted
                    cell.visits_ns.append(self._follow(chase, self._options.latency_visit_s))
                    _see(cell)
                yield self._options.latency_visit_s

    def _in_turn(self, round_: int) -> list[_Measured]:
        return self._cells[::-1] if round_ % 2 else self._cells

    def _follow(self, chase: Chase, seconds: float) -> list[float]:
        """Return the mean time of a load of each batch, in ns."""
        means: list[float] = []
        until = time.perf_counter() + seconds
        while not means or time.perf_counter() < until:
            means.append(chase.batch(self._loads) / self._loads)
        return means

    def _rates(self) -> Iterator[float]:
        if not self._options.bandwidth_visits:
            return
        for memory in self._memory.values():
            clear(memory.buffer)
        for round_ in range(self._options.bandwidth_visits):
            for operation in OPERATIONS:
                for cell in self._in_turn(round_):
                    buffer = self._memory[cell.pair.memory_node].buffer
                    rate = measure_rate(operation, buffer, cell.pair.cpus, self._options.bandwidth_visit_s)
                    cell.rates[operation].append(rate.gbytes_per_s)
                    cell.cpus_seen.update(rate.cpus_seen)
                    yield self._options.bandwidth_visit_s

    def _look_again(self) -> None:
        for memory in self._memory.values():
            if memory.after is None:
                memory.after = memory.buffer.placement()

    def _cell(self, pair: Pair, done: Mapping[tuple[int, int], _Measured], own: Mapping[int, _Measured]) -> MemoryCell:
        told = MemoryCell(
            cpu_node=pair.cpu_node,
            memory_node=pair.memory_node,
            distance=pair.distance,
            cpus=format_cpulist(pair.cpus) or None,
            skipped=pair.skipped or self._strayed(pair),
        )
        cell = done.get((pair.cpu_node, pair.memory_node))
        if cell is None or told.skipped is not None:
            return told
        return MemoryCell(
            cpu_node=told.cpu_node,
            memory_node=told.memory_node,
            distance=told.distance,
            cpus=told.cpus,
            cpus_seen=format_cpulist(cell.cpus_seen) or None,
            latency=self._latency(cell) if self._code is not None else None,
            latency_difference=self._difference(cell, own.get(pair.cpu_node)) if self._code is None else None,
            read=_bandwidth(cell.rates["read"]),
            write=_bandwidth(cell.rates["write"]),
            copy=_bandwidth(cell.rates["copy"]),
        )

    def _strayed(self, pair: Pair) -> str | None:
        memory = self._memory.get(pair.memory_node)
        return memory.strayed() if memory is not None else None

    def _latency(self, cell: _Measured) -> BatchLatency | None:
        means = [mean for visit in cell.visits_ns for mean in visit]
        p50, p99 = quantile(means, 0.5), quantile(means, 0.99)
        if p50 is None or p99 is None:
            return None
        return BatchLatency(
            batches=len(means),
            loads_per_batch=self._loads,
            p50_of_batch_means_ns=p50,
            p99_of_batch_means_ns=p99,
            visits_p50_ns=tuple(median(visit) for visit in cell.visits_ns),
        )

    def _difference(self, cell: _Measured, own: _Measured | None) -> LatencyDifference | None:
        """Return the difference to the CPU node's own memory, where that was measured too."""
        if own is None or own is cell or not cell.visits_ns or self._strayed(own.pair):
            return None
        pairs = zip(cell.visits_ns, own.visits_ns, strict=False)
        visits = tuple(median(far) - median(near) for far, near in pairs)
        batches = sum(map(len, cell.visits_ns))
        return LatencyDifference(p50_ns=median(visits), visits_ns=visits, batches=batches, loads_per_batch=self._loads)


def _see(cell: _Measured) -> None:
    cpu = running_cpu()
    if cpu is not None:
        cell.cpus_seen.add(cpu)


def _bandwidth(rates: list[float]) -> Bandwidth | None:
    return Bandwidth(p50_gbytes_per_s=median(rates), visits_gbytes_per_s=tuple(rates)) if rates else None


def _node_buffer(node: int, memory: _NodeMemory) -> NodeBuffer:
    return NodeBuffer(
        node=node, huge_bytes=memory.huge_bytes, placement_before=memory.before, placement_after=memory.after
    )
