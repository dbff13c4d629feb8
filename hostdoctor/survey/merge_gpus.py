"""GPUs as PCI, NVML, ``nvidia-smi topo -m`` and pasted environments tell them, joined by address and index."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from hostdoctor.facts import Allowed, Gpu, Link, NumaNode, PciDevice
from hostdoctor.parsers.cpulist import format_cpulist, parse_cpulist
from hostdoctor.parsers.nvml import NvmlDocument, NvmlGpu, NvmlLink
from hostdoctor.sources.base import Source
from hostdoctor.survey.merge_smi import SOURCE, join_query, unlisted
from hostdoctor.survey.notes import Notes
from hostdoctor.survey.pci import by_bdf, device_path
from hostdoctor.survey.pci_class import is_gpu, is_nvidia
from hostdoctor.survey.texts import Texts
from hostdoctor.survey.values import ids, integer
from hostdoctor.survey.xml_records import GpuHint, gpu_hints, numbers_all_gpus

if TYPE_CHECKING:
    from hostdoctor.parsers.nvidia_smi_q import NvidiaSmiQuery
    from hostdoctor.parsers.topo_matrix import TopoGpu, TopoMatrix

PASSED_THROUGH = ("vfio-pci", "pci-stub")  # not the driver's to number
# NVML's PCIe generations as raw signalling rates.
GENERATION_GTS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What one source says of where a GPU is. ``nodes`` () and ``cpus`` None: it does not say."""

    nodes: tuple[int, ...] = ()
    cpus: str | None = None
    memory_node: int | None = None


class Seen(msgspec.Struct, kw_only=True):
    """A GPU on the way to its record: the record so far and what each source tells of its place."""

    gpu: Gpu
    told: dict[str, Told]
    device: PciDevice | None = None


def find_gpus(
    source: Source,
    devices: tuple[PciDevice, ...],
    sysfs: frozenset[str],
    nvml: NvmlDocument,
    texts: Texts,
    notes: Notes,
) -> list[Seen]:
    """Return every GPU once, in the driver's order where there is one, with what each source tells of it.

    ``sysfs`` are the addresses that sysfs lists; other functions come from texts.
    """
    hints = gpu_hints(texts)
    listed = {f.bdf: f.numa_node for listing in texts.listings for f in listing.functions}
    seen = [
        _from_pci(source, device, listed.get(device.bdf), is_in_sysfs=device.bdf in sysfs)
        for device in devices
        if is_gpu(device)
    ]
    seen += _only_hinted(seen, devices, hints)
    if nvml.gpus:
        seen = _join_nvml(seen, nvml, notes)
    else:
        if numbers_all_gpus(source, texts):
            _number_by_address(seen)
        _number_by_hints(seen, hints)
    for query in texts.queries[:1]:
        seen = _join_query(seen, query, notes)
    _name_by_hints(seen, hints)
    if texts.matrices:
        notes.add(texts.matrices[0].gaps)
        numbered = any(hint.index is not None for hint in hints)
        seen = _join_matrix(seen, texts.matrices[0], notes, numbered=numbered)
        _compare_matrices(seen, texts, notes)
    for environment in texts.collect_envs:
        seen = _join_names(seen, environment.gpu_names)
        if environment.gpu_models and not seen:
            notes.gap("gpus", "collect_env", f"{environment.gpu_models}: no source tells how many")
    _place_by_hints(seen, hints)
    return sorted(seen, key=lambda s: (s.gpu.index is None, s.gpu.index or 0))


def settle_gpus(seen: list[Seen], nodes: tuple[NumaNode, ...], allowed: Allowed, notes: Notes) -> tuple[Gpu, ...]:
    """Return the GPUs with their nodes and CPUs decided; differing sources leave disagreements."""
    return tuple(_settle(s, f"gpus[{i}]", nodes, allowed, notes) for i, s in enumerate(seen))


def gpu_memory_nodes(seen: list[Seen], nodes: tuple[NumaNode, ...]) -> frozenset[int]:
    """Return the nodes that GPUs' own memory forms: told by a driver, and without CPUs."""
    with_cpus = {node.id for node in nodes if node.cpus}
    told = {t.memory_node for s in seen for t in s.told.values() if t.memory_node is not None}
    return frozenset(told - with_cpus)


