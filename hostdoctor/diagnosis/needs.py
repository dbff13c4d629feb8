"""Needs that several checks share: each returns None when met, else the Skip to report."""

from hostdoctor.diagnosis.api import Ask, in_scope
from hostdoctor.diagnosis.report import Skip
from hostdoctor.facts import Host


def gpus(host: Host, ask: Ask) -> Skip | None:
    """Want at least one GPU in scope."""
    return None if in_scope(host, ask) else Skip(kind="not-applicable", reason="no GPU in scope")


def several_cpu_nodes(host: Host, ask: Ask) -> Skip | None:
    """Want more than one node with CPUs, so that placement is a question at all."""
    if not host.numa_nodes:
        return Skip(kind="no-evidence", reason="NUMA nodes are not known")
    if len(cpu_nodes(host)) > 1:
        return None
    return Skip(kind="not-applicable", reason="one CPU node: nothing to place")


def nvme(host: Host, ask: Ask) -> Skip | None:
    """Want at least one NVMe controller."""
    return None if host.nvme else Skip(kind="not-applicable", reason="no NVMe controller known")


def live(host: Host, ask: Ask) -> Skip | None:
    """Refuse anything but this machine, now."""
    return None if host.is_live else Skip(kind="live-only", reason="only on the running host")


def two_readings(host: Host, ask: Ask) -> Skip | None:
    """Want counters that were read twice, as rates need."""
    if host.samples:
        return None
    return Skip(kind="no-evidence" if host.is_live else "live-only", reason="rates need two readings: --sample 10")


def plan_paths(host: Host, ask: Ask) -> Skip | None:
    """Want to be told where the model or the KV cache lies."""
    if ask.model_path or ask.kv_path:
        return None
    return Skip(kind="no-plan", reason="no path stated: --model-path, --kv-path")


def cpu_nodes(host: Host) -> tuple[int, ...]:
    """Return the ids of the nodes that have CPUs."""
    return tuple(node.id for node in host.numa_nodes if node.cpus)
