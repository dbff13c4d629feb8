"""GPUs as ``nvidia-smi -q`` tells them, joined by address to those that are known already."""

from typing import TYPE_CHECKING

import msgspec

from hostdoctor.facts import Gpu, Link, PciDevice
from hostdoctor.survey.notes import Notes
from hostdoctor.survey.pci_class import is_nvidia

if TYPE_CHECKING:
    from hostdoctor.parsers.nvidia_smi_q import NvidiaSmiQuery, SmiGpu

SOURCE = "nvidia-smi -q"
GENERATION_GTS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}


def join_query(gpu: Gpu, told: "SmiGpu", from_nvml: bool, notes: Notes) -> Gpu:
    """Return a GPU with what the query adds; NVML's own answers count first, and where the two differ both are kept."""
    index = gpu.index if from_nvml else told.index
    fact = f"gpus[{gpu.bdf}]" if index is None else f"gpus[{index}]"
    if from_nvml and told.uuid and gpu.uuid:
        notes.pick(f"{fact}.uuid", {"NVML": gpu.uuid, SOURCE: told.uuid})
    return msgspec.structs.replace(
        gpu,
        index=index,
        visible=True,
        name=(gpu.name if from_nvml else None) or told.name or gpu.name,
        uuid=gpu.uuid or told.uuid,
        c2c=told.c2c if gpu.c2c is None else gpu.c2c,
        mig=told.mig if gpu.mig is None else gpu.mig,
        memory_bytes=gpu.memory_bytes or told.memory_bytes,
        link=gpu.link if gpu.link != Link() else query_link(told),
    )


def unlisted(gpu: Gpu, device: PciDevice | None, query: "NvidiaSmiQuery") -> Gpu:
    """Return a GPU that the query does not show: the driver does not have it where the query is whole."""
    if device is None or not is_nvidia(device):
        return gpu
    return msgspec.structs.replace(gpu, index=None, visible=False if query.whole else None)


def query_link(told: "SmiGpu") -> Link:
    """Return the link; as with NVML its maximum is what GPU and slot can do together."""
    return Link(
        width_lanes=told.width_lanes,
        max_width_lanes=told.max_width_lanes,
        speed_gts=GENERATION_GTS.get(told.generation or 0),
        max_speed_gts=GENERATION_GTS.get(told.max_generation or 0),
    )
