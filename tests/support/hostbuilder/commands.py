"""Outputs of the commands that a person would run on the host: ``nvidia-smi topo -m``, ``numactl``, ``lscpu``, …"""

from hostdoctor.parsers.cpulist import format_cpulist
from tests.support.hostbuilder.cpus import Layout, distance
from tests.support.hostbuilder.description import Host
from tests.support.hostbuilder.nics import rdma_name
from tests.support.hostbuilder.nvidia import allowed_cpus, driver_gpus
from tests.support.hostbuilder.nvme import BuiltNvme, serial
from tests.support.hostbuilder.pci import Function

SHOWN_RUNS = 6  # the driver cuts a CPU list after so many


def path_kind(a: Function, b: Function) -> str:
    """Return how two functions reach each other, in nvidia-smi's words."""
    above_a, above_b = a.bridges(), b.bridges()
    common = sum(1 for x, y in zip(above_a, above_b, strict=False) if x is y)
    if not common:
        if a.root == b.root:
            return "PHB"
        return "NODE" if a.node == b.node else "SYS"
    meeting = above_a[common - 1]
    switches = sum(1 for bridge in above_a[common:] + above_b[common:] if bridge.role == "up")
    return "PIX" if switches + (meeting.role == "up") <= 1 else "PXB"


def topo_matrix(host: Host, functions: list[Function], rdma: list[Function], layout: Layout) -> str:
    """Return ``nvidia-smi topo -m``: tabs, an underlined header, a NIC legend."""
    gpus = driver_gpus(host, functions)
    nvidia = host.nvidia
    assert nvidia is not None
    devices = [(f"GPU{i}", f) for i, f in enumerate(gpus)] + [(f"NIC{i}", f) for i, f in enumerate(rdma)]
    head = "\t".join(["", *(label for label, _ in devices), "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])
    lines = [f"\x1b[4m{head}\x1b[0m"]
    for label, function in devices:
        cells = [_cell(host, function, other) for _, other in devices]
        tail = "\t\t\t\t"
        if function in gpus:
            cpus = format_cpulist(allowed_cpus(host, layout.near(function.node))).split(",")[:SHOWN_RUNS]
            node = layout.affinity(function.node)
            memory = nvidia.memory_nodes[gpus.index(function)] if nvidia.memory_nodes else "N/A"
            tail = f"\t{','.join(cpus)}\t{'N/A' if node is None else node}\t\t{memory}"
        lines.append("\t".join([label, *cells]) + tail)
    legend = [f"  NIC{i}: {rdma_name(f, i)}" for i, f in enumerate(rdma)]
    return "\n".join([*lines, "", *_LEGEND, *(["", "NIC Legend:", "", *legend] if legend else []), ""])


_LEGEND = (
    "Legend:",
    "",
    "  X    = Self",
    "  SYS  = crosses the interconnect between NUMA nodes",
    "  NODE = crosses host bridges within a NUMA node",
    "  PHB  = crosses a PCIe host bridge",
    "  PXB  = crosses several PCIe bridges",
    "  PIX  = crosses at most one PCIe bridge",
    "  NV#  = a bonded set of # NVLinks",
)


def _cell(host: Host, a: Function, b: Function) -> str:
    if a is b:
        return " X "
    joined = host.nvidia and host.nvidia.link
    if joined and a.part.kind == b.part.kind == "gpu":
        return joined
    return path_kind(a, b)


def numactl_hardware(host: Host, layout: Layout) -> str:
    """Return ``numactl --hardware``."""
    nodes = list(layout.nodes.values())
    lines = [f"available: {len(nodes)} nodes ({format_cpulist(layout.nodes)})"]
    for node in nodes:
        lines.append(f"node {node.id} cpus:" + "".join(f" {cpu}" for cpu in node.cpus))
        lines += [
            f"node {node.id} {name}: {kib >> 10} MB"
            for name, kib in (("size", node.total_kib), ("free", node.free_kib))
        ]
    lines += ["node distances:", "node " + " ".join(f"{node.id:3d}" for node in nodes)]
    for node in nodes:
        row = " ".join(f"{distance(host, layout, node, other):3d}" for other in nodes)
        lines.append(f"{node.id:3d}:  {row}")
    return "\n".join([*lines, ""])


def lscpu(host: Host, layout: Layout) -> str:
    """Return ``lscpu``."""
    spec = host.cpu
    rows = {
        "Architecture": host.arch,
        "CPU(s)": len(layout.cpus),
        "On-line CPU(s) list": format_cpulist(layout.cpu_ids),
        "Vendor ID": spec.vendor,
        "Model name": spec.model,
        "Thread(s) per core": spec.threads,
        "Core(s) per socket": spec.cores,
        "Socket(s)": spec.packages,
    }
    if host.hypervisor:
        rows |= {"Hypervisor vendor": host.hypervisor, "Virtualization type": "full"}
    elif host.arch == "x86_64":
        rows |= {"Virtualization": "AMD-V" if spec.vendor == "AuthenticAMD" else "VT-x"}
    rows |= {"NUMA node(s)": len(layout.nodes)}
    rows |= {f"NUMA node{node.id} CPU(s)": format_cpulist(node.cpus) for node in layout.nodes.values()}
    return "".join(f"{name + ':':<33}{value}".rstrip() + "\n" for name, value in rows.items())


def nvme_list(host: Host, drives: list[BuiltNvme]) -> str:
    """Return ``nvme list``."""
    widths = (21, 21, 20, 40, 10, 26, 16, 8)
    titles = ("Node", "Generic", "SN", "Model", "Namespace", "Usage", "Format", "FW Rev")
    rows = [titles, tuple("-" * width for width in widths)]
    for drive in drives:
        part = drive.function.part
        size = f"{part.size_gb / 1000:6.2f}  TB"
        names = (f"/dev/{drive.namespace}", f"/dev/ng{drive.namespace[4:]}", serial(host, drive.name))
        rows.append((*names, part.model, "0x1", f"{size} / {size}", "512   B +  0 B", part.firmware))
    lines = (" ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join([*lines, ""])
