"""What the agent knows at one moment: the record that publishers (textfile, listener) render.

Times named ``_at`` are seconds since 1970 (UTC); ages and durations are measured on the monotonic clock.
"""

from typing import Literal, Protocol

from hostdoctor.diagnosis.report import Severity, SkipKind, Status
from hostdoctor.facts import Fact

Transition = Literal["appeared", "changed", "cleared", "flapping", "settled"]
SurveyReason = Literal["start", "interval", "event", "signal", "reload"]
DeviceKind = Literal["gpu", "nic", "nvme", "port"]
TRANSITIONS: tuple[Transition, ...] = ("appeared", "changed", "cleared", "flapping", "settled")


class OpenFinding(Fact, frozen=True, kw_only=True):
    """A finding that stands. ``subject`` is the check's text and may list several devices (``GPU0, GPU1``).

    ``is_judged`` is false where the last survey could not judge the check (no evidence): it stands as it was last
    seen. ``is_flapping``: it comes and goes, and its transitions are not reported one by one.
    """

    id: str
    name: str
    subject: str
    severity: Severity
    message: str
    remedy: str = ""
    first_seen_at: float = 0.0
    changed_at: float = 0.0
    is_judged: bool = True
    is_flapping: bool = False


class CheckState(Fact, frozen=True, kw_only=True):
    """How a check ended in the last survey that came to its end.

    ``severity`` is the highest of its findings, None where none stands; ``findings`` include those that could not be
    judged again; ``accepted`` counts those that the site lives with.
    """

    id: str
    name: str
    status: Literal["pass", "fail", "skip", "error"]
    severity: Severity | None = None
    skip_kind: SkipKind | None = None
    reason: str | None = None
    findings: tuple[OpenFinding, ...] = ()
    accepted: int = 0


class LinkState(Fact, frozen=True, kw_only=True):
    """A PCIe link as the function shows it now: a GPU's (``GPU0``), NIC's, drive's, or a port's above one of them.

    ``max_`` values are this end's own; ``is_present`` is false once the function is gone from sysfs (values are None).
    """

    bdf: str
    device: str
    kind: DeviceKind
    numa_node: int | None = None
    is_present: bool = True
    width_lanes: int | None = None
    max_width_lanes: int | None = None
    speed_gts: float | None = None
    max_speed_gts: float | None = None


class ErrorTotals(Fact, frozen=True, kw_only=True):
    """PCIe errors that a function has counted since it was set up (AER); None where the kernel counts none."""

    bdf: str
    device: str
    kind: DeviceKind
    correctable: int | None = None
    nonfatal: int | None = None
    fatal: int | None = None


class DriveRates(Fact, frozen=True, kw_only=True):
    """What an NVMe namespace (``nvme0n1``) did in the ``seconds`` between two readings.

    ``_await_ms`` are mean times of a request, None where too few ended to tell; ``queue_depth`` is the mean number of
    requests in flight. ``usual_`` values are the drive's own (median of a day), None until known.
    """

    name: str
    drive: str
    seconds: float
    numa_node: int | None = None
    read_iops: float = 0.0
    write_iops: float = 0.0
    read_bytes_per_second: float = 0.0
    write_bytes_per_second: float = 0.0
    r_await_ms: float | None = None
    w_await_ms: float | None = None
    queue_depth: float | None = None
    usual_r_await_ms: float | None = None
    usual_w_await_ms: float | None = None
    usual_queue_depth: float | None = None


class NodeState(Fact, frozen=True, kw_only=True):
    """A NUMA node's memory. Sizes of ``nodeN/meminfo`` are of the last cheap reading.

    ``available_bytes`` (the kernel's MemAvailable rule for the node), ``pinnable_bytes`` (the budget: what may be
    pinned there) and ``pinned_bytes`` (pages that drivers hold) are of the last survey. ``unevictable_bytes`` holds
    what is locked, ``shmem_bytes`` what CUDA pins.
    """

    id: int
    total_bytes: int | None = None
    free_bytes: int | None = None
    file_bytes: int | None = None
    anon_bytes: int | None = None
    shmem_bytes: int | None = None
    unevictable_bytes: int | None = None
    mlocked_bytes: int | None = None
    available_bytes: int | None = None
    pinnable_bytes: int | None = None
    pinned_bytes: int | None = None


