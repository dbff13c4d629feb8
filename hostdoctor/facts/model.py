"""Host and what it is made of: frozen records whose field names are the JSON contract.

Units are in the names. BDFs are canonical (``0000:3b:00.0``), CPU lists as the kernel prints them (``0-31,64-95``).
``None`` means unknown and ``()`` means none known; why something is unknown stands in :attr:`Host.gaps`.
"""

from typing import Literal

from hostdoctor.facts.base import Fact
from hostdoctor.facts.history import Baseline, PlacedBefore
from hostdoctor.facts.processes import Process

SCHEMA_VERSION = "1"

NodeKind = Literal["cpu+memory", "cpu-only", "memory-only", "gpu-memory", "empty"]
# ``unlisted-node``: a device is said to be on a node that the host does not list.
GapKind = Literal["not-told", "missing", "denied", "timeout", "unreadable", "error", "unlisted-node"]


class Gap(Fact, frozen=True, kw_only=True):
    """A fact that could not be established: which one, from which source, and why."""

    fact: str
    source: str
    reason: str
    kind: GapKind = "not-told"


class Disagreement(Fact, frozen=True, kw_only=True):
    """A fact on which sources differ; every value is kept under the name of its source."""

    fact: str
    values: dict[str, int | float | str | None]


class System(Fact, frozen=True, kw_only=True):
    """The machine as a whole. ``virtualization`` is the hypervisor it runs under; ``packages`` counts CPU sockets."""

    hostname: str | None = None
    kernel: str | None = None
    architecture: str | None = None
    cpu_model: str | None = None
    packages: int | None = None
    virtualization: str | None = None
    container: str | None = None
    nvidia_driver: str | None = None
    clocksource: str | None = None
    page_size_bytes: int | None = None


class HugePages(Fact, frozen=True, kw_only=True):
    """HugeTLB pages of one size on one node (``nodeN/hugepages/hugepages-*kB``)."""

    size_bytes: int
    total: int
    free: int | None = None


class MemoryZone(Fact, frozen=True, kw_only=True):
    """A node's memory zone (/proc/zoneinfo). ``reserve_bytes`` is the largest that it keeps back from other zones.

    ``cma_free_bytes`` of ``free_bytes`` lie in CMA areas, which serve movable pages alone; ``file_bytes`` are on the
    page cache's lists.
    """

    name: str
    managed_bytes: int
    free_bytes: int
    min_bytes: int
    low_bytes: int
    high_bytes: int
    reserve_bytes: int
    cma_free_bytes: int | None = None
    file_bytes: int | None = None


class NodeMemory(Fact, frozen=True, kw_only=True):
    """How a node's memory is used (nodeN/meminfo), and its zones; ``()`` where they or the page size are not told.

    ``kreclaimable_bytes`` is what the kernel could give back of its own, ``unevictable_bytes`` includes what mlock
    holds; pinned CUDA memory counts in ``shmem_bytes`` or, when registered, in ``anon_bytes``. ``pinned_bytes`` are the
    user pages that drivers hold (``nr_foll_pin_*`` of nodeN/vmstat): registered memory, not what CUDA itself allocated.
    """

    free_bytes: int | None = None
    active_file_bytes: int | None = None
    inactive_file_bytes: int | None = None
    kreclaimable_bytes: int | None = None
    file_bytes: int | None = None
    shmem_bytes: int | None = None
    anon_bytes: int | None = None
    unevictable_bytes: int | None = None
    mlocked_bytes: int | None = None
    zones: tuple[MemoryZone, ...] = ()
    pinned_bytes: int | None = None


class NumaNode(Fact, frozen=True, kw_only=True):
    """A NUMA node. ``distances`` has one entry per known node id, ``{}`` when not told."""

    id: int
    cpus: str | None = None
    memory_bytes: int | None = None
    free_bytes: int | None = None
    distances: dict[str, int] = {}
    kind: NodeKind | None = None
    package: int | None = None
    hugepages: tuple[HugePages, ...] = ()
    memory: NodeMemory | None = None


