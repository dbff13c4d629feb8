"""Network and RDMA devices: their folders, class links and interrupts."""

from hostdoctor.parsers.cpulist import format_cpulist
from tests.support.hostbuilder.cpus import Layout
from tests.support.hostbuilder.description import Host
from tests.support.hostbuilder.files import Tree, digest
from tests.support.hostbuilder.irqs import Interrupts
from tests.support.hostbuilder.pci import Function, driver_of


def write_nics(host: Host, functions: list[Function], irqs: Interrupts, layout: Layout, tree: Tree) -> list[Function]:
    """Write network and RDMA devices; return the functions with an RDMA device in order of address."""
    rdma: list[Function] = []
    for function in functions:
        if function.part.kind != "nic" or driver_of(function) is None:
            continue
        netdev = _name(function.spec.netdev, function.part.netdev, function, len(rdma))
        if netdev:
            _write_netdev(host, netdev, function, tree)
        name = _name(function.spec.name, function.part.rdma, function, len(rdma))
        if name:
            _write_rdma(name, function, tree)
            rdma.append(function)
        _nic_vectors(function, netdev or name or "nic", irqs, layout)
    return rdma


def rdma_name(function: Function, number: int) -> str:
    """Return the name of the n-th RDMA device."""
    return _name(function.spec.name, function.part.rdma, function, number)


def _name(given: str | None, pattern: str, function: Function, number: int) -> str:
    if given is not None:
        return given
    domain, bus, slot, port = function.address
    several = function.parent is not None and len(function.parent.children) > 1
    place = {"P": f"P{domain}" if domain else "", "bus": bus, "slot": slot, "f": f"f{port}" if several else ""}
    return pattern.format(n=number, port=port, **place)


def _write_netdev(host: Host, name: str, function: Function, tree: Tree) -> None:
    part = function.part
    folder = f"{function.path}/net/{name}"
    raw = digest(host.hostname, name)
    tree.attributes(
        folder,
        {
            "address": ":".join(["02", *(raw[i : i + 2] for i in range(0, 10, 2))]),
            "type": 32 if part.link_layer == "InfiniBand" else 1,
            "mtu": 4092 if part.link_layer == "InfiniBand" else 1500,
            "speed": part.speed_mbps,
            "operstate": "up",
            "carrier": 1,
            "dev_port": 0,
        },
    )
    tree.link(f"{folder}/device", function.path)
    tree.link(f"{folder}/subsystem", "/sys/class/net")
    tree.link(f"/sys/class/net/{name}", folder)


def _write_rdma(name: str, function: Function, tree: Tree) -> None:
    part = function.part
    folder = f"{function.path}/infiniband/{name}"
    guid = digest(name)
    node_guid = ":".join(guid[i : i + 4] for i in range(0, 16, 4))
    tree.attributes(folder, {"node_type": "1: CA", "node_guid": node_guid, "fw_ver": part.firmware})
    port = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": f"{part.speed_mbps // 1000} Gb/sec (4X NDR)"}
    tree.attributes(f"{folder}/ports/1", port | {"link_layer": part.link_layer})
    tree.link(f"{folder}/device", function.path)
    tree.link(f"{folder}/subsystem", "/sys/class/infiniband")
    tree.link(f"/sys/class/infiniband/{name}", folder)


def _nic_vectors(function: Function, name: str, irqs: Interrupts, layout: Layout) -> None:
    near = layout.near(function.node)
    for i in range(function.part.vectors):
        irqs.add(function, f"{name}-{i}", format_cpulist(near), near[i % len(near)])
