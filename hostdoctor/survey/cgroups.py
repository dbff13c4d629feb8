"""The caller's control groups and their CPU quotas, version 2 (``cpu.max``) or 1 (``cpu.cfs_quota_us``)."""

from hostdoctor.facts import Cgroup
from hostdoctor.sources.base import Source
from hostdoctor.survey.values import integer, line

MOUNT = "/sys/fs/cgroup"
MAX_DEPTH = 32


def read_cgroups(source: Source) -> tuple[Cgroup, ...]:
    """Return the caller's group and those above it as far as their files can be seen, the innermost first."""
    root, path = _membership(source)
    parts = [part for part in path.split("/") if part][:MAX_DEPTH]
    if ".." in parts:  # another namespace's group: where it is cannot be told from here
        parts = []
    paths = ["/" + "/".join(parts[:depth]) for depth in range(len(parts), -1, -1)]
    groups = (_group(source, path, f"{root}{path}".rstrip("/")) for path in paths)
    return tuple(group for group in groups if group is not None)


def _membership(source: Source) -> tuple[str, str]:
    """Return the folder of the hierarchy that limits CPUs and the caller's path in it (``4:cpu,cpuacct:/a/b``)."""
    rows = [row.split(":", 2) for row in (source.read("/proc/self/cgroup") or "").splitlines()[:64]]
    for _, controllers, path in (row for row in rows if len(row) == 3):
        if "cpu" in controllers.split(","):
            named = f"{MOUNT}/{controllers}"
            return (named if source.listdir(named) else f"{MOUNT}/cpu"), path
    unified = next((row[2] for row in rows if len(row) == 3 and row[0] == "0"), "/")
    hybrid = f"{MOUNT}/unified"
    return (hybrid if source.listdir(hybrid) else MOUNT), unified


def _group(source: Source, path: str, folder: str) -> Cgroup | None:
    quota, period = (line(source, f"{folder}/cpu.max") or "").partition(" ")[::2]
    if not quota:
        quota = line(source, f"{folder}/cpu.cfs_quota_us") or ""
        period = line(source, f"{folder}/cpu.cfs_period_us") or ""
    if quota in ("max", "-1"):
        return Cgroup(path=path, folder=folder, cpu_limited=False)
    quota_us, period_us = integer(quota), integer(period)
    if not quota_us or not period_us:
        return None
    return Cgroup(path=path, folder=folder, cpu_limited=True, cpu_limit_cpus=quota_us / period_us)