class NodeShare(Fact, frozen=True, kw_only=True):
    """Memory of a control group on one node."""

    node: int
    anon_bytes: int = 0
    shared_bytes: int = 0
    file_bytes: int = 0


class Placement(Fact, frozen=True, kw_only=True):
    """Where the memory of GPU processes is, by the ``memory.numa_stat`` of their control group.

    One record for each control group that holds processes using GPUs: ``pids`` and ``names`` are those processes',
    ``gpus`` the driver's indices of their GPUs, ``gpu_nodes`` the nodes near these. ``is_alone``: the group holds
    nothing but one process. ``unit`` is what of the group's path survives a restart (``vllm.service``).
    """

    cgroup: str
    unit: str
    pids: tuple[int, ...]
    names: tuple[str, ...]
    gpus: tuple[int, ...] = ()
    gpu_nodes: tuple[int, ...] = ()
    is_alone: bool = False
    nodes: tuple[NodeShare, ...] = ()

    @property
    def shares(self) -> dict[int, float]:
        """Each node's part of the private and shared memory (page cache is left out), ``{}`` where there is none."""
        sizes = {share.node: share.anon_bytes + share.shared_bytes for share in self.nodes}
        total = sum(sizes.values())
        return {node: size / total for node, size in sizes.items()} if total else {}


class Pressure(Fact, frozen=True, kw_only=True):
    """Stall time since boot (``/proc/pressure``): some task waited, all tasks waited."""

    resource: Literal["cpu", "io", "memory"]
    some_total_us: int | None = None
    full_total_us: int | None = None


class SurveyState(Fact, frozen=True, kw_only=True):
    """The last survey that came to its end, and what happened since."""

    ended_at: float
    age_s: float
    duration_s: float
    reason: SurveyReason
    status: Status
    unknown: str | None = None


class Problem(Fact, frozen=True, kw_only=True):
    """Something the agent itself suffers from now: ``survey``, ``state``, ``config``, ``events``, ``publisher …``."""

    name: str
    message: str
    since_at: float


class Counters(Fact, frozen=True, kw_only=True):
    """What the agent has done since it started. ``transitions`` has a count for each kind."""

    surveys: int = 0
    survey_failures: int = 0
    signal_readings: int = 0
    events: int = 0
    events_lost: int = 0
    reloads: int = 0
    reload_failures: int = 0
    state_write_failures: int = 0
    publish_failures: int = 0
    clock_jumps: int = 0
    transitions: dict[str, int] = {}


class Snapshot(Fact, frozen=True, kw_only=True):
    """Everything at one moment. ``survey`` is None, and ``checks`` empty, until the first survey has ended."""

    taken_at: float
    started_at: float
    version: str
    hostname: str | None = None
    survey: SurveyState | None = None
    checks: tuple[CheckState, ...] = ()
    links: tuple[LinkState, ...] = ()
    errors: tuple[ErrorTotals, ...] = ()
    drives: tuple[DriveRates, ...] = ()
    nodes: tuple[NodeState, ...] = ()
    placements: tuple[Placement, ...] = ()
    pressure: tuple[Pressure, ...] = ()
    pinned_bytes: int | None = None
    baseline_accepted_at: float | None = None
    problems: tuple[Problem, ...] = ()
    counters: Counters = Counters()


class Publisher(Protocol):
    """Takes each snapshot: after every survey and every cheap reading, on the agent's one thread.

    It must return soon. What it raises (OSError, HostdoctorError) becomes a problem of the agent, and the next
    snapshot is given to it all the same.
    """

    def __call__(self, snapshot: Snapshot) -> None:
        """Publish it."""

    def close(self) -> None:
        """End: called once, at a clean stop or when a reload replaces the publisher."""
