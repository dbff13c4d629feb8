from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.facts import Host, HugePages, NumaNode

Pool = tuple[NumaNode, HugePages]


@check("HD306", "hugepages-lopsided", "info")
def hugepages_lopsided(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find HugeTLB pages reserved on one CPU node only, or taking much memory while nothing uses them.

    ## What it checks
    Per page size: reserved on exactly one of several CPU nodes, or wholly free and over 10 % of the node's memory.

    ## Why it matters
    Nothing else can have reserved pages, pinned buffers included. A pool on one node serves the other from afar.

    ## Remedy
    Find out who asked for the pages (sysctl, kernel command line, hugeadm), then release or spread them.

    ## References
    - https://docs.kernel.org/admin-guide/mm/hugetlbpage.html
    """
    nodes = [n for n in host.numa_nodes if n.cpus and n.memory_bytes != 0]
    pools = [(node, pages) for node in nodes for pages in node.hugepages]
    if not pools:
        yield Skip(kind="no-evidence", reason="no HugeTLB counts known")
    idle = [pool for pool in pools if _idle_and_large(*pool)]
    if idle:
        yield _finding("Unused HugeTLB pages take more than 10 % of the node", idle)
    for size in sorted({pages.size_bytes for _, pages in pools}):
        same = [pool for pool in pools if pool[1].size_bytes == size]
        held = [pool for pool in same if pool[1].total]
        if len(same) == len(nodes) > 1 and len(held) == 1 and held[0] not in idle:
            yield _finding("HugeTLB pages are reserved on one CPU node only", held)


def _idle_and_large(node: NumaNode, pages: HugePages) -> bool:
    return pages.free == pages.total and pages.total * pages.size_bytes * 10 > (node.memory_bytes or float("inf"))


def _finding(message: str, pools: list[Pool]) -> Finding:
    held = [f"node {n.id} {p.total * p.size_bytes / (1 << 30):.1f} GiB" for n, p in pools]
    path = "/sys/devices/system/node/node{}/hugepages/hugepages-{}kB/nr_hugepages (free_hugepages)"
    return finding(
        ", ".join(dict.fromkeys(f"node {n.id}" for n, _ in pools)),
        f"{message}: {', '.join(held)}",
        "info",
        evidence=[
            (path.format(n.id, p.size_bytes >> 10), f"{p.total} ({'unknown' if p.free is None else p.free})")
            for n, p in pools
        ],
        effect="the reserved memory is closed to everything else",
        remedy=Remedy(
            text="Find who reserves the pages (vm.nr_hugepages, kernel command line), then release or spread them.",
            undo="Reserve the same number again; after a long uptime that may need a reboot.",
            verify="nr_hugepages under /sys/devices/system/node shows the intended count on each node.",
        ),
    )