def _from_pci(source: Source, device: PciDevice, listed: int | None, *, is_in_sysfs: bool) -> Seen:
    """Return a GPU of the bus; ``listed`` is the node that lspci shows."""
    base = device_path(source, device.bdf)
    text = source.read(f"{base}/numa_node")
    node = integer(text)
    # beside a numa_node of -1, local_cpulist names every CPU: it says nothing
    local = ids(source.read(f"{base}/local_cpulist")) if node is not None or text is None else None
    driver = _driver_file(source, device, "information")
    gpu = msgspec.structs.replace(
        _placed(device), name=driver.get("Model") or device.name, uuid=_uuid(driver.get("GPU UUID"))
    )
    memory_node = integer(_driver_file(source, device, "numa_status").get("Node"))
    cpus = format_cpulist(local) if local else None
    own = Told(nodes=() if node is None else (node,), cpus=cpus, memory_node=memory_node)
    told = {"sysfs": own} if is_in_sysfs or own != Told() else {}
    if node is None and listed is not None:
        told["lspci"] = Told(nodes=(listed,))
    return Seen(gpu=gpu, told=told, device=device)


def _only_hinted(seen: list[Seen], devices: tuple[PciDevice, ...], hints: list[GpuHint]) -> list[Seen]:
    """Return the functions that an XML calls GPUs and whose class, as far as known, does not."""
    known = {s.gpu.bdf for s in seen}
    functions = by_bdf(devices)
    found = [functions[h.bdf] for h in hints if h.certain and h.bdf in functions and h.bdf not in known]
    return [Seen(gpu=_placed(device), told={}, device=device) for device in dict.fromkeys(found)]


def _placed(device: PciDevice) -> Gpu:
    return Gpu(
        name=device.name,
        bdf=device.bdf,
        link=device.link,
        root_complex=device.root_complex,
        root_port=device.upstream[0] if device.upstream else None,
        upstream=device.upstream,
        driver=device.driver,
    )


def _number_by_hints(seen: list[Seen], hints: list[GpuHint]) -> None:
    """Give the driver's own indices where an XML has them; the driver does not show the other GPUs."""
    told: dict[str, int] = {}
    for hint in hints:
        if hint.index is not None and hint.index not in told.values():
            told.setdefault(hint.bdf, hint.index)
    if told:
        for s in seen:
            s.gpu = msgspec.structs.replace(s.gpu, index=told.get(s.gpu.bdf or ""))


def _name_by_hints(seen: list[Seen], hints: list[GpuHint]) -> None:
    """Give the driver's names, UUIDs and chip-to-chip links from XMLs where NVML was not asked."""
    by_address = {s.gpu.bdf: s for s in seen if "NVML" not in s.told}
    for hint in hints:
        if (s := by_address.get(hint.bdf)) is None:
            continue
        from_pci = s.device is not None and s.gpu.name == s.device.name
        s.gpu = msgspec.structs.replace(
            s.gpu,
            name=hint.name if hint.name and from_pci else s.gpu.name,
            uuid=s.gpu.uuid or hint.uuid,
            c2c=s.gpu.c2c or hint.c2c or None,
        )


def _place_by_hints(seen: list[Seen], hints: list[GpuHint]) -> None:
    """Add what the XMLs tell of where GPUs are, behind all other sources."""
    by_address = {s.gpu.bdf: s for s in seen if s.gpu.bdf is not None}
    for hint in hints:
        if hint.nodes and (s := by_address.get(hint.bdf)) is not None:
            s.told.setdefault(hint.source, Told(nodes=hint.nodes))


def _driver_file(source: Source, device: PciDevice, name: str) -> dict[str, str]:
    """Return the fields of ``/proc/driver/nvidia/gpus/<bdf>/{information,numa_status}`` (``Model: …``, ``Node: 2``)."""
    text = source.read(f"/proc/driver/nvidia/gpus/{device.bdf}/{name}") or ""
    rows = (row.partition(":") for row in text.splitlines())
    return {key.strip(): value.strip() for key, colon, value in rows if colon}