class Core(Fact, frozen=True, kw_only=True):
    """A physical core: its hardware threads (cpulist) and its package."""

    cpus: str
    package: int | None = None


class IdleState(Fact, frozen=True, kw_only=True):
    """An idle state of a CPU (C-state): how long the CPU takes to leave it, and whether somebody turned it off."""

    name: str
    exit_latency_us: int | None = None
    disabled: bool | None = None


class CpuPower(Fact, frozen=True, kw_only=True):
    """How CPUs save power: the frequency driver, how many policies have each governor, EPP values, one CPU's states."""

    driver: str | None = None
    governors: dict[str, int] = {}
    energy_preferences: tuple[str, ...] = ()
    idle_states: tuple[IdleState, ...] = ()


class Dimm(Fact, frozen=True, kw_only=True):
    """A populated memory slot as EDAC shows it; ``controller`` is its folder (``mc0``), ``location`` EDAC's words."""

    label: str
    controller: str
    package: int | None = None
    location: str | None = None
    size_bytes: int | None = None


class Link(Fact, frozen=True, kw_only=True):
    """A PCIe link as negotiated now and at most; GT/s is the raw signalling rate (2.5, 5, 8, 16, 32, 64)."""

    width_lanes: int | None = None
    max_width_lanes: int | None = None
    speed_gts: float | None = None
    max_speed_gts: float | None = None


class PciErrors(Fact, frozen=True, kw_only=True):
    """Errors that a PCIe function has reported since it was set up (Advanced Error Reporting totals)."""

    correctable: int | None = None
    nonfatal: int | None = None
    fatal: int | None = None


class PciDevice(Fact, frozen=True, kw_only=True):
    """A PCI function. ``upstream`` runs from the root port to the parent; ids and class are lower-case hex, no 0x.

    ``iommu_type`` is the kernel's word for its group (DMA, DMA-FQ, identity, blocked), ``off`` where there is no
    IOMMU. ``acs_redirects``: a bridge sends requests between the devices below it up to the CPU first. These and what
    follows are read for GPUs, NICs, drives and the bridges above them, and only when checks run.
    """

    bdf: str
    name: str | None = None
    vendor_id: str | None = None
    device_id: str | None = None
    class_code: str | None = None
    numa_node: int | None = None
    upstream: tuple[str, ...] = ()
    root_complex: str | None = None
    link: Link = Link()
    driver: str | None = None
    is_virtual_function: bool | None = None
    iommu_type: str | None = None
    max_payload_bytes: int | None = None
    acs_redirects: bool | None = None
    errors: PciErrors | None = None


class Fabric(Fact, frozen=True, kw_only=True):
    """What a GPU says of its registration with an NVSwitch fabric. ``state``: not started, in progress, completed."""

    state: str | None = None
    status: str | None = None
    clique_id: int | None = None
    cluster_uuid: str | None = None


class Gpu(Fact, frozen=True, kw_only=True):
    """A GPU. ``numa_node`` is the node of its near CPUs; ``memory_numa_node`` the one its own memory forms, if any.

    ``index`` is the driver's (PCI order where no driver was asked); ``None`` for a GPU that the driver does not show.
    ``visible``: the caller may use it; ``None`` when nobody could tell. ``c2c``: joined to its CPU by a coherent
    chip-to-chip link (Grace, GB10), so that PCIe link values say nothing. ``driver_link`` is the link as the driver
    told it in the P-state ``pstate`` (0 is the fastest). ``nvlinks`` counts active NVLinks.
    """

    index: int | None = None
    name: str | None = None
    uuid: str | None = None
    bdf: str | None = None
    numa_node: int | None = None
    numa_nodes: tuple[int, ...] = ()
    cpus: str | None = None
    memory_numa_node: int | None = None
    link: Link = Link()
    root_complex: str | None = None
    root_port: str | None = None
    upstream: tuple[str, ...] = ()
    driver: str | None = None
    visible: bool | None = None
    c2c: bool | None = None
    memory_bytes: int | None = None
    mig: bool | None = None
    pstate: int | None = None
    persistence: bool | None = None
    bar1_bytes: int | None = None
    nvlinks: int | None = None
    fabric: Fabric | None = None
    driver_link: Link = Link()


