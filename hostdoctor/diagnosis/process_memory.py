"""What two readings (``--sample``) tell of the shared memory of the processes that use GPUs of one node."""

from collections.abc import Sequence

from hostdoctor.diagnosis.api import Ask, in_scope
from hostdoctor.diagnosis.needs import not_sampled
from hostdoctor.diagnosis.process_places import nodes_of
from hostdoctor.diagnosis.report import Skip
from hostdoctor.facts import Host, Process
from hostdoctor.facts.processes import is_monitor, shared_counter

Sizes = dict[int, int]


def judged(host: Host, ask: Ask) -> tuple[Process, ...]:
    """Return the processes that use a GPU in scope, all of one node's; monitoring services are left out."""
    indices = {gpu.index for gpu in in_scope(host, ask)}
    users = (process for process in host.processes if indices & set(process.gpus) and not is_monitor(process))
    return tuple(process for process in users if len(nodes_of(host, process)) == 1)


def shared_twice(host: Host, process: Process) -> tuple[Sizes, Sizes] | None:
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
        reason = next((_reason(host, process) for process in processes), "could not be read twice")
        return Skip(kind="no-evidence", reason=f"where the memory of {named} is: {reason}")
    hidden = next((gap for gap in host.gaps if gap.fact.startswith("processes[")), None)
    if hidden is not None and not host.processes:
        return Skip(kind="no-evidence", reason=f"{hidden.fact}: {hidden.reason}")
    return Skip(kind="not-applicable", reason="no process uses GPUs of one node")


def _reason(host: Host, process: Process) -> str:
    gap = next((gap for gap in host.gaps if gap.fact == f"processes[{process.pid}].memory"), None)
    return gap.reason if gap is not None else "could not be read twice (it ended, or it began meanwhile)"


def _sizes(readings: dict[str, int], process: Process) -> Sizes:
    prefix = shared_counter(process, "")
    return {int(name[len(prefix) :]): size for name, size in readings.items() if name.startswith(prefix)}
