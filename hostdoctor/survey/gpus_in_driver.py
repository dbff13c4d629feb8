"""What the NVIDIA driver tells of its GPUs, through NVML or ``nvidia-smi -q``, joined with the PCI functions."""

from typing import TYPE_CHECKING

import msgspec

from hostdoctor.facts import Gpu, Link
from hostdoctor.parsers.cpulist import format_cpulist
from hostdoctor.parsers.nvml import NvmlDocument, NvmlGpu, NvmlLink
from hostdoctor.survey.gpu_records import Seen, Told
from hostdoctor.survey.merge_smi import SOURCE, join_query, unlisted
from hostdoctor.survey.notes import Notes
from hostdoctor.survey.pci_class import is_nvidia

if TYPE_CHECKING:
    from hostdoctor.parsers.nvidia_smi_q import NvidiaSmiQuery

# NVML's PCIe generations as raw signalling rates.
GENERATION_GTS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}


def join_nvml(seen: list[Seen], nvml: NvmlDocument, notes: Notes) -> list[Seen]:
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
    subject = f"gpus[{told.bdf if told.index is None else told.index}]"
    for field, reason in told.errors.items():
        if "is lost" in reason:  # whichever question met it: the GPU is gone
            notes.gap(f"{subject}.handle", "NVML", reason, "error")
        elif field in ("handle", "name", "uuid", "bdf"):
            notes.gap(f"{subject}.{field}", "NVML", reason, "error")
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


def join_query_gpus(seen: list[Seen], query: "NvidiaSmiQuery", notes: Notes) -> list[Seen]:
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