class Nic(Fact, frozen=True, kw_only=True):
    """A network adapter: RDMA device name where there is one, else its first netdev. ``label`` is the matrix's."""

    name: str | None = None
    label: str | None = None
    netdevs: tuple[str, ...] = ()
    bdf: str | None = None
    numa_node: int | None = None
    root_complex: str | None = None
    root_port: str | None = None
    upstream: tuple[str, ...] = ()
    link: Link = Link()
    rdma: bool | None = None


class NvmeQueue(Fact, frozen=True, kw_only=True):
    """An NVMe I/O queue: its interrupt, the CPUs that submit to it, and where the interrupt really lands."""

    id: int
    irq: int | None = None
    cpus: str | None = None
    irq_cpus: str | None = None


class NvmeHealth(Fact, frozen=True, kw_only=True):
    """A drive's SMART log. ``critical_warning`` is its bit field; ``media_errors`` counts since the drive was made."""

    critical_warning: int | None = None
    temperature_celsius: float | None = None
    spare_percent: int | None = None
    spare_threshold_percent: int | None = None
    used_percent: int | None = None
    media_errors: int | None = None


class NvmeController(Fact, frozen=True, kw_only=True):
    """An NVMe controller; ``bdf`` is ``None`` for fabrics, ``name`` where no driver or text gives it one."""

    name: str | None = None
    bdf: str | None = None
    numa_node: int | None = None
    root_complex: str | None = None
    root_port: str | None = None
    upstream: tuple[str, ...] = ()
    link: Link = Link()
    model: str | None = None
    firmware: str | None = None
    transport: str | None = None
    state: str | None = None
    namespaces: tuple[str, ...] = ()
    queues: tuple[NvmeQueue, ...] = ()
    queues_irq_managed: bool | None = None
    temperature_celsius: float | None = None
    temperature_alarm: bool | None = None
    health: NvmeHealth | None = None


class IoBaseline(Fact, frozen=True, kw_only=True):
    """What is usual for a disk: mean time of a read and of a write, and requests in flight."""

    r_await_ms: float | None = None
    w_await_ms: float | None = None
    queue_depth: float | None = None


class BlockDevice(Fact, frozen=True, kw_only=True):
    """A disk in the block layer; ``holds`` names the mount points and swap on it, through partitions and md/dm."""

    name: str
    scheduler: str | None = None
    iostats: bool | None = None
    model: str | None = None
    holds: tuple[str, ...] = ()
    baseline: IoBaseline | None = None


class Place(Fact, frozen=True, kw_only=True):
    """A path that somebody plans with: the file system it is on and the whole disks below that.

    Of ``size_bytes``, ``free_bytes`` are free and ``available_bytes`` free for users other than root.
    """

    path: str
    mount_point: str | None = None
    device: str | None = None
    filesystem: str | None = None
    disks: tuple[str, ...] = ()
    size_bytes: int | None = None
    free_bytes: int | None = None
    available_bytes: int | None = None


class Path(Fact, frozen=True, kw_only=True):
    """How two devices reach each other, in nvidia-smi's words (PIX, PXB, PHB, NODE, SYS, NV#)."""

    a: str
    b: str
    kind: str


class Allowed(Fact, frozen=True, kw_only=True):
    """What the caller may use: ``Cpus_allowed_list`` and ``Mems_allowed_list`` of /proc/self/status."""

    cpus: str | None = None
    mems: str | None = None


class NvidiaDriver(Fact, frozen=True, kw_only=True):
    """What the NVIDIA driver answered. ``state``: ok, absent (no library), error, timeout; ``None`` when not asked."""

    state: Literal["ok", "absent", "error", "timeout"] | None = None
    reason: str | None = None
    gpu_count: int | None = None


class Cgroup(Fact, frozen=True, kw_only=True):
    """A control group that the caller is in, or one above it: its CPU quota. ``folder`` is where its files are."""

    path: str
    folder: str
    cpu_limited: bool | None = None
    cpu_limit_cpus: float | None = None


