"""Builders for hosts with GPUs, NICs and drives below PCIe ports; the PCI records are made from the devices."""

from collections.abc import Iterable
from typing import Any

from hostdoctor.facts import Gpu, Host, Link, Nic, NumaNode, NvmeController, PciDevice, System
from tests.support.build_memory import node

SPEED_GTS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
H100 = "NVIDIA H100 80GB HBM3"
METAL = System(architecture="x86_64", packages=2)


def link(width: int | None = 16, most: int | None = 16, gen: int = 5, now: int | None = None) -> Link:
    """Return a link of ``width`` lanes out of ``most``, able of ``gen``; ``now`` is the generation it idles at."""
    return Link(
        width_lanes=width,
        max_width_lanes=most,
        speed_gts=SPEED_GTS[now or gen],
        max_speed_gts=SPEED_GTS[gen],
    )


def port(bdf: str, *upstream: str, at: Link | None = None, ids: str = "8086:352a") -> PciDevice:
    """Return a root port, or a switch port when there is anything upstream."""
    vendor, _, device = ids.partition(":")
    return PciDevice(
        bdf=bdf, upstream=upstream, link=at or link(), vendor_id=vendor, device_id=device, class_code="060400"
    )


def gpu(index: int, bdf: str | None = None, *upstream: str, at: Link | None = None, **more: Any) -> Gpu:
    """Return an H100 in a x16 Gen5 link; on node 0 unless told otherwise."""
    near = more.get("numa_node", 0)
    given: dict[str, Any] = {
        "name": H100,
        "numa_node": near,
        "numa_nodes": () if near is None else (near,),
        "root_complex": upstream[0].rpartition(":")[0] if upstream else None,
        "root_port": upstream[0] if upstream else None,
    }
    return Gpu(index=index, bdf=bdf, upstream=upstream, link=at or link(), **(given | more))


def slot(index: int, bus: int, at: Link | None = None, port_at: Link | None = None, **more: Any) -> "Slot":
    """Return a GPU in a slot of its own root port."""
    root = f"0000:{bus:02x}:01.0"
    return Slot(gpu(index, f"0000:{bus + 1:02x}:00.0", root, at=at, **more), port(root, at=port_at or at))


class Slot:
    """A GPU and the ports above it."""

    def __init__(self, card: Gpu, *ports: PciDevice) -> None:
        self.card = card
        self.ports = ports


class Switch:
    """A PCIe switch below root port ``bus:01.0``: upstream port on bus+1, downstream ports on bus+2."""

    def __init__(self, bus: int, uplink: Link | None = None, root: Link | None = None, ids: str = "1000:c030") -> None:
        self.root, self.top = f"0000:{bus:02x}:01.0", f"0000:{bus + 1:02x}:00.0"
        self.bus, self.ids, self.next = bus, ids, 0
        self.ports = [port(self.root, at=root or uplink), port(self.top, self.root, at=uplink, ids=ids)]

    def place(self, at: Link | None = None) -> tuple[str, ...]:
        """Return the address and the ports above the next device."""
        down = f"0000:{self.bus + 2:02x}:{self.next:02x}.0"
        self.ports.append(port(down, self.root, self.top, at=at, ids=self.ids))
        self.next += 1
        return f"0000:{self.bus + 2 + self.next:02x}:00.0", self.root, self.top, down

    def gpu(self, index: int, at: Link | None = None, **more: Any) -> Gpu:
        """Return a GPU below this switch."""
        return gpu(index, *self.place(at), at=at, **more)


def nic(name: str, bdf: str, *upstream: str, at: Link | None = None, **more: Any) -> Nic:
    """Return a NIC; its link is x16 Gen5."""
    return Nic(name=name, bdf=bdf, upstream=upstream, link=at or link(), **more)


def drive(name: str, bdf: str, *upstream: str, at: Link | None = None, **more: Any) -> NvmeController:
    """Return an NVMe drive; its link is x4 Gen5."""
    return NvmeController(name=name, bdf=bdf, upstream=upstream, link=at or link(4, 4), **more)


def nodes(count: int = 2, cpus: int = 8) -> tuple[NumaNode, ...]:
    """Return nodes with CPUs and 512 GiB each, 10 from themselves and 21 from each other."""
    return tuple(
        node(
            i,
            f"{i * cpus}-{(i + 1) * cpus - 1}",
            package=i,
            kind="cpu+memory",
            distances={str(j): 10 if i == j else 21 for j in range(count)},
        )
        for i in range(count)
    )


def host(
    cards: Iterable[Gpu | Slot] = (), ports: Iterable[PciDevice] = (), system: System = METAL, **more: Any
) -> Host:
    """Return a two-node bare-metal host; every device gets its PCI record unless ``ports`` has one."""
    cards = tuple(cards)
    gpus = tuple(card.card if isinstance(card, Slot) else card for card in cards)
    records = {p.bdf: p for card in cards if isinstance(card, Slot) for p in card.ports}
    records |= {p.bdf: p for p in ports}
    for device in (*gpus, *more.get("nics", ()), *more.get("nvme", ())):
        if device.bdf and device.bdf not in records:
            records[device.bdf] = PciDevice(bdf=device.bdf, upstream=device.upstream, link=device.link)
    given: dict[str, Any] = {"numa_nodes": nodes(), "system": system}
    return Host(gpus=gpus, pci_devices=tuple(records.values()), **(given | more))
