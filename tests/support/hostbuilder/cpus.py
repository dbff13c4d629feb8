"""CPUs and NUMA nodes: who belongs where, and ``/sys/devices/system/{cpu,node}``."""

from dataclasses import dataclass, field
from typing import Any

from hostdoctor.parsers.cpulist import format_cpulist, parse_cpulist
from tests.support.hostbuilder.description import Host, Node
from tests.support.hostbuilder.files import Tree, mask

CPU_ROOT = "/sys/devices/system/cpu"
NODE_ROOT = "/sys/devices/system/node"
KIB_PER_GIB = 1 << 20


@dataclass(frozen=True)
class LogicalCpu:
    """One hardware thread."""

    id: int
    package: int
    core: int
    node: int


@dataclass(frozen=True)
class NodeFacts:
    """One NUMA node with its CPUs and memory."""

    id: int
    group: Node
    cpus: tuple[int, ...]
    total_kib: int
    free_kib: int


@dataclass
class Layout:
    """All CPUs (by id) and nodes (by id) of a host."""

    cpus: list[LogicalCpu]
    nodes: dict[int, NodeFacts]
    siblings: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    packages: dict[int, list[int]] = field(default_factory=dict)

    @property
    def cpu_ids(self) -> range:
        """Return every CPU id."""
        return range(len(self.cpus))

    def near(self, node: int) -> tuple[int, ...]:
        """Return the CPUs that the kernel calls local to a device of this node: all of them when it is -1."""
        return self.nodes[node].cpus if node in self.nodes else tuple(self.cpu_ids)

    def affinity(self, node: int) -> int | None:
        """Return the node that the driver names for a device: its own, or the only one there is."""
        if node in self.nodes:
            return node
        return next(iter(self.nodes)) if len(self.nodes) == 1 else None

    def cpu_nodes(self) -> list[NodeFacts]:
        """Return the nodes that have CPUs."""
        return [node for node in self.nodes.values() if node.cpus]


def lay_out(host: Host) -> Layout:
    """Return the CPUs and nodes that a description amounts to."""
    cpu_node_ids = [i for group in host.node if group.cpus for i in sorted(parse_cpulist(group.ids))]
    cpus = _number_cpus(host, cpu_node_ids)
    nodes = {node.id: node for group in host.node for node in _group_nodes(group, cpus)}
    layout = Layout(cpus=cpus, nodes=dict(sorted(nodes.items())))
    for cpu in cpus:
        layout.siblings.setdefault((cpu.package, cpu.core), []).append(cpu.id)
        layout.packages.setdefault(cpu.package, []).append(cpu.id)
    return layout


