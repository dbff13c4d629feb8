from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.facts import Host


@check("HD302", "zone-reclaim-on", "warning")
def zone_reclaim_on(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Warn that a full node drops its own page cache before it takes free memory from another node.

    ## What it checks
    `vm.zone_reclaim_mode` is not 0. A host with a single node has nothing to spill to and is not judged.

    ## Why it matters
    With the mode on, an allocation on a full node first drops that node's file cache (and with bits 1 and 2 writes it
    out or swaps) although another node has free memory. Loading a model stalls, and its cached files are lost.

    ## Remedy
    Set the mode to 0, the kernel's default. A service that must stay on one node says so with its own memory policy.

    ## References
    - https://docs.kernel.org/admin-guide/sysctl/vm.html#zone-reclaim-mode
    """
    if len(host.numa_nodes) == 1:
        yield Skip(kind="not-applicable", reason="one node: nothing to spill to")
        return
    value = host.settings.get("vm.zone_reclaim_mode", "unknown").strip()
    if not value.isdecimal():
        yield Skip(kind="no-evidence", reason=f"vm.zone_reclaim_mode is {value}")
    elif int(value) != 0:
        yield finding(
            "host",
            f"Zone reclaim is on (mode {value}): a full node drops its page cache although other nodes have room",
            "warning",
            evidence=[("/proc/sys/vm/zone_reclaim_mode", value)],
            effect="allocation stalls and lost file cache on a full node (kernel documentation)",
            remedy=Remedy(
                text="Set vm.zone_reclaim_mode to 0 in the host's sysctl configuration (it applies to every process; "
                "a container cannot change it).",
                undo=f"Set it back to {value}.",
                verify="/proc/sys/vm/zone_reclaim_mode reads 0.",
            ),
        )
