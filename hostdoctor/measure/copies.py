"""Copies between host and GPU from near and far CPUs and memory, alternating, with proof of where everything was.

One process for each CPU node holds buffers on both memory nodes. Every round visits all settings, and within one all
cells: forwards in one round and backwards in the next, so that what drifts meets near and far alike.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from hostdoctor.errors import MeasureError
from hostdoctor.measure.copies_links import LinkWatch
from hostdoctor.measure.copies_model import Cell, Copier, CopyDocument, Memory, Place, Role, Setting
from hostdoctor.measure.copies_plan import MIB, Plan, cpulist_of, load_cpus, second_stream_cpus, settings_of
from hostdoctor.measure.copies_verdict import P99_COPIES, Run, results_of
from hostdoctor.measure.documents import Circumstances, Clock
from hostdoctor.sources.worker import Worker, WorkerLostError

MODULE = "hostdoctor.measure.copies_worker"
RUN_LIMIT_S = 1.0  # a run of copies that takes longer has fewer of them, but enough for its p99
BANDWIDTH_S = 0.1  # of large copies in a run
WARM_COPIES = 5
OPEN_LOOP_LOAD = 0.5  # of what the slowest cell can do: its queue must not grow
ANSWER_S = 10.0  # beyond the time asked for
LOAD_BYTES = 64 * MIB
PLACED_SHARE = 0.95
GUESSED_COPY_S = 60e-6  # for the time left, until it is known


class CopyExperiment:
    """One measurement and its processes. Take all :meth:`steps`, then ask for the :meth:`document`, also early."""

    def __init__(self, plan: Plan, watch: LinkWatch, *, timeout_s: float) -> None:
        self._plan = plan
        self._watch = watch
        self._timeout_s = timeout_s
        self._settings = settings_of(plan.settings)
        self._workers: dict[int, Worker] = {}
        self._loads: list[Worker] = []
        self._opened: dict[int, dict[str, Any]] = {}
        self._cpus_seen: dict[int, set[int]] = {}
        self._places: dict[str, Place] = {}
        self._counters: dict[int, list[dict[str, int]]] = {}
        self._runs: dict[Setting, dict[Role, list[Run]]] = {}
        self._intervals_ns: dict[Setting, int] = {}
        self._copied: dict[str, int] = {}
        self._notes = list(plan.notes)
        self._stopped: str | None = None

    @property
    def seconds(self) -> float:
        """How long it will take, roughly."""
        return sum(self._run_s(setting) for setting in self._settings) * (self._plan.settings.pairs + 0.25)

    def steps(self) -> Iterator[float]:
        """Measure, and yield after each part how many of :attr:`seconds` it stood for.

        Raises MeasureError where nothing can be measured; what fails later ends it, and what came before is kept.
        """
        try:
            self._open()
            try:
                yield from self._measure()
                self._look_again()
            except MeasureError as error:
                self._stopped = str(error)
        finally:
            self.close()

    def close(self) -> None:
        """End the processes; a second call does nothing."""
        for load in self._loads:
            load.kill()
        for worker in self._workers.values():
            worker.close()

    def document(self, circumstances: Circumstances, nvidia_driver: str | None = None) -> CopyDocument:
        """Return what was measured so far."""
        self.close()
        first = next(iter(self._opened.values()), {})
        clock = first.get("clock")
        return CopyDocument(
            circumstances=circumstances,
            nvidia_driver=nvidia_driver,
            cuda_version=first.get("cuda_version"),
            gpu=msgspec.structs.replace(self._plan.gpu, name=self._plan.gpu.name or first.get("name")),
            settings=self._plan.settings,
            clock=None if clock is None else Clock(**clock),
            copiers=tuple(self._copier(node) for node in self._opened),
            places=tuple(self._places.values()),
            results=results_of(self._plan.cells, self._runs, self._intervals_ns),
            links=self._watch.readings(),
            stopped=self._stopped,
            notes=tuple(dict.fromkeys(self._notes)),
        )

    def _run_s(self, setting: Setting) -> float:
        """Return how long all cells of one round of a setting take, roughly."""
        cells = len(self._plan.cells)
        if setting.loop == "bandwidth":
            return cells * (BANDWIDTH_S + 0.05)
        copies_s = self._plan.settings.copies_per_run * (GUESSED_COPY_S + setting.size_bytes / 15e9)
        return cells * min(RUN_LIMIT_S, copies_s * (2 if setting.loop == "open" else 1))

    def _open(self) -> None:
        for node, cpus in self._plan.cpus.items():
            self._workers[node] = worker = Worker(MODULE, (_comma(cpus),))
            size = self._plan.settings.buffer_bytes
            question = {"do": "open", "bdf": self._plan.gpu.bdf, "cpu": self._plan.cpu[node], "size_bytes": size}
            self._opened[node] = opened = worker.ask(question, self._timeout_s)
            self._cpus_seen[node] = {opened["cpu"]}
        for node in self._plan.cpus:
            self._fill(node)

    def _measure(self) -> Iterator[float]:
        for load in dict.fromkeys(setting.load for setting in self._settings):
            chosen = [setting for setting in self._settings if setting.load == load]
            with self._memory_load(wanted=load == "contended"):
                for setting in chosen:
                    self._warm_up(setting)
                    yield self._run_s(setting) / 4
                yield from self._rounds(chosen)

    def _rounds(self, settings: Sequence[Setting]) -> Iterator[float]:
        for number in range(self._plan.settings.pairs):
            for setting in settings:
                for cell in self._order(setting, number):
                    run = self._copy(setting, cell, self._plan.settings.copies_per_run)
                    self._runs.setdefault(setting, {}).setdefault(cell.role, []).append(run)
                yield self._run_s(setting)

    def _order(self, setting: Setting, number: int) -> list[Cell]:
        """Return the cells whose buffers are there: A B … in even rounds, … B A in odd ones."""
        cells = [cell for cell in self._plan.cells if _key(cell, setting.memory) in self._places]
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
        key, large = _key(cell, setting.memory), setting.loop == "bandwidth"
        question = {
            "do": "copy",
            "key": key,
            "direction": setting.direction,
            "size_bytes": setting.size_bytes,
            "count": 1_000 if large else count,
            "least": 2 if large else min(count, P99_COPIES),
            "limit_s": BANDWIDTH_S if large else RUN_LIMIT_S,
            "warm": 1 if large else WARM_COPIES,
            "first": self._copied.get(key, 0),
            "interval_ns": self._intervals_ns.get(setting),
        }
        with self._second_stream(setting, cell), self._watching(large=large):
            answer = self._workers[cell.cpu_node].ask(question, self._timeout_s + ANSWER_S)
        self._copied[key] = self._copied.get(key, 0) + len(answer["ns"]) + WARM_COPIES
        self._cpus_seen[cell.cpu_node].update(cpu for cpu in answer["cpus"] if cpu is not None)
        return Run(ns=tuple(answer["ns"]), late=answer["late"], contending_copies=answer["contending_copies"])

    @contextmanager
    def _watching(self, *, large: bool) -> Iterator[None]:
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
        cpus = sorted(second_stream_cpus(self._plan, cell.cpu_node))
        worker.ask({"do": "contend", "node": self._plan.gpu.near_node, "cpus": cpus}, self._timeout_s)
        yield
        worker.ask({"do": "rest"}, self._timeout_s)

    @contextmanager
    def _memory_load(self, *, wanted: bool) -> Iterator[None]:
        """Copy memory between the nodes meanwhile, by CPUs that no copying thread uses; the same for every cell."""
        for node in self._plan.cpus if wanted else ():
            self._load(node)
        yield
        for load in self._loads:
            load.ask({"do": "rest"}, self._timeout_s)
            load.close()
        self._loads.clear()

    def _load(self, node: int) -> None:
        cpus = load_cpus(self._plan, node)
        if not cpus:
            self._notes.append(
                f"no memory load by node {node}: it has no CPU to spare; its second stream takes turns on the copying"
                " thread's, so that contended copies wait for the CPU too"
            )
            return
        other = next((n for n in self._plan.cpus if n != node), node)
        size = min(LOAD_BYTES, self._plan.settings.buffer_bytes)
        self._loads.append(Worker(MODULE, (_comma(cpus),)))
        question = {"do": "load", "cpus": cpus, "size_bytes": size, "to_node": node, "from_node": other}
        self._loads[-1].ask(question, self._timeout_s)

    def _fill(self, node: int) -> None:
        """Get the buffers of one process; what cannot be had leaves its cells out and says why."""
        self._counters[node] = [self._ask_places(node, {})["counters"]]
        for memory in self._plan.settings.memories:
            for cell in self._plan.cells:
                if cell.cpu_node == node and _key(cell, memory) not in self._places:
                    self._get(cell, memory)
        self._counters[node].append(self._ask_places(node, {})["counters"])

    def _get(self, cell: Cell, memory: Memory) -> None:
        where = f"{memory} memory of node {cell.memory_node} for CPUs of node {cell.cpu_node}"
        try:
            told = self._ask_buffer(cell, memory)
        except WorkerLostError:
            raise
        except MeasureError as error:
            if cell.role in ("near", "near-again"):
                raise MeasureError(f"{where}: {error}") from None
            self._notes.append(f"not measured: {where}: {error}")
            return
        self._places[_key(cell, memory)] = Place(
            cpu_node=cell.cpu_node,
            memory_node=cell.memory_node,
            memory=memory,
            size_bytes=self._plan.settings.buffer_bytes,
            **told,
        )

    def _ask_buffer(self, cell: Cell, memory: Memory) -> dict[str, Any]:
        size = self._plan.settings.buffer_bytes
        key, node = _key(cell, memory), cell.memory_node
        question = {"do": "buffer", "key": key, "node": node, "memory": memory, "size_bytes": size}
        told = self._workers[cell.cpu_node].ask(question, self._timeout_s + ANSWER_S)
        if told["share"] < PLACED_SHARE:
            raise MeasureError(f"only {told['share']:.0%} of its pages are there ({told['source']})")
        return told

    def _ask_places(self, node: int, nodes: dict[str, int]) -> dict[str, Any]:
        return self._workers[node].ask({"do": "placement", "nodes": nodes}, self._timeout_s)

    def _look_again(self) -> None:
        for node in self._plan.cpus:
            nodes = {key: place.memory_node for key, place in self._places.items() if place.cpu_node == node}
            for key, now in self._ask_places(node, nodes)["buffers"].items():
                place = self._places[key] = msgspec.structs.replace(self._places[key], share_after=now["share"])
                if now["share"] < PLACED_SHARE:
                    where = f"{place.memory} memory of node {place.memory_node}"
                    self._notes.append(f"{where} moved meanwhile: {now['share']:.0%} of it is still there")

    def _copier(self, node: int) -> Copier:
        counted = self._counters.get(node, [])
        return Copier(
            cpu_node=node,
            pid=self._workers[node].pid,
            thread=self._opened[node]["thread"],
            cpus=cpulist_of(self._plan.cpus[node]),
            cpu=self._plan.cpu[node],
            cpus_seen=cpulist_of(frozenset(self._cpus_seen[node])),
            second_stream_cpus=cpulist_of(second_stream_cpus(self._plan, node))
            if self._plan.settings.contend
            else None,
            before=counted[0] if counted else {},
            after=counted[1] if len(counted) > 1 else {},
        )


def _key(cell: Cell, memory: Memory) -> str:
    return f"{cell.cpu_node}/{cell.memory_node}/{memory}"


def _comma(cpus: Sequence[int] | frozenset[int]) -> str:
    return ",".join(str(cpu) for cpu in sorted(cpus))