def _uuid(text: str | None) -> str | None:
    """Return a UUID; the driver prints question marks until it knows it."""
    return text if text and "?" not in text else None


def _number_by_address(seen: list[Seen]) -> None:
    """Give the indices that the driver would, in order of address: to NVIDIA's where there are any, else to all."""
    nvidia = [s for s in seen if s.device is not None and is_nvidia(s.device)]
    driven = [s for s in nvidia if s.gpu.driver not in PASSED_THROUGH]
    for index, s in enumerate(driven if nvidia else seen):
        s.gpu = msgspec.structs.replace(s.gpu, index=index)


def _join_nvml(seen: list[Seen], nvml: NvmlDocument, notes: Notes) -> list[Seen]:
    """Join by address; an NVIDIA GPU that a working driver does not list is one the caller may not use."""
    by_bdf = {s.gpu.bdf: s for s in seen}
    joined: list[Seen] = []
    unplaced: dict[int | None, NvmlGpu] = {}
    for told in nvml.gpus:
        if told.bdf is None:
            unplaced[told.index] = told
        else:
            known = by_bdf.pop(told.bdf, None)
            joined.append(_with_nvml(known or Seen(gpu=Gpu(bdf=told.bdf), told={}), told, notes))
    indices = {s.gpu.index for s in joined}
    silent = [] if None in indices else [i for i in range(_count(nvml)) if i not in indices]
    left = [s for s in by_bdf.values() if s.device is not None and is_nvidia(s.device)]
    if len(silent) == len(left):  # the driver numbers in order of address: the ones that told none are the ones left
        for index, s in zip(silent, left, strict=True):
            joined.append(_with_nvml(s, unplaced.pop(index, NvmlGpu(index=index)), notes))
            del by_bdf[s.gpu.bdf]
    lost = [_with_nvml(Seen(gpu=Gpu(), told={}), told, notes) for told in unplaced.values()]
    is_full = nvml.is_whole and not lost
    return [*joined, *lost, *(_outside(s, is_full=is_full) for s in by_bdf.values())]


def _count(nvml: NvmlDocument) -> int:
    """Return how many GPUs the driver said it has, answered for or not."""
    return max(nvml.count or 0, len(nvml.gpus))


def _outside(s: Seen, *, is_full: bool) -> Seen:
    """Return a GPU that NVML does not list: hidden from the caller, where the driver answered in full."""
    hidden = s.device is not None and is_nvidia(s.device) and is_full
    s.gpu = msgspec.structs.replace(s.gpu, visible=False if hidden else None)
    return s


def _with_nvml(s: Seen, told: NvmlGpu, notes: Notes) -> Seen:
    for field, reason in told.errors.items():
        if field in ("handle", "name", "uuid", "bdf"):
            notes.gap(f"gpus[{told.bdf if told.index is None else told.index}].{field}", "NVML", reason, "error")
    link = _nvml_link(told.link)
    s.gpu = msgspec.structs.replace(
        s.gpu,
        index=told.index,
        visible=True,
        name=told.name or s.gpu.name,
        uuid=told.uuid or s.gpu.uuid,
        c2c=told.c2c,
        mig=told.mig,
        memory_bytes=told.memory_bytes,
        pstate=told.pstate,
        persistence=told.persistence,
        bar1_bytes=told.bar1_bytes,
        nvlinks=told.nvlinks,
        fabric=told.fabric,
        driver_link=link,
        link=s.gpu.link if s.gpu.link != Link() else link,
    )
    s.told["NVML"] = Told(
        nodes=told.node_affinity,
        cpus=format_cpulist(told.cpu_affinity) if told.cpu_affinity else None,
        memory_node=told.memory_node,
    )
    return s


