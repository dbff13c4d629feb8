"""What limits pinned memory beyond the nodes: control groups, kubelet, strict overcommit, /dev/shm, the engine."""

from hostdoctor.facts import Fact, Host, MemoryGroup

SHM = "/dev/shm"  # noqa: S108  the mount, not a file of ours
SGLANG_RESERVE_BYTES = 10 << 30  # HiCache refuses to start when less would be left available


class Limit(Fact, frozen=True, kw_only=True):
    """How much more may be pinned in all by one rule; ``bytes`` None with a ``reason`` where that cannot be told.

    ``source`` is the path or command that shows it, ``value`` what it shows.
    """

    name: str
    bytes: int | None
    source: str
    value: str
    reason: str | None = None


def total_limits(host: Host, growth_bytes: int, *, eviction_bytes: int | None = None) -> tuple[Limit, ...]:
    """Return the limits on all that the caller pins; ``growth_bytes`` is what it will use beside that."""
    found = [*group_limits(host.memory_groups, growth_bytes)]
    found += _kubelet(host, growth_bytes, eviction_bytes)
    found += _overcommit(host, growth_bytes)
    return tuple(found)


def group_limits(groups: tuple[MemoryGroup, ...], growth_bytes: int = 0) -> tuple[Limit, ...]:
    """Return how much each group with a limit still lets the caller pin.

    Of the charge the page cache's lists (``inactive_file`` and ``active_file``) can be given back. ``file`` is never
    used: it counts shared memory too, so that pinned memory would look as if it could be given back.
    """
    return tuple(
        _of_group(group, name, limit, growth_bytes)
        for group in groups
        for name, limit in _named(group)
        if limit is not None
    )


def shm_limit(host: Host) -> Limit:
    """Return how much fits into /dev/shm now."""
    place = host.memory.shm
    if place is None:
        return _unknown(SHM, f"statvfs {SHM}", "no file system at /dev/shm is known")
    room = place.available_bytes if place.available_bytes is not None else place.size_bytes
    if room is None:
        return _unknown(SHM, f"statvfs {SHM}", "the size of /dev/shm is not known")
    return Limit(name=SHM, bytes=room, source=f"statvfs {SHM}", value=f"{room} bytes of {place.size_bytes}")


def sglang_limit(host: Host) -> Limit:
    """Return what SGLang's own check before it makes its pools allows: 10 GiB stay available."""
    name, source = "SGLang's reserve", "/proc/meminfo MemAvailable"
    available = host.memory.available_bytes
    if available is None:
        return _unknown(name, source, "MemAvailable is not known")
    room = max(0, available - SGLANG_RESERVE_BYTES)
    return Limit(name=name, bytes=room, source=source, value=f"{available} bytes, 10 GiB kept")


def tightest(limits: tuple[Limit, ...]) -> Limit | None:
    """Return the limit with the least room, None while one is unknown or there is none."""
    if not limits or any(limit.bytes is None for limit in limits):
        return None
    return min(limits, key=lambda limit: limit.bytes or 0)


def _named(group: MemoryGroup) -> tuple[tuple[str, int | None], ...]:
    if group.version == 1:
        return (("memory.limit_in_bytes", group.max_bytes),)
    return (("memory.max", group.max_bytes), ("memory.high", group.high_bytes))


def _of_group(group: MemoryGroup, name: str, limit: int, growth_bytes: int) -> Limit:
    label, source = f"cgroup {group.path} {name}", f"{group.folder}/{name}"
    charged, active, inactive = group.charged_bytes, group.active_file_bytes, group.inactive_file_bytes
    if charged is None or active is None or inactive is None:
        return _unknown(label, source, f"what {group.path} is charged with is not known")
    kept = max(0, charged - active - inactive)
    value = f"{limit}; charged {charged}, of that files {active + inactive}"
    return Limit(name=label, bytes=max(0, limit - kept - growth_bytes), source=source, value=value)


def _kubelet(host: Host, growth_bytes: int, eviction_bytes: int | None) -> list[Limit]:
    """Kubelet counts as available what is free or inactive file, and evicts pods below its threshold."""
    stated = eviction_bytes is not None
    kept = eviction_bytes if stated else host.memory.kubelet_eviction_bytes
    if kept is None:
        return []
    name, source = "kubelet eviction", "--eviction-gib" if stated else "kubelet evictionHard memory.available"
    parts = [n.memory.inactive_file_bytes if n.memory else None for n in host.numa_nodes if n.memory_bytes != 0]
    free = host.memory.free_bytes
    told = [part for part in parts if part is not None]
    if free is None or not parts or len(told) < len(parts):
        return [_unknown(name, source, "free memory and inactive files are not known")]
    room = max(0, free + sum(told) - kept - growth_bytes)
    return [Limit(name=name, bytes=room, source=source, value=f"{kept} bytes kept of {free + sum(told)}")]


def _overcommit(host: Host, growth_bytes: int) -> list[Limit]:
    """Under strict overcommit the kernel refuses what goes beyond CommitLimit, however much is free."""
    if host.settings.get("vm.overcommit_memory") != "2":
        return []
    limit, committed = host.memory.commit_limit_bytes, host.memory.committed_bytes
    source = "/proc/meminfo CommitLimit, Committed_AS"
    if limit is None or committed is None:
        return [_unknown("CommitLimit", source, "CommitLimit and Committed_AS are not known")]
    room = max(0, limit - committed - growth_bytes)
    return [Limit(name="CommitLimit", bytes=room, source=source, value=f"{limit} − {committed}")]


def _unknown(name: str, source: str, reason: str) -> Limit:
    return Limit(name=name, bytes=None, source=source, value="not known", reason=reason)
