"""How each node's memory is used and what the kernel keeps free of it: nodeN/meminfo and /proc/zoneinfo."""

import msgspec

from hostdoctor.errors import ParseError
from hostdoctor.facts import Gap, Host, MemoryZone, NodeMemory, NumaNode
from hostdoctor.parsers.node_meminfo import parse_node_meminfo
from hostdoctor.parsers.zoneinfo import ZoneInfo, parse_zoneinfo
from hostdoctor.sources.base import Source
from hostdoctor.survey.memory_limits import pinned_bytes
from hostdoctor.survey.nodes import NODES
from hostdoctor.survey.values import integer

ZONEINFO = "/proc/zoneinfo"
PAGE_SIZES = (4096, 16384, 65536)  # what Linux runs with on x86, Arm and POWER
_FIELDS = {
    "free_bytes": "MemFree",
    "active_file_bytes": "Active(file)",
    "inactive_file_bytes": "Inactive(file)",
    "file_bytes": "FilePages",
    "shmem_bytes": "Shmem",
    "anon_bytes": "AnonPages",
    "unevictable_bytes": "Unevictable",
    "mlocked_bytes": "Mlocked",
}


def with_node_memory(source: Source, host: Host) -> Host:
    """Return the host with its page size and with the use and the zones of each node's memory."""
    gaps: list[Gap] = []
    zones = _zones(source, gaps) if source.listdir(NODES) else ()
    page_size = _page_size(source, host, zones)
    if page_size is None and zones:
        reason = "not told, and managed pages and MemTotal do not give one"
        gaps.append(Gap(fact="system.page_size_bytes", source=ZONEINFO, reason=reason))
    nodes = tuple(_with_memory(source, node, zones, page_size, gaps) for node in host.numa_nodes)
    system = msgspec.structs.replace(host.system, page_size_bytes=page_size)
    return msgspec.structs.replace(host, system=system, numa_nodes=nodes, gaps=(*host.gaps, *gaps))


def _zones(source: Source, gaps: list[Gap]) -> tuple[ZoneInfo, ...]:
    text = source.read(ZONEINFO)
    if text is None:
        kind, reason = source.why_unreadable(ZONEINFO)
        gaps.append(Gap(fact="numa_nodes.memory.zones", source=ZONEINFO, reason=reason, kind=kind))
        return ()
    try:
        return parse_zoneinfo(text, ZONEINFO)
    except ParseError as error:
        gaps.append(Gap(fact="numa_nodes.memory.zones", source=ZONEINFO, reason=str(error), kind="unreadable"))
        return ()


def _page_size(source: Source, host: Host, zones: tuple[ZoneInfo, ...]) -> int | None:
    """Return what the kernel said, else the size that makes each node's managed pages its MemTotal."""
    told = integer(source.probe("page_size"))
    if told in PAGE_SIZES:
        return told
    return next((size for size in PAGE_SIZES if _explains(size, host.numa_nodes, zones)), None)


def _explains(page_size: int, nodes: tuple[NumaNode, ...], zones: tuple[ZoneInfo, ...]) -> bool:
    """Tell whether pages of this size make up what the nodes have; both are the same counter, read twice."""
    managed = {node.id: sum(z.managed for z in zones if z.node == node.id) * page_size for node in nodes}
    pairs = [(managed[node.id], node.memory_bytes) for node in nodes if node.memory_bytes and managed[node.id]]
    return bool(pairs) and all(abs(pages - total) * 100 <= total for pages, total in pairs)


def _with_memory(
    source: Source, node: NumaNode, zones: tuple[ZoneInfo, ...], page_size: int | None, gaps: list[Gap]
) -> NumaNode:
    path = f"{NODES}/node{node.id}/meminfo"
    text = source.read(path)
    if text is None:
        return node  # the gap of its size says why
    try:
        values = parse_node_meminfo(text, path).values
    except ParseError as error:
        gap = Gap(fact=f"numa_nodes[{node.id}].memory", source=path, reason=str(error), kind="unreadable")
        gaps.append(gap)
        return node
    facts = {field: values.get(name) for field, name in _FIELDS.items()}
    memory = NodeMemory(
        **facts,
        kreclaimable_bytes=values.get("KReclaimable", values.get("SReclaimable")),  # the former since 4.20
        zones=tuple(_zone(z, page_size) for z in zones if page_size and z.node == node.id and z.managed),
        pinned_bytes=pinned_bytes(source.read(f"{NODES}/node{node.id}/vmstat"), page_size),
    )
    return msgspec.structs.replace(node, memory=memory)


def _zone(zone: ZoneInfo, page_size: int) -> MemoryZone:
    return MemoryZone(
        name=zone.name,
        managed_bytes=zone.managed * page_size,
        free_bytes=zone.free * page_size,
        min_bytes=zone.min * page_size,
        low_bytes=zone.low * page_size,
        high_bytes=zone.high * page_size,
        reserve_bytes=zone.reserve * page_size,
        cma_free_bytes=None if zone.free_cma is None else zone.free_cma * page_size,
        file_bytes=None if zone.file is None else zone.file * page_size,
    )