def _number_cpus(host: Host, node_ids: list[int]) -> list[LogicalCpu]:
    spec = host.cpu
    all_cores = spec.packages * spec.cores
    cpus = []
    for package in range(spec.packages):
        for core in range(spec.cores):
            position = package * spec.cores + core
            node = node_ids[position * len(node_ids) // all_cores]
            for thread in range(spec.threads):
                number = {
                    "blocks": thread * all_cores + position,
                    "round-robin": thread * all_cores + core * spec.packages + package,
                    "adjacent": position * spec.threads + thread,
                }[spec.numbering]
                cpus.append(LogicalCpu(number, package, core, node))
    return sorted(cpus, key=lambda cpu: cpu.id)


def _group_nodes(group: Node, cpus: list[LogicalCpu]) -> list[NodeFacts]:
    nodes = []
    for position, node_id in enumerate(sorted(parse_cpulist(group.ids))):
        total = _nth(group.memory_gib, position, 0.0)
        free = _nth(group.free_gib, position, total * 0.93)
        members = tuple(cpu.id for cpu in cpus if cpu.node == node_id) if group.cpus else ()
        nodes.append(NodeFacts(node_id, group, members, int(total * KIB_PER_GIB), int(free * KIB_PER_GIB)))
    return nodes


def _nth(values: tuple[float, ...], position: int, default: float) -> float:
    return values[position] if position < len(values) else default


def distance(host: Host, layout: Layout, a: NodeFacts, b: NodeFacts) -> int:
    """Return the distance from node a to node b under the description's rule or matrix."""
    rule = host.distance
    if rule.matrix:
        ids = list(layout.nodes)
        return rule.matrix[ids.index(a.id)][ids.index(b.id)]
    if a.id == b.id:
        return 10
    if a.cpus and b.cpus:
        package = layout.cpus[a.cpus[0]].package, layout.cpus[b.cpus[0]].package
        return rule.same_package if package[0] == package[1] else rule.remote
    if not a.cpus and not b.cpus:
        return rule.group if a.group is b.group else rule.other_group
    far, with_cpus = (a, b) if b.cpus else (b, a)
    return rule.near if far.group.near == with_cpus.id else rule.far


def write_cpus(host: Host, layout: Layout, tree: Tree) -> None:
    """Write ``/sys/devices/system/cpu``."""
    every = format_cpulist(layout.cpu_ids)
    lists = {"online": every, "possible": every, "present": every, "offline": ""}
    isolation = {"isolated": host.isolated, "nohz_full": host.isolated or "(null)"}
    tree.attributes(CPU_ROOT, lists | isolation | {"kernel_max": 8191})
    bits = len(layout.cpus)
    package_lists = {p: (format_cpulist(ids), mask(ids, bits)) for p, ids in layout.packages.items()}
    core_lists = {key: (format_cpulist(ids), mask(ids, bits)) for key, ids in layout.siblings.items()}
    for cpu in layout.cpus:
        folder = f"{CPU_ROOT}/cpu{cpu.id}"
        core_list, core_mask = core_lists[cpu.package, cpu.core]
        package_list, package_mask = package_lists[cpu.package]
        topology: dict[str, Any] = {"physical_package_id": cpu.package, "core_id": cpu.core, "die_id": 0}
        topology |= dict.fromkeys(("core_cpus_list", "thread_siblings_list"), core_list)
        topology |= dict.fromkeys(("core_cpus", "thread_siblings"), core_mask)
        topology |= dict.fromkeys(("package_cpus_list", "core_siblings_list", "die_cpus_list"), package_list)
        topology |= dict.fromkeys(("package_cpus", "core_siblings", "die_cpus"), package_mask)
        tree.attributes(f"{folder}/topology", topology)
        tree.link(f"{folder}/node{cpu.node}", f"{NODE_ROOT}/node{cpu.node}")
        if cpu.id:
            tree.put(f"{folder}/online", 1)
        if host.cpu.governor:
            _write_cpufreq(host, cpu.id, folder, tree)


def _write_cpufreq(host: Host, cpu: int, folder: str, tree: Tree) -> None:
    policy = f"{CPU_ROOT}/cpufreq/policy{cpu}"
    values = {"scaling_governor": host.cpu.governor, "scaling_driver": host.cpu.freq_driver, "affected_cpus": cpu}
    tree.attributes(policy, values)
    tree.link(f"{folder}/cpufreq", policy)


def write_nodes(host: Host, layout: Layout, tree: Tree) -> None:
    """Write ``/sys/devices/system/node``."""
    nodes = layout.nodes.values()
    every = format_cpulist(layout.nodes)
    with_memory = [node.id for node in nodes if node.total_kib]
    sets = {
        "online": every,
        "possible": every,
        "has_cpu": format_cpulist(node.id for node in nodes if node.cpus),
        "has_memory": format_cpulist(with_memory),
        # memory that belongs to a device is brought online as movable, which is not "normal"
        "has_normal_memory": format_cpulist(i for i in with_memory if layout.nodes[i].cpus),
    }
    tree.attributes(NODE_ROOT, sets)
    for node in nodes:
        folder = f"{NODE_ROOT}/node{node.id}"
        row = " ".join(str(distance(host, layout, node, other)) for other in nodes)
        values = {"cpulist": format_cpulist(node.cpus), "cpumap": mask(node.cpus, len(layout.cpus)), "distance": row}
        tree.attributes(folder, values)
        tree.text(f"{folder}/meminfo", _meminfo(node))
        tree.text(f"{folder}/numastat", _numastat(node))
        for kib, total in ((2048, node.group.hugepages_2m), (1048576, node.group.hugepages_1g)):
            pages = {"nr_hugepages": total, "free_hugepages": total, "surplus_hugepages": 0}
            tree.attributes(f"{folder}/hugepages/hugepages-{kib}kB", pages)
        for cpu in node.cpus:
            tree.link(f"{folder}/cpu{cpu}", f"{CPU_ROOT}/cpu{cpu}")


def _meminfo(node: NodeFacts) -> str:
    used = node.total_kib - node.free_kib
    huge = node.group.hugepages_2m
    rows = {
        "MemTotal": node.total_kib,
        "MemFree": node.free_kib,
        "MemUsed": used,
        "SwapCached": 0,
        "Active": used // 4,
        "Inactive": used // 3,
        "Active(anon)": used // 16,
        "Inactive(anon)": used // 8,
        "Active(file)": used // 6,
        "Inactive(file)": used // 5,
        "Unevictable": 0,
        "FilePages": used // 2,
        "AnonPages": used // 6,
        "Shmem": used // 64,
        "KReclaimable": used // 32,
        "Slab": used // 20,
        "SReclaimable": used // 32,
        "SUnreclaim": used // 54,
    }
    lines = [f"Node {node.id} {name + ':':<16}{kib:>8} kB" for name, kib in rows.items()]
    counts = {"HugePages_Total": huge, "HugePages_Free": huge, "HugePages_Surp": 0}
    lines += [f"Node {node.id} {name + ':':<16}{count:>6}" for name, count in counts.items()]
    return "\n".join(lines) + "\n"


def _numastat(node: NodeFacts) -> str:
    hits = 1_000_000 + node.total_kib // 16 if node.total_kib else 0
    rows = {"numa_hit": hits, "numa_miss": 0, "numa_foreign": 0, "interleave_hit": hits // 1000}
    rows |= {"local_node": hits - hits // 500, "other_node": hits // 500}
    return "".join(f"{name} {count}\n" for name, count in rows.items())
