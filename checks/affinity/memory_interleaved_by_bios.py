from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, needs
from hostdoctor.diagnosis.sockets import X86, signs_of_two_sockets
from hostdoctor.facts import Host


@check("HD111", "memory-interleaved-by-bios", "warning")
def memory_interleaved_by_bios(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find hosts with several CPU packages that show a single node, so that nothing can be bound.

    ## What it checks
    Two or more packages and exactly one node with CPUs. Information in a virtual machine, and off x86, where firmware
    may number clusters as packages.

    ## Why it matters
    Memory is interleaved over the sockets: half of every buffer is far, from every CPU and GPU. Published for two EPYC
    9575F: above 220 ns everywhere, about 90 ns worse than one socket in NPS1.

    ## Remedy
    In the BIOS turn node interleaving off (Intel) or choose NPS1 instead of NPS0 (AMD); look for `numa=off` in
    /proc/cmdline.

    ## References
    - https://docs.kernel.org/admin-guide/kernel-parameters.html (numa=)
    """
    packages, nodes = host.system.packages, needs.cpu_nodes(host)
    partly = any(gap.fact in ("numa_nodes", "numa_node_count") for gap in host.gaps)
    if packages is None or not nodes or partly:
        yield Skip(kind="no-evidence", reason="the packages or the NUMA nodes are not known, or not all of them")
        return
    guest = host.system.virtualization
    # A guest that shows signs of hidden sockets is HD107's: one cause, one finding.
    # A lone node other than 0 is what is left when the others' CPUs are offline.
    if packages < 2 or nodes != (0,) or (guest and signs_of_two_sockets(host)):
        return
    yield finding(
        "host",
        f"{packages} CPU packages but one NUMA node: nothing to bind",
        "info" if guest or host.system.architecture not in X86 else "warning",
        evidence=[
            ("/sys/devices/system/node/has_cpu", nodes[0]),
            ("/sys/devices/system/cpu/cpu*/topology/physical_package_id", f"{packages} packages"),
        ],
        effect="about 90 ns more memory latency (2 x EPYC 9575F, NPS0 against NPS1, published)",
        remedy=Remedy(
            text="The sockets are the hypervisor's choice: ask for vNUMA if the guest spans real sockets."
            if guest
            else "In the BIOS turn node interleaving off (Intel) or choose NPS1, not NPS0 (AMD); remove numa=off.",
            risk="reboot",
            undo="Set the BIOS option back.",
            verify="numactl --hardware shows a node per package.",
        ),
    )
