"""Writing what ``numactl --hardware`` prints of given nodes: the parser must read back just these."""

from collections.abc import Iterable, Sequence

from hostdoctor.parsers.cpulist import parse_cpulist
from hostdoctor.parsers.numactl import MIB, NumactlNode


def render_numactl(nodes: Sequence[NumactlNode], *, compress: bool = False) -> str:
    """Return the output for nodes in ascending order; ``compress`` is ``--cpu-compress``.

    A size that is None prints as numactl prints what the kernel did not tell; distances that are ``{}`` everywhere
    leave the table out.
    """
    lines = [f"available: {len(nodes)} nodes ({_ids(node.id for node in nodes)})"]
    for node in nodes:
        lines.append(f"node {node.id} cpus:{_cpus(node.cpus or '', compress)}")
        lines.append(f"node {node.id} size: {_megabytes(node.memory_bytes)}")
        lines.append(f"node {node.id} free: {_megabytes(node.free_bytes)}")
    if not any(node.distances for node in nodes):
        return "\n".join([*lines, "No distance information available.", ""])
    lines += ["node distances:", "node  " + "".join(f"{node.id:4d} " for node in nodes)]
    for node in nodes:
        lines.append(f"{node.id:4d}: " + "".join(f"{node.distances[str(other.id)]:4d} " for other in nodes))
    return "\n".join([*lines, ""])


def _cpus(cpus: str, compress: bool) -> str:
    ids = sorted(parse_cpulist(cpus))
    if compress:
        return f"{','.join(' ' + item for item in cpus.split(',')) if cpus else ''} ({len(ids)})"
    return "".join(f" {cpu}" for cpu in ids)


def _megabytes(size_bytes: int | None) -> str:
    return "<not available>" if size_bytes is None else f"{size_bytes // MIB} MB"


def _ids(ids: Iterable[int]) -> str:
    """Return ids as numactl lists them: runs of two as ``0-1`` too."""
    runs: list[list[int]] = []
    for i in ids:
        if runs and i == runs[-1][-1] + 1:
            runs[-1].append(i)
        else:
            runs.append([i])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
