from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, needs
from hostdoctor.diagnosis.api import gpu_label
from hostdoctor.diagnosis.process_memory import judged, shared_twice, silent
from hostdoctor.diagnosis.process_places import far_nodes, gpus_of, is_far, local_nodes, nodes_of, remedy_text, share
from hostdoctor.diagnosis.subjects import FAR_NODE_EFFECT, brief
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
    processes = judged(host, ask)
    told = {process: readings for process in processes if (readings := shared_twice(host, process))}
    for process, (before, after) in told.items():
        nodes = nodes_of(host, process)
        local = local_nodes(host, process, nodes)
        if not (is_far(before, local) and is_far(after, local)):
            continue
        far = far_nodes(after, local)
        gpus = brief([gpu_label(host, gpu) for gpu in gpus_of(host, process)])
        yield finding(
            f"{process.name} {process.pid}",
            f"{1 - (share(after, local) or 0):.0%} of the pinned and shared memory of {process.name} ({process.pid}),"
            f" which uses {gpus} on node {nodes[0]}, is on other nodes",
            "warning",
            evidence=[
                (f"{process.memory_source} of {process.pid}, {when}", f"shared bytes by node: {sizes}")
                for when, sizes in (("first", before), ("again", after))
            ],
            effect=FAR_NODE_EFFECT,
            remedy=Remedy(
                text=remedy_text(process, nodes[0], far),
                risk="restart",
                scope="process",
                undo="Start it as before.",
                verify=f"hostdoctor ps --gpus {','.join(map(str, process.gpus))} says ok.",
            ),
        )
    if len(told) < len(processes) or not processes:
        yield silent(host, [process for process in processes if process not in told])
