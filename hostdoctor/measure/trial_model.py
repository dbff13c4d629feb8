"""The records of an experiment that ``compare`` makes: its plan, its runs, and what came of it."""

from typing import Literal

import msgspec

from hostdoctor.facts import SCHEMA_VERSION, Fact
from hostdoctor.measure.comparison import Comparison, QuantileName
from hostdoctor.placement.applying import Step

Role = Literal["near", "current", "far", "again"]  # again: near once more, the control
Kind = Literal["warm-up", "probe", "run"]


class Intended(Fact, frozen=True, kw_only=True):
    """Where a process should be: CPUs (a cpulist, None: any) and memory nodes (``()``: any)."""

    cpus: str | None = None
    mems: tuple[int, ...] = ()


class Arm(Fact, frozen=True, kw_only=True):
    """How the workload is started in one arm: its words, the variables added, and the binding around it.

    ``gpus`` maps the driver's index of a GPU to where its worker should be, where the engine binds its workers itself;
    else ``intended`` holds for every process. ``words`` says it for a person.
    """

    argv: tuple[str, ...]
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    step: Step
    intended: Intended = Intended()
    gpus: dict[str, Intended] = msgspec.field(default_factory=dict)
    words: str = ""
    notes: tuple[str, ...] = ()


class Plan(Fact, frozen=True, kw_only=True):
    """What will be run. ``order`` holds the roles of one pair; every other pair runs them in the opposite order.

    ``server`` tells whether a server is started for each run and ``client`` drives it; else the arms' words are the
    workload itself. ``rate_per_s`` is put for ``{rate}``; with ``probes`` it is found before. ``rate_limit_per_s`` is
    80 % of a stated capacity. ``client_cpus`` is a cpulist, None: any. ``directory`` is where commands are started.
    """

    schema_version: str = SCHEMA_VERSION
    created: str
    hostdoctor: str
    hostname: str | None = None
    directory: str | None = None
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    order: tuple[Role, ...]
    pairs: int
    warm_ups: int
    probes: bool
    arms: dict[str, Arm]
    server: bool
    client: tuple[str, ...] = ()
    client_cpus: str | None = None
    result: str | None = None
    ready_url: str | None = None
    ready_timeout_s: float
    run_timeout_s: float
    rate_per_s: float | None = None
    rate_limit_per_s: float | None = None
    metric: str
    quantile: QuantileName
    margin: float
    gpu_indices: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


class Trial(Fact, frozen=True, kw_only=True):
    """One start of the workload; ``pair`` counts from 0 and is None for warm-ups and probes."""

    number: int
    kind: Kind
    role: Role
    pair: int | None = None


class Place(Fact, frozen=True, kw_only=True):
    """Where the workload was, seen once. ``inside`` values are shares (0 to 1) of what should be there.

    ``threads_inside``: threads by the CPU that each ran on last; ``memory_inside``: private and shared memory, page
    cache of files left aside. None: not told, or nothing was intended. ``reason`` says what could not be told.
    """

    when: Literal["start", "end"]
    processes: int = 0
    threads: int = 0
    memory_bytes: dict[str, int] = msgspec.field(default_factory=dict)
    threads_by_node: dict[str, int] = msgspec.field(default_factory=dict)
    threads_inside: float | None = None
    memory_inside: float | None = None
    outside: tuple[str, ...] = ()
    reason: str | None = None


class Conditions(Fact, frozen=True, kw_only=True):
    """What a run met. Shares are of the time of the CPUs in question; None: not told.

    ``read_bytes`` is what the workload read from storage since it was started, ``cpu_mhz`` the mean clock of its CPUs
    that were busy at least half of the time, ``gpu_throttled_s`` for how long a GPU's clocks were held down.
    """

    seconds: float
    steal_share: float | None = None
    throttled_share: float | None = None
    gpu_throttled_s: float | None = None
    cpu_mhz: float | None = None
    read_bytes: int | None = None


class TrialRecord(Fact, frozen=True, kw_only=True):
    """A run that came to its end. ``result`` is its raw file, relative to the experiment's folder."""

    trial: Trial
    seed: int
    rate_per_s: float | Literal["inf"] | None = None
    began: str
    seconds: float
    ready_s: float | None = None
    result: str
    position: int = 0
    capacity_per_s: float | None = None
    places: tuple[Place, ...] = ()
    conditions: Conditions
    notes: tuple[str, ...] = ()


class Discarded(Fact, frozen=True, kw_only=True):
    """A pair that does not count in one comparison, and why."""

    pair: int
    roles: tuple[Role, Role]
    reasons: tuple[str, ...]


class RunSummary(Fact, frozen=True, kw_only=True):
    """One run of the experiment as its document shows it."""

    number: int
    kind: Kind
    role: Role
    pair: int | None
    began: str
    seconds: float
    ready_s: float | None
    result: str
    places: tuple[Place, ...]
    conditions: Conditions
    notes: tuple[str, ...] = ()


class Experiment(Comparison, frozen=True, kw_only=True):
    """A comparison that was run here: near and far as in :class:`Comparison`, and near against *current* beside it.

    ``arms`` names what ``near_…`` and ``far_…`` hold. ``production`` is near against the workload as launched today
    where both were run; ``far`` is then the positive control. ``complete`` is False where the experiment was
    interrupted. ``placement`` says for each arm where it was bound.
    """

    kind: Literal["experiment"] = "experiment"
    production: Comparison | None = None
    complete: bool = True
    runs_planned: int = 0
    runs: tuple[RunSummary, ...] = ()
    discarded: tuple[Discarded, ...] = ()
    placement: dict[str, str] = msgspec.field(default_factory=dict)
    rate_per_s: float | None = None
    capacity_per_s: dict[str, float] = msgspec.field(default_factory=dict)
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    plan: Plan | None = None
