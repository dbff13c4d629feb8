"""Small builders for tests of the memory, NVMe and doctor checks: a host from what differs, and what a check said."""

import importlib
from typing import Any

from hostdoctor.diagnosis import Ask, Finding, Skip
from hostdoctor.diagnosis.api import Check, Rule
from hostdoctor.facts import Gap, Host, NumaNode, NvmeController, NvmeQueue

GIB = 1 << 30


def load(folder: str, name: str) -> Check:
    """Return a check by its file; type checkers cannot follow the package's path, so it is imported by name."""
    function: Check = getattr(importlib.import_module(f"hostdoctor.checks.{folder}.{name}"), name)
    return function


def node(id: int, cpus: str | None, memory_gib: float | None = 512.0, **more: Any) -> NumaNode:
    """Return a node; ``cpus`` "" is a node known to have none."""
    return NumaNode(id=id, cpus=cpus, memory_bytes=None if memory_gib is None else int(memory_gib * GIB), **more)


def two_nodes(**more: Any) -> Host:
    """Return a two-socket host: node 0 has CPUs 0-3, node 1 has 4-7, 512 GiB each."""
    return Host(numa_nodes=(node(0, "0-3"), node(1, "4-7")), **more)


def drive(name: str | None = "nvme0", **more: Any) -> NvmeController:
    """Return a PCIe NVMe controller with one namespace."""
    given: dict[str, Any] = {"bdf": "0000:41:00.0", "transport": "pcie", "namespaces": (f"{name}n1",), "numa_node": 0}
    return NvmeController(name=name, **(given | more))


def queue(id: int, cpus: str | None, irq_cpus: str | None = None) -> NvmeQueue:
    """Return an I/O queue whose interrupt is 100 + id."""
    return NvmeQueue(id=id, irq=100 + id, cpus=cpus, irq_cpus=irq_cpus)


def gap(fact: str, source: str, reason: str, kind: Any = "not-told") -> Gap:
    """Return a gap."""
    return Gap(fact=fact, source=source, reason=reason, kind=kind)


def judge(function: Check, host: Host, ask: Ask | None = None) -> tuple[list[Finding], list[Skip]]:
    """Run a check as the runner does, needs first; return its findings and skips."""
    rule: Rule = function.rule  # type: ignore[attr-defined]
    ask = ask or Ask()
    unmet = [skip for need in rule.needs if (skip := need(host, ask)) is not None]
    if unmet:
        return [], unmet[:1]
    said = list(function(host, ask))
    return [f for f in said if isinstance(f, Finding)], [s for s in said if isinstance(s, Skip)]


def fires(function: Check, host: Host, ask: Ask | None = None) -> Finding:
    """Return the only finding of a check, complete as every finding has to be."""
    findings, _ = judge(function, host, ask)
    assert len(findings) == 1, findings
    found = findings[0]
    assert found.subject
    assert found.evidence
    assert all(seen.source and seen.value and seen.value != "None" for seen in found.evidence)
    assert found.remedy.text
    assert found.remedy.undo
    assert found.remedy.verify
    return found


def quiet(function: Check, host: Host, ask: Ask | None = None) -> str | None:
    """Return the kind of the skip of a check that found nothing, None when it passed."""
    findings, skips = judge(function, host, ask)
    assert not findings
    assert len(skips) <= 1
    return skips[0].kind if skips else None
