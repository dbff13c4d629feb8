"""The check registry and runner: Host in, Report out."""

from hostdoctor.diagnosis.api import Ask, MemoryPlan, check, finding, in_scope
from hostdoctor.diagnosis.report import CheckResult, Evidence, Finding, Remedy, Report, Skip

__all__ = [
    "Ask",
    "CheckResult",
    "Evidence",
    "Finding",
    "MemoryPlan",
    "Remedy",
    "Report",
    "Skip",
    "check",
    "finding",
    "in_scope",
]
