from collections.abc import Iterable

from hostdoctor.budget.limits import group_limits
from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.diagnosis.needs import memory_plan
from hostdoctor.diagnosis.planned import planned_wish
from hostdoctor.facts import Host
from hostdoctor.outputs.words import gib


@check("HD307", "container-memory-limit", "warning", needs=(memory_plan,))
def container_memory_limit(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Warn that a control group's memory limit is below what a plan pins.

    ## What it checks
    `memory.max` and `memory.high` (version 1: `memory.limit_in_bytes`) of the caller's group and of every group above
    it that can be seen, less what the group is charged with, plus its page cache (`inactive_file` and `active_file`).
    Shared memory does not count as page cache, though `file` in `memory.stat` includes it.

    ## Why it matters
    Pinned memory is charged to the group. At `memory.max` the group's out-of-memory killer ends the service, whatever
    the host has free; above `memory.high` every allocation is slowed down.

    ## Remedy
    Raise the limit of the container or of the slice above it, or plan less.

    ## References
    - https://docs.kernel.org/admin-guide/cgroup-v2.html#memory
    """
    if not host.memory_groups:
        yield Skip(kind="no-evidence", reason="the memory files of the caller's control groups are not known")
        return
    limits = group_limits(host.memory_groups)
    planned = planned_wish(host, ask).total_bytes
    known = [(limit.bytes, limit) for limit in limits if limit.bytes is not None]
    room, limit = min(known, key=lambda pair: pair[0], default=(None, None))
    if room is not None and limit is not None and planned > room:
        yield finding(
            limit.name,
            f"{limit.name} leaves {gib(room)}, the plan pins {gib(planned)}",
            "warning",
            evidence=[(limit.source, limit.value)],
            effect="the service is killed at memory.max, slowed down above memory.high",
            remedy=Remedy(
                text="Raise the limit (docker --memory, resources.limits.memory, MemoryMax=), or plan less.",
                risk="restart",
                scope="process",
                undo="Set the limit back.",
                verify="hostdoctor budget with the same sizes exits 0.",
            ),
        )
    elif len(known) < len(limits):
        yield Skip(kind="no-evidence", reason="what a limited control group is charged with is not known")
