from collections.abc import Iterable
from itertools import combinations

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.diagnosis.needs import several_cpu_nodes
from hostdoctor.facts import Host

UNREACHABLE = 255
SHOWN = 6  # pairs quoted; an eight-node matrix has 28


@check("HD315", "asymmetric-distances", "info", needs=(several_cpu_nodes,))
def asymmetric_distances(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find distances between CPU nodes that differ by direction or call a node unreachable.

    ## What it checks
    The distance matrix (ACPI SLIT) of the nodes that have CPUs: both directions of each pair, and the value 255. Nodes
    without CPUs, such as a GPU's own memory, are not judged.

    ## Why it matters
    The kernel orders fallback memory by these numbers, and "the nearest usable node" is read from them. A wrong matrix
    misleads both; it is not evidence that the hardware is slower one way.

    ## Remedy
    Update the firmware or report the matrix to its vendor. Name nodes explicitly when binding meanwhile.

    ## References
    - https://uefi.org/specs/ACPI/6.5/05_ACPI_Software_Programming_Model.html (System Locality Information Table)
    """
    pairs = [
        (a.id, b.id, a.distances.get(str(b.id)), b.distances.get(str(a.id)))
        for a, b in combinations([node for node in host.numa_nodes if node.cpus], 2)
    ]
    odd = [p for p in pairs if UNREACHABLE in p[2:] or (None not in p[2:] and p[2] != p[3])]
    if odd:
        more = f" and {len(odd) - SHOWN} more pairs" if len(odd) > SHOWN else ""
        listed = ", ".join(f"{a}→{b} {there}, {b}→{a} {back}" for a, b, there, back in odd[:SHOWN])
        yield finding(
            ", ".join(f"node {node}" for node in sorted({node for a, b, _, _ in odd for node in (a, b)})),
            f"Node distances differ by direction or are 255: {listed}{more}",
            "info",
            evidence=[
                (f"numactl --hardware, node distances {a}→{b} and {b}→{a}", f"{there}, {back}")
                for a, b, there, back in odd[:SHOWN]
            ],
            remedy=Remedy(
                text="Update the firmware, or report its distance table (SLIT) to the vendor or hypervisor.",
                risk="reboot",
                undo="None needed: a firmware update is its own decision.",
                verify="numactl --hardware prints the same distance both ways, none of them 255.",
            ),
        )
    elif any(None in pair for pair in pairs):
        yield Skip(kind="no-evidence", reason="not every distance between CPU nodes is known")
