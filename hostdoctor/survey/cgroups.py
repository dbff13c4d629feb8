"""The caller's control groups: their CPU quotas and memory limits, version 2 (``cpu.max``) or 1 (``cpu.cfs_…``)."""

from hostdoctor.facts import Cgroup, MemoryGroup
from hostdoctor.sources.base import Source
from hostdoctor.survey.values import integer, line

MOUNT = "/sys/fs/cgroup"
MAX_DEPTH = 32
# Version 1 shows "no limit" as the largest multiple of the page size; no machine has 2^60 bytes.
NO_LIMIT_BYTES = 1 << 60


def read_cgroups(source: Source) -> tuple[Cgroup, ...]:
    """Return the caller's group and those above it as far as their files can be seen, the innermost first."""
    root, path = _membership(source, "cpu")
    return tuple(group for path, folder in _ancestry(root, path) if (group := _group(source, path, folder)))


def read_memory_groups(source: Source) -> tuple[MemoryGroup, ...]:
    """Return the caller's group and those above it that have memory files in sight, the innermost first."""
    root, path = _membership(source, "memory")
    groups = (_memory_group(source, path, folder) for path, folder in _ancestry(root, path))
    return tuple(group for group in groups if group is not None)


def _ancestry(root: str, path: str) -> list[tuple[str, str]]:
    """Return the groups from the caller's own up to the root, each with its folder."""
    parts = [part for part in path.split("/") if part][:MAX_DEPTH]
    if ".." in parts:  # another namespace's group: where it is cannot be told from here
        parts = []
    paths = ["/" + "/".join(parts[:depth]) for depth in range(len(parts), -1, -1)]
    return [(path, f"{root}{path}".rstrip("/")) for path in paths]


def _membership(source: Source, controller: str) -> tuple[str, str]:
    """Return the folder of the hierarchy with a controller and the caller's path in it (``4:cpu,cpuacct:/a/b``)."""
    rows = [row.split(":", 2) for row in (source.read("/proc/self/cgroup") or "").splitlines()[:64]]
    for _, controllers, path in (row for row in rows if len(row) == 3):
        if controller in controllers.split(","):
            named = f"{MOUNT}/{controllers}"
            return (named if source.listdir(named) else f"{MOUNT}/{controller}"), path
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


def _memory_group(source: Source, path: str, folder: str) -> MemoryGroup | None:
    stat = _memory_stat(source.read(f"{folder}/memory.stat") or "")
    if (most := line(source, f"{folder}/memory.max")) is not None:
        return MemoryGroup(
            path=path,
            folder=folder,
            version=2,
            max_bytes=integer(most),
            high_bytes=integer(line(source, f"{folder}/memory.high")),
            charged_bytes=integer(line(source, f"{folder}/memory.current")),
            active_file_bytes=stat.get("active_file"),
            inactive_file_bytes=stat.get("inactive_file"),
        )
    own = integer(line(source, f"{folder}/memory.limit_in_bytes"))
    if own is None and line(source, f"{folder}/memory.usage_in_bytes") is None:
        return None
    limits = [limit for limit in (own, stat.get("hierarchical_memory_limit")) if limit is not None]
    return MemoryGroup(
        path=path,
        folder=folder,
        version=1,
        max_bytes=min((limit for limit in limits if limit < NO_LIMIT_BYTES), default=None),
        charged_bytes=integer(line(source, f"{folder}/memory.usage_in_bytes")),
        active_file_bytes=stat.get("total_active_file"),
        inactive_file_bytes=stat.get("total_inactive_file"),
    )


def _memory_stat(text: str) -> dict[str, int]:
    pairs = (row.split() for row in text.splitlines())
    numbers = ((pair[0], integer(pair[1])) for pair in pairs if len(pair) == 2)
    return {name: value for name, value in numbers if value is not None}
