from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.diagnosis.subjects import bare_metal
from hostdoctor.facts import CpuPower, Host

# In these modes "powersave" names an algorithm that follows the load; EPP says how far it saves.
ACTIVE = ("intel_pstate", "amd-pstate-epp")
DEEP_US = 10  # C1 takes about 1


@check("HD313", "cpu-power-saving", "info")
def cpu_power_saving(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find CPUs that save power at the cost of latency, and say how long they take to wake.

    ## What it checks
    The governor of every CPU frequency policy is not `performance`. With active intel_pstate or amd-pstate that is the
    ordinary state and information (nothing at all with the preference `performance`); with other drivers a warning on
    bare metal. One CPU's idle states give the wake-up times.

    ## Why it matters
    The thread that submits copies and kernels sleeps often and briefly: it then runs on a slow clock, and leaving a
    deep idle state costs each wake-up. Throughput hardly changes, the tail does.

    ## Remedy
    Set the governor `performance` (a tuned profile or cpupower), then measure the tail. It draws more power.

    ## References
    - https://docs.kernel.org/admin-guide/pm/cpufreq.html
    - https://docs.kernel.org/admin-guide/pm/intel_pstate.html
    """
    power = host.cpu_power
    saving = {name: count for name, count in power.governors.items() if name != "performance"}
    if not power.governors:
        yield Skip(kind="no-evidence", reason="no governor is known (none in most virtual machines)")
    if not saving or (power.driver in ACTIVE and set(power.energy_preferences) == {"performance"}):
        return
    governors = ", ".join(f"{name} on {count} of {sum(power.governors.values())}" for name, count in saving.items())
    foreign = power.driver is not None and power.driver not in ACTIVE
    hint = f", preference {'/'.join(power.energy_preferences)}" if power.energy_preferences else ""
    yield finding(
        "host",
        f"CPUs save power: governor {governors} policies ({power.driver or 'driver unknown'}{hint}){_deep(power)}",
        "warning" if foreign and bare_metal(host) else "info",
        evidence=[("/sys/devices/system/cpu/cpufreq/policy*/scaling_governor", governors)]
        + [(f"/sys/devices/system/cpu/cpu0/cpuidle, {s.name}", f"{s.exit_latency_us} µs") for s in power.idle_states],
        remedy=Remedy(
            text="Set the governor performance for the whole host (tuned, cpupower); compare the tail then.",
            undo=f"Set the governor back to {', '.join(saving)}.",
            verify="scaling_governor reads performance for every policy.",
        ),
    )


def _deep(power: CpuPower) -> str:
    deep = [s for s in power.idle_states if (s.exit_latency_us or 0) >= DEEP_US and not s.disabled]
    return "; wake-up from " + ", ".join(f"{s.name} {s.exit_latency_us} µs" for s in deep) if deep else ""
