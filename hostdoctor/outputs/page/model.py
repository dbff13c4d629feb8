"""What a report is made of. Figures carry their exact value beside the text that a person reads."""

from typing import Literal

from hostdoctor.budget.document import BudgetDocument
from hostdoctor.budget.pinned import NodeBudget
from hostdoctor.budget.plan import Plan
from hostdoctor.diagnosis.report import Report
from hostdoctor.facts import Fact

Tone = Literal["near", "far", "same", "unknown", "plain"]


class Figure(Fact, frozen=True, kw_only=True):
    """One number: ``text`` with its unit, and the value as its document holds it (None for words)."""

    text: str
    value: float | None = None


class Verdict(Fact, frozen=True, kw_only=True):
    """Near against far at one quantile: both arms, their ratio, and what that says."""

    what: str
    near: Figure
    far: Figure
    ratio: Figure
    tone: Tone
    words: str
    samples: str


class Table(Fact, frozen=True, kw_only=True):
    """A table of figures; the first cell of a row names it."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Figure, ...], ...]


class Chart(Fact, frozen=True, kw_only=True):
    """A drawing (SVG markup) and the sentence below it, which tells the sample sizes."""

    svg: str
    caption: str


class Measurement(Fact, frozen=True, kw_only=True):
    """One measured document: what, when and where, the verdict in one sentence, tables and drawings.

    ``section`` is the part of the page that it belongs to: near against far, what a drive or a cache did, a matrix.
    """

    title: str
    made: str
    headline: str = ""
    tone: Tone = "plain"
    arms: tuple[str, str] = ("near", "far")
    verdicts: tuple[Verdict, ...] = ()
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()
    notes: tuple[str, ...] = ()
    section: Literal["near-far", "nvme", "matrix"] = "near-far"


class Wrapper(Fact, frozen=True, kw_only=True):
    """How a command is started on a set of GPUs: one line and a script, or why neither can be."""

    title: str
    gpus: str
    line: str = ""
    script: str = ""
    reason: str = ""
    warnings: tuple[str, ...] = ()


class About(Fact, frozen=True, kw_only=True):
    """How the report came to be. ``commands`` reproduce it; ``versions`` are those of programs and drivers."""

    made_at: str
    versions: dict[str, str]
    commands: tuple[str, ...]


class Page(Fact, frozen=True, kw_only=True):
    """Everything on the page. ``documentation`` is each finding's check's, by id; wrappers start ``command``."""

    report: Report
    about: About
    documentation: dict[str, str] = {}  # noqa: RUF012  msgspec copies empty defaults
    command: str = ""
    wrappers: tuple[Wrapper, ...] = ()
    budget: BudgetDocument | None = None
    node_budgets: tuple[NodeBudget, ...] = ()
    budget_reason: str = ""
    measurements: tuple[Measurement, ...] = ()
    plan: Plan | None = None
