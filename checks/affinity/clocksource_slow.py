from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.diagnosis.sockets import X86
from hostdoctor.facts import Host

SLOW = frozenset({"hpet", "acpi_pm", "jiffies"})
PATH = "/sys/devices/system/clocksource/clocksource0/"


@check("HD117", "clocksource-slow", "warning")
def clocksource_slow(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find x86 hosts that read the time from a slow device instead of the CPU's counter.

    ## What it checks
    The kernel's current clocksource: hpet, acpi_pm or jiffies instead of tsc or a hypervisor's clock. Other
    architectures have their own names and are not judged.

    ## Why it matters
    Reading hpet or acpi_pm is a system call and an uncached device read instead of a few instructions; CUDA, NCCL and
    the engines read the time all the time. jiffies is as coarse as a scheduler tick. How much that costs here is
    unknown.

    ## Remedy
    Read in the kernel log why tsc was given up (`Marking clocksource 'tsc' as unstable`) and update firmware and
    kernel. Forcing tsc against the kernel's verdict can make time run backwards.

    ## References
    - https://docs.kernel.org/timers/timekeeping.html
    """
    architecture, clocksource = host.system.architecture, host.system.clocksource
    if architecture is None or clocksource is None:
        yield Skip(kind="no-evidence", reason="the architecture or the clocksource is not known")
    elif architecture not in X86:
        yield Skip(kind="not-applicable", reason=f"not x86 ({architecture})")
    elif clocksource in SLOW:
        yield finding(
            "host",
            f"the clocksource is {clocksource}: every clock read is slow",
            "warning",
            evidence=[(PATH + "current_clocksource", clocksource)],
            effect="effect unknown: grows with the clock reads per token",
            remedy=Remedy(
                text="Find out in the kernel log why tsc was given up; update firmware and kernel. Do not force tsc.",
                risk="reboot",
                undo="None needed.",
                verify=f"cat {PATH}current_clocksource shows tsc, or the hypervisor's clock.",
            ),
        )
