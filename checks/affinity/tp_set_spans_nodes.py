import re
from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope, needs
from hostdoctor.diagnosis.subjects import brief, gpu_labels, near_nodes, nodes_by_id, sysfs
from hostdoctor.facts import Gpu, Host

MATRIX = re.compile(r"nvidia-smi[ _]topo")


@check("HD103", "tp-set-spans-nodes", "info", needs=(needs.tensor_parallel, needs.gpus, needs.not_one_cpu_node))
def tp_set_spans_nodes(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find planned tensor-parallel sets whose GPUs are near different NUMA nodes.

    ## What it checks
    The near nodes of each set of `--tp N` GPUs, in the order in which they are visible. A warning where two packages
    are involved and GPUs of the set reach each other over the inter-socket link (SYS) with no NVLink between them.

    ## Why it matters
    One outer `numactl` for the whole engine binds half of its workers to the far node. Without NVLink every layer's
    all-reduce also crosses the link between the sockets.

    ## Remedy
    Choose the set's GPUs from one node (`CUDA_VISIBLE_DEVICES`) if a smaller set fits; else bind each worker to its own
    GPU's node (vLLM `--numa-bind-nodes`) instead of the whole engine to one.

    ## References
    - https://docs.vllm.ai/en/latest/configuration/optimization.html (NUMA)
    - https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html
    """
    scope, size = in_scope(host, ask), ask.tp or 1
    sets = [scope[i : i + size] for i in range(0, len(scope) - size + 1, size)]
    found: dict[bool, list[tuple[Gpu, ...]]] = {}
    for members in sets:
        if all(needs.node_known(host, gpu) for gpu in members) and not frozenset.intersection(*_nodes(members)):
            found.setdefault(_crosses_sockets(host, members), []).append(members)
    for crosses, spanning in found.items():
        gpus = [gpu for members in spanning for gpu in members]
        named = "; ".join(
            f"{brief(gpu_labels(host, m))} on nodes {', '.join(map(str, sorted(frozenset().union(*_nodes(m)))))}"
            for m in spanning
        )
        yield finding(
            ", ".join(gpu_labels(host, gpus)),
            f"tensor-parallel sets span nodes: {named}"
            + (" (pairs joined by SYS alone, without NVLink)" if crosses else ""),
            "warning" if crosses else "info",
            evidence=[(sysfs(gpu.bdf, "numa_node"), ", ".join(map(str, near_nodes(gpu)))) for gpu in gpus],
            effect="every all-reduce crosses the sockets: effect unknown, measure"
            if crosses
            else "none if each worker is bound to its own GPU's node",
            remedy=Remedy(
                text="Take the set's GPUs from one node if that fits; else bind each worker to its own GPU's node"
                " (vLLM --numa-bind-nodes), never the whole engine to one node.",
                risk="restart",
                scope="process",
                undo="Start with the former GPUs and binding.",
                verify="hostdoctor check --select HD103 with the same --tp and --gpus.",
            ),
        )
    if any(not needs.node_known(host, gpu) for members in sets for gpu in members):
        yield Skip(kind="no-evidence", reason="the NUMA node of a GPU in a set is not known")


def _nodes(members: tuple[Gpu, ...]) -> list[frozenset[int]]:
    return [frozenset(near_nodes(gpu)) for gpu in members]


def _crosses_sockets(host: Host, members: tuple[Gpu, ...]) -> bool:
    """Whether the set spans packages and a pair in it is known to have no better way than SYS."""
    nodes = nodes_by_id(host)
    packages = {nodes[i].package for gpu in members for i in near_nodes(gpu) if i in nodes}
    labels = set(gpu_labels(host, members))
    ways = {path.kind for path in host.paths if {path.a, path.b} <= labels}
    no_nvlink = any(MATRIX.search(source) for source in host.sources) or all(gpu.nvlinks == 0 for gpu in members)
    return "SYS" in ways and no_nvlink and (None in packages or len(packages) != 1)
