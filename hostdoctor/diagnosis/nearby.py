"""The NICs and drives that a question about some GPUs is also about."""

from hostdoctor.diagnosis.api import Ask, gpu_label, in_scope
from hostdoctor.diagnosis.paths import Device, Tree
from hostdoctor.diagnosis.subjects import near_nodes
from hostdoctor.facts import Gpu, Host, Nic, NvmeController


def nearby_devices(host: Host, ask: Ask) -> tuple[Device, ...]:
    """Return the physical NICs and drives: all when every GPU is in scope, else those on its roots and nodes."""
    tree = Tree(host)
    gpus = in_scope(host, ask)
    whole = len(gpus) == len(host.gpus)
    roots = {gpu.root_complex for gpu in gpus} - {None}
    nodes = {node for gpu in gpus for node in near_nodes(gpu)}
    present: list[Device] = [*host.nics, *host.nvme]
    return tuple(
        device
        for device in present
        if device.bdf
        and not tree.is_virtual_function(device)
        and (whole or device.root_complex in roots or device.numa_node in nodes)
    )


def device_label(host: Host, device: Device) -> str:
    """Return what a person calls a device: ``GPU0``, ``mlx5_0``, ``nvme0``, else its address."""
    if isinstance(device, Gpu):
        return gpu_label(host, device)
    if isinstance(device, Nic):
        return device.name or device.label or device.bdf or "?"
    return (device.name if isinstance(device, NvmeController) else None) or device.bdf or "?"