def _join_query(seen: list[Seen], query: "NvidiaSmiQuery", notes: Notes) -> list[Seen]:
    """Join by address; without NVML the query's order is the driver's."""
    notes.add(query.gaps)
    by_bdf = {s.gpu.bdf: s for s in seen if s.gpu.bdf}
    known = any("NVML" in s.told for s in seen)
    joined = []
    for told in query.gpus:
        s = by_bdf.pop(told.bdf, None)
        if s is None:
            s = Seen(gpu=Gpu(bdf=told.bdf), told={})
            seen.append(s)
        s.gpu = join_query(s.gpu, told, "NVML" in s.told, notes)
        s.told.setdefault(SOURCE, Told())
        joined.append(s)
    for s in () if known or not joined else by_bdf.values():
        s.gpu = unlisted(s.gpu, s.device, query)
    return seen


def _nvml_link(link: NvmlLink) -> Link:
    return Link(
        width_lanes=link.width_lanes,
        max_width_lanes=link.max_width_lanes,
        speed_gts=GENERATION_GTS.get(link.generation or 0),
        max_speed_gts=GENERATION_GTS.get(link.max_generation or 0),
    )


def _join_matrix(seen: list[Seen], matrix: "TopoMatrix", notes: Notes, *, numbered: bool) -> list[Seen]:
    """Join by index; where the matrix and PCI count different GPUs and no driver numbers them, they stay apart.

    ``numbered``: the indices are the driver's, from another source than NVML.
    """
    others = [_unnumbered(s) for s in seen if s.device is not None and not is_nvidia(s.device)]
    seen = [s for s in seen if s.device is None or is_nvidia(s.device)]
    by_index = {s.gpu.index: s for s in seen if s.gpu.index is not None}
    from_driver = numbered or any("NVML" in s.told or SOURCE in s.told for s in seen)
    if by_index and not from_driver and len(by_index) != len(matrix.gpus):
        reason = f"{len(by_index)} GPUs on PCI, {len(matrix.gpus)} in the matrix: which is which is not known"
        notes.gap("gpus", "nvidia-smi topo -m", reason)
        by_index = {}
        seen = []
    for row in matrix.gpus:
        s = by_index.get(row.index)
        if s is None:
            s = Seen(gpu=Gpu(index=row.index), told={})
            seen.append(s)
        s.told["nvidia-smi topo -m"] = _told_by(row)
    return seen + others


def _unnumbered(s: Seen) -> Seen:
    """Return another maker's GPU without an index: the matrix numbers NVIDIA's."""
    s.gpu = msgspec.structs.replace(s.gpu, index=None)
    return s


def _told_by(row: "TopoGpu") -> Told:
    cpus = None if row.cpus_cut else row.cpus
    return Told(nodes=row.numa_nodes, cpus=cpus, memory_node=row.memory_numa_node)


def _compare_matrices(seen: list[Seen], texts: Texts, notes: Notes) -> None:
    """Keep where further matrices differ from the first, which counts."""
    by_index = {s.gpu.index: s for s in seen}
    first = {(path.a, path.b): path.kind for path in texts.matrices[0].paths}
    for number, matrix in enumerate(texts.matrices[1:], start=2):
        for row in matrix.gpus:
            if row.index in by_index:
                by_index[row.index].told[f"nvidia-smi topo -m ({number})"] = _told_by(row)
        for path in matrix.paths:
            known = first.get((path.a, path.b))
            if known is not None and known != path.kind:
                values = {"nvidia-smi topo -m": known, f"nvidia-smi topo -m ({number})": path.kind}
                notes.disagree(f"paths[{path.a},{path.b}]", values)


def _join_names(seen: list[Seen], names: tuple[tuple[int, str], ...]) -> list[Seen]:
    by_index = {s.gpu.index: s for s in seen}
    for index, name in names:
        if index not in by_index:
            by_index[index] = Seen(gpu=Gpu(index=index), told={})
            seen.append(by_index[index])
        s = by_index[index]
        if s.gpu.name is None or "NVML" not in s.told:
            s.gpu = msgspec.structs.replace(s.gpu, name=name)
    return seen


