from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, needs
from hostdoctor.diagnosis.sockets import signs_of_two_sockets
from hostdoctor.facts import Host


@check("HD107", "topology-hidden-by-vm", "info", needs=(needs.gpus,))
def topology_hidden_by_vm(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find virtual machines that show one flat node although the hardware below must have two sockets.

    ## What it checks
    A guest with one CPU node whose GPUs show no switch in common (PHB, NODE, SYS or untold), while it has eight GPUs or
    more, or more CPUs than one socket of its CPU model.

    ## Why it matters
    Near and far exist but cannot be seen: binding by the guest's map does nothing, and libraries choose routes at
    random.

    ## Remedy
    Ask the provider for an instance that shows vNUMA and PCIe locality, or give NCCL the provider's topology file
    (`NCCL_TOPO_FILE`). Do not bind by guess; compare copy bandwidth from each half of the CPUs (taskset).

    ## References
    - https://github.com/NVIDIA/nccl/issues/1843, https://github.com/kubevirt/kubevirt/issues/13926
    """
    kind = host.system.virtualization
    nodes = needs.cpu_nodes(host)
    if not kind or not nodes:
        told = "not known to be a virtual machine" if nodes else "the nodes' CPUs are not known"
        yield Skip(kind="no-evidence" if not nodes else "not-applicable", reason=told)
        return
    signs = signs_of_two_sockets(host)
    routes = {path.kind for path in host.paths if path.a.startswith("GPU") and path.b.startswith("GPU")}
    if len(nodes) > 1 or not signs or routes & {"PIX", "PXB"}:
        return
    yield finding(
        "host",
        f"{kind} guest shows one NUMA node, but {signs[0]}: near and far are hidden",
        "info",
        evidence=[
            ("/sys/devices/system/node/has_cpu", ", ".join(map(str, nodes))),
            ("system.virtualization", kind),
            ("signs of two sockets", "; ".join(signs)),
            *([("GPU-GPU paths", ", ".join(sorted(routes)))] if routes else []),
        ],
        effect="effect unknown: depends on which socket each CPU and GPU is on",
        remedy=Remedy(
            text="Ask the provider for a guest with vNUMA and PCIe locality; give NCCL the provider's topology file;"
            " do not bind by guess.",
            risk="restart",
            undo="None needed.",
            verify="numactl --hardware shows two nodes and nvidia-smi topo -m a NUMA node per GPU.",
        ),
    )
