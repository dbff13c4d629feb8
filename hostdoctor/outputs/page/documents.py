"""What the report reads of the documents that ``hostdoctor measure`` and ``hostdoctor compare`` write.

Only the fields that are shown, every one optional but those that make a document what it is: a document of a later
version that says more is read as well.
"""

from typing import Literal

import msgspec

from hostdoctor.errors import SourceError
from hostdoctor.facts import Fact
from hostdoctor.measure.matrix.model import MatrixDocument

NOTHING = msgspec.Raw(b"null")
Interval = tuple[float | None, float | None]


class Row(Fact, frozen=True, kw_only=True):
    """One quantile of one latency in a comparison; ``ratio`` is far/near."""

    near_ms: float | None = None
    far_ms: float | None = None
    near_ci_ms: Interval | None = None
    far_ci_ms: Interval | None = None
    ratio: float | None = None
    ratio_ci: Interval | None = None
    p_value: float | None = None
    adjusted_p_value: float | None = None
    detectable_ratio: float | None = None
    verdict: str
    reason: str | None = None
    pairs: int | None = None
    pair_ratios: tuple[float, ...] = ()
    near_samples: int | None = None
    far_samples: int | None = None
    control_ratio_ci: Interval | None = None


class Primary(Fact, frozen=True, kw_only=True):
    """The declared comparison and its verdict in words."""

    metric: str
    quantile: str
    verdict: str
    words: str
    guard: str | None = None
    margin: float | None = None


class Failed(Fact, frozen=True, kw_only=True):
    """Requests that failed in each arm."""

    near: int | None = None
    far: int | None = None


class RunLatency(Fact, frozen=True, kw_only=True):
    """A run's own quantiles of one latency."""

    quantiles_ms: dict[str, float] = {}  # noqa: RUF012
    count: int | None = None


class Run(Fact, frozen=True, kw_only=True):
    """One run of a comparison."""

    source: str | None = None
    tool: str | None = None
    model: str | None = None
    date: str | None = None
    latencies: dict[str, RunLatency] = {}  # noqa: RUF012
    versions: dict[str, str] = {}  # noqa: RUF012


class Runs(Fact, frozen=True, kw_only=True):
    """The runs of both arms in the order of the pairs."""

    near: tuple[Run, ...] = ()
    far: tuple[Run, ...] = ()


class Tail(Fact, frozen=True, kw_only=True):
    """How each arm's samples are distributed: (milliseconds, share of samples at or above it), ascending."""

    near: tuple[tuple[float, float], ...] = ()
    far: tuple[tuple[float, float], ...] = ()


class Comparison(Fact, frozen=True, kw_only=True):
    """Near against far of one workload; ``production`` is near against the workload as launched today."""

    arms: tuple[str, str] = ("near", "far")
    pairs: int
    primary: Primary | None = None
    metrics: dict[str, dict[str, Row]]
    tails: dict[str, Tail] = {}  # noqa: RUF012
    failed_requests: Failed | None = None
    warnings: tuple[str, ...] = ()
    provenance: msgspec.Raw = NOTHING
    production: "Comparison | None" = None
    complete: bool = True
    placement: dict[str, str] = {}  # noqa: RUF012

    def told_runs(self) -> Runs:
        """Return the runs; none where the provenance tells of none."""
        try:
            return msgspec.json.decode(self.provenance, type=Runs | None) or Runs()
        except (msgspec.DecodeError, RecursionError):
            return Runs()


class TrialPlan(Fact, frozen=True, kw_only=True):
    """Where and when an experiment was begun, and with what."""

    hostname: str | None = None
    created: str | None = None
    hostdoctor: str | None = None


class Experiment(Comparison, frozen=True, kw_only=True, tag_field="kind", tag="experiment"):
    """A comparison that ``hostdoctor compare`` ran itself."""

    plan: TrialPlan | None = None
    rate_per_s: float | None = None
    versions: dict[str, str] = {}  # noqa: RUF012


class AgainstNear(Fact, frozen=True, kw_only=True):
    """What pairs say of a far cell; ``ratio`` is far/near of times."""

    pairs: int = 0
    ratio: float | None = None
    ratio_ci: Interval | None = None
    p_value: float | None = None
    detectable_ratio: float | None = None
    verdict: str
    reason: str = ""

    @property
    def row(self) -> Row:
        """The same as the row of a comparison."""
        return Row(**{name: getattr(self, name) for name in self.__struct_fields__})


class Circumstances(Fact, frozen=True, kw_only=True):
    """Where and when something was measured."""

    at: str
    hostdoctor: str | None = None
    hostname: str | None = None
    interrupted: str | None = None


