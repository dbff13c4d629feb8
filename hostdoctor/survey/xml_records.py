"""hwloc's and NCCL's records as the model's, ready to be joined with what other sources tell."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from hostdoctor.facts import Fact, Nic, NumaNode, NvmeController, Path, PciDevice
from hostdoctor.sources.base import HWLOC_XML, NCCL_XML, Source
from hostdoctor.survey.devices import placed
from hostdoctor.survey.pci import DEVICES, by_bdf
from hostdoctor.survey.texts import Texts

if TYPE_CHECKING:
    from hostdoctor.parsers.hwloc_functions import HwlocFunction
    from hostdoctor.parsers.nccl_xml import NcclFunction, NcclGpu, NcclNet, NcclTopology

_NAMESPACE = re.compile(r"nvme(\d{1,5})(?:c(\d{1,5}))?(n\d{1,5})")


class GpuHint(Fact, frozen=True, kw_only=True):
    """What an XML says of a function that may be a GPU; ``certain`` when it calls it one."""

    source: str
    bdf: str
    certain: bool = False
    index: int | None = None
    name: str | None = None
    uuid: str | None = None
    nodes: tuple[int, ...] = ()
    c2c: bool = False


def xml_nodes(texts: Texts) -> list[tuple[str, list[NumaNode]]]:
    """Return the nodes of every XML, by source."""
    told = [(HWLOC_XML.label, [_hwloc_node(node) for node in t.nodes]) for t in texts.hwloc]
    return told + [(NCCL_XML.label, [NumaNode(id=n.id, cpus=n.cpus) for n in t.nodes]) for t in texts.nccl]


def xml_functions(texts: Texts) -> Iterator[tuple[str, PciDevice]]:
    """Yield the PCI functions of every XML with their source."""
    for hwloc in texts.hwloc:
        yield from ((HWLOC_XML.label, _hwloc_device(f)) for f in hwloc.functions)
    for nccl in texts.nccl:
        yield from ((NCCL_XML.label, _nccl_device(f)) for f in nccl.functions)


def gpu_hints(texts: Texts) -> list[GpuHint]:
    """Return what the XMLs say of GPUs, in the order in which they count."""
    hints = [_hwloc_hint(f) for hwloc in texts.hwloc for f in hwloc.functions]
    for nccl in texts.nccl:
        gpus = {gpu.bdf: gpu for gpu in nccl.gpus if gpu.bdf is not None}
        hints += [_nccl_hint(f, gpus.get(f.bdf)) for f in nccl.functions]
    return hints


def numbers_all_gpus(source: Source, texts: Texts) -> bool:
    """Tell whether GPUs can be numbered in order of address: not where all that names them was cut off."""
    cut = any(gap.fact.startswith("source:") for hwloc in texts.hwloc for gap in hwloc.gaps)
    cut = cut or any(gap.fact.startswith("source:") for nccl in texts.nccl for gap in nccl.gaps)
    return not cut or bool(texts.listings or texts.trees or source.listdir(DEVICES))


def name_nics(nics: tuple[Nic, ...], devices: tuple[PciDevice, ...], texts: Texts) -> tuple[Nic, ...]:
    """Return the NICs with the network devices of the XMLs; those that no other source knows are added."""
    known = {nic.bdf: nic for nic in nics if nic.bdf is not None}
    nameless = [nic for nic in nics if nic.bdf is None]
    functions = by_bdf(devices)
    for f in (f for hwloc in texts.hwloc for f in hwloc.functions if f.netdevs or f.rdma_devices):
        if f.bdf not in functions or functions[f.bdf].is_virtual_function:
            continue
        nic = known.get(f.bdf) or placed(Nic(), functions[f.bdf])
        if nic.name is None:
            name = next(iter((*f.rdma_devices, *f.netdevs)))
            nic = msgspec.structs.replace(nic, name=name, netdevs=f.netdevs, rdma=bool(f.rdma_devices))
        known[f.bdf] = nic
    merged = (*known.values(), *nameless)
    for nccl in texts.nccl:
        merged = _with_nets(merged, nccl, functions)
    return merged


def name_drives(drives: tuple[NvmeController, ...], texts: Texts) -> tuple[NvmeController, ...]:
    """Return the controllers with names, namespaces and models from lstopo, where these are not known yet."""
    functions = {f.bdf: f for hwloc in texts.hwloc for f in hwloc.functions if f.namespaces}
    names = {bdf: name for bdf, f in functions.items() if (name := _controller_name(f)) is not None}
    count = Counter([*names.values(), *(drive.name for drive in drives)])
    return tuple(
        msgspec.structs.replace(
            drive,
            name=names[drive.bdf],
            model=functions[drive.bdf].drive_model,
            firmware=functions[drive.bdf].drive_firmware,
            namespaces=tuple(dict.fromkeys(_NAMESPACE.sub(r"nvme\1\3", n) for n in functions[drive.bdf].namespaces)),
        )
        if drive.name is None and drive.bdf in names and count[names[drive.bdf]] == 1
        else drive
        for drive in drives
    )


def nccl_paths(texts: Texts) -> dict[frozenset[str], str]:
    """Map pairs of GPU addresses and NIC names to how they reach each other, where NCCL's tree tells it for certain.

    NVLinks count to the peer itself, or to switches when both have as many. A shared switch is PIX when it is the
    nearest of both, else PXB; different nodes are SYS. What meets on one node may be PHB or NODE.
    """
    found: dict[frozenset[str], str] = {}
    for topology in texts.nccl:
        functions = {f.bdf: f for f in topology.functions}
        gpus = [gpu for gpu in topology.gpus if gpu.bdf in functions]
        nets = [net for net in topology.nets if net.bdf in functions]
        ends = [(gpu.bdf or "", gpu.bdf or "", gpu) for gpu in gpus] + [(n.name, n.bdf or "", None) for n in nets]
        for position, (a, a_bdf, gpu) in enumerate(ends):
            for b, b_bdf, other in ends[position + 1 :]:
                kind = _nvlink(gpu, other) if gpu and other else None
                if kind is None:
                    kind = _through_tree(functions[a_bdf], functions[b_bdf])
                if kind:
                    found.setdefault(frozenset((a, b)), kind)
    return found


def with_nccl_paths(derived: tuple[Path, ...], texts: Texts, labels: Mapping[str, str]) -> tuple[Path, ...]:
    """Return derived paths with NCCL's: an NVLink counts before the PCI tree, the rest fills what is missing."""
    paths = {frozenset((path.a, path.b)): path for path in derived}
    order = {label: position for position, label in enumerate(labels.values())}
    for pair, kind in nccl_paths(texts).items():
        ends = sorted((labels[end] for end in pair if end in labels), key=lambda label: order[label])
        if len(ends) == 2 and (kind.startswith("NV") or frozenset(ends) not in paths):
            paths[frozenset(ends)] = Path(a=ends[0], b=ends[1], kind=kind)
    return tuple(sorted(paths.values(), key=lambda path: (order.get(path.a, 0), order.get(path.b, 0))))