class MemoryGroup(Fact, frozen=True, kw_only=True):
    """A control group that limits the caller's memory, or one above it; a limit of None is none or not told.

    ``charged_bytes`` counts page cache too, of which ``active_file_bytes`` and ``inactive_file_bytes`` can be given
    back. Shared memory, pinned memory among it, is in neither: it only looks like files in the group's ``file``.
    """

    path: str
    folder: str
    version: Literal[1, 2]
    max_bytes: int | None = None
    high_bytes: int | None = None
    charged_bytes: int | None = None
    active_file_bytes: int | None = None
    inactive_file_bytes: int | None = None


class HostMemory(Fact, frozen=True, kw_only=True):
    """The host's memory as a whole: /proc/meminfo, pages pinned now, and what kubelet keeps free.

    ``shm`` is the file system at /dev/shm, None where nothing is mounted there or nobody told.
    """

    total_bytes: int | None = None
    free_bytes: int | None = None
    available_bytes: int | None = None
    commit_limit_bytes: int | None = None
    committed_bytes: int | None = None
    pinned_bytes: int | None = None
    kubelet_eviction_bytes: int | None = None
    shm: Place | None = None


class Sample(Fact, frozen=True, kw_only=True):
    """Counters read twice, ``seconds`` apart, by name (``vmstat.numa_hint_faults``)."""

    seconds: float
    before: dict[str, int]
    after: dict[str, int]


class LinkReading(Fact, frozen=True, kw_only=True):
    """A PCIe function's link as sysfs showed it while large copies ran: how many readings showed which speed and width.

    The keys are GT/s and lanes as text (``"32"``, ``"16"``).
    """

    bdf: str
    readings: int
    speeds_gts: dict[str, int] = {}
    widths_lanes: dict[str, int] = {}


class MeasuredLink(Fact, frozen=True, kw_only=True):
    """A GPU's path during copies that ``measure copy`` made: in which file that stands, and when it was taken."""

    file: str
    taken_at: str
    gpu_bdf: str
    links: tuple[LinkReading, ...] = ()


class Measured(Fact, frozen=True, kw_only=True):
    """What files that ``measure`` wrote add to the survey (``--measured``)."""

    links: tuple[MeasuredLink, ...] = ()


class Host(Fact, frozen=True, kw_only=True):
    """Everything that one survey established. ``settings`` maps sysctl-like names to the text the kernel showed.

    ``processes`` are those that use a GPU, on the running host alone, their memory not looked at. ``baseline`` and
    ``placed_before`` are what the agent remembers; without it there is neither.
    ``has_sysfs``: its /sys was read, live or kept; else all comes from what other tools printed.
    """

    schema_version: str = SCHEMA_VERSION
    system: System = System()
    numa_nodes: tuple[NumaNode, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    nics: tuple[Nic, ...] = ()
    nvme: tuple[NvmeController, ...] = ()
    pci_devices: tuple[PciDevice, ...] = ()
    paths: tuple[Path, ...] = ()
    gaps: tuple[Gap, ...] = ()
    disagreements: tuple[Disagreement, ...] = ()
    cores: tuple[Core, ...] = ()
    block_devices: tuple[BlockDevice, ...] = ()
    allowed: Allowed = Allowed()
    settings: dict[str, str] = {}
    nvidia: NvidiaDriver = NvidiaDriver()
    samples: tuple[Sample, ...] = ()
    sources: tuple[str, ...] = ()
    is_live: bool = False
    has_sysfs: bool = True
    cpu_power: CpuPower = CpuPower()
    dimms: tuple[Dimm, ...] = ()
    places: tuple[Place, ...] = ()
    cgroups: tuple[Cgroup, ...] = ()
    memory: HostMemory = HostMemory()
    memory_groups: tuple[MemoryGroup, ...] = ()
    processes: tuple[Process, ...] = ()
    measured: Measured = Measured()
    baseline: Baseline | None = None
    placed_before: tuple[PlacedBefore, ...] = ()
