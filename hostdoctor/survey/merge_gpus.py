"""GPUs as PCI, NVML, ``nvidia-smi topo -m`` and pasted environments tell them, joined by address and index."""

from typing import TYPE_CHECKING

import msgspec

from hostdoctor.facts import Gpu, PciDevice
from hostdoctor.parsers.nvml import NvmlDocument
from hostdoctor.sources.base import Source
from hostdoctor.survey.gpu_records import Seen, Told
from hostdoctor.survey.gpus_in_driver import join_nvml, join_query_gpus
from hostdoctor.survey.gpus_on_pci import (
    from_pci,
    name_by_hints,
    number_by_address,
    number_by_hints,
    only_hinted,
    place_by_hints,
)
from hostdoctor.survey.merge_smi import SOURCE
from hostdoctor.survey.notes import Notes
from hostdoctor.survey.pci_class import is_gpu, is_nvidia
from hostdoctor.survey.texts import Texts
from hostdoctor.survey.xml_records import gpu_hints, numbers_all_gpus

if TYPE_CHECKING:
    from hostdoctor.parsers.topo_matrix import TopoGpu, TopoMatrix


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
        from_pci(source, device, listed.get(device.bdf), is_in_sysfs=device.bdf in sysfs)
        for device in devices
        if is_gpu(device)
    ]
    seen += only_hinted(seen, devices, hints)
    if nvml.gpus:
        seen = join_nvml(seen, nvml, notes)
    else:
        if numbers_all_gpus(source, texts):
            number_by_address(seen)
        number_by_hints(seen, hints)
    for query in texts.queries[:1]:
        seen = join_query_gpus(seen, query, notes)
    name_by_hints(seen, hints)
    if texts.matrices:
        notes.add(texts.matrices[0].gaps)
        numbered = any(hint.index is not None for hint in hints)
        seen = _join_matrix(seen, texts.matrices[0], notes, numbered=numbered)
        _compare_matrices(seen, texts, notes)
    for environment in texts.collect_envs:
        seen = _join_names(seen, environment.gpu_names)
        if environment.gpu_models and not seen:
            notes.gap("gpus", "collect_env", f"{environment.gpu_models}: how many is not read from this text")
    place_by_hints(seen, hints)
    return sorted(seen, key=lambda s: (s.gpu.index is None, s.gpu.index or 0))


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
