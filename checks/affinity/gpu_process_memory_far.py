from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, needs
from hostdoctor.diagnosis.process_memory import far_engines, read_twice, silent
from hostdoctor.diagnosis.process_places import gpus_of, remedy_text
from hostdoctor.diagnosis.subjects import FAR_NODE_EFFECT, brief, gpu_labels
from hostdoctor.facts import Host


@check("HD105", "gpu-process-memory-far", "warning", needs=(needs.live, needs.several_cpu_nodes))
def gpu_process_memory_far(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find processes whose pinned memory is on another node than their GPUs.

    ## What it checks
    With `--sample`: where the pinned and other shared memory is of each process whose GPUs are on one node, before and
    after the interval. More than 20 % of at least 64 MiB on other nodes both times is a warning. Processes up to 8 GiB
    are read from `/proc/PID/numa_maps`, larger ones and other users' from the `memory.numa_stat` of their control
    group where it holds nothing else; `hostdoctor ps` reads larger ones. A wide CPU affinity alone is no finding;
    monitoring services, and processes with GPUs on several nodes, are left out.

    ## Why it matters
    Copies between such memory and the GPU cross the link between the sockets. CUDA's pinned memory is shared memory
    for the kernel, lies where the thread ran that touched it first, and cannot be moved.

    ## Remedy
    Restart the process bound to its GPUs' node. `migratepages` moves only what is not pinned.

    ## References
    - https://docs.kernel.org/filesystems/proc.html (numa_maps)
    - https://github.com/pytorch/pytorch/issues/160420, https://github.com/NVIDIA/TensorRT-LLM/issues/18117
    """
    read, unread = read_twice(host, ask)
    for engine in far_engines(host, read):
        worst = engine[0]
        more = f" (and that of {len(engine) - 1} more of its processes)" if len(engine) > 1 else ""
        gpus = ",".join(str(index) for far in engine for index in far.process.gpus)
        yield finding(
            ", ".join(far.label for far in engine),
            f"{worst.share:.0%} of the pinned and shared memory of {worst.label}{more} is on other nodes than its"
            f" {brief(gpu_labels(host, gpus_of(host, worst.process)))}, on node {worst.node}",
            "warning",
            evidence=[evidence for far in engine for evidence in far.evidence],
            effect=FAR_NODE_EFFECT,
            remedy=Remedy(
                text=remedy_text(worst.process, (worst.node,), worst.far_nodes),
                risk="restart",
                scope="process",
                undo="Start it as before.",
                verify=f"hostdoctor ps --gpus {gpus} says ok.",
            ),
        )
    if unread or not read:
        yield silent(host, unread)
