"""What the map is drawn from, as text or picture: GPUs, NICs and drives below bridges, root complexes and nodes."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from hostdoctor.facts import Gpu, Host, Link, Nic, NvmeController, PciDevice
from hostdoctor.outputs.words import printable

UNNAMED = "unnamed model"
Kind = Literal["gpu", "nic", "nvme"]


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU, NIC or drive in the tree; every text is printable. ``device`` is its record."""

    kind: Kind
    label: str
    model: str
    note: str
    address: str
    nodes: tuple[int, ...]
    root_complex: str | None
    upstream: tuple[str, ...]
    link: Link
    device: Gpu | Nic | NvmeController

    @property
    def text(self) -> str:
        """What stands beside the label: model, note and address."""
        return f"{self.model}{self.note}, {self.address}"


class Branch(msgspec.Struct, kw_only=True):
    """A bridge (or a root complex, whose address is no function's) with what hangs below it."""

    address: str
    branches: dict[str, "Branch"] = msgspec.field(default_factory=dict)
    leaves: list[Leaf] = msgspec.field(default_factory=list)

    def labels(self) -> list[str]:
        """Return the labels of the devices below, at any depth."""
        below = [label for child in self.branches.values() for label in child.labels()]
        return [leaf.label for leaf in self.leaves] + below

    def straight(self) -> tuple[list[str], "Branch"]:
        """Follow bridges with a single child, which are drawn as one: return their addresses and the last of them."""
        hops, branch = [self.address], self
        while not branch.leaves and len(branch.branches) == 1:
            branch = next(iter(branch.branches.values()))
            hops.append(branch.address)
        return hops, branch

    def only_leaf(self) -> Leaf | None:
        """Return the device below, where there is nothing else."""
        return self.leaves[0] if len(self.leaves) == 1 and not self.branches else None


def leaves_of(host: Host) -> list[Leaf]:
    """Return every GPU, NIC and drive, in this order."""
    devices = {device.bdf: device for device in host.pci_devices}
    return [
        *(_gpu_leaf(gpu) for gpu in host.gpus),
        *(_nic_leaf(nic, _pci_name(nic.bdf, devices)) for nic in host.nics),
        *(_nvme_leaf(drive, _pci_name(drive.bdf, devices)) for drive in host.nvme),
    ]


def root_branches(leaves: Iterable[Leaf]) -> list[Branch]:
    """Return the root complexes above the leaves, by address; leaves of an unknown one are in none."""
    roots: dict[str, Branch] = {}
    for leaf in leaves:
        if leaf.root_complex is None:
            continue
        branch = roots.setdefault(leaf.root_complex, Branch(address=leaf.root_complex))
        for bridge in leaf.upstream:
            branch = branch.branches.setdefault(bridge, Branch(address=bridge))
        branch.leaves.append(leaf)
    return sorted(roots.values(), key=lambda root: root.address)


def _pci_name(bdf: str | None, devices: dict[str, PciDevice]) -> str | None:
    return devices[bdf].name if bdf in devices else None


def _gpu_leaf(gpu: Gpu) -> Leaf:
    label = "GPU" if gpu.index is None else f"GPU{gpu.index}"
    notes = " (not visible to you)" if gpu.visible is False else ""
    memory = "" if gpu.memory_numa_node is None else f", its memory is node {gpu.memory_numa_node}"
    return _leaf("gpu", label, gpu.name, f"{memory}{notes}", gpu, gpu.numa_nodes)


def _nic_leaf(nic: Nic, pci_name: str | None) -> Leaf:
    names = [name for name in (nic.label, nic.name) if name] or ["NIC"]
    netdevs = f" ({printable(', '.join(nic.netdevs))})" if nic.netdevs and nic.netdevs != (nic.name,) else ""
    return _leaf("nic", " ".join(dict.fromkeys(names)), pci_name, netdevs, nic, _nodes(nic.numa_node))


def _nvme_leaf(drive: NvmeController, pci_name: str | None) -> Leaf:
    return _leaf("nvme", drive.name or "NVMe", drive.model or pci_name, "", drive, _nodes(drive.numa_node))


def _leaf(
    kind: Kind, label: str, model: str | None, note: str, device: Gpu | Nic | NvmeController, nodes: tuple[int, ...]
) -> Leaf:
    return Leaf(
        kind=kind,
        label=printable(label),
        model=printable(model or UNNAMED),
        note=note,
        address=printable(device.bdf or "PCI address not told"),
        nodes=nodes,
        root_complex=device.root_complex,
        upstream=device.upstream,
        link=device.link,
        device=device,
    )


def _nodes(node: int | None) -> tuple[int, ...]:
    return () if node is None else (node,)
