"""Copies between host and GPU from near and far CPUs and memory, alternating, with proof of where everything was.

One process for each CPU node holds buffers on both memory nodes. Every round visits all settings, and within one all
cells: forwards in one round and backwards in the next, so that what drifts meets near and far alike.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec

from hostdoctor.errors import MeasureError
from hostdoctor.facts import Fact
from hostdoctor.measure.copies_links import LinkWatch
from hostdoctor.measure.copies_model import Cell, Copier, Floor, Memory, Place, Role, Setting
from hostdoctor.measure.copies_plan import MIB, Plan, cpulist_of, settings_of
from hostdoctor.measure.copies_verdict import Run
from hostdoctor.sources.worker import Worker, WorkerLostError

MODULE = "hostdoctor.measure.copies_worker"
RUN_LIMIT_S = 1.0  # a run of copies that takes longer has fewer of them
BANDWIDTH_S = 0.1  # of large copies in a run
WARM_COPIES = 5
OPEN_LOOP_LOAD = 0.5  # of what the slowest cell can do: its queue must not grow
ANSWER_S = 20.0  # beyond what was asked for
LOAD_THREADS = 4  # for each node
PLACED_SHARE = 0.95

Progress = Callable[[float], None]


class Measured(Fact, frozen=True, kw_only=True):
    """What was measured so far; ``stopped`` says why no more was."""

    runs: dict[Setting, dict[Role, list[Run]]]
    intervals_ns: dict[Setting, int]
    places: tuple[Place, ...]
    copiers: tuple[Copier, ...]
    floor: Floor | None
    cuda_version: str | None
    name: str | None
    notes: tuple[str, ...]
    stopped: str | None
    interrupted: BaseException | None


class Session:
    """The processes of one measurement. :meth:`measure` may end early by itself, by a signal, or never be called."""

    def __init__(self, plan: Plan, watch: LinkWatch, *, timeout_s: float, progress: Progress) -> None:
        self._plan = plan
        self._watch = watch
        self._timeout_s = timeout_s
        self._progress = progress
        self._workers: dict[int, Worker] = {}
        self._opened: dict[int, dict[str, Any]] = {}
        self._cpus_seen: dict[int, set[int]] = {}
        self._buffers: dict[str, Place] = {}
        self._counters: dict[int, list[dict[str, int]]] = {}
        self._runs: dict[Setting, dict[Role, list[Run]]] = {}
        self._intervals_ns: dict[Setting, int] = {}
        self._first: dict[str, int] = {}
        self._notes: list[str] = []

    def measure(self) -> Measured:
        """Return what could be measured, at the latest when all is; every process has ended then.

        What fails or is interrupted on the way ends it, and what came before is kept.
        """
        stopped, interrupted = None, None
        with ExitStack() as ends:
            ends.callback(self._close)
            try:
                self._measure()
            except MeasureError as error:
                stopped = str(error)
            except (KeyboardInterrupt, SystemExit) as error:
                stopped, interrupted = "interrupted", error
        return Measured(
            runs=self._runs,
            intervals_ns=self._intervals_ns,
            places=tuple(self._buffers.values()),
            copiers=tuple(self._copier(node) for node in self._opened),
            floor=self._floor(),
            cuda_version=self._of_first("cuda_version"),
            name=self._of_first("name"),
            notes=tuple(dict.fromkeys(self._notes)),
            stopped=stopped,
            interrupted=interrupted,
        )

    def _measure(self) -> None:
        for node in self._plan.cpus:
            self._open(node)
        for node in self._plan.cpus:
            self._fill(node)
        settings = settings_of(self._plan.settings)
        for load in dict.fromkeys(setting.load for setting in settings):
            with self._memory_load(load == "contended"):
                self._rounds([setting for setting in settings if setting.load == load], len(settings))
        for node in self._plan.cpus:
            self._look_again(node)

    def _rounds(self, settings: Sequence[Setting], every: int) -> None:
        for setting in settings:
            self._warm_up(setting)
        for number in range(self._plan.settings.pairs):
            for setting in settings:
                for cell in self._order(setting, number):
                    run = self._copy(setting, cell, self._plan.settings.copies_per_run)
                    self._runs.setdefault(setting, {}).setdefault(cell.role, []).append(run)
                self._progress(1 / (every * self._plan.settings.pairs))

    def _order(self, setting: Setting, number: int) -> list[Cell]:
        """Return the cells whose buffers are there: A B … in even rounds, … B A in odd ones."""
        cells = [
            cell for cell in self._plan.cells if _key(cell.cpu_node, cell.memory_node, setting.memory) in self._buffers
        ]
        return cells if number % 2 == 0 else cells[::-1]

    def _warm_up(self, setting: Setting) -> None:
        """Copy without keeping the times, and from them set the schedule of an open loop: one for all cells."""
        closed = msgspec.structs.replace(setting, loop="closed") if setting.loop == "open" else setting
        count = max(WARM_COPIES, self._plan.settings.copies_per_run // 4)
        runs = [self._copy(closed, cell, count) for cell in self._order(setting, 0)]
        if setting.loop == "open" and runs:
            slowest = max(sum(run.ns) / len(run.ns) for run in runs)
            self._intervals_ns[setting] = max(1, int(slowest / OPEN_LOOP_LOAD))

    def _copy(self, setting: Setting, cell: Cell, count: int) -> Run:
        worker, key = self._workers[cell.cpu_node], _key(cell.cpu_node, cell.memory_node, setting.memory)
        large = setting.loop == "bandwidth"
        question = {
            "do": "copy",
            "key": key,
            "direction": setting.direction,
            "size_bytes": setting.size_bytes,
            "count": 1_000 if large else count,
            "least": 2 if large else min(count, 3),
            "limit_s": BANDWIDTH_S if large else RUN_LIMIT_S,
            "warm": 1 if large else WARM_COPIES,
            "first": self._first.get(key, 0),
            "interval_ns": self._intervals_ns.get(setting),
        }
        with self._second_stream(setting, cell), self._watching(large):
            answer = worker.ask(question, self._timeout_s + ANSWER_S)
        self._first[key] = self._first.get(key, 0) + len(answer["ns"]) + WARM_COPIES
        self._cpus_seen[cell.cpu_node].update(cpu for cpu in answer["cpus"] if cpu is not None)
        return Run(ns=tuple(answer["ns"]), late=answer["late"], contending_copies=answer["contending_copies"])

    @contextmanager
    def _watching(self, large: bool) -> Iterator[None]:
        """Read the links while large copies keep them busy; small ones must not be disturbed."""
        if not large:
            yield
            return
        with self._watch.copying():
            yield

    @contextmanager
    def _second_stream(self, setting: Setting, cell: Cell) -> Iterator[None]:
        """Let the same context copy large blocks of near memory meanwhile, where the setting is a contended one."""
        if setting.load == "idle":
            yield
            return
        worker = self._workers[cell.cpu_node]
        worker.ask({"do": "contend", "node": self._plan.gpu.near_node}, self._timeout_s)
        yield
        worker.ask({"do": "rest"}, self._timeout_s)

    @contextmanager
    def _memory_load(self, wanted: bool) -> Iterator[None]:
        """Copy memory between the nodes meanwhile, by CPUs that no copying thread uses; the same for every cell."""
        loads: list[Worker] = []
        try:
            for node in self._plan.cpus if wanted else ():
                others = [n for n in self._plan.cpus if n != node] or [node]
                cpus = sorted(self._plan.cpus[node] - {self._plan.cpu[node]})[:LOAD_THREADS]
                if not cpus:
                    self._notes.append(f"no memory load by node {node}: it has no CPU to spare")
                    continue
                loads.append(Worker(MODULE, (",".join(map(str, cpus)),)))
                size = min(64 * MIB, self._plan.settings.buffer_bytes)
                question = {"do": "load", "cpus": cpus, "size_bytes": size, "to_node": node, "from_node": others[0]}
                loads[-1].ask(question, self._timeout_s)
            yield
            for load in loads:
                load.ask({"do": "rest"}, self._timeout_s)
        finally:
            for load in loads:
                load.kill()

    def _open(self, node: int) -> None:
        cpus = self._plan.cpus[node]
        worker = Worker(MODULE, (",".join(str(cpu) for cpu in sorted(cpus)),))
        self._workers[node] = worker
        size = self._plan.settings.buffer_bytes
        question = {"do": "open", "bdf": self._plan.gpu.bdf, "cpu": self._plan.cpu[node], "size_bytes": size}
        self._opened[node] = worker.ask(question, self._timeout_s)
        self._cpus_seen[node] = {self._opened[node]["cpu"]}

    def _fill(self, node: int) -> None:
        """Get the buffers of one process; what cannot be had leaves its cells out and says why."""
        worker = self._workers[node]
        self._counters[node] = [worker.ask({"do": "placement", "nodes": {}}, self._timeout_s)["counters"]]
        for memory in self._plan.settings.memories:
            for cell in self._plan.cells:
                key = _key(node, cell.memory_node, memory)
                if cell.cpu_node == node and key not in self._buffers:
                    self._get(worker, cell, memory, key)

    def _get(self, worker: Worker, cell: Cell, memory: Memory, key: str) -> None:
        size = self._plan.settings.buffer_bytes
        question = {"do": "buffer", "key": key, "node": cell.memory_node, "memory": memory, "size_bytes": size}
        where = f"{memory} memory of node {cell.memory_node} for CPUs of node {cell.cpu_node}"
        try:
            told = worker.ask(question, self._timeout_s + ANSWER_S)
        except WorkerLostError:
            raise
        except MeasureError as error:
            if cell.role == "near":
                raise MeasureError(f"{where}: {error}") from None
            self._notes.append(f"not measured: {where}: {error}")
            return
        if told["share"] < PLACED_SHARE:
            self._notes.append(
                f"not measured: {where}: only {told['share']:.0%} of its pages are there ({told['source']})"
            )
            return
        self._buffers[key] = Place(
            cpu_node=cell.cpu_node,
            memory_node=cell.memory_node,
            memory=memory,
            size_bytes=size,
            way=told["way"],
            source=told["source"],
            pages=told["pages"],
            pages_asked=told["pages_asked"],
            pages_elsewhere=told["pages_elsewhere"],
            share=told["share"],
            page_aligned=told["aligned"],
            huge_bytes=told["huge_bytes"],
        )

    def _look_again(self, node: int) -> None:
        nodes = {key: place.memory_node for key, place in self._buffers.items() if place.cpu_node == node}
        told = self._workers[node].ask({"do": "placement", "nodes": nodes}, self._timeout_s)
        self._counters[node].append(told["counters"])
        for key, now in told["buffers"].items():
            place = self._buffers[key] = msgspec.structs.replace(self._buffers[key], share_after=now["share"])
            if now["share"] < PLACED_SHARE:
                self._notes.append(
                    f"{place.memory} memory of node {place.memory_node} moved meanwhile: {now['share']:.0%} is still there"
                )

    def _copier(self, node: int) -> Copier:
        counted = self._counters.get(node, [])
        return Copier(
            cpu_node=node,
            pid=self._workers[node].pid,
            thread=self._opened[node]["thread"],
            cpus=cpulist_of(self._plan.cpus[node]),
            cpu=self._plan.cpu[node],
            cpus_seen=cpulist_of(frozenset(self._cpus_seen[node])),
            before=counted[0] if counted else {},
            after=counted[1] if len(counted) > 1 else {},
        )

    def _floor(self) -> Floor | None:
        floor = self._of_first("floor")
        if floor is None:
            return None
        clock, call = floor["clock_ns"], floor["call_ns"]
        return Floor(
            clock_p50_ns=clock[len(clock) // 2],
            clock_p99_ns=clock[len(clock) * 99 // 100],
            call_p50_ns=call[len(call) // 2],
            call_p99_ns=call[len(call) * 99 // 100],
        )

    def _of_first(self, name: str) -> Any:
        return next((opened[name] for opened in self._opened.values()), None)

    def _close(self) -> None:
        for worker in self._workers.values():
            worker.close()


def _key(cpu_node: int, memory_node: int, memory: Memory) -> str:
    return f"{cpu_node}/{memory_node}/{memory}"
