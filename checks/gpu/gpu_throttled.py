from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope, needs
from hostdoctor.diagnosis.api import gpu_label
from hostdoctor.diagnosis.counters import Rise, rise
from hostdoctor.diagnosis.report import Severity
from hostdoctor.diagnosis.subjects import brief
from hostdoctor.facts import Gpu, Host

SHARE = 0.01
NS_PER_S = 1_000_000_000
FAULTS = {"hw_thermal": "hardware thermal slowdown", "hw_power_brake": "power brake", "sw_thermal": "thermal slowdown",
          "thermal": "thermal slowdown"}  # fmt: skip
BY_DESIGN = {"sw_power_cap": "power limit"}

KINDS: tuple[tuple[dict[str, str], Severity], ...] = ((FAULTS, "warning"), (BY_DESIGN, "info"))


@check("HD509", "gpu-throttled", "warning", needs=(needs.gpus, needs.sampled))
def gpu_throttled(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find GPUs whose clocks were held down while sampled.

    ## What it checks
    With `--sample`: for what share of the time the driver slowed a GPU in scope down because of heat or the power brake
    signal; more than 1 % is a warning. The configured power limit at work is information.

    ## Why it matters
    A hot or under-supplied GPU runs at a fraction of its clock, and all others of its group wait for it. Running at the
    power limit is what a busy GPU does.

    ## Remedy
    Heat: fans, air flow, dust, inlet temperature, liquid loop. Power brake: power supplies and their cables.

    ## References
    - https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
    """
    scope = in_scope(host, ask)
    told = {gpu_label(host, gpu): rises for gpu in scope if (rises := _throttled(host, gpu)) is not None}
    for reasons, severity in KINDS:
        slowed = {label: {k: r for k, r in rises.items() if k in reasons} for label, rises in told.items()}
        slowed = {label: rises for label, rises in slowed.items() if rises}
        if slowed:
            labels = list(slowed)
            words = dict.fromkeys(reasons[key] for rises in slowed.values() for key in rises)
            most = max(_share(r) for rises in slowed.values() for r in rises.values())
            yield finding(
                ", ".join(labels),
                f"{brief(labels)}: clocks held down by {', '.join(words)} for up to {most:.0%} of the time",
                severity,
                evidence=[r.evidence for rises in slowed.values() for r in rises.values()],
                effect="the group runs at the pace of its slowest GPU" if severity == "warning" else "by design",
                remedy=Remedy(
                    text="Heat: fans, air flow, inlet temperature; power brake: power supplies and cables."
                    if severity == "warning"
                    else "Nothing: a busy GPU runs at its power limit.",
                    undo="None needed.",
                    verify="hostdoctor check --select HD509 --sample 60 under the same load.",
                ),
            )
    if len(told) < len(scope):
        yield Skip(kind="no-evidence", reason="the driver gave no throttling counters")


def _throttled(host: Host, gpu: Gpu) -> dict[str, Rise] | None:
    """Return what held a GPU's clocks down for more than the share; None when nothing was counted."""
    keys = (*FAULTS, *BY_DESIGN)
    counted = {key: r for key in keys if (r := rise(host, f"nvml.{gpu.index}.throttle_{key}_ns"))}
    return {key: r for key, r in counted.items() if _share(r) > SHARE} if counted else None


def _share(r: Rise) -> float:
    return min(1.0, r.by / NS_PER_S / r.seconds)
