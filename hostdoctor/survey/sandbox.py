"""What the kernel lets the caller do, and which modules it has that GPUs need for direct transfers."""

from hostdoctor.sources.base import Source

# Modules that give a NIC access to GPU memory: NVIDIA's, its predecessor, the one of Elastic Fabric Adapters.
PEER_MODULES = ("nvidia_peermem", "nv_peer_mem", "efa_nv_peermem")


def read_kernel_modules(source: Source) -> dict[str, str]:
    """Return ``modules.peer_memory`` (names, "" for none) and ``modules.nvidia`` (open or proprietary), where told.

    A list of modules without NVIDIA's own is cut short, or not the one: it does not tell that others are missing.
    """
    found = {}
    loaded = {row.partition(" ")[0] for row in (source.read("/proc/modules") or "").splitlines()}
    peers = [name for name in PEER_MODULES if name in loaded]
    if peers or "nvidia" in loaded:
        found["modules.peer_memory"] = " ".join(peers)
    version = source.read("/proc/driver/nvidia/version") or ""
    if "Kernel Module" in version:
        found["modules.nvidia"] = "open" if "Open Kernel Module" in version else "proprietary"
    return found


def read_mempolicy(source: Source) -> dict[str, str]:
    """Return ``probe.set_mempolicy``: permitted, or how a system call filter refuses it."""
    answer = source.probe("set_mempolicy")
    return {} if answer is None else {"probe.set_mempolicy": answer}
