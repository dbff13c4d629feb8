"""GPU memory by product, from public data sheets, for plans without the machine at hand."""

from hostdoctor.errors import UsageError
from hostdoctor.facts import Fact, Host

GIB = 1 << 30
_INLINE_ECC = 15 / 16  # cards that keep ECC in the same memory show one sixteenth less


class GpuModel(Fact, frozen=True, kw_only=True):
    """A product's memory in GiB: the data sheet's figure, less inline ECC. The driver shows up to 1 % less."""

    name: str
    memory_gib: float


# Data-sheet gigabytes are counted as GiB, which is how HBM stacks and GDDR chips are made.
_HBM = {
    "v100-16": 16, "v100-32": 32, "a30-24": 24, "a100-40": 40, "a100-80": 80, "h100-80": 80, "h100-94": 94,
    "h20-96": 96, "gh200-96": 96, "h200-141": 141, "b200-180": 180, "mi300x-192": 192, "mi325x-256": 256,
}  # fmt: skip
_GDDR = {"t4-16": 16, "l4-24": 24, "a10-24": 24, "a40-48": 48, "l40-48": 48, "l40s-48": 48, "rtxpro6000-96": 96}
# Consumer and workstation cards as they come: without ECC.
_PLAIN = {"rtx3090-24": 24, "rtx4090-24": 24, "rtx5090-32": 32, "rtx6000ada-48": 48}
GPUS = {
    name: GpuModel(name=name, memory_gib=size * share)
    for table, share in ((_HBM, 1.0), (_GDDR, _INLINE_ECC), (_PLAIN, 1.0))
    for name, size in table.items()
}


def gpu_named(name: str, option: str = "--gpu") -> GpuModel:
    """Return a product by its short name (``h100-80``), or without its size where there is one alone (``h200``).

    Raises UsageError for one that is not listed, or comes in several sizes.
    """
    asked = name.lower()
    found = [GPUS[asked]] if asked in GPUS else [gpu for gpu in GPUS.values() if gpu.name.rpartition("-")[0] == asked]
    if not found:
        raise UsageError(f"{option}: not listed: {name[:40]!r} (known: {', '.join(GPUS)}; else --gpu-memory-gib)")
    if len(found) > 1:
        raise UsageError(f"{option}: {asked} comes in several sizes: {', '.join(gpu.name for gpu in found)}")
    return found[0]


def memory_of_host(host: Host, tp: int) -> tuple[int | None, str]:
    """Return the memory in bytes that each of ``tp`` GPUs of a host has at least, and how it is known or why not."""
    known = sorted((gpu.memory_bytes for gpu in host.gpus if gpu.memory_bytes), reverse=True)
    if len(known) < tp:
        return None, f"GPUs on the map whose memory is known: {len(known)}, needed: {tp}"
    return known[tp - 1], f"GPUs on the map: {len(host.gpus)}"


def next_larger(memory_bytes: int, factor: float) -> GpuModel | None:
    """Return the smallest listed data-centre product with at least ``factor`` times the memory, or None."""
    fits = [GPUS[name] for name in _HBM if GPUS[name].memory_gib * GIB >= factor * memory_bytes]
    return min(fits, key=lambda gpu: gpu.memory_gib, default=None)
