"""hwloc's XML of small made-up hosts, in the formats of hwloc 1, 2 and 3."""

from collections.abc import Iterable

PROLOG = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "{dtd}">\n'
OS_DEVICES = {
    "1": {"block": 0, "gpu": 5, "net": 2, "rdma": 3},
    "2.0": {"block": 0, "gpu": 5, "net": 2, "rdma": 3},
    "3.0": {"block": 1, "gpu": 12, "net": 16, "rdma": 48},
}


def mask(cpus: Iterable[int]) -> str:
    """Return CPUs as hwloc prints them: words without value are left out, the least significant is not."""
    bits = sum(1 << cpu for cpu in set(cpus))
    words: list[int] = []
    while bits:
        words.insert(0, bits & 0xFFFFFFFF)
        bits >>= 32
    return ",".join(f"0x{word:08x}" if word or i == len(words) - 1 else "" for i, word in enumerate(words)) or "0x0"


def element(kind: str, content: str = "", **attributes: object) -> str:
    """Return an ``<object>``; attributes that are None are left out."""
    given = "".join(f' {name}="{value}"' for name, value in attributes.items() if value is not None)
    return f'<object type="{kind}"{given}>\n{content}</object>\n' if content else f'<object type="{kind}"{given}/>\n'


def info(name: str, value: str) -> str:
    """Return an ``<info>``."""
    return f'<info name="{name}" value="{value}"/>\n'


def node(number: int, cpus: Iterable[int], memory: int | None = 1 << 34, content: str = "", **more: object) -> str:
    """Return a NUMA node."""
    cpus = list(cpus)
    sets = {"cpuset": mask(cpus), "complete_cpuset": mask(cpus)} | {
        name: mask([number]) for name in ("nodeset", "complete_nodeset")
    }
    rest = {"os_index": number, "local_memory": memory, "gp_index": 100 + number}
    return element("NUMANode", content, **sets | rest | more)


def holder(kind: str, cpus: Iterable[int], content: str, **more: object) -> str:
    """Return an object with CPUs: a package, a group."""
    cpus = list(cpus)
    return element(kind, content, **{"cpuset": mask(cpus), "complete_cpuset": mask(cpus)} | more)


def bridge(buses: str, content: str, bdf: str | None = None) -> str:
    """Return a bridge: a host bridge without ``bdf``."""
    kind = "0-1" if bdf is None else "1-1"
    pci_type = None if bdf is None else "0604 [8086:352a] [0000:0000] 04 00"
    return element("Bridge", content, bridge_type=kind, bridge_pci=buses, pci_busid=bdf, pci_type=pci_type)


def function(bdf: str, pci_type: str, content: str = "") -> str:
    """Return a PCI function, ``pci_type`` as ``0302 [10de:2330]``."""
    return element("PCIDev", content, pci_busid=bdf, pci_type=f"{pci_type} [0000:0000] a1 00", pci_link_speed="4.0")


def os_device(name: str, kind: str, version: str, content: str = "") -> str:
    """Return a device of the operating system."""
    return element("OSDev", content, name=name, osdev_type=OS_DEVICES[version][kind])


def distances(version: str, ids: list[int], values: list[int]) -> str:
    """Return a matrix of distances; version 1 puts it into the machine."""
    if version == "1":
        rows = "".join(f'<latency value="{value / 10:.6f}"/>\n' for value in values)
        return f'<distances nbobjs="{len(ids)}" relative_depth="1" latency_base="10.000000">\n{rows}</distances>\n'
    chunks = [values[i : i + 10] for i in range(0, len(values), 10)]
    shown = "".join(f'<u64values length="9">{" ".join(map(str, chunk))} </u64values>\n' for chunk in chunks)
    indexes = f'<indexes length="4">{" ".join(map(str, ids))} </indexes>\n'
    name = ' name="NUMALatency"' if version == "3.0" else ""
    head = f'<distances2 type="NUMANode" nbobjs="{len(ids)}" kind="5"{name} indexing="os">\n'
    return f"{head}{indexes}{shown}</distances2>\n"


