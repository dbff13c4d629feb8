from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.diagnosis.counters import rise
from hostdoctor.facts import Host

SHORTEST_S = 2.0


@check("HD114", "cpu-quota-throttled", "warning")
def cpu_quota_throttled(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find callers whose control group has a CPU quota, and whether it stops them.

    ## What it checks
    `cpu.max` (version 1: `cpu.cfs_quota_us`) of the caller's control group and every one above it; with `--sample`
    whether `nr_throttled` in their `cpu.stat` rises within at least 2 s. A quota that stops nobody is information.

    ## Why it matters
    A group that has used up its quota stands still until the next period, usually for tens of milliseconds, with all
    of its threads: tokens come late although the CPUs are idle.

    ## Remedy
    Raise the CPU limit of the container or job, or take it away and keep the request. Whole CPUs by a static CPU
    manager need no quota.

    ## References
    - https://docs.kernel.org/scheduler/sched-bwc.html, https://docs.kernel.org/admin-guide/cgroup-v2.html (cpu.max)
    """
    if not host.cgroups:
        yield Skip(kind="no-evidence", reason="the caller's control group is not known")
        return
    counted = {group: rise(host, f"cgroup.{group.path}.nr_throttled") for group in host.cgroups}
    sampled = {group: r for group, r in counted.items() if r is not None and r.seconds >= SHORTEST_S}
    throttled = {group: r for group, r in sampled.items() if r.by > 0}
    limits = {group: group.cpu_limit_cpus for group in host.cgroups if group.cpu_limit_cpus is not None}
    tightest = min(limits, key=lambda group: limits[group], default=None)
    if not throttled and tightest is None:
        return
    if throttled:
        group, told = next(iter(throttled.items()))
        message = f"{group.folder}: stopped by its CPU quota {told.by} times in {told.seconds:.0f} s"
    else:
        assert tightest is not None
        group, advice = tightest, "not stopped while sampled" if sampled else "--sample 10 tells whether it stops you"
        message = f"{group.folder}: CPU quota of {limits[group]:g} CPUs ({advice})"
    yield finding(
        group.path,
        message,
        "warning" if throttled else "info",
        evidence=[(f"{group.folder} CPU quota", f"{limits.get(group, 0):g} CPUs" if group in limits else "none")]
        + [r.evidence for r in sampled.values()],
        effect="a stopped group stands still for the rest of its period, usually up to 100 ms",
        remedy=Remedy(
            text="Raise the container's CPU limit, or take it away and keep the request."
            if throttled
            else "Nothing while it stops nobody; keep it above what the engine needs at its peak.",
            risk="restart" if throttled else "none",
            scope="process",
            undo="Restore the former limit.",
            verify=f"nr_throttled in {group.folder}/cpu.stat stands still under load.",
        ),
    )
