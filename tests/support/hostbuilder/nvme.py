"""NVMe drives: controllers, namespaces, queues and their interrupts."""

from dataclasses import dataclass
from itertools import pairwise

from hostdoctor.parsers.cpulist import format_cpulist
from tests.support.hostbuilder.cpus import Layout
from tests.support.hostbuilder.description import Host
from tests.support.hostbuilder.disks import SECTORS_PER_GB, block_attributes, link_block, mount_disk
from tests.support.hostbuilder.files import Tree, digest
from tests.support.hostbuilder.irqs import Interrupts
from tests.support.hostbuilder.pci import Function, driver_of


@dataclass(frozen=True)
class BuiltNvme:
    """A drive as ``nvme list`` shows it."""

    name: str
    namespace: str
    function: Function


def write_nvme(
    host: Host, functions: list[Function], irqs: Interrupts, layout: Layout, tree: Tree, mounts: list[str]
) -> list[BuiltNvme]:
    """Write NVMe controllers, namespaces, queues and vectors; add their mounts."""
    built: list[BuiltNvme] = []
    drives = [f for f in functions if f.part.kind == "nvme" and driver_of(f) == "nvme"]
    for number, function in enumerate(drives):
        name = function.spec.name or f"nvme{number}"
        namespace = f"{name}n1"
        queues = spread(layout, function.spec.queues or function.part.queues)
        _write_controller(host, name, function, len(queues) + 1, tree)
        _write_vectors(name, function, queues, irqs, layout)
        _write_namespace(host, name, function, queues, tree)
        if function.spec.mount:
            mounts += mount_disk(namespace, function.spec.mount, _namespace_folder(name, function), tree)
        built.append(BuiltNvme(name, namespace, function))
    return built


def spread(layout: Layout, limit: int) -> list[list[int]]:
    """Return which CPUs submit to each queue, as the kernel spreads them: node by node, siblings together."""
    total = len(layout.cpus)
    if limit >= total:
        return [[cpu] for cpu in layout.cpu_ids]
    queues: list[list[int]] = []
    nodes = layout.cpu_nodes()
    cores = {ids[0]: ids for ids in layout.siblings.values()}
    for position, node in enumerate(nodes):
        share = max(1, limit * (position + 1) // len(nodes) - len(queues))
        node_cores = [cores[cpu] for cpu in node.cpus if cpu in cores]
        queues += _even(node_cores, min(share, len(node.cpus)))
    return queues


def _even(cores: list[list[int]], share: int) -> list[list[int]]:
    if share > len(cores):
        cores = [[cpu] for core in cores for cpu in core]
    bounds = [len(cores) * i // share for i in range(share + 1)]
    return [[cpu for core in cores[a:b] for cpu in core] for a, b in pairwise(bounds)]


def serial(host: Host, name: str) -> str:
    """Return a made-up serial number."""
    return "S" + digest(host.hostname, name)[:13].upper()


def _write_controller(host: Host, name: str, function: Function, queue_count: int, tree: Tree) -> None:
    folder = f"{function.path}/nvme/{name}"
    part = function.part
    tree.attributes(
        folder,
        {
            "model": f"{part.model:<40}",
            "serial": f"{serial(host, name):<20}",
            "firmware_rev": f"{part.firmware:<8}",
            "transport": "pcie",
            "address": function.bdf,
            "numa_node": function.node,
            "queue_count": queue_count,
            "sqsize": 1023,
            "cntlid": 1,
            "cntrltype": "io",
            "state": function.spec.state or "live",
            "subsysnqn": f"nqn.2014-08.org.nvmexpress:uuid:{digest(host.hostname, name, 'nqn')}",
        },
    )
    tree.link(f"{folder}/device", function.path)
    tree.link(f"{folder}/subsystem", "/sys/class/nvme")
    tree.link(f"/sys/class/nvme/{name}", folder)


def _write_vectors(name: str, function: Function, queues: list[list[int]], irqs: Interrupts, layout: Layout) -> None:
    near = layout.near(function.node)
    forced = function.spec.irq_cpu
    irqs.add(function, f"{name}q0", format_cpulist(near), near[0], 20)
    for number, cpus in enumerate(queues, start=1):
        irqs.add(function, f"{name}q{number}", format_cpulist(cpus), cpus[0] if forced is None else forced)


def _namespace_folder(name: str, function: Function) -> str:
    if function.spec.multipath:
        return f"/sys/devices/virtual/nvme-subsystem/nvme-subsys{name[4:]}/{name}n1"
    return f"{function.path}/nvme/{name}/{name}n1"


def _write_namespace(host: Host, name: str, function: Function, queues: list[list[int]], tree: Tree) -> None:
    """Write a namespace; under native multipath the path (``nvme0c0n1``) has the queues and no block device."""
    folder = _namespace_folder(name, function)
    size = function.part.size_gb * SECTORS_PER_GB
    if function.spec.multipath:
        path_folder = f"{function.path}/nvme/{name}/{name}c{name[4:]}n1"
        _write_queues(path_folder, queues, tree)
        block_attributes(host, path_folder, size, function.spec.scheduler or "none", False, True, tree)
        subsystem = folder.rpartition("/")[0]
        tree.attributes(subsystem, {"model": f"{function.part.model:<40}", "iopolicy": "numa"})
        tree.link(f"{subsystem}/{name}", f"{function.path}/nvme/{name}")
        tree.link(f"/sys/class/nvme-subsystem/{subsystem.rpartition('/')[2]}", subsystem)
        tree.link(f"{folder}/device", subsystem)
    else:
        _write_queues(folder, queues, tree)
        tree.link(f"{folder}/device", f"{function.path}/nvme/{name}")
    iostats = function.spec.iostats != 0
    block_attributes(host, folder, size, function.spec.scheduler or "none", False, iostats, tree)
    tree.attributes(
        folder, {"nsid": 1, "dev": f"259:{int(name[4:])}", "wwid": f"eui.{digest(host.hostname, name)[:16]}"}
    )
    link_block(f"{name}n1", folder, tree)


def _write_queues(folder: str, queues: list[list[int]], tree: Tree) -> None:
    for number, cpus in enumerate(queues):
        tree.put(f"{folder}/mq/{number}/cpu_list", ", ".join(map(str, sorted(cpus))))
        tree.put(f"{folder}/mq/{number}/nr_tags", 1023)
