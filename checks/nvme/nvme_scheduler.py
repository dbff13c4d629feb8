from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.diagnosis.needs import nvme
from hostdoctor.facts import Host


@check("HD408", "nvme-scheduler", "info", needs=(nvme,))
def nvme_scheduler(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find NVMe drives that run under an I/O scheduler or without I/O statistics.

    ## What it checks
    `queue/scheduler` and `queue/iostats` of each NVMe namespace.

    ## Why it matters
    A scheduler costs CPU time and a lock per request on drives that need no reordering; it can be meant, to keep one
    user from starving another. Without iostats nobody sees the drive's latency or queue depth.

    ## Remedy
    Scheduler `none` and iostats on, by a udev rule, if nobody chose otherwise; measure before and after.

    ## References
    - https://docs.kernel.org/block/switching-sched.html
    - https://docs.kernel.org/admin-guide/iostats.html
    """
    disks = [disk for disk in host.block_devices if disk.name.startswith("nvme")]  # multipath's nvme0c0n1 included
    if all(disk.scheduler is None and disk.iostats is None for disk in disks):
        yield Skip(kind="no-evidence", reason="no NVMe drive's scheduler or iostats is known")
    scheduled = [(disk.name, disk.scheduler) for disk in disks if disk.scheduler not in (None, "none")]
    if scheduled:
        yield finding(
            ", ".join(name for name, _ in scheduled),
            "NVMe drives under an I/O scheduler: " + ", ".join(f"{name} {used}" for name, used in scheduled),
            "info",
            evidence=[(f"/sys/block/{name}/queue/scheduler", used) for name, used in scheduled],
            remedy=Remedy(
                text="If nobody chose it, set the scheduler to none by a udev rule; measure before and after.",
                undo="Write the old scheduler back.",
                verify="queue/scheduler shows [none].",
            ),
        )
    silent = [disk.name for disk in disks if disk.iostats is False]
    if silent:
        yield finding(
            ", ".join(silent),
            "I/O statistics are off: latency and queue depth cannot be seen",
            "info",
            evidence=[(f"/sys/block/{name}/queue/iostats", 0) for name in silent],
            effect="iostat and hostdoctor read zeros for the drive",
            remedy=Remedy(
                text="Turn iostats on by a udev rule.",
                undo="Turn it off again.",
                verify="queue/iostats reads 1.",
            ),
        )
