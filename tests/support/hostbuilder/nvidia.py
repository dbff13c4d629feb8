"""The NVIDIA driver's own files and its NVML answer."""

import uuid
from typing import Any

from hostdoctor.parsers.cpulist import parse_cpulist
from tests.support.hostbuilder.cpus import Layout
from tests.support.hostbuilder.description import Host, Nvidia
from tests.support.hostbuilder.files import Tree
from tests.support.hostbuilder.irqs import Interrupts
from tests.support.hostbuilder.pci import Function, driver_of

GENERATION = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
MIB = 1 << 20


def driver_gpus(host: Host, functions: list[Function]) -> list[Function]:
    """Return the GPUs that the driver shows here, in its order (PCI); a container sees those it was given."""
    gpus = [f for f in functions if f.part.kind == "gpu" and driver_of(f) == "nvidia"]
    return [gpus[i] for i in host.container.gpus] if host.container else gpus


def allowed_cpus(host: Host, cpus: tuple[int, ...]) -> list[int]:
    """Return the CPUs among these that the caller may use, as the driver's affinity queries do."""
    limit = parse_cpulist(host.container.cpus) if host.container else None
    return [cpu for cpu in cpus if limit is None or cpu in limit]


def gpu_uuid(host: Host, gpu: Function) -> str:
    """Return a made-up UUID."""
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{host.hostname}/{gpu.bdf}')}"


def write_driver(
    host: Host, nvidia: Nvidia, functions: list[Function], irqs: Interrupts, layout: Layout, tree: Tree
) -> None:
    """Write ``/proc/driver/nvidia`` and the module's version, and give every GPU its vector."""
    arch = "aarch64" if host.arch == "aarch64" else "x86_64"
    module = f"NVIDIA UNIX Open Kernel Module for {arch}  {nvidia.driver}  Release Build"
    tree.text("/proc/driver/nvidia/version", f"NVRM version: {module}\nGCC version:  gcc 11.4.0\n")
    tree.put("/sys/module/nvidia/version", nvidia.driver)
    if nvidia.peermem:
        tree.put("/sys/module/nvidia_peermem/version", nvidia.driver)
    shown = driver_gpus(host, functions)
    for number, gpu in enumerate(f for f in functions if f.part.kind == "gpu" and driver_of(f) == "nvidia"):
        near = layout.near(gpu.node)
        irq = irqs.add(gpu, "nvidia", ",".join(map(str, near[:1])), near[0])
        if gpu in shown:
            _write_gpu(host, nvidia, gpu, number, irq, tree)


def _write_gpu(host: Host, nvidia: Nvidia, gpu: Function, number: int, irq: int, tree: Tree) -> None:
    folder = f"/proc/driver/nvidia/gpus/{gpu.bdf}"
    tree.text(
        f"{folder}/information",
        f"Model: \t\t {gpu.part.model}\nIRQ:   \t\t {irq}\nGPU UUID: \t {gpu_uuid(host, gpu)}\n"
        f"Bus Type: \t PCIe\nBus Location: \t {gpu.bdf}\nDevice Minor: \t {number}\nGPU Excluded:\t No\n",
    )
    if nvidia.memory_nodes:
        text = f"Node:      {nvidia.memory_nodes[number]}\nStatus:    online\n"
        tree.text(f"{folder}/numa_status", text)


def nvml_answer(host: Host, nvidia: Nvidia, functions: list[Function], layout: Layout) -> dict[str, Any]:
    """Return what reading NVML gives on this host."""
    if nvidia.error:
        return {"document": None, "state": "error", "reason": nvidia.error}
    gpus = driver_gpus(host, functions)
    order = [f for f in functions if f.part.kind == "gpu" and driver_of(f) == "nvidia"]
    document = {
        "driver_version": nvidia.driver,
        "count": len(gpus),
        "gpus": [_nvml_gpu(host, nvidia, gpu, i, order.index(gpu), layout) for i, gpu in enumerate(gpus)],
        "end": True,
    }
    return {"document": document, "state": "ok", "reason": None}


def _nvml_gpu(host: Host, nvidia: Nvidia, gpu: Function, index: int, minor: int, layout: Layout) -> dict[str, Any]:
    domain, bus, device, function = gpu.address
    link = gpu.link
    node = layout.affinity(gpu.node)
    errors = {} if nvidia.memory_nodes else {"memory_node": "Not Supported"}
    if not gpu.part.fabric:
        errors["fabric"] = "Not Supported"
    return {
        "index": index,
        "errors": errors,
        "name": gpu.part.model,
        "uuid": gpu_uuid(host, gpu),
        "bdf": f"{domain:08X}:{bus:02X}:{device:02X}.{function}",
        "memory_node": nvidia.memory_nodes[minor] if nvidia.memory_nodes else None,
        "cpu_affinity": allowed_cpus(host, layout.near(gpu.node)),
        "node_affinity": [] if node is None else [node],
        "link": {
            "width_lanes": link.width if link else None,
            "max_width_lanes": link.max_width if link else None,
            "generation": GENERATION.get(link.gts or 0) if link else None,
            "max_generation": GENERATION.get(link.max_gts or 0) if link else None,
        },
        "memory_bytes": gpu.part.memory_mib * MIB,
        "mig": nvidia.mig,
        "pstate": nvidia.pstate,
        "persistence": nvidia.persistence,
        "c2c": nvidia.c2c,
        "bar1_bytes": gpu.part.bar1_mib * MIB,
        "nvlinks": gpu.part.nvlinks,
        "fabric": _fabric(gpu.part.fabric),
    }


def _fabric(kind: str) -> dict[str, Any] | None:
    """Return a GPU's registration with its fabric: within one host, or across a rack (``rack``)."""
    if not kind:
        return None
    rack = kind == "rack"
    cluster = uuid.uuid5(uuid.NAMESPACE_DNS, "rack") if rack else uuid.UUID(int=0)
    clique = 32766 if rack else 0
    return {"state": "completed", "status": "Success", "clique_id": clique, "cluster_uuid": str(cluster)}
