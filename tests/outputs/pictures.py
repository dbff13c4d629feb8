"""Hosts that are hard to draw, and how to read a picture of one."""

from collections.abc import Sequence
from xml.etree import ElementTree

from hostdoctor.facts import Gpu, Host, NvmeController, Path
from tests.support.build import METAL, Switch, gpu, link, nic, port
from tests.support.build_memory import node

SVG = "{http://www.w3.org/2000/svg}"


def crowded(gpus: int = 8, nics: int = 10, drives: int = 16) -> Host:
    """A two-socket host with a switch for each pair of GPUs, drives and NICs spread below them."""
    adapters, disks, ports = [], [], []
    switches = [Switch(0x10 + 0x10 * i) for i in range(gpus // 2)]
    cards = [switches[i // 2].gpu(i, numa_node=2 * i // gpus) for i in range(gpus)]
    for i in range(nics):
        switch = switches[i % len(switches)]
        near = switches.index(switch) * 2 // len(switches)
        bdf, *up = switch.place()
        root = up[0].rpartition(":")[0]
        adapters.append(nic(f"mlx5_{i}", bdf, *up, label=f"NIC{i}", numa_node=near, root_complex=root))
    for i in range(drives):
        switch = switches[i % len(switches)]
        bdf, *up = switch.place(link(4, 4))
        disks.append(_drive(i, bdf, up, switches.index(switch) * 2 // len(switches)))
    for switch in switches:
        ports += switch.ports
    pairs = [Path(a=f"GPU{a}", b=f"GPU{b}", kind="NV18") for a in range(gpus) for b in range(a + 1, gpus)]
    return Host(
        system=METAL,
        numa_nodes=(node(0, "0-31"), node(1, "32-63")),
        gpus=tuple(cards),
        nics=tuple(adapters),
        nvme=tuple(disks),
        pci_devices=tuple(ports),
        paths=tuple(pairs),
        sources=("made by hand",),
    )


def ten_on_one_node() -> Host:
    """Ten GPUs below three nested switches of one node; one of them has lost half of its lanes."""
    root, top = port("0000:10:01.0"), port("0000:11:00.0", "0000:10:01.0", ids="1000:c030")
    cards, ports = [], [root, top]
    for i in range(10):
        down = f"0000:12:{i // 4:02x}.0"
        inner = f"0000:{0x20 + i // 4:02x}:00.0"
        last = f"0000:{0x30 + i // 4:02x}:{i % 4:02x}.0"
        above = (root.bdf, top.bdf, down, inner)
        if i % 4 == 0:
            ports += [port(down, root.bdf, top.bdf, ids="1000:c030"), port(inner, root.bdf, top.bdf, down)]
        at = link(8 if i == 7 else 16, 16)
        ports.append(port(last, *above, at=at, ids="1000:c030"))
        cards.append(gpu(i, f"0000:{0x40 + i:02x}:00.0", *above, last, at=at))
    pairs = [Path(a=f"GPU{i}", b=f"GPU{i + 1}", kind="NV4") for i in range(0, 10, 2)]
    return Host(
        system=METAL,
        numa_nodes=(node(0, "0-31"), node(1, "32-63")),
        gpus=tuple(cards),
        pci_devices=tuple(ports),
        paths=tuple(pairs),
        sources=("made by hand",),
    )


def unknown() -> Host:
    """A host of whose devices nothing but the existence is known."""
    return Host(gpus=(Gpu(), Gpu(index=1)), nvme=(NvmeController(),), sources=("made by hand",))


def texts(svg: str) -> list[str]:
    """Return every text that is drawn, titles left out."""
    return [element.text or _after_title(element) for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def titles(svg: str) -> list[str]:
    """Return every tooltip."""
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}title")]


def _after_title(element: ElementTree.Element) -> str:
    return "".join(child.tail or "" for child in element)


def _drive(number: int, bdf: str, upstream: Sequence[str], near: int) -> NvmeController:
    return NvmeController(
        name=f"nvme{number}",
        model="KIOXIA KCMY1RUG7T68",
        bdf=bdf,
        upstream=tuple(upstream),
        root_complex=upstream[0].rpartition(":")[0],
        root_port=upstream[0],
        numa_node=near,
        link=link(4, 4),
    )
