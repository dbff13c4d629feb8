"""What experiments leave: JSON documents of a stable shape. Times, rates and sizes carry their units in the names."""

from typing import Any, Literal

import msgspec

from hostdoctor.facts import Fact
from hostdoctor.facts.model import SCHEMA_VERSION
from hostdoctor.measure.memory_verdict import MemoryComparison
from hostdoctor.measure.nvme_verdict import NvmeComparison
from hostdoctor.measure.placing import Placement


class Circumstances(Fact, frozen=True, kw_only=True):
    """Where, when and by what something was measured; ``interrupted`` names the signal that ended it early."""

    at: str
    hostdoctor: str
    hostname: str | None = None
    kernel: str | None = None
    cpu_model: str | None = None
    virtualization: str | None = None
    interrupted: str | None = None


class Clock(Fact, frozen=True, kw_only=True):
    """What is below every time measured: two readings in a row, and a call into C between two (medians)."""

    reading_ns: float
    call_ns: float


class BatchLatency(Fact, frozen=True, kw_only=True):
    """Time of a dependent load, in ns, as means of batches.

    ``p99_of_batch_means_ns`` is no p99 of single loads. ``visits_p50_ns`` has the median of each visit, in order: visit
    i of one cell was made next to visit i of the others.
    """

    batches: int
    loads_per_batch: int
    p50_of_batch_means_ns: float
    p99_of_batch_means_ns: float
    visits_p50_ns: tuple[float, ...]


class LatencyDifference(Fact, frozen=True, kw_only=True):
    """How much longer a load takes than one from the CPU node's own memory, in ns.

    ``visits_ns`` has the difference of the medians for each visit, ``p50_ns`` the median of those.
    """

    p50_ns: float
    visits_ns: tuple[float, ...]
    batches: int
    loads_per_batch: int


class Bandwidth(Fact, frozen=True, kw_only=True):
    """Bytes moved a second by all threads together, each byte counted once: median, and every visit in order."""

    p50_gbytes_per_s: float
    visits_gbytes_per_s: tuple[float, ...]


class MemoryCell(Fact, frozen=True, kw_only=True):
    """CPUs of one node against memory of one node. ``skipped`` says why nothing was measured, ``latency`` is null then.

    ``cpus`` is the list that threads were pinned to, one a core, ``cpus_seen`` where they were found running.
    """

    cpu_node: int
    memory_node: int
    distance: int | None = None
    cpus: str | None = None
    cpus_seen: str | None = None
    latency: BatchLatency | None = None
    latency_difference: LatencyDifference | None = None
    read: Bandwidth | None = None
    write: Bandwidth | None = None
    copy: Bandwidth | None = None
    skipped: str | None = None


class NodeBuffer(Fact, frozen=True, kw_only=True):
    """The memory of one node that was measured: how much of it is in huge pages, and where its pages were."""

    node: int
    huge_bytes: int | None = None
    placement_before: Placement | None = None
    placement_after: Placement | None = None


class MemoryDocument(Fact, frozen=True, kw_only=True):
    """What ``hostdoctor measure memory`` found. ``method`` interpreted: differences only, ``latency`` is null.

    ``stopped``: what ended it early, other than a signal.
    """

    schema_version: str = SCHEMA_VERSION
    kind: Literal["measure-memory"] = "measure-memory"
    circumstances: Circumstances
    method: Literal["native", "interpreted"]
    clock: Clock
    interpreter_overhead_ns: float | None = None
    size_bytes: int
    wanted_bytes: int
    stride_bytes: int
    l3_bytes: int | None = None
    buffers: tuple[NodeBuffer, ...] = ()
    cells: tuple[MemoryCell, ...] = ()
    comparisons: tuple[MemoryComparison, ...] = ()
    stopped: str | None = None
    notes: tuple[str, ...] = ()


class DiskMeans(Fact, frozen=True, kw_only=True):
    """What the block layer counted over an interval (/sys/block/DISK/stat); null where too little happened to tell."""

    r_await_ms: float | None = None
    w_await_ms: float | None = None
    queue_depth: float | None = None


class ReadLatency(Fact, frozen=True, kw_only=True):
    """fio's own figures for the reads of one run (completion latency); ``samples`` is how many reads it counted."""

    samples: int
    p50_ns: int
    p99_ns: int
    p999_ns: int
    mean_ns: float | None = None
    iops: float | None = None
    bytes_per_s: int | None = None
    runtime_ms: int | None = None


class NvmeRun(Fact, frozen=True, kw_only=True):
    """One run of fio from one CPU node. ``near`` is null when the drive's node is not known.

    ``cpus_seen`` and ``policy_seen`` are what the kernel showed of fio's reading thread while it ran: the CPUs that it
    may use and where its memory has to come from. ``raw`` is fio's JSON.
    """

    cpu_node: int
    near: bool | None = None
    block_bytes: int
    queue_depth: int
    repeat: int
    command: tuple[str, ...]
    latency: ReadLatency | None = None
    disk: DiskMeans | None = None
    cpus_seen: str | None = None
    policy_seen: str | None = None
    failed: str | None = None
    raw: msgspec.Raw | None = None


class NvmeDocument(Fact, frozen=True, kw_only=True):
    """What ``hostdoctor measure nvme`` found: the runs in the order in which they were made.

    ``stopped``: what ended it early, other than a signal.
    """

    schema_version: str = SCHEMA_VERSION
    kind: Literal["measure-nvme"] = "measure-nvme"
    circumstances: Circumstances
    drive: str | None = None
    path: str
    drive_node: int | None = None
    fio: str | None = None
    runs: tuple[NvmeRun, ...] = ()
    comparisons: tuple[NvmeComparison, ...] = ()
    stopped: str | None = None
    notes: tuple[str, ...] = ()


class DiskWatch(Fact, frozen=True, kw_only=True):
    """What a disk did while it was watched."""

    disk: str
    means: DiskMeans | None = None


class CacheHits(Fact, frozen=True, kw_only=True):
    """A cache of an engine while it was watched: what was looked up and found, in the engine's own unit.

    ``hit_percent`` is null when nothing was looked up, all three when a counter went backwards or more was found than
    looked up: an engine that was restarted.
    """

    cache: str
    queries: float | None = None
    hits: float | None = None
    hit_percent: float | None = None


class WatchDocument(Fact, frozen=True, kw_only=True):
    """What ``hostdoctor measure nvme --watch`` saw without putting any load on the drives."""

    schema_version: str = SCHEMA_VERSION
    kind: Literal["watch-nvme"] = "watch-nvme"
    circumstances: Circumstances
    seconds: float
    disks: tuple[DiskWatch, ...] = ()
    metrics_url: str | None = None
    caches: tuple[CacheHits, ...] = ()
    notes: tuple[str, ...] = ()


Document = MemoryDocument | NvmeDocument | WatchDocument


def shortfall(document: Any) -> str | None:
    """Say what a document of any experiment lacks that was to be measured; None when it is whole."""
    stopped = getattr(document, "stopped", None)
    if stopped is not None:
        return f"ended early: {stopped}; what was measured until then is kept"
    runs = getattr(document, "runs", ())
    failed = [run.failed for run in runs if run.failed is not None]
    return f"{len(failed)} of {len(runs)} runs failed, at first: {failed[0]}" if failed else None


def document_json(document: Fact) -> str:
    """Return a document as indented JSON with a final newline."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def document_schema(kind: type[Any]) -> str:
    """Return the JSON Schema of a kind of document, generated from the types."""
    return msgspec.json.format(msgspec.json.encode(msgspec.json.schema(kind)), indent=2).decode() + "\n"
