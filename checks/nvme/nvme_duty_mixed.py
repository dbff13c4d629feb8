from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.diagnosis.needs import nvme, plan_paths
from hostdoctor.diagnosis.places import duties, grounds
from hostdoctor.facts import Host


@check("HD406", "nvme-duty-mixed", "warning", needs=(plan_paths, nvme))
def nvme_duty_mixed(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Warn that the model or the KV cache shares a drive with the system, although another drive is there.

    ## What it checks
    The NVMe drives below `--model-path` and `--kv-path`, through partitions, md, dm and btrfs: what else is mounted on
    them (`/`, swap, `/var`, logs, a database), and whether another NVMe drive has none of these. Not in a container,
    which does not see the host's mounts.

    ## Why it matters
    Flushes and writes of the system go into the same queues, and a drive that writes answers reads late. A KV tier
    that fills the root file system stops the host.

    ## Remedy
    Put the path on the other drive. Where there is only one, this check keeps quiet.

    ## References
    - https://docs.kernel.org/block/blk-mq.html
    """
    if host.system.container:
        yield Skip(kind="no-evidence", reason="a container does not show what the host keeps on its drives")
        return
    found, skips = grounds(host, ask)
    yield from skips
    holds = {disk.name: disk.holds for disk in host.block_devices}
    for ground in found:
        mixed = {disk: named for disk in ground.place.disks if (named := duties(holds.get(disk, ())))}
        spaces = [namespace for drive in host.nvme if drive.transport == "pcie" for namespace in drive.namespaces]
        others = [name for name in spaces if name not in ground.place.disks and not duties(holds.get(name, ()))]
        if mixed and others:
            yield finding(
                ", ".join(mixed),
                f"{', '.join(ground.labels)} shares its drive: "
                + "; ".join(f"{disk} also has {', '.join(named)}" for disk, named in mixed.items()),
                "warning",
                evidence=[ground.evidence]
                + [(f"/proc/self/mountinfo, /proc/swaps, {disk}", ", ".join(holds[disk])) for disk in mixed],
                effect="the system's writes delay the reads; how far is unknown",
                remedy=Remedy(
                    text=f"Move it to a drive without other duties: {', '.join(others)}.",
                    risk="restart",
                    scope="process",
                    undo="Use the old path again.",
                    verify="hostdoctor check with the new path ends without this line.",
                ),
            )