def topology(
    version: str, cpus: Iterable[int], nodes: Iterable[int], content: str, behind: str = "", **more: str
) -> str:
    """Return a document: the machine with ``content``, and what stands behind it."""
    cpus, nodes = list(cpus), list(nodes)
    sets = {
        "os_index": "0",
        "cpuset": mask(cpus),
        "complete_cpuset": mask(cpus),
        "nodeset": mask(nodes),
        "complete_nodeset": mask(nodes),
    }
    machine = element("Machine", content, **sets | more)
    root = "<topology>" if version == "1" else f'<topology version="{version}">'
    dtd = "hwloc.dtd" if version == "1" else "hwloc2.dtd"
    return f"{PROLOG.format(dtd=dtd)}{root}\n{machine}{behind}</topology>\n"


def two_sockets(version: str) -> str:
    """Return a host of two packages with a node, a GPU, a NIC and a drive each, as each format nests them."""
    sockets = [_socket(number, version) for number in (0, 1)]
    matrix = distances(version, [0, 1], [10, 21, 21, 10])
    names = info("HostName", "gpu7") + info("OSRelease", "6.8.0") + info("Architecture", "x86_64")
    first, behind = (matrix + names, "") if version == "1" else (names, matrix)
    return topology(version, range(32), (0, 1), first + "".join(sockets), behind)


def _socket(number: int, version: str) -> str:
    cpus = [*range(8 * number, 8 * number + 8), *range(16 + 8 * number, 24 + 8 * number)]
    model = info("CPUModel", "Xeon 8480C")
    io = _io(number, version)
    if version == "1":
        return node(number, cpus, 1 << 38, holder("Socket", cpus, model, os_index=number) + io)
    return holder("Package", cpus, model + node(number, cpus, 1 << 38) + io, os_index=number)


def _io(number: int, version: str) -> str:
    a = 0x10 + 0x80 * number
    gpu = function(
        f"0000:{a + 4:02x}:00.0",
        "0302 [10de:2330]",
        os_device(
            f"nvml{1 - number}",
            "gpu",
            version,
            info("GPUModel", "NVIDIA H100") + info("NVIDIAUUID", f"GPU-{number}") + info("NVIDIASerial", "165"),
        )
        + os_device(f"cuda{number}", "gpu", version, info("GPUModel", "H100 by CUDA")),
    )
    nic = function(
        f"0000:{a + 5:02x}:00.0",
        "0207 [15b3:1021]",
        info("PCIVendor", "Mellanox Technologies")
        + info("PCIDevice", "MT2910 Family [ConnectX-7]")
        + os_device(f"ib{number}", "net", version, info("Address", "00:11"))
        + os_device(f"mlx5_{number}", "rdma", version),
    )
    drive = function(
        f"0000:{a + 6:02x}:00.0",
        "0108 [144d:a80a]",
        os_device(f"nvme{number}n1", "block", version, info("Model", "PM9A3") + info("SerialNumber", "S64")),
    )
    switch = bridge(
        f"0000:[{a + 2:02x}-{a + 5:02x}]",
        bridge(f"0000:[{a + 4:02x}-{a + 4:02x}]", gpu, f"0000:{a + 2:02x}:00.0")
        + bridge(f"0000:[{a + 5:02x}-{a + 5:02x}]", nic, f"0000:{a + 2:02x}:01.0"),
        f"0000:{a + 1:02x}:00.0",
    )
    ports = bridge(f"0000:[{a + 1:02x}-{a + 5:02x}]", switch, f"0000:{a:02x}:01.0") + bridge(
        f"0000:[{a + 6:02x}-{a + 6:02x}]", drive, f"0000:{a:02x}:03.0"
    )
    return bridge(f"0000:[{a:02x}-{a + 6:02x}]", ports)
