"""The records of a matrix that is run: its plan, its servers, its runs, and the document that comes of them."""

from typing import Literal

import msgspec

from hostdoctor.facts import SCHEMA_VERSION, Fact, LinkReading
from hostdoctor.measure.documents import CacheHits, DiskWatch
from hostdoctor.measure.matrix.boundary import Row, Verdict
from hostdoctor.measure.matrix.experiment import Experiment, Slo
from hostdoctor.measure.matrix.grid import Cell, Series, StruckCell
from hostdoctor.measure.matrix.judge import Judged
from hostdoctor.measure.trial_model import Arm, Conditions, Place


class Plan(Fact, frozen=True, kw_only=True):
    """What will be run. ``arms`` has for each series' slug how its server is started; ``budget_s`` None: no limit."""

    schema_version: str = SCHEMA_VERSION
    created: str
    hostdoctor: str
    hostname: str | None = None
    directory: str | None = None
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    experiment: Experiment
    bisect: bool = False
    arms: dict[str, Arm]
    client_cpus: str | None = None
    gpu_indices: tuple[int, ...] = ()
    link_path: tuple[str, ...] = ()
    disks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Signals(Fact, frozen=True, kw_only=True):
    """What was seen beside a run's client. Shares are of its time; None and absent names: not told.

    ``pressure`` (PSI, "some") by cpu, io, memory; ``engine`` has rises of the engine's counters and means of its gauges
    by their Prometheus names without ``vllm:``; ``links`` what each PCIe link of the GPUs showed.
    """

    conditions: Conditions
    disks: tuple[DiskWatch, ...] = ()
    caches: tuple[CacheHits, ...] = ()
    pressure: dict[str, float] = msgspec.field(default_factory=dict)
    engine: dict[str, float] = msgspec.field(default_factory=dict)
    links: tuple[LinkReading, ...] = ()
    notes: tuple[str, ...] = ()


class Failure(Fact, frozen=True, kw_only=True):
    """Why a cell came to no result; ``stage`` start: its server never was ready. ``log`` are the last lines."""

    stage: Literal["start", "run", "requests"]
    reason: str
    log: tuple[str, ...] = ()


class RunRecord(Fact, frozen=True, kw_only=True):
    """A run that came to its end, or that failed. ``result`` is its raw file, relative to the folder."""

    cell: Cell
    repeat: int
    seed: int
    began: str
    seconds: float
    server: str
    ready_s: float | None = None
    result: str | None = None
    place: Place | None = None
    signals: Signals | None = None
    failure: Failure | None = None


class Moved(Fact, frozen=True, kw_only=True):
    """A signal that was another where the SLO breaks than where it holds."""

    signal: str
    holds: float
    breaks: float
    unit: str
    words: str


class Break(Fact, frozen=True, kw_only=True):
    """Where a series leaves the SLO: the cell that breaks, the last that holds before it, and what moved with it.

    ``watched`` is False where no signal was seen at all (result files from elsewhere).
    """

    cell: Cell
    holds: Cell | None = None
    reason: str | None = None
    moved: tuple[Moved, ...] = ()
    watched: bool = False


class CellResult(Fact, frozen=True, kw_only=True):
    """One cell as the document shows it: which cuts it is part of, what its repeats say, what was seen beside them."""

    cell: Cell
    slices: tuple[str, ...] = ()
    judged: Judged
    results: tuple[str, ...] = ()
    signals: dict[str, float] = msgspec.field(default_factory=dict)
    failure: Failure | None = None


class SeriesResult(Fact, frozen=True, kw_only=True):
    """One series' boundary, where it breaks, and what follows in words; ``title`` is its variant's."""

    series: Series
    title: str = ""
    kind: str = "other"
    state: Verdict
    rows: tuple[Row, ...] = ()
    basis: Literal["samples", "runs", "one-run", "none"] = "none"
    breaks: tuple[Break, ...] = ()
    decisions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Remedy(Fact, frozen=True, kw_only=True):
    """A remedy, in the order in which to try them, with what was measured of it."""

    name: str
    text: str
    measured: bool = False


class MatrixDocument(Fact, frozen=True, kw_only=True):
    """What a matrix says. ``complete`` is None where nobody planned the runs (result files from elsewhere)."""

    schema_version: str = SCHEMA_VERSION
    kind: Literal["matrix"] = "matrix"
    name: str | None = None
    hostname: str | None = None
    created: str | None = None
    model: str | None = None
    tokenizer: str | None = None
    output_tokens: int | None = None
    slo: Slo
    complete: bool | None = None
    bisect: bool = False
    runs: int = 0
    series: tuple[SeriesResult, ...] = ()
    cells: tuple[CellResult, ...] = ()
    struck: tuple[StruckCell, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    warnings: tuple[str, ...] = ()
