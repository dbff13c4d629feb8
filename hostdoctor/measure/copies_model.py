"""The document that ``measure copy`` writes: what was copied from where, how long it took, and what that says.

Units are in the names; ``share`` is 0 to 1. Quantiles are those of single copies; a verdict compares pairs of short
runs, near against far, that followed each other.
"""

from typing import Literal

import msgspec

from hostdoctor.facts import Fact, LinkReading
from hostdoctor.facts.model import SCHEMA_VERSION
from hostdoctor.measure.comparison import Verdict
from hostdoctor.measure.documents import Circumstances, Clock
from hostdoctor.measure.paired import Paired
from hostdoctor.measure.quantiles import Quantile

Role = Literal["near", "far-memory", "far-cpu", "far", "near-again"]
Memory = Literal["pinned", "pageable"]
Direction = Literal["to-gpu", "from-gpu"]
Load = Literal["idle", "contended"]
Loop = Literal["closed", "open", "bandwidth"]


class Cell(Fact, frozen=True, kw_only=True):
    """From where a copy is made: the node of the CPU that asks for it, and the node of the host memory.

    ``near-again`` is the same as ``near``, measured apart: what it differs by is what this host makes up.
    """

    role: Role
    cpu_node: int
    memory_node: int


class Setting(Fact, frozen=True, kw_only=True):
    """What is copied in every cell alike. ``open`` copies start on a fixed schedule, ``closed`` one after another."""

    load: Load
    memory: Memory
    direction: Direction
    size_bytes: int
    loop: Loop


class Comparison(Fact, frozen=True, kw_only=True):
    """A cell against ``near``: pairs of the runs' quantiles (or mean times), and what they say.

    ``adjusted_p_value`` accounts for the other settings compared in the same way (Holm). ``words`` is the verdict for
    people.
    """

    cell: Role
    statistic: Literal["p50", "p99", "mean"]
    paired: Paired
    adjusted_p_value: float | None = None
    verdict: Verdict
    words: str


class Arm(Fact, frozen=True, kw_only=True):
    """One cell in one setting: how long its copies took, in microseconds, or how fast large ones were.

    ``p50_us`` and so on are quantiles of all copies in the order in which they were made; ``late_share`` are those of
    an open loop that could not start when planned. ``bandwidth_gbs`` are the runs' GB/s (10^9 bytes).
    ``contending_copies`` are those of the second stream that were under way meanwhile, if only in part.
    """

    cell: Cell
    runs: int
    copies: int
    p50_us: Quantile | None = None
    p99_us: Quantile | None = None
    p999_us: Quantile | None = None
    run_p50_us: tuple[float, ...] = ()
    run_p99_us: tuple[float, ...] = ()
    bandwidth_gbs: tuple[float, ...] = ()
    late_share: float | None = None
    contending_copies: int | None = None


class Result(Fact, frozen=True, kw_only=True):
    """All cells in one setting. ``interval_us`` is the schedule of an open loop."""

    setting: Setting
    arms: tuple[Arm, ...]
    comparisons: tuple[Comparison, ...] = ()
    interval_us: float | None = None


class Place(Fact, frozen=True, kw_only=True):
    """Where a buffer really was: ``pages`` by node, of ``pages_asked`` that ``source`` was asked about.

    ``share`` of them was on ``memory_node``; ``share_after`` when all was measured. ``thread`` ran on ``cpu``.
    """

    cpu_node: int
    memory_node: int
    memory: Memory
    size_bytes: int
    way: str
    source: str
    pages: dict[str, int]
    pages_asked: int
    pages_elsewhere: int
    share: float
    share_after: float | None = None
    page_aligned: bool
    huge_bytes: int | None = None


class Copier(Fact, frozen=True, kw_only=True):
    """A process that copied: bound to ``cpus`` of one node, its copying thread to one CPU.

    ``cpus_seen`` are the CPUs that this thread was seen on, ``second_stream_cpus`` those of the thread that copies
    beside it, None where none does. ``before`` and ``after`` are the kernel's counters without and with its pinned
    memory: RssShmem, VmPin, VmLck in bytes, nr_foll_pin_* of the whole host in pages.
    """

    cpu_node: int
    pid: int
    thread: int
    cpus: str
    cpu: int
    cpus_seen: str
    second_stream_cpus: str | None = None
    before: dict[str, int] = msgspec.field(default_factory=dict)
    after: dict[str, int] = msgspec.field(default_factory=dict)


class MeasuredGpu(Fact, frozen=True, kw_only=True):
    """The GPU: as the map knows it, and what CUDA calls it. ``assumed_node``: the caller said where it is."""

    index: int | None
    bdf: str
    uuid: str | None = None
    name: str | None = None
    near_node: int
    far_node: int | None = None
    distance: int | None = None
    assumed_node: bool = False


class Settings(Fact, frozen=True, kw_only=True):
    """What was asked for."""

    pairs: int
    copies_per_run: int
    buffer_bytes: int
    sizes_bytes: tuple[int, ...]
    memories: tuple[Memory, ...]
    directions: tuple[Direction, ...] = ("to-gpu", "from-gpu")
    loops: tuple[Loop, ...] = ("closed", "open", "bandwidth")
    contend: bool = False
    near_only: bool = False


class CopyDocument(Fact, frozen=True, kw_only=True):
    """What ``hostdoctor measure copy`` found. ``stopped``: what ended it early, other than a signal.

    ``links`` are the GPU and the ports above it while large copies ran; ``check --measured`` judges them.
    """

    schema_version: str = SCHEMA_VERSION
    kind: Literal["measure-copy"] = "measure-copy"
    circumstances: Circumstances
    nvidia_driver: str | None = None
    cuda_version: str | None = None
    gpu: MeasuredGpu
    settings: Settings
    clock: Clock | None = None
    copiers: tuple[Copier, ...] = ()
    places: tuple[Place, ...] = ()
    results: tuple[Result, ...] = ()
    links: tuple[LinkReading, ...] = ()
    stopped: str | None = None
    notes: tuple[str, ...] = ()
