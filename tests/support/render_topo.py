"""Prints a TopoMatrix as ``nvidia-smi topo -m`` does: for round trips, and for doubles of the command."""

from collections.abc import Iterator

from hostdoctor.facts import Path
from hostdoctor.parsers.topo_matrix import TopoGpu, TopoMatrix

LEGEND = """
Legend:

  X    = Self
  SYS  = Path over PCIe and the interconnect between NUMA nodes
  NODE = Path over PCIe and the interconnect between host bridges within a NUMA node
  PHB  = Path over PCIe and a host bridge
  PXB  = Path over several PCIe bridges
  PIX  = Path over one PCIe bridge at most
  NV#  = Path over # bonded NVLinks
"""


def render_topo(
    matrix: TopoMatrix,
    *,
    numa: bool = True,
    memory: bool = True,
    underlined: bool = True,
    soc: bool = False,
    legend: bool = True,
    tab_width: int = 0,
) -> str:
    """Return the matrix's text. A pair without a path is printed as ``?``, an unknown CPU list as a blank.

    ``numa`` and ``memory``: the columns that drivers since 450 and 535 have (``memory`` needs ``numa``);
    ``underlined``: escapes about the header, even into a pipe; ``soc``: the old word for SYS; ``tab_width``: tabs
    expanded, as copying from a terminal does.
    """
    labels = [gpu.label for gpu in matrix.gpus] + [nic.label for nic in matrix.nics]
    titles = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"][: 1 + numa + (numa and memory)]
    header = "\t".join([*labels, *titles])
    kinds = {(path.a, path.b): path.kind for path in matrix.paths} | {(p.b, p.a): p.kind for p in matrix.paths}
    lines = ["\t" + (f"\x1b[4m{header}\x1b[0m" if underlined else header)]
    for i, label in enumerate(labels):
        cells = [" X " if other == label else _kind(kinds.get((label, other), "?"), soc) for other in labels]
        tail = (
            _affinity(matrix.gpus[i], len(titles)) if i < len(matrix.gpus) else ["", "", "", ""][: 2 * len(titles) - 2]
        )
        lines.append("\t".join([label, *cells, *tail]))
    lines += _legends(matrix) if legend else []
    text = "\n".join(lines) + "\n"
    return text.expandtabs(tab_width) if tab_width else text


def square(labels: list[str], kinds: list[str]) -> tuple[Path, ...]:
    """Return the paths between labels, the upper triangle's kinds row by row."""
    pairs = [(a, b) for i, a in enumerate(labels) for b in labels[i + 1 :]]
    return tuple(Path(a=a, b=b, kind=kind) for (a, b), kind in zip(pairs, kinds, strict=True))


def _kind(kind: str, soc: bool) -> str:
    return "SOC" if soc and kind == "SYS" else kind


def _affinity(gpu: TopoGpu, titles: int) -> list[str]:
    nodes = gpu.numa_nodes
    told = ",".join(map(str, nodes)) if len(nodes) < 2 else f"{nodes[0]}-{nodes[-1]}"
    cells = [gpu.cpus or ""]
    if titles > 1:
        cells += [told] if told or not gpu.cpus else ["", "N/A"]
    if titles > 2:
        cells += ["", "N/A" if gpu.memory_numa_node is None else str(gpu.memory_numa_node)]
    return cells


def _legends(matrix: TopoMatrix) -> Iterator[str]:
    yield from LEGEND.rstrip("\n").split("\n")
    named = [nic for nic in matrix.nics if nic.name and nic.name != nic.label]
    if named:
        yield from ("", "NIC Legend:", "")
        yield from (f"  {nic.label}: {nic.name}" for nic in named)
