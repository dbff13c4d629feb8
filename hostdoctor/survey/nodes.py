"""NUMA nodes and physical cores from sysfs (Documentation/ABI/stable/sysfs-devices-node, sysfs-devices-system-cpu)."""

import re

import msgspec

from hostdoctor.errors import ParseError
from hostdoctor.facts import Core, Gap, HugePages, NumaNode
from hostdoctor.parsers.cpulist import cpulist_ranges, format_cpulist, is_within, parse_cpulist
from hostdoctor.sources.base import Source
from hostdoctor.survey.values import cpulist, ids, integer

NODES = "/sys/devices/system/node"
CPUS = "/sys/devices/system/cpu"
KIB = 1024
MAX_THREADS = 64  # of a core; POWER has 8
MAX_PACKAGE = 1 << 16  # -1 as an unsigned number is no package
_DISTANCE = re.compile(r"[1-9][0-9]{1,2}")  # ACPI reserves what is below 10, a node's distance to itself


def read_nodes(source: Source, packages: dict[int, int]) -> tuple[tuple[NumaNode, ...], tuple[Gap, ...]]:
    """Return the online nodes, ascending; ``packages`` maps a CPU to its package. Kinds are given later."""
    online = _online(source, NODES, "node")
    gaps: list[Gap] = []
    nodes = tuple(_node(source, node, online, packages, gaps) for node in online)
    if not nodes:
        kind, reason = source.why_unreadable(f"{NODES}/online")
        gaps.append(Gap(fact="numa_nodes", source=f"{NODES}/online", reason=reason, kind=kind))
    return nodes, tuple(gaps)


def read_cores(source: Source) -> tuple[Core, ...]:
    """Return the online physical cores with their hardware threads, ascending by first thread.

    Where the threads of some CPU that tells them cannot be, how many cores there are is not known: then ``()``.
    """
    cores: dict[str, Core] = {}
    doubtful: set[int] = set()
    for cpu in _online(source, CPUS, "cpu"):
        topology = f"{CPUS}/cpu{cpu}/topology"
        key = _threads(source.read(f"{topology}/thread_siblings_list"), _mask(source, topology))
        if key and not is_within(str(cpu), (key,)):
            doubtful.add(cpu)
        elif key and key not in cores:
            cores[key] = Core(cpus=key, package=_package(source, topology))
    if doubtful and not doubtful <= {cpu for key in cores for cpu in parse_cpulist(key)}:
        return ()
    return tuple(cores.values()) or _cores_of_cpuinfo(source.read("/proc/cpuinfo") or "")


def _threads(listed: str | None, mask: str) -> str | None:
    """Return a core's threads, None where nobody tells them, or for more than any core has."""
    try:
        count = sum(map(len, cpulist_ranges(listed or "")))
    except ParseError:
        count = 0
    if count:
        return cpulist(listed) if count <= MAX_THREADS else None
    digits = len(mask) - mask.count("0") - mask.count(",")
    return _mask_cpus(mask) if digits <= MAX_THREADS else None


def _cores_of_cpuinfo(text: str) -> tuple[Core, ...]:
    """Return the cores as x86 shows them in /proc/cpuinfo (``processor``, ``physical id``, ``core id``)."""
    threads: dict[tuple[int, int], list[int]] = {}
    for block in text.split("\n\n"):
        pairs = (row.partition(":") for row in block.splitlines())
        told = {key.strip(): integer(value) for key, _, value in pairs}
        cpu, package, core = (told.get(key) for key in ("processor", "physical id", "core id"))
        if cpu is not None and package is not None and core is not None:
            threads.setdefault((package, core), []).append(cpu)
    ordered = sorted(threads.items(), key=lambda item: min(item[1]))
    return tuple(Core(cpus=format_cpulist(cpus), package=package) for (package, _), cpus in ordered)


def _package(source: Source, topology: str) -> int | None:
    package = integer(source.read(f"{topology}/physical_package_id"))
    return package if package is not None and package < MAX_PACKAGE else None


def _mask(source: Source, topology: str) -> str:
    """Return a core's threads as a bitmap, where there is no list (old kernels, some captures)."""
    return source.read(f"{topology}/thread_siblings") or source.read(f"{topology}/core_cpus") or ""


def packages_by_cpu(cores: tuple[Core, ...]) -> dict[int, int]:
    """Return each CPU's package, where the kernel tells it."""
    return {cpu: core.package for core in cores if core.package is not None for cpu in parse_cpulist(core.cpus)}


