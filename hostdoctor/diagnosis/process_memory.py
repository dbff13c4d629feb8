"""What two readings (``--sample``) tell of the shared memory of the processes that use GPUs of one node."""

from collections.abc import Iterable, Sequence

from hostdoctor.diagnosis.api import Ask, in_scope
from hostdoctor.diagnosis.needs import not_sampled
from hostdoctor.diagnosis.process_places import far_nodes, is_far, local_nodes, nodes_of, share
from hostdoctor.diagnosis.report import Skip, SkipKind
from hostdoctor.facts import Fact, Gap, Host, Process
from hostdoctor.facts.processes import is_monitor, shared_counter

Sizes = dict[int, int]


class Read(Fact, frozen=True, kw_only=True):
    """A process with its shared bytes by node, before and after."""

    process: Process
    before: Sizes
    after: Sizes


class Far(Fact, frozen=True, kw_only=True):
    """A process whose shared memory is on ``far_nodes`` for the most part, not on ``node``, its GPUs'."""

    process: Process
    node: int
    far_nodes: tuple[int, ...]
    share: float
    evidence: tuple[tuple[str, str], ...]

    @property
    def label(self) -> str:
        """What a person calls it: name and PID."""
        return f"{self.process.name} {self.process.pid}"


def read_twice(host: Host, ask: Ask) -> tuple[list[Read], list[Process]]:
    """Return the processes to judge: those that were read twice, and those that were not."""
    read, unread = [], []
    for process in _judged(host, ask):
        told = _shared_twice(host, process)
        if told is None:
            unread.append(process)
        else:
            read.append(Read(process=process, before=told[0], after=told[1]))
    return read, unread


def far_engines(host: Host, read: Iterable[Read]) -> tuple[tuple[Far, ...], ...]:
    """Return the processes whose shared memory is far both times, by the program they belong to, the worst first."""
    engines: dict[int, list[Far]] = {}
    for one in read:
        node = nodes_of(host, one.process)[0]
        local = local_nodes(host, one.process, (node,))
        if is_far(one.before, local) and is_far(one.after, local):
            engines.setdefault(one.process.engine_pid or one.process.pid, []).append(_far(one, node, local))
    return tuple(tuple(sorted(found, key=lambda far: -far.share)) for found in engines.values())


def _far(one: Read, node: int, local: frozenset[int]) -> Far:
    source = f"{one.process.memory_source} of {one.process.pid}"
    pairs = ((f"{source}, {when}", sizes) for when, sizes in (("first", one.before), ("again", one.after)))
    return Far(
        process=one.process,
        node=node,
        far_nodes=far_nodes(one.after, local),
        share=1 - (share(one.after, local) or 0),
        evidence=tuple((name, f"shared bytes by node: {sizes}") for name, sizes in pairs),
    )


def _judged(host: Host, ask: Ask) -> tuple[Process, ...]:
    """Return the processes that use a GPU in scope, all of one node's; monitoring services are left out."""
    indices = {gpu.index for gpu in in_scope(host, ask)}
    users = (process for process in host.processes if indices & set(process.gpus) and not is_monitor(process))
    return tuple(process for process in users if len(nodes_of(host, process)) == 1)


def _shared_twice(host: Host, process: Process) -> tuple[Sizes, Sizes] | None:
    """Return a process' shared bytes by node, before and after; None when it was not read twice."""
    for sample in reversed(host.samples):
        before, after = (_sizes(readings, process) for readings in (sample.before, sample.after))
        if before and after:
            return before, after
    return None


def silent(host: Host, processes: Sequence[Process]) -> Skip:
    """Return why these processes, or none at all, were judged."""
    if not host.samples:
        return not_sampled(host)
    if processes:
        named = ", ".join(f"{process.name} {process.pid}" for process in processes[:3])
        gap = _gap(host, processes[0])
        reason = gap.reason if gap else "could not be read twice (it ended, or it began meanwhile)"
        kind: SkipKind = "needs-root" if gap and gap.kind == "denied" else "no-evidence"
        return Skip(kind=kind, reason=f"where the memory of {named} is: {reason}")
    hidden = next((gap for gap in host.gaps if gap.fact.startswith("processes[")), None)
    if hidden is not None and not host.processes:
        return Skip(kind="no-evidence", reason=f"{hidden.fact}: {hidden.reason}")
    return Skip(kind="not-applicable", reason="no process uses GPUs of one node")


def _gap(host: Host, process: Process) -> Gap | None:
    return next((gap for gap in host.gaps if gap.fact == f"processes[{process.pid}].memory"), None)


def _sizes(readings: dict[str, int], process: Process) -> Sizes:
    prefix = shared_counter(process, "")
    return {int(name[len(prefix) :]): size for name, size in readings.items() if name.startswith(prefix)}