def _settle(s: Seen, fact: str, nodes: tuple[NumaNode, ...], allowed: Allowed, notes: Notes) -> Gpu:
    with_cpus = {node.id: node for node in nodes if node.cpus}
    if nodes:
        s.told = {
            source: _on_known_nodes(t, {n.id for n in nodes}, fact, source, notes) for source, t in s.told.items()
        }
    near = _near_nodes(fact, s.told, frozenset(with_cpus), notes)
    memory = [t.memory_node for t in s.told.values() if t.memory_node is not None and t.memory_node not in with_cpus]
    cpus = _near_cpus(fact, s.told, nodes, allowed, notes)
    if cpus and not near:
        near = _node_of(cpus, with_cpus)
    if cpus is None and near and all(node in with_cpus for node in near):
        cpus = format_cpulist(cpu for node in near for cpu in parse_cpulist(with_cpus[node].cpus or ""))
    return msgspec.structs.replace(
        s.gpu,
        numa_nodes=near,
        numa_node=near[0] if len(near) == 1 else None,
        cpus=cpus,
        memory_numa_node=memory[0] if memory else None,
    )


def _on_known_nodes(told: Told, known: set[int], fact: str, source: str, notes: Notes) -> Told:
    """Return what a source told without nodes that the host does not list."""
    strange = [node for node in (*told.nodes, told.memory_node) if node is not None and node not in known]
    for node in strange:
        notes.gap(f"{fact}.numa_node", source, f"{node}, but the host lists no such node")
    nodes = tuple(node for node in told.nodes if node in known)
    memory_node = told.memory_node if told.memory_node in known else None
    return msgspec.structs.replace(told, nodes=nodes, memory_node=memory_node)


def _node_of(cpus: str, with_cpus: Mapping[int, NumaNode]) -> tuple[int, ...]:
    """Return the one node of several that holds all of a GPU's near CPUs."""
    near = parse_cpulist(cpus)
    holding = [node for node, record in with_cpus.items() if near & parse_cpulist(record.cpus or "")]
    return tuple(holding) if len(holding) == 1 and len(with_cpus) > 1 else ()


def _near_nodes(fact: str, told: Mapping[str, Told], cpu_nodes: frozenset[int], notes: Notes) -> tuple[int, ...]:
    """Return the nodes near a GPU as the first source tells them.

    A source that names every CPU node of several says no more than that it does not know which.
    """
    known = {source: _told_nodes(t, cpu_nodes) for source, t in told.items()}
    known = {source: nodes for source, nodes in known.items() if nodes}
    narrow = {s: nodes for s, nodes in known.items() if len(nodes) == 1 or not frozenset(nodes) >= cpu_nodes}
    chosen = narrow or known
    if len(set(chosen.values())) > 1:
        shown = {source: nodes[0] if len(nodes) == 1 else format_cpulist(nodes) for source, nodes in chosen.items()}
        notes.disagree(f"{fact}.numa_node", shown)
    return next(iter(chosen.values()), ())


def _told_nodes(told: Told, cpu_nodes: frozenset[int]) -> tuple[int, ...]:
    """Return the near nodes; a driver's node id that has CPUs is the near node, not the GPU's own memory."""
    if told.nodes:
        return tuple(sorted(told.nodes))
    return (told.memory_node,) if told.memory_node is not None and told.memory_node in cpu_nodes else ()


def _near_cpus(
    fact: str, told: Mapping[str, Told], nodes: tuple[NumaNode, ...], allowed: Allowed, notes: Notes
) -> str | None:
    """Return the first CPU list told; lists that differ on online and allowed CPUs are a disagreement."""
    known = {source: t.cpus for source, t in told.items() if t.cpus}
    online = frozenset(cpu for node in nodes for cpu in parse_cpulist(node.cpus or ""))
    usable = online & (ids(allowed.cpus) or online)
    sets = {source: parse_cpulist(cpus) & usable if usable else parse_cpulist(cpus) for source, cpus in known.items()}
    narrow = {source: cpus for source, cpus in sets.items() if cpus != usable} if len(nodes) > 1 else sets
    if len(set(narrow.values())) > 1:
        notes.disagree(f"{fact}.cpus", {source: known[source] for source in narrow})
    return next(iter(known.values()), None)
