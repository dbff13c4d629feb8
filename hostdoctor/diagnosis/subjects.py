"""How checks name their subjects and quote what was seen: labels, sysfs paths, cpulists, the scope by position."""

from collections.abc import Iterable, Sequence

from hostdoctor.diagnosis.api import Ask, gpu_label, in_scope
from hostdoctor.errors import ParseError
from hostdoctor.facts import Gpu, Host, NumaNode
from hostdoctor.parsers.cpulist import parse_cpulist

GIB = 1 << 30

# Published pairs, see docs of HD101: the expected effect of a far node on host-GPU copies.
FAR_NODE_EFFECT = "copies from the far node: from no difference (MI210, PCIe 4.0) to 3.2 times slower (P100), published"


def sysfs(bdf: str | None, name: str) -> str:
    """Return the path of a PCI function's attribute."""
    return f"/sys/bus/pci/devices/{bdf or '?'}/{name}"


def positions(host: Host, ask: Ask) -> tuple[int, ...]:
    """Return the positions in ``host.gpus`` of the GPUs in scope."""
    if ask.gpus is not None:
        return ask.gpus
    scope = {id(gpu) for gpu in in_scope(host, ask)}
    return tuple(i for i, gpu in enumerate(host.gpus) if id(gpu) in scope)


def gpu_labels(host: Host, gpus: Iterable[Gpu]) -> list[str]:
    """Return what a person calls each GPU."""
    return [gpu_label(host, gpu) for gpu in gpus]


def brief(labels: Sequence[str]) -> str:
    """Join labels for a message, runs of GPUs shortened: ``GPU0-GPU3, nvme0``."""
    runs: list[list[str]] = []
    for label in labels:
        if runs and _follows(runs[-1][-1], label):
            runs[-1].append(label)
        else:
            runs.append([label])
    return ", ".join(", ".join(run) if len(run) < 3 else f"{run[0]}-{run[-1]}" for run in runs)


def cpuset(text: str | None) -> frozenset[int] | None:
    """Return the ids of a cpulist or nodelist, or None when it is not known or not one."""
    if text is None:
        return None
    try:
        return parse_cpulist(text)
    except ParseError:
        return None


def is_given_some(host: Host) -> bool:
    """Tell whether this process may have been given some of the host's GPUs: in a container, or by a variable."""
    return bool(host.system.container) or "env.NVIDIA_VISIBLE_DEVICES" in host.settings


def near_nodes(gpu: Gpu) -> tuple[int, ...]:
    """Return the nodes whose CPUs are near a GPU; ``()`` when not known."""
    return gpu.numa_nodes or (() if gpu.numa_node is None else (gpu.numa_node,))


def nodes_by_id(host: Host) -> dict[int, NumaNode]:
    """Return the NUMA nodes by id."""
    return {node.id: node for node in host.numa_nodes}


def bare_metal(host: Host) -> bool:
    """Tell whether the host is known to be no virtual machine and no container, so that its settings are its own."""
    guest = host.system.virtualization or host.system.container
    return not guest and all(gap.fact != "system.virtualization" for gap in host.gaps)


def online_cpus(host: Host) -> frozenset[int] | None:
    """Return the CPUs of all nodes, or None while a node's CPUs are not known."""
    sets = [cpuset(node.cpus) for node in host.numa_nodes]
    known = [ids for ids in sets if ids is not None]
    return frozenset().union(*known) if known and len(known) == len(sets) else None


def _follows(before: str, label: str) -> bool:
    a, b = before.removeprefix("GPU"), label.removeprefix("GPU")
    return a != before and b != label and a.isdigit() and b.isdigit() and int(b) == int(a) + 1
