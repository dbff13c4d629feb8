from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, needs
from hostdoctor.diagnosis.counters import rise
from hostdoctor.diagnosis.subjects import cpuset, online_cpus
from hostdoctor.facts import Host
from hostdoctor.parsers.cpulist import format_cpulist

SHARE, SHORTEST_S = 0.01, 10.0


@check("HD116", "cpu-steal", "warning")
def cpu_steal(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find virtual machines whose CPUs are given to others while they want to run.

    ## What it checks
    With `--sample 10` or more: the share of stolen time on the CPUs that the caller may use (`/proc/stat`); more than
    1 % is a warning.

    ## Why it matters
    A thread that launches kernels or polls a queue stops in the middle: every rank of a tensor-parallel group waits
    for it. Nothing inside the guest can help.

    ## Remedy
    Ask for dedicated or pinned CPUs, an instance type without CPU credits, or another host; on your own hypervisor pin
    the guest's CPUs and keep others off them.

    ## References
    - https://docs.kernel.org/filesystems/proc.html (/proc/stat, steal)
    """
    allowed = cpuset(host.allowed.cpus) or online_cpus(host) or frozenset()
    told = {cpu: (rise(host, f"cpu{cpu}.steal"), rise(host, f"cpu{cpu}.total")) for cpu in sorted(allowed)}
    known = {cpu: (steal, total) for cpu, (steal, total) in told.items() if steal and total and total.by}
    if not any(total.seconds >= SHORTEST_S for _, total in known.values()):
        metal = host.system.virtualization is None and not any(g.fact == "system.virtualization" for g in host.gaps)
        yield Skip(kind="not-applicable", reason="not a virtual machine") if metal else needs.not_sampled(host)
        return
    stolen, ticks = (sum(pair[i].by for pair in known.values()) for i in (0, 1))
    if stolen <= SHARE * ticks:
        return
    seconds = next(iter(known.values()))[1].seconds
    worst = max(known, key=lambda cpu: known[cpu][0].by / known[cpu][1].by)
    yield finding(
        "host",
        f"{stolen / ticks:.1%} of the time of CPUs {format_cpulist(known)} was given to others ({seconds:.0f} s)",
        "warning",
        evidence=[
            (f"/proc/stat steal of CPUs {format_cpulist(known)}", f"+{stolen} of {ticks} ticks in {seconds:.1f} s"),
            (f"/proc/stat steal of CPU {worst}", f"+{known[worst][0].by} of {known[worst][1].by} ticks"),
        ],
        effect="effect unknown: threads stop for as long as the hypervisor runs somebody else",
        remedy=Remedy(
            text="Ask for dedicated CPUs or another host; on your own hypervisor pin the guest's CPUs.",
            risk="restart",
            undo="None needed.",
            verify="hostdoctor check --select HD116 --sample 10 finds nothing.",
        ),
    )
