from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.diagnosis.needs import several_cpu_nodes
from hostdoctor.facts import Host

BALANCES, TIERS = 1, 2  # the two bits of kernel.numa_balancing
FAULTS = "vmstat.numa_hint_faults"
BIND = "Bind the service's memory to its GPUs' node (numactl): the kernel leaves bound memory where it is."
LEAVE = " Leave the setting as it is: its second bit moves pages between fast and slow memory."
LAST = " Turning kernel.numa_balancing off changes every process on this host: only if no binding is possible."


@check("HD301", "numa-balancing-on", "info", needs=(several_cpu_nodes,))
def numa_balancing_on(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Say that automatic NUMA balancing may move the memory of processes that are not bound.

    ## What it checks
    Bit 0 of `kernel.numa_balancing` on a host with several CPU nodes, and whether `numa_hint_faults` rises when two
    samples were taken. Mode 2 alone (memory tiering) is left alone.

    ## Why it matters
    To learn who uses a page, the kernel unmaps it and waits for the fault. The faults and the page moves can show as
    latency spikes. Memory with an explicit policy is exempt.

    ## Remedy
    Bind the service's memory first. The setting itself affects every tenant of the host, and must stay where it tiers
    memory (bit 1).

    ## References
    - https://docs.kernel.org/admin-guide/sysctl/kernel.html#numa-balancing
    - https://github.com/deepseek-ai/DeepEP/issues/624
    """
    value = host.settings.get("kernel.numa_balancing", "unknown").strip()
    if not value.isdecimal():
        yield Skip(kind="no-evidence", reason=f"kernel.numa_balancing is {value}")
        return
    mode = int(value)
    if mode == TIERS:
        yield Skip(kind="not-applicable", reason="kernel.numa_balancing is 2: it tiers memory and is left alone")
    if not mode & BALANCES:
        return
    faults = [s.after[FAULTS] - s.before[FAULTS] for s in host.samples if FAULTS in s.before and FAULTS in s.after]
    yield finding(
        "host",
        "Automatic NUMA balancing is on" + (": pages were sampled just now" if sum(faults) > 0 else ""),
        "info",
        evidence=[("/proc/sys/kernel/numa_balancing", value)]
        + [("/proc/vmstat numa_hint_faults between two samples", f"+{count}") for count in faults],
        effect="spikes of 16 ms and more were reported for one workload (DeepEP#624); usually unknown",
        remedy=Remedy(
            text=BIND + (LEAVE if mode & TIERS else LAST),
            risk="restart",
            scope="process",
            undo="Start the service without the binding.",
            verify="numa_hint_faults in /proc/vmstat rises more slowly under the same load.",
        ),
    )
