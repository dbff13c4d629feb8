"""``/proc/zoneinfo`` of a host: DMA zones on the first node, Normal on nodes with CPUs, Movable on the others."""

from tests.support.hostbuilder.cpus import Layout, NodeFacts
from tests.support.hostbuilder.description import Host
from tests.support.hostbuilder.files import Tree

PAGE_KIB = {"x86_64": 4, "aarch64": 64}
DMA_KIB, DMA32_KIB = 15360, 2 << 20
ROWS = """\
  pages free     {free}
        min      {min}
        low      {low}
        high     {high}
        spanned  {managed}
        present  {managed}
        managed  {managed}
        cma      0
        protection: ({protection})
      nr_free_pages {free}
      nr_zone_inactive_file {inactive}
      nr_zone_active_file {active}
      nr_free_cma  0
  pagesets
    cpu: 0
              count: 0
              high:  378
              batch: 63
  vm stats threshold: 125
  start_pfn:           1
"""


def write_zoneinfo(host: Host, layout: Layout, tree: Tree) -> None:
    """Write the file."""
    page = PAGE_KIB.get(host.arch, 4)
    tree.text("/proc/zoneinfo", "".join(_node(node, page) for node in layout.nodes.values() if node.total_kib))


def _node(node: NodeFacts, page_kib: int) -> str:
    zones = _zones(node)
    largest = zones[-1][0]
    used = node.total_kib - node.free_kib
    text = ""
    for number, (name, kib) in enumerate(zones):
        minimum = kib // 4000
        in_use = used if name == largest else 0
        above = sum(size for _, size in zones[number + 1 :])
        rows = ROWS.format(
            free=(kib - in_use) // page_kib,
            min=minimum // page_kib,
            low=minimum * 5 // 4 // page_kib,
            high=minimum * 3 // 2 // page_kib,
            managed=kib // page_kib,
            protection=f"0, {above // 256 // page_kib}",
            inactive=in_use // 5 // page_kib,
            active=in_use // 6 // page_kib,
        )
        stats = f"  per-node stats\n      nr_inactive_file {used // 5 // page_kib}\n" if number == 0 else ""
        text += f"Node {node.id}, zone {name:>8}\n{stats}{rows}"
    return text


def _zones(node: NodeFacts) -> list[tuple[str, int]]:
    if not node.cpus:
        return [("Movable", node.total_kib)]
    if node.id:
        return [("Normal", node.total_kib)]
    return [("DMA", DMA_KIB), ("DMA32", DMA32_KIB), ("Normal", node.total_kib - DMA_KIB - DMA32_KIB)]
