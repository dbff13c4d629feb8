"""Needs that several checks share: each returns None when met, else the Skip to report."""

from collections.abc import Iterable

from hostdoctor.diagnosis.api import Ask, in_scope
from hostdoctor.diagnosis.report import Skip
from hostdoctor.facts import Gpu, Host


def gpus(host: Host, ask: Ask) -> Skip | None:
    """Want at least one GPU in scope."""
    if in_scope(host, ask):
        return None
    if not is_listed(host, "gpus"):
        return Skip(kind="no-evidence", reason="no source lists the GPUs")
    return Skip(kind="not-applicable", reason="no GPU in scope")


def several_cpu_nodes(host: Host, ask: Ask) -> Skip | None:
    """Want more than one node with CPUs, so that placement is a question at all."""
    if not host.numa_nodes:
        return Skip(kind="no-evidence", reason="NUMA nodes are not known")
    if len(cpu_nodes(host)) > 1:
        return None
    if one_cpu_node(host):
        return Skip(kind="not-applicable", reason="one CPU node: nothing to place")
    missing = "a device names a NUMA node that the host does not list"
    return Skip(kind="no-evidence", reason=missing if nodes_missing(host) else "which nodes have CPUs is not known")


def not_one_cpu_node(host: Host, ask: Ask) -> Skip | None:
    """Refuse hosts known to have one CPU node; where nodes are not known, the devices may still name theirs."""
    return several_cpu_nodes(host, ask) if host.numa_nodes else None


def nvme(host: Host, ask: Ask) -> Skip | None:
    """Want at least one NVMe controller."""
    return None if host.nvme else none_known(host, "no NVMe controller known", "nvme")


def none_known(host: Host, reason: str, *devices: str) -> Skip:
    """Say that there is nothing to judge: not applicable, unless devices of these kinds may be there unlisted."""
    listed = all(is_listed(host, kind) for kind in devices)
    return Skip(kind="not-applicable" if listed else "no-evidence", reason=reason)


def no_rdma_nic(host: Host, reason: str) -> Skip:
    """Say that there is no RDMA NIC: not applicable, unless NICs may be unlisted or nobody told what they can do."""
    if any(nic.name is None for nic in host.nics):
        return Skip(kind="no-evidence", reason=f"{reason}: what the NICs are called is not known")
    if not host.has_sysfs and any(not nic.netdevs for nic in host.nics):
        return Skip(kind="no-evidence", reason=f"{reason}: which NICs can do RDMA is not known")
    return none_known(host, reason, "nics")


def no_nvidia_gpu(host: Host, gpus: Iterable[Gpu], reason: str) -> Skip:
    """Say that none of these GPUs is NVIDIA's: not applicable, unless some may be unlisted or nobody told a driver."""
    if not host.has_sysfs and any(gpu.driver is None for gpu in gpus):
        return Skip(kind="no-evidence", reason="which driver the GPUs have is not known")
    return none_known(host, reason, "gpus")


def is_listed(host: Host, devices: str) -> bool:
    """Tell whether it is known which devices of a kind (gpus, nics, nvme) there are: else none known is not none."""
    known = {"gpus": host.gpus, "nics": host.nics, "nvme": host.nvme}[devices]
    return bool(known) or not any(gap.fact in ("pci_devices", devices) for gap in host.gaps)


def live(host: Host, ask: Ask) -> Skip | None:
    """Refuse anything but this machine, now."""
    return None if host.is_live else Skip(kind="live-only", reason="only on the running host")


def no_plan(option: str) -> Skip:
    """Say that a check judges a plan that was not stated, and how to state it."""
    return Skip(kind="no-plan", reason=f"no plan stated ({option})")


def tensor_parallel(host: Host, ask: Ask) -> Skip | None:
    """Want a planned tensor-parallel size above one."""
    return no_plan("--tp N") if ask.tp is None or ask.tp < 2 else None


def sampled(host: Host, ask: Ask) -> Skip | None:
    """Want counters that were read twice."""
    return None if host.samples else not_sampled(host)


def not_sampled(host: Host, seconds: int = 10) -> Skip:
    """Say that only two readings of the running host can tell, and how to take them."""
    reason = f"needs counters read twice on the running host: --sample {seconds}"
    if host.samples:
        reason = f"the counters that were read twice do not suffice: --sample {seconds} or longer"
    return Skip(kind="no-evidence" if host.is_live else "live-only", reason=reason)


def configuration(host: Host, what: str) -> Skip:
    """Say that PCI configuration space would tell, and whether root could have read it."""
    gap = next((gap for gap in host.gaps if gap.fact == "pci_devices.config" and gap.kind == "denied"), None)
    if gap is None:
        return Skip(kind="no-evidence", reason=f"not known: {what}")
    return Skip(kind="needs-root", reason=f"as root hostdoctor also tells {what}")


def plan_paths(host: Host, ask: Ask) -> Skip | None:
    """Want to be told where the model or the KV cache lies."""
    return None if ask.model_path or ask.kv_path else no_plan("--model-path, --kv-path")


def node_known(host: Host, gpu: Gpu) -> bool:
    """Tell whether a GPU's near nodes are known: a list of every CPU node of several says only that nobody knows.

    Where the host's nodes are not known, those that its GPUs name stand for them.
    """
    every = frozenset(cpu_nodes(host)) or frozenset(node for other in host.gpus for node in other.numa_nodes)
    near = frozenset(gpu.numa_nodes)
    return bool(near) and (len(every) < 2 or not near >= every)


def nodes_missing(host: Host) -> bool:
    """Tell whether a device is said to be on a node that the host does not list: the list is then not whole."""
    return any(gap.kind == "unlisted-node" for gap in host.gaps)


def one_cpu_node(host: Host) -> bool:
    """Tell whether the host is known to have no second node with CPUs; of a node's CPUs ``None`` may be some."""
    with_cpus = [node for node in host.numa_nodes if node.cpus != ""]
    return bool(host.numa_nodes) and len(with_cpus) <= 1 and not nodes_missing(host)


def memory_plan(host: Host, ask: Ask) -> Skip | None:
    """Want to be told how much memory is to be pinned."""
    return no_plan("--cpu-offload-gib, --kv-offload-gib") if ask.memory is None else None


def cpu_nodes(host: Host) -> tuple[int, ...]:
    """Return the ids of the nodes that have CPUs."""
    return tuple(node.id for node in host.numa_nodes if node.cpus)
