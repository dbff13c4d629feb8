"""From launches near and far to the arms of an experiment, and what forbids one."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from hostdoctor.errors import MeasureError, PlacementError
from hostdoctor.facts import Host
from hostdoctor.facts.processes import is_monitor
from hostdoctor.measure.trial_model import Arm, Intended
from hostdoctor.parsers.cpulist import format_cpulist, parse_cpulist
from hostdoctor.placement.applying import Step, describe, steps
from hostdoctor.placement.model import Binding, Launch
from hostdoctor.placement.prefixes import is_assignment

_CUDA = "CUDA_"


def bound_arm(host: Host, launch: Launch, kept_free: Iterable[int] = ()) -> Arm:
    """Return an arm that is started under a launch's binding, or whose engine binds its workers by it.

    ``kept_free`` are CPUs that the client gets to itself. Raises PlacementError where no single command can be bound
    so, and where the command binds itself already.
    """
    binding = launch.binding
    if launch.rank_commands:
        raise PlacementError(
            "the GPUs span nodes and the command is no engine that places its workers: compare GPUs of one node"
        )
    notes = tuple(dict.fromkeys((*binding.warnings, *launch.warnings)))
    if launch.outer:
        step = _without(steps(binding)[0], frozenset(kept_free))
        intended = Intended(cpus=step.cpus, mems=step.mems)
        return Arm(
            argv=launch.argv,
            environment=launch.environment,
            step=step,
            intended=intended,
            words=describe(step),
            notes=notes,
        )
    if not binding.spans:
        raise PlacementError("the command binds itself already: give it without numactl and without its own binding")
    return Arm(
        argv=launch.argv,
        environment=launch.environment,
        step=Step(tier="unbound"),
        gpus=_by_gpu(host, binding),
        words=", ".join(f"{rank.gpu} on node {format_cpulist(rank.nodes)}" for rank in binding.ranks),
        notes=notes,
    )


def current_arm(argv: Sequence[str], environment: Mapping[str, str]) -> Arm:
    """Return the arm as the command is launched today: no binding; only which GPUs it sees is as in the others."""
    words = ("env", *argv) if argv and is_assignment(argv[0]) else tuple(argv)
    same_gpus = {name: value for name, value in environment.items() if name.startswith(_CUDA)}
    return Arm(argv=words, environment=same_gpus, step=Step(tier="unbound"), words="as launched today, not bound")


def client_cpus(host: Host, arms: Iterable[Arm]) -> str | None:
    """Return the CPUs that the caller may use and that no arm is bound to; None where none are left."""
    allowed = parse_cpulist(host.allowed.cpus) if host.allowed.cpus else frozenset[int]()
    taken = frozenset[int]().union(*(cpus_of(arm) for arm in arms))
    return format_cpulist(allowed - taken) or None


def cpus_of(arm: Arm) -> frozenset[int]:
    """Return the CPUs that an arm's workload is bound to, all of its workers' together; none where it is not bound."""
    places = [arm.intended, *arm.gpus.values()]
    return frozenset[int]().union(*(parse_cpulist(place.cpus) for place in places if place.cpus))


def refuse_busy_gpus(host: Host, indices: Sequence[int]) -> None:
    """Raise MeasureError where another process uses one of these GPUs (the driver's indices)."""
    wanted = frozenset(indices)
    others = [
        f"{process.name or 'a process'} ({process.pid}) uses GPU {', '.join(map(str, sorted(shared)))}"
        for process in host.processes
        if (shared := wanted & frozenset(process.gpus)) and not is_monitor(process)
    ]
    if others:
        raise MeasureError(f"{'; '.join(others[:4])}: it would disturb every run (--force measures all the same)")


def _without(step: Step, kept_free: frozenset[int]) -> Step:
    if step.cpus is None or not kept_free:
        return step
    left = parse_cpulist(step.cpus) - kept_free
    if not left:
        raise PlacementError(f"the client takes all CPUs of an arm ({step.cpus}): give it fewer")
    return msgspec.structs.replace(step, cpus=format_cpulist(left))


def _by_gpu(host: Host, binding: Binding) -> dict[str, Intended]:
    found = {}
    for position, rank in zip(binding.selection.gpus, binding.ranks, strict=True):
        index = host.gpus[position].index
        if index is not None:
            cpus = rank.cpus if binding.limits_cpus else None
            found[str(index)] = Intended(cpus=cpus, mems=rank.mems)
    return found
