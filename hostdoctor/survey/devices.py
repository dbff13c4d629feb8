"""Network adapters, NVMe controllers and disks from sysfs's class folders, tied to their PCI functions."""

import re
from typing import TypeVar

import msgspec

from hostdoctor.facts import BlockDevice, Nic, NvmeController, NvmeQueue, PciDevice
from hostdoctor.parsers.bdf import canonical_bdf
from hostdoctor.sources.base import Source
from hostdoctor.survey.storage import NAMESPACE, read_holders
from hostdoctor.survey.values import cpulist, line

# Ethernet, InfiniBand, fabric; 0280 is Wi-Fi and the like unless a network device of RDMA or Ethernet hangs on it.
NIC_CLASSES = ("0200", "0207", "0208")
Placed = TypeVar("Placed", Nic, NvmeController)


def read_nics(source: Source, devices: dict[str, PciDevice]) -> tuple[Nic, ...]:
    """Return the adapters that have a network or RDMA device, and unclaimed network functions, in order of address."""
    netdevs = _class_names(source, "net")
    rdma = _class_names(source, "infiniband")
    network = {bdf for bdf, device in devices.items() if (device.class_code or "").startswith(NIC_CLASSES)}
    bdfs = [bdf for bdf in devices if bdf in rdma or bdf in network]
    return tuple(_nic(devices[bdf], netdevs.get(bdf, ()), rdma.get(bdf, ())) for bdf in bdfs)


def read_nvme(source: Source, devices: dict[str, PciDevice]) -> tuple[NvmeController, ...]:
    """Return the controllers with a driver, then NVMe functions without one, in order of name."""
    names = sorted((n for n in source.listdir("/sys/class/nvme") if re.fullmatch(r"nvme\d{1,5}", n)), key=_number)
    driven = [_controller(source, name, devices) for name in names]
    known = {controller.bdf for controller in driven}
    idle = [bdf for bdf, d in devices.items() if (d.class_code or "").startswith("0108") and bdf not in known]
    return (*driven, *(placed(NvmeController(transport="pcie"), devices[bdf]) for bdf in idle))


def read_block_devices(source: Source) -> tuple[BlockDevice, ...]:
    """Return the NVMe namespaces as disks, with what is mounted on each."""
    holders = read_holders(source)
    names = [name for name in source.listdir("/sys/block") if NAMESPACE.fullmatch(name)]
    return tuple(_block(source, name, tuple(sorted(holders.get(name, ())))) for name in names)


def with_interrupts(
    controllers: tuple[NvmeController, ...], irqs: dict[tuple[str, int], int], source: Source
) -> tuple[NvmeController, ...]:
    """Return the controllers with each queue's interrupt and the CPUs on which it really lands."""
    return tuple(_with_interrupts(controller, irqs, source) for controller in controllers)


def _with_interrupts(c: NvmeController, irqs: dict[tuple[str, int], int], source: Source) -> NvmeController:
    cpus = {queue.id: queue.cpus for queue in c.queues}
    ids = sorted(cpus.keys() | {queue for name, queue in irqs if name == c.name and queue > 0})
    queues = []
    for queue in ids:
        irq = irqs.get((c.name or "", queue))
        lands = source.read(f"/proc/irq/{irq}/effective_affinity_list") if irq is not None else None
        queues.append(NvmeQueue(id=queue, irq=irq, cpus=cpus.get(queue), irq_cpus=cpulist(lands)))
    managed = True if len(queues) > 1 and c.transport == "pcie" else None
    return msgspec.structs.replace(c, queues=tuple(queues), queues_irq_managed=managed)


def _class_names(source: Source, kind: str) -> dict[str, tuple[str, ...]]:
    """Map each PCI function to its devices of one class, in order of name."""
    found: dict[str, list[str]] = {}
    for name in sorted(source.listdir(f"/sys/class/{kind}"), key=lambda n: (_number(n), n)):
        bdf = _pci_parent(source, f"/sys/class/{kind}/{name}")
        if bdf is not None:
            found.setdefault(bdf, []).append(name)
    return {bdf: tuple(names) for bdf, names in found.items()}


def _pci_parent(source: Source, path: str) -> str | None:
    """Return the PCI function that a class device hangs on, also through a virtio device of its own."""
    base = source.readlink(path) or path
    target = source.readlink(f"{base}/device") or ""
    return next((bdf for part in reversed(target.split("/")) if (bdf := canonical_bdf(part))), None)


def _nic(device: PciDevice, netdevs: tuple[str, ...], rdma: tuple[str, ...]) -> Nic:
    name = next(iter((*rdma, *netdevs)), None)
    return placed(Nic(name=name, netdevs=netdevs, rdma=bool(rdma)), device)


def placed(record: Placed, device: PciDevice) -> Placed:
    """Return the record with everything that it takes from its PCI function."""
    return msgspec.structs.replace(
        record,
        bdf=device.bdf,
        numa_node=device.numa_node,
        root_complex=device.root_complex,
        root_port=device.upstream[0] if device.upstream else None,
        upstream=device.upstream,
        link=device.link,
    )


def _controller(source: Source, name: str, devices: dict[str, PciDevice]) -> NvmeController:
    base = source.readlink(f"/sys/class/nvme/{name}") or f"/sys/class/nvme/{name}"
    transport = line(source, f"{base}/transport")
    bdf = _pci_parent(source, f"/sys/class/nvme/{name}")
    if bdf is None and transport in (None, "pcie"):
        bdf = canonical_bdf(line(source, f"{base}/address") or "")
    device = devices.get(bdf) if bdf else None
    children = [child for child in source.listdir(base) if NAMESPACE.fullmatch(child)]
    controller = NvmeController(
        name=name,
        bdf=bdf,
        model=line(source, f"{base}/model"),
        firmware=line(source, f"{base}/firmware_rev"),
        transport=transport or ("pcie" if device else None),
        state=line(source, f"{base}/state"),
        namespaces=tuple(dict.fromkeys(re.sub(r"c\d+n", "n", child) for child in children)),
        queues=_queues(source, base, children),
    )
    return placed(controller, device) if device else controller


def _queues(source: Source, base: str, namespaces: list[str]) -> tuple[NvmeQueue, ...]:
    """Return the I/O queues as the block layer maps them: hardware context K is queue K+1; queue 0 is the admin's."""
    for namespace in namespaces:
        contexts = source.listdir(f"{base}/{namespace}/mq") or source.listdir(f"/sys/block/{namespace}/mq")
        folder = f"{base}/{namespace}/mq" if source.listdir(f"{base}/{namespace}/mq") else f"/sys/block/{namespace}/mq"
        numbers = sorted(int(k) for k in contexts if k.isascii() and k.isdigit() and len(k) < 6)
        if numbers:
            return tuple(NvmeQueue(id=k + 1, cpus=cpulist(source.read(f"{folder}/{k}/cpu_list"))) for k in numbers)
    return ()


def _block(source: Source, name: str, holds: tuple[str, ...]) -> BlockDevice:
    queue = f"/sys/block/{name}/queue"
    iostats = line(source, f"{queue}/iostats")
    chosen = re.search(r"\[(\S+)\]", source.read(f"{queue}/scheduler") or "")
    return BlockDevice(
        name=name,
        scheduler=chosen.group(1) if chosen else None,
        iostats=None if iostats is None else iostats != "0",
        model=line(source, f"/sys/block/{name}/device/model"),
        holds=holds,
    )


def _number(name: str) -> int:
    digits = re.search(r"\d{1,9}", name)
    return int(digits.group()) if digits else -1
