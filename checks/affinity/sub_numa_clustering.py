from collections import Counter
from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope, needs
from hostdoctor.diagnosis.subjects import GIB, brief, gpu_labels, near_nodes, nodes_by_id
from hostdoctor.facts import Gpu, Host


@check("HD110", "sub-numa-clustering", "info", needs=(needs.gpus, needs.several_cpu_nodes))
def sub_numa_clustering(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Tell that each CPU package is split into several nodes, and which of them is nearest to each GPU.

    ## What it checks
    Several nodes with CPUs per package (Intel SNC, AMD NPS2/NPS4); for each GPU in scope the near node and its memory.

    ## Why it matters
    A process bound to one node has that node's share of the package's memory only. Within the package the others are
    almost as near: 102-123 ns against 95 ns, and 188 ns on the other package (Sapphire Rapids, SNC4, Intel MLC).

    ## Remedy
    If the near node's memory is too small, bind to all nodes of the GPU's package. Leave the BIOS setting alone unless
    a measurement says otherwise.

    ## References
    - https://docs.kernel.org/admin-guide/mm/numaperf.html
    """
    nodes = nodes_by_id(host)
    ids = needs.cpu_nodes(host)
    packages = Counter(nodes[i].package for i in ids)
    told, counted = None not in packages, host.system.packages
    if not told and counted is None:
        yield Skip(kind="no-evidence", reason="the nodes' packages are not known")
        return
    count = len(packages) if told else counted or len(ids)
    if not (max(packages.values()) > 1 if told else len(ids) > count):
        return
    nearest: dict[int, list[Gpu]] = {}
    for gpu in in_scope(host, ask):
        for i in near_nodes(gpu)[:1]:
            nearest.setdefault(i, []).append(gpu)
    sizes = {i: (nodes[i].memory_bytes if i in nodes else None) for i in nearest}
    places = [
        f"{brief(gpu_labels(host, gpus))}: node {i}" + (f" ({size / GIB:.0f} GiB)" if (size := sizes[i]) else "")
        for i, gpus in nearest.items()
    ]
    yield finding(
        "host",
        f"{len(ids)} CPU nodes on {count} package{'s' if count > 1 else ''}"
        + "".join(f"; {place}" for place in places),
        "info",
        evidence=[
            (f"/sys/devices/system/node/node{i}/cpulist", f"{nodes[i].cpus} (package {_or_unknown(nodes[i].package)})")
            for i in ids
        ],
        effect="nodes of one package differ by 7-30 % in latency, the other package by 2 times (SPR, SNC4, published)",
        remedy=Remedy(
            text="Bind to the near node if its memory suffices, else to all nodes of its package.",
            risk="restart",
            scope="process",
            undo="Start without the binding.",
            verify="numactl --hardware shows what each node has free.",
        ),
    )


def _or_unknown(value: int | None) -> str:
    return "unknown" if value is None else str(value)
