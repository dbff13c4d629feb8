"""``hostdoctor budget --format json``: the stable document."""

import msgspec

from hostdoctor.budget.fit import Fit, Largest
from hostdoctor.budget.limits import Limit
from hostdoctor.budget.offload import KvOffload, Options
from hostdoctor.budget.pinned import Budget
from hostdoctor.budget.ranks import Rank
from hostdoctor.diagnosis.report import Finding
from hostdoctor.facts import SCHEMA_VERSION, Fact


class Planned(Fact, frozen=True, kw_only=True):
    """What the plan pins on a node; None while a rank's node is not known."""

    weights_bytes: int | None
    kv_bytes: int | None


class NodeEntry(Fact, frozen=True, kw_only=True):
    """A node of the budget."""

    id: int
    memory_bytes: int | None
    available_bytes: int | None
    pinnable_bytes: int | None
    bound_by: str | None
    planned: Planned


class Total(Fact, frozen=True, kw_only=True):
    """All nodes together."""

    pinnable_bytes: int | None
    bound_by: str | None


class Weights(Fact, frozen=True, kw_only=True):
    """How many times their size offloaded weights pin, and where that figure comes from."""

    rounding_factor: float | None = None
    source: str | None = None


class BudgetDocument(Fact, frozen=True, kw_only=True):
    """The document. ``shares`` has each rank's part; the parts of a DP engine add up to its total to the byte."""

    schema_version: str = SCHEMA_VERSION
    nodes: tuple[NodeEntry, ...]
    total: Total
    fits: bool | None
    flags: tuple[str, ...]
    kv_offload: KvOffload
    weights: Weights
    findings: tuple[Finding, ...] = ()
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    shares: tuple[Rank, ...] = ()
    limits: tuple[Limit, ...] = ()
    largest: Largest = Largest()
    reason: str | None = None


def document(
    budget: Budget,
    fit: Fit,
    largest: Largest,
    options: Options,
    kv: KvOffload,
    weights: Weights,
    findings: list[Finding],
    limits: tuple[Limit, ...],
    *,
    has_plan: bool,
) -> BudgetDocument:
    """Return the document of a judged budget."""
    nodes = tuple(
        NodeEntry(
            id=node.id,
            memory_bytes=node.memory_bytes,
            available_bytes=node.available_bytes,
            pinnable_bytes=node.pinnable_bytes,
            bound_by=node.bound_by,
            planned=Planned(weights_bytes=node.weights_bytes, kv_bytes=node.kv_bytes),
        )
        for node in budget.nodes
    )
    return BudgetDocument(
        nodes=nodes,
        total=Total(pinnable_bytes=budget.pinnable_bytes, bound_by=budget.bound_by),
        fits=fit.fits,
        flags=options.flags,
        kv_offload=kv,
        weights=weights,
        findings=tuple(findings),
        environment=options.environment,
        shares=budget.ranks,
        limits=limits,
        largest=largest,
        reason=fit.reason if has_plan else budget.reason,
    )