def with_packages(nodes: tuple[NumaNode, ...], packages: dict[int, int]) -> tuple[NumaNode, ...]:
    """Return the nodes with their packages, where a text told the CPUs."""
    return tuple(
        n if n.package is not None else msgspec.structs.replace(n, package=_only_package(n.cpus, packages))
        for n in nodes
    )


def _online(source: Source, folder: str, prefix: str) -> tuple[int, ...]:
    """Return the online ids of a folder of numbered things, from its list or else from its names."""
    names = (re.fullmatch(rf"{prefix}(\d{{1,6}})", name) for name in source.listdir(folder))
    present = {int(match.group(1)) for match in names if match}
    listed = ids(source.read(f"{folder}/online"))
    return tuple(sorted(present & listed if listed else present))


def _node(source: Source, node: int, online: tuple[int, ...], packages: dict[int, int], gaps: list[Gap]) -> NumaNode:
    base = f"{NODES}/node{node}"
    cpus = _cpus(source, base, node, gaps)
    meminfo = source.read(f"{base}/meminfo") or ""
    total, free = _meminfo_bytes(meminfo, "MemTotal"), _meminfo_bytes(meminfo, "MemFree")
    if total is None:
        gaps.append(_gap(source, f"numa_nodes[{node}].memory_bytes", f"{base}/meminfo"))
    return NumaNode(
        id=node,
        cpus=cpus,
        memory_bytes=total,
        free_bytes=free,
        distances=_distances(source, base, node, online, gaps),
        package=_only_package(cpus, packages),
        hugepages=_hugepages(source, base),
    )


def _cpus(source: Source, base: str, node: int, gaps: list[Gap]) -> str | None:
    listed = ids(source.read(f"{base}/cpulist"))
    if listed is not None:
        return format_cpulist(listed)
    mask = source.read(f"{base}/cpumap")  # kernels before 2.6.30 have no cpulist
    cpus = _mask_cpus(mask) if mask else None
    if cpus is None:
        gaps.append(_gap(source, f"numa_nodes[{node}].cpus", f"{base}/cpulist"))
    return cpus


def _mask_cpus(mask: str) -> str | None:
    """Return the CPUs of a kernel bitmap: comma-separated 32-bit hexadecimal words, most significant first."""
    words = mask.strip().split(",")
    if len(words) > 512 or not all(re.fullmatch(r"[0-9a-fA-F]{1,8}", word) for word in words):
        return None
    bits = int("".join(word.zfill(8) for word in words), 16)
    return format_cpulist(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1)


def _distances(source: Source, base: str, node: int, online: tuple[int, ...], gaps: list[Gap]) -> dict[str, int]:
    """Return the distance to each online node; the kernel prints one number for each, in order of id."""
    text = source.read(f"{base}/distance")
    values = (text or "").split()
    if len(values) == len(online) and all(_DISTANCE.fullmatch(value) for value in values):
        return {str(other): int(value) for other, value in zip(online, values, strict=True)}
    if text is None:
        gaps.append(_gap(source, f"numa_nodes[{node}].distances", f"{base}/distance"))
    else:
        is_short = len(values) != len(online)
        reason = f"{len(values)} distances for {len(online)} nodes" if is_short else f"no distances: {text[:80]!r}"
        gaps.append(Gap(fact=f"numa_nodes[{node}].distances", source=f"{base}/distance", reason=reason))
    return {}


def _hugepages(source: Source, base: str) -> tuple[HugePages, ...]:
    pools = []
    for name in source.listdir(f"{base}/hugepages"):
        match = re.fullmatch(r"hugepages-(\d{1,12})kB", name)
        total = integer(source.read(f"{base}/hugepages/{name}/nr_hugepages"))
        if match and total is not None:
            free = integer(source.read(f"{base}/hugepages/{name}/free_hugepages"))
            pools.append(HugePages(size_bytes=int(match.group(1)) * KIB, total=total, free=free))
    return tuple(pools)


def _only_package(cpus: str | None, packages: dict[int, int]) -> int | None:
    """Return the package that holds all of a node's CPUs, None when they span packages or nobody tells."""
    found = {packages.get(cpu) for cpu in parse_cpulist(cpus or "")}
    return found.pop() if len(found) == 1 else None


def _meminfo_bytes(meminfo: str, field: str) -> int | None:
    match = re.search(rf"\b{field}:\s+(\d{{1,15}}) kB", meminfo)
    return int(match.group(1)) * KIB if match else None


def _gap(source: Source, fact: str, path: str) -> Gap:
    kind, reason = source.why_unreadable(path)
    return Gap(fact=fact, source=path, reason=reason, kind=kind)
