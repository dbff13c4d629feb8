from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope
from hostdoctor.diagnosis.needs import gpus, nvme, plan_paths, several_cpu_nodes
from hostdoctor.diagnosis.places import Ground, grounds
from hostdoctor.diagnosis.subjects import brief, gpu_labels, near_nodes
from hostdoctor.facts import Gpu, Host


@check("HD402", "nvme-far-from-gpus", "info", needs=(plan_paths, gpus, several_cpu_nodes, nvme))
def nvme_far_from_gpus(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Say which GPUs have none of the drives of the model's or the KV cache's path on their own node.

    ## What it checks
    The NVMe drives below `--model-path` and `--kv-path`, through partitions, md, dm and btrfs, against the nodes of the
    GPUs in scope. A GPU is named when none of these drives is on its node.

    ## Why it matters
    What is read is written to memory once by the drive and fetched once by the GPU; one of the two crosses the socket
    link, or both. A drive's own latency is far larger, so loading hardly notices; a KV tier under load may.

    ## Remedy
    Use GPUs of the drive's node, or a drive of the GPUs' node, where there is a choice. Measure before moving data.

    ## References
    - https://docs.nvidia.com/gpudirect-storage/best-practices-guide/index.html
    """
    found, skips = grounds(host, ask)
    yield from skips
    scope = [gpu for gpu in in_scope(host, ask) if near_nodes(gpu)]
    if not scope:
        yield Skip(kind="no-evidence", reason="the node of no GPU in scope is known")
        return
    for ground in found:
        nodes = {drive.numa_node for drive in ground.drives}
        far = [gpu for gpu in scope if nodes.isdisjoint(near_nodes(gpu))]
        if None in nodes:
            yield Skip(kind="no-evidence", reason=f"the node of a drive below {ground.text} is not known")
        elif far:
            yield _finding(host, ground, far, len(scope))


def _finding(host: Host, ground: Ground, far: list[Gpu], of: int) -> Finding:
    where = ", ".join(f"{drive.name} on node {drive.numa_node}" for drive in ground.drives)
    others = {node for gpu in far for node in near_nodes(gpu)}
    near = ", ".join(drive.name for drive in host.nvme if drive.name and drive.numa_node in others)
    return finding(
        ", ".join(gpu_labels(host, far)),
        f"{brief(gpu_labels(host, far))}: no drive of {ground.text} on their node ({len(far)} of {of} GPUs)",
        "info",
        evidence=[ground.evidence, ("/sys/class/nvme/nvme*/device/numa_node", where)],
        effect="each read crosses the socket link; small beside the drive's own latency",
        remedy=Remedy(
            text="Use GPUs of the drive's node" + (f", or a drive near these GPUs ({near})." if near else "."),
            risk="restart",
            scope="process",
            undo="Choose the GPUs or the path as before.",
            verify="hostdoctor check with the same paths ends without this line.",
        ),
    )