class Quantile(Fact, frozen=True, kw_only=True):
    """A quantile with its interval."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    samples: int | None = None


class CopyCell(Fact, frozen=True, kw_only=True):
    """From where a copy is made."""

    role: str
    cpu_node: int
    memory_node: int


class CopyArm(Fact, frozen=True, kw_only=True):
    """One cell in one setting."""

    cell: CopyCell
    copies: int
    runs: int = 0
    p50_us: Quantile | None = None
    p99_us: Quantile | None = None
    p999_us: Quantile | None = None
    run_p50_us: tuple[float, ...] = ()
    run_p99_us: tuple[float, ...] = ()
    bandwidth_gbs: tuple[float, ...] = ()


class Paired(Fact, frozen=True, kw_only=True):
    """What pairs of runs say of one statistic."""

    pairs: int = 0
    ratio: float | None = None
    ratio_ci: Interval | None = None
    detectable_ratio: float | None = None


class CopyComparison(Fact, frozen=True, kw_only=True):
    """A cell against ``near``."""

    cell: str
    statistic: str
    paired: Paired
    verdict: str
    words: str


class CopySetting(Fact, frozen=True, kw_only=True):
    """What is copied."""

    load: str
    memory: str
    direction: str
    size_bytes: int
    loop: str


class CopyResult(Fact, frozen=True, kw_only=True):
    """All cells in one setting."""

    setting: CopySetting
    arms: tuple[CopyArm, ...]
    comparisons: tuple[CopyComparison, ...] = ()


class CopyGpu(Fact, frozen=True, kw_only=True):
    """The GPU that was copied to and from."""

    index: int | None = None
    bdf: str | None = None
    name: str | None = None
    near_node: int | None = None
    far_node: int | None = None


class Copies(Fact, frozen=True, kw_only=True, tag_field="kind", tag="measure-copy"):
    """``hostdoctor measure copy``."""

    circumstances: Circumstances
    gpu: CopyGpu
    nvidia_driver: str | None = None
    cuda_version: str | None = None
    results: tuple[CopyResult, ...] = ()
    stopped: str | None = None
    notes: tuple[str, ...] = ()


class DiskMeans(Fact, frozen=True, kw_only=True):
    """What the block layer counted."""

    r_await_ms: float | None = None
    w_await_ms: float | None = None
    queue_depth: float | None = None


class ReadLatency(Fact, frozen=True, kw_only=True):
    """fio's own figures of one run."""

    samples: int
    p50_ns: int
    p99_ns: int
    p999_ns: int


class NvmeRun(Fact, frozen=True, kw_only=True):
    """One run of fio; ``raw`` is its JSON+."""

    cpu_node: int
    near: bool | None = None
    block_bytes: int
    queue_depth: int
    latency: ReadLatency | None = None
    disk: DiskMeans | None = None
    failed: str | None = None
    raw: msgspec.Raw = NOTHING


class NvmeComparison(Fact, frozen=True, kw_only=True):
    """Reads of one kind from a far node against those from the drive's own."""

    cpu_node: int
    block_bytes: int
    queue_depth: int
    statistic: str
    result: AgainstNear


class Nvme(Fact, frozen=True, kw_only=True, tag_field="kind", tag="measure-nvme"):
    """``hostdoctor measure nvme``."""

    circumstances: Circumstances
    drive: str | None = None
    path: str | None = None
    drive_node: int | None = None
    fio: str | None = None
    runs: tuple[NvmeRun, ...] = ()
    comparisons: tuple[NvmeComparison, ...] = ()
    stopped: str | None = None
    notes: tuple[str, ...] = ()


class BatchLatency(Fact, frozen=True, kw_only=True):
    """Time of a dependent load."""

    batches: int
    p50_of_batch_means_ns: float
    p99_of_batch_means_ns: float
    visits_p50_ns: tuple[float, ...] = ()


class LatencyDifference(Fact, frozen=True, kw_only=True):
    """How much longer a load takes than from near memory."""

    p50_ns: float
    batches: int


class Bandwidth(Fact, frozen=True, kw_only=True):
    """Bytes moved a second."""

    p50_gbytes_per_s: float
    visits_gbytes_per_s: tuple[float, ...] = ()


class MemoryCell(Fact, frozen=True, kw_only=True):
    """CPUs of one node against memory of one node."""

    cpu_node: int
    memory_node: int
    latency: BatchLatency | None = None
    latency_difference: LatencyDifference | None = None
    read: Bandwidth | None = None
    write: Bandwidth | None = None
    copy: Bandwidth | None = None
    skipped: str | None = None


class MemoryComparison(Fact, frozen=True, kw_only=True):
    """Memory of one node against the CPU node's own, by the time of a load or of a byte moved."""

    cpu_node: int
    memory_node: int
    statistic: str
    result: AgainstNear


class Memory(Fact, frozen=True, kw_only=True, tag_field="kind", tag="measure-memory"):
    """``hostdoctor measure memory``."""

    circumstances: Circumstances
    method: str
    cells: tuple[MemoryCell, ...] = ()
    comparisons: tuple[MemoryComparison, ...] = ()
    stopped: str | None = None
    notes: tuple[str, ...] = ()


class DiskWatch(Fact, frozen=True, kw_only=True):
    """What a disk did while it was watched."""

    disk: str
    means: DiskMeans | None = None


class CacheHits(Fact, frozen=True, kw_only=True):
    """A cache of an engine while it was watched."""

    cache: str
    queries: float | None = None
    hits: float | None = None
    hit_percent: float | None = None


class Watch(Fact, frozen=True, kw_only=True, tag_field="kind", tag="watch-nvme"):
    """``hostdoctor measure nvme --watch``."""

    circumstances: Circumstances
    seconds: float
    disks: tuple[DiskWatch, ...] = ()
    caches: tuple[CacheHits, ...] = ()
    notes: tuple[str, ...] = ()


class _Kind(Fact, frozen=True, kw_only=True):
    kind: Literal["experiment", "measure-copy", "measure-nvme", "measure-memory", "watch-nvme", "matrix"] | None = None


Document = Comparison | Copies | Nvme | Memory | Watch | MatrixDocument


def read_document(data: bytes, name: str) -> Document:
    """Return a measured document; ``name`` is its file's, for the error.

    Raises SourceError for what is none.
    """
    try:
        kind = msgspec.json.decode(data, type=_Kind).kind
        if kind is None:
            return msgspec.json.decode(data, type=Comparison)
        if kind == "matrix":
            return msgspec.json.decode(data, type=MatrixDocument)
        return msgspec.json.decode(data, type=Experiment | Copies | Nvme | Memory | Watch)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(f"{name}: no document of hostdoctor measure, compare or matrix: {str(error)[:200]}") from None