def _hwloc_node(node: object) -> NumaNode:
    return msgspec.convert(msgspec.to_builtins(node), NumaNode)


def _hwloc_device(f: "HwlocFunction") -> PciDevice:
    return PciDevice(
        bdf=f.bdf,
        name=f.name,
        vendor_id=f.vendor_id,
        device_id=f.device_id,
        class_code=f.class_code,
        numa_node=f.numa_nodes[0] if len(f.numa_nodes) == 1 else None,
        upstream=f.upstream,
        root_complex=f.root_complex,
    )


def _nccl_device(f: "NcclFunction") -> PciDevice:
    return PciDevice(
        bdf=f.bdf, vendor_id=f.vendor_id, device_id=f.device_id, class_code=f.class_code, numa_node=f.numa_node
    )


def _hwloc_hint(f: "HwlocFunction") -> GpuHint:
    return GpuHint(
        source=HWLOC_XML.label,
        bdf=f.bdf,
        certain=f.gpu_index is not None,
        index=f.gpu_index,
        name=f.gpu_name,
        uuid=f.gpu_uuid,
        nodes=f.numa_nodes,
    )


def _nccl_hint(f: "NcclFunction", gpu: "NcclGpu | None") -> GpuHint:
    return GpuHint(
        source=NCCL_XML.label,
        bdf=f.bdf,
        certain=gpu is not None,
        index=gpu.index if gpu else None,
        nodes=() if f.numa_node is None else (f.numa_node,),
        c2c=gpu.c2c if gpu else False,
    )


def _with_nets(nics: tuple[Nic, ...], nccl: "NcclTopology", functions: Mapping[str, PciDevice]) -> tuple[Nic, ...]:
    """Add NCCL's network devices; of several below one address none is known to have it."""
    count = Counter(net.bdf for net in nccl.nets if net.bdf is not None)
    names = {name for nic in nics for name in (nic.name, *nic.netdevs) if name}
    sole = {net.bdf: net for net in nccl.nets if net.bdf is not None and count[net.bdf] == 1}
    merged: list[Nic] = []
    for nic in nics:
        if nic.name is not None or nic.bdf not in count:
            merged.append(nic)
        elif nic.bdf in sole and sole[nic.bdf].name not in names:
            merged.append(msgspec.structs.replace(nic, name=sole[nic.bdf].name))
            names.add(sole[nic.bdf].name)
    added = (_net(net, functions) for net in nccl.nets if net.name not in names)
    return (*merged, *added)


def _net(net: "NcclNet", functions: Mapping[str, PciDevice]) -> Nic:
    device = functions.get(net.bdf or "")
    nic = Nic(name=net.name, numa_node=net.numa_node)
    return nic if device is None else msgspec.structs.replace(placed(nic, device), bdf=None)


def _controller_name(f: "HwlocFunction") -> str | None:
    """Return the controller of a function's namespaces: ``nvme0n1`` and ``nvme7c0n1`` are of nvme0."""
    matches = (_NAMESPACE.fullmatch(name) for name in f.namespaces)
    names = {f"nvme{match[2] or match[1]}" for match in matches if match}
    return names.pop() if len(names) == 1 and (f.class_code or "").startswith("0108") else None


def _nvlink(a: "NcclGpu", b: "NcclGpu") -> str | None:
    """Return the path over NVLinks, None where there are none, ``""`` where the two GPUs tell different numbers."""
    there, back = a.nvlinks.get(b.bdf or "", 0), b.nvlinks.get(a.bdf or "", 0)
    if not (there or back):
        there, back = a.nvswitch_links, b.nvswitch_links
        if not (there and back):
            return None
    return f"NV{there}" if there == back else ""


def _through_tree(a: "NcclFunction", b: "NcclFunction") -> str | None:
    if set(a.switches) & set(b.switches):
        return "PIX" if a.switches == b.switches else "PXB"
    known = a.numa_node is not None and b.numa_node is not None
    return "SYS" if known and a.numa_node != b.numa_node else None
