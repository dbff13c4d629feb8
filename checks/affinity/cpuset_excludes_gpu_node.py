from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope, needs
from hostdoctor.diagnosis.subjects import FAR_NODE_EFFECT, brief, cpuset, gpu_labels, near_nodes, nodes_by_id
from hostdoctor.facts import Gpu, Host


@check("HD106", "cpuset-excludes-gpu-node", "info", needs=(needs.gpus, needs.several_cpu_nodes))
def cpuset_excludes_gpu_node(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find GPUs whose near node the caller's CPU set or memory nodes leave out.

    ## What it checks
    `Cpus_allowed_list` and `Mems_allowed_list` of the caller against the near node of each GPU in scope. A part of the
    node's CPUs is enough. A node without CPUs is HD104's.

    ## Why it matters
    A process cannot leave its cpuset: `numactl` and engines that bind to the near node fail, or fall back silently.

    ## Remedy
    Give the pod, container or job CPUs and memory of that node (Kubernetes: static CPU manager with a Topology Manager
    policy; Slurm: GPU-bound CPU tasks), or give it GPUs of the nodes it has.

    ## References
    - https://docs.kernel.org/admin-guide/cgroup-v2.html (cpuset)
    - https://kubernetes.io/docs/tasks/administer-cluster/topology-manager/
    """
    cpus, mems = cpuset(host.allowed.cpus), cpuset(host.allowed.mems)
    if cpus is None and mems is None:
        yield Skip(kind="no-evidence", reason="the caller's CPU set is not known")
        return
    nodes = nodes_by_id(host)
    kept_out: dict[int, list[Gpu]] = {}
    for gpu in in_scope(host, ask):
        near = [i for i in near_nodes(gpu) if i in nodes and nodes[i].cpus]
        reachable = [
            i
            for i in near
            if (cpus is None or cpus & (cpuset(nodes[i].cpus) or frozenset())) and (mems is None or i in mems)
        ]
        if near and not reachable:
            kept_out.setdefault(near[0], []).append(gpu)
    labels = gpu_labels(host, (gpu for gpus in kept_out.values() for gpu in gpus))
    if labels:
        named = ", ".join(f"node {i} of {brief(gpu_labels(host, gpus))}" for i, gpus in kept_out.items())
        yield finding(
            ", ".join(labels),
            f"the caller's CPU set or memory nodes leave out {named}",
            "info",
            evidence=[
                ("/proc/self/status Cpus_allowed_list", host.allowed.cpus or "not told"),
                ("/proc/self/status Mems_allowed_list", host.allowed.mems or "not told"),
                *((f"/sys/devices/system/node/node{i}/cpulist", nodes[i].cpus) for i in kept_out),
            ],
            effect=FAR_NODE_EFFECT,
            remedy=Remedy(
                text="Give this pod or job CPUs and memory of the GPU's node, or GPUs of the nodes that it has.",
                risk="restart",
                scope="process",
                undo="Restore the former CPU set.",
                verify="grep allowed_list /proc/self/status names the node's CPUs.",
            ),
        )
