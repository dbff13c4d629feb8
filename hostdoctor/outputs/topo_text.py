"""The map as a tree that a person reads at a glance: node, root complex, bridges, then GPUs, NICs and NVMe drives."""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from hostdoctor.facts import Host, NumaNode, PciDevice
from hostdoctor.outputs.map_tree import Branch, Leaf, leaves_of, root_branches
from hostdoctor.outputs.style import Style
from hostdoctor.outputs.words import counts, gib, host_words, link_words, plural, printable
from hostdoctor.parsers.cpulist import format_cpulist

MAX_GAPS = 3


def render_topo(host: Host, style: Style) -> str:
    """Return the tree, the paths in short, and what is not known."""
    devices = {device.bdf: device for device in host.pci_devices}
    leaves = leaves_of(host)
    lines = [_headline(host, style)]
    lines += _nodes_text(host, leaves, devices, style)
    known = {(node.id,) for node in host.numa_nodes}
    groups = sorted({leaf.nodes for leaf in leaves} - known)
    for nodes in groups:
        lines.append(style.paint(group_title(nodes), "bold"))
        lines += _trees([leaf for leaf in leaves if leaf.nodes == nodes], devices, style)
    lines += _paths(host)
    lines += _unknowns(host)
    return "\n".join(lines) + "\n"


def _headline(host: Host, style: Style) -> str:
    system = host.system
    parts = [counts(host)]
    parts += [f"under {printable(system.virtualization)}"] if system.virtualization else []
    parts += [f"driver {printable(system.nvidia_driver)}"] if system.nvidia_driver else []
    return style.paint(host_words(host), "bold") + ": " + ", ".join(parts)


def _nodes_text(host: Host, leaves: list[Leaf], devices: dict[str, PciDevice], style: Style) -> Iterator[str]:
    """Yield each node with its devices; runs of empty nodes (reserved for MIG on Grace systems) are one line."""
    occupied = {leaf.nodes for leaf in leaves}
    for is_bare, run in groupby(host.numa_nodes, lambda n: n.kind == "empty" and (n.id,) not in occupied):
        nodes = list(run)
        if is_bare and len(nodes) > 1:
            yield f"{style.paint(f'NUMA nodes {format_cpulist(n.id for n in nodes)}', 'bold')}: empty"
            continue
        for node in nodes:
            yield _node_line(node, style)
            yield from _trees([leaf for leaf in leaves if leaf.nodes == (node.id,)], devices, style)


def _node_line(node: NumaNode, style: Style) -> str:
    title = style.paint(f"NUMA node {node.id}", "bold")
    package = "" if node.package is None else f" (package {node.package})"
    cpus = "CPUs not told" if node.cpus is None else f"CPUs {printable(node.cpus)}" if node.cpus else "no CPUs"
    kind = f", {node.kind}" if node.kind in ("gpu-memory", "memory-only", "empty") else ""
    distances = ", ".join(
        f"{printable(other)}:{distance}" for other, distance in node.distances.items() if other != str(node.id)
    )
    far = f", distance to {distances}" if distances and len(node.distances) <= 8 else ""
    return f"{title}{package}: {cpus}, {gib(node.memory_bytes)}{kind}{far}"


def group_title(nodes: tuple[int, ...]) -> str:
    """Return what to call devices that are near these nodes, several or none."""
    if not nodes:
        return "Devices whose NUMA node is not known"
    plural_s = "s" if len(nodes) > 1 else ""
    return f"Near NUMA node{plural_s} {format_cpulist(nodes)}"


def _trees(leaves: list[Leaf], devices: dict[str, PciDevice], style: Style) -> Iterator[str]:
    roots = root_branches(leaves)
    loose = [leaf for leaf in leaves if leaf.root_complex is None]
    for position, root in enumerate(roots, start=1):
        last = position == len(roots) and not loose
        yield f"{'└─' if last else '├─'} root complex {printable(root.address)}"
        yield from _below(root, devices, style, "   " if last else "│  ")
    for position, leaf in enumerate(loose, start=1):
        yield f"{'└─' if position == len(loose) else '├─'} {_leaf_line(leaf, style)}"


def _below(branch: Branch, devices: dict[str, PciDevice], style: Style, indent: str) -> Iterator[str]:
    children: list[Branch | Leaf] = [*branch.leaves, *branch.branches.values()]
    for position, child in enumerate(children, start=1):
        last = position == len(children)
        start, under = (f"{indent}└─ ", f"{indent}   ") if last else (f"{indent}├─ ", f"{indent}│  ")
        if isinstance(child, Leaf):
            yield start + _leaf_line(child, style)
            continue
        hops, end = child.straight()
        alone = end.only_leaf()
        if alone is not None:
            yield f"{start}{_leaf_line(alone, style)}, behind {_hops(hops, devices)}"
        else:
            yield f"{start}{_hops(hops, devices)}{style.paint(_sharing(end), 'warning')}"
            yield from _below(end, devices, style, under)


def _hops(hops: list[str], devices: dict[str, PciDevice]) -> str:
    words = link_words(devices[hops[0]].link) if hops[0] in devices else ""
    return f"{printable(' > '.join(hops))}{f' [{words}]' if words else ''}"


def _sharing(branch: Branch) -> str:
    labels = Counter(branch.labels())
    if labels.total() < 2:
        return ""
    return "  shared by " + ", ".join(label if n == 1 else f"{n} × {label}" for label, n in labels.items())


def _leaf_line(leaf: Leaf, style: Style) -> str:
    words = link_words(leaf.link)
    return f"{style.paint(leaf.label, 'bold')} {leaf.text}{f' [{words}]' if words else ''}"


def _paths(host: Host) -> Iterator[str]:
    """Yield one line for GPU pairs and one for each GPU's nearest NICs."""
    labels = {f"GPU{gpu.index}" for gpu in host.gpus}
    pairs = Counter(path.kind for path in host.paths if path.a in labels and path.b in labels)
    if pairs:
        yield "GPU to GPU: " + ", ".join(
            f"{printable(kind)} ({plural(count, 'pair')})" for kind, count in pairs.most_common()
        )
    near: dict[str, list[str]] = {}
    for path in host.paths:
        if path.kind in ("PIX", "PXB") and (path.a in labels) != (path.b in labels):
            gpu, nic = (path.a, path.b) if path.a in labels else (path.b, path.a)
            near.setdefault(gpu, []).append(printable(f"{nic} {path.kind}"))
    if near:
        yield "NICs below the same switch: " + "; ".join(f"{gpu}: {', '.join(nics)}" for gpu, nics in near.items())


def _unknowns(host: Host) -> Iterator[str]:
    for disagreement in host.disagreements:
        told = ", ".join(
            f"{printable(source)} says {printable(str(value))}" for source, value in disagreement.values.items()
        )
        yield f"Sources differ on {printable(disagreement.fact)}: {told}"
    for gap in host.gaps[:MAX_GAPS]:
        yield f"Not known: {printable(gap.fact)} ({printable(gap.source)}: {printable(gap.reason)})"
    if len(host.gaps) > MAX_GAPS:
        yield f"Not known: {plural(len(host.gaps) - MAX_GAPS, 'more fact')} (--format json lists them under gaps)"
