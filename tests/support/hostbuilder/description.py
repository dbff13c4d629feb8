"""The fields of a host description. An unknown field is an error, so that a typing mistake is not a silent default."""

from typing import Any

import msgspec


class Described(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every description."""


class Part(Described, frozen=True, kw_only=True):
    """A kind of PCI function (``parts.toml``). ``link`` is what it can do at most: GT/s and lanes; [] has no link.

    ``kind``: gpu, nic, nvme, other, port (a root port), pci-bridge (PCIe to PCI), switch (an upstream port and one
    downstream port for each device below). ``rdma`` and ``netdev`` are name patterns; ``dense`` numbers neighbours as
    functions of one device. ``shown_max_gts`` is a wrong maximum that an upstream port shows. ``fabric``: what a GPU's
    NVSwitches join, ``host`` or ``rack``.
    """

    kind: str = "other"
    ids: str
    cls: str
    subsystem: str = "0000:0000"
    link: tuple[float, ...] = ()
    shown_max_gts: float | None = None
    unknown_link: bool = False
    driver: str | None = None
    model: str = ""
    firmware: str = "1.0"
    memory_mib: int = 0
    nvlinks: int = 0
    fabric: str = ""
    bar1_mib: int = 0
    size_gb: int = 0
    queues: int = 32
    vectors: int = 1
    rdma: str = ""
    netdev: str = ""
    link_layer: str = "Ethernet"
    speed_mbps: int = 100000
    dense: bool = False


class Override(Described, frozen=True, kw_only=True):
    """What differs in one function, by BDF or in place. ``width`` and ``speed_gts`` are what the link negotiated."""

    width: int | None = None
    speed_gts: float | None = None
    max_width: int | None = None
    max_gts: float | None = None
    numa_node: int | None = None
    driver: str | None = None
    name: str | None = None
    netdev: str | None = None
    queues: int | None = None
    scheduler: str | None = None
    iostats: int | None = None
    state: str | None = None
    irq_cpu: int | None = None
    mount: str | None = None
    multipath: bool | None = None


class Device(Override, frozen=True, kw_only=True):
    """A device in its place: below a port or switch, or on a root bus (``at`` = "1f.0" where it matters)."""

    part: str
    at: str | None = None
    bus: int | None = None
    count: int = 1
    functions: int = 1
    virtual_functions: int = 0
    below: "tuple[Device, ...]" = ()


class RootBus(Described, frozen=True, kw_only=True):
    """Root complexes with the same devices below: ``at`` names domain and bus of each, ``node`` the NUMA node (-1).

    ``under`` is a folder between ``/sys/devices`` and the root (``{guid}`` differs for each, as on Hyper-V).
    """

    at: tuple[str, ...]
    node: int
    below: tuple[Device, ...] = ()
    under: str = ""


class Cpu(Described, frozen=True, kw_only=True):
    """The processors. ``cores`` is per package. ``numbering``: blocks (all first threads, then all second ones),
    round-robin (blocks, packages alternate), adjacent (a core's threads are neighbours).
    """

    model: str
    vendor: str = "GenuineIntel"
    family: int = 6
    model_number: int = 143
    packages: int = 1
    cores: int = 1
    threads: int = 1
    numbering: str = "blocks"
    governor: str | None = "performance"
    freq_driver: str = "intel_pstate"


class Node(Described, frozen=True, kw_only=True):
    """NUMA nodes of one kind; memory per node in order, the rest have none. ``cpus=false``: memory or nothing.

    ``near`` is the CPU node that nodes without CPUs belong to; nodes of one entry form a group.
    """

    ids: str
    memory_gib: tuple[float, ...] = ()
    free_gib: tuple[float, ...] = ()
    hugepages_2m: int = 0
    hugepages_1g: int = 0
    cpus: bool = True
    near: int | None = None


class Distances(Described, frozen=True, kw_only=True):
    """The rule that fills the distance matrix, or the ``matrix`` itself."""

    same_package: int = 12
    remote: int = 21
    group: int = 11
    other_group: int = 40
    near: int = 80
    far: int = 120
    matrix: tuple[tuple[int, ...], ...] = ()


class Nvidia(Described, frozen=True, kw_only=True):
    """The driver. ``link`` joins every pair of GPUs in the matrix. ``error`` is what NVML says instead of an answer."""

    driver: str
    link: str | None = None
    error: str | None = None
    peermem: bool = True
    persistence: bool = True
    mig: bool | None = False
    pstate: int = 0
    c2c: bool | None = None
    memory_nodes: tuple[int, ...] = ()


class Container(Described, frozen=True, kw_only=True):
    """The view from inside a container: its CPU set, nodes, GPUs and limits; its own network namespace."""

    cpus: str
    mems: str
    gpus: tuple[int, ...]
    memory_bytes: int
    hostname: str
    environ: dict[str, str] = {}


class Disk(Described, frozen=True, kw_only=True):
    """A disk that is not NVMe; ``folder`` (under ``/sys/devices``) or the BDF of its controller."""

    name: str
    model: str
    size_gb: int
    folder: str = ""
    controller: str = ""
    scheduler: str = "mq-deadline"
    rotational: bool = False
    mount: str | None = None


class Raid(Described, frozen=True, kw_only=True):
    """A software RAID over block devices or partitions."""

    name: str
    level: str
    members: tuple[str, ...]
    mount: str


class Host(Described, frozen=True, kw_only=True):
    """A whole host. ``files`` (path -> text) come last and win; ``absent`` removes paths; ``commands`` likewise add."""

    hostname: str
    cpu: Cpu
    node: tuple[Node, ...]
    arch: str = "x86_64"
    kernel: str = "5.15.0-1063-generic"
    os: str = "Ubuntu 22.04.5 LTS"
    virtualization: str | None = None
    hypervisor: str | None = None
    dmi: dict[str, str] = {}
    distance: Distances = Distances()
    root: tuple[RootBus, ...] = ()
    disk: tuple[Disk, ...] = ()
    raid: tuple[Raid, ...] = ()
    nvidia: Nvidia | None = None
    container: Container | None = None
    clocksources: str = "tsc hpet acpi_pm"
    cmdline: str = ""
    isolated: str = ""
    iommu: str | None = None
    schedulers: str = "none mq-deadline"
    override: dict[str, Override] = {}
    files: dict[str, str] = {}
    absent: tuple[str, ...] = ()
    commands: dict[str, str] = {}
    parts: dict[str, dict[str, Any]] = {}
