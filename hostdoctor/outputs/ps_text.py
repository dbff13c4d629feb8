"""Processes for a person at a terminal: a table, and below each row where its memory is and what to do."""

from collections.abc import Iterator

from hostdoctor.diagnosis.process_places import WARNINGS, Placement, ProcessReport
from hostdoctor.facts import ProcessMemory
from hostdoctor.outputs.style import Style
from hostdoctor.outputs.words import printable
from hostdoctor.parsers.cpulist import format_cpulist

MIB, GIB = 1 << 20, 1 << 30
MAX_CPUS = 20
# Column titles, left to right; where a terminal is narrow, those go first that stand first in _EXPENDABLE.
_TITLES = ("PID", "COMMAND", "GPUS", "NODE", "CPUS", "MEMORY", "LOCAL", "SHARED", "SHARED LOCAL", "VERDICT")
_EXPENDABLE = (4, 7, 8, 5)
_RIGHT = frozenset((0, 5, 6, 7, 8))
_COLOURS = {"ok": "ok", "memory-far": "warning", "cpus-far": "warning", "unknown": "unknown"}


def render_processes(report: ProcessReport, style: Style) -> str:
    """Return the table, with the reasons and remedies below each row, and what could not be told."""
    lines: list[str] = []
    if report.processes:
        rows = [_cells(placement) for placement in report.processes]
        columns = _columns(rows, style)
        widths = {i: max(len(row[i]) for row in (_TITLES, *rows)) for i in columns}
        lines.append(style.paint(_row(_TITLES, widths), "bold"))
        for placement, cells in zip(report.processes, rows, strict=True):
            lines.append(_coloured(_row(cells, widths), placement, style))
            lines += _details(placement, style)
    elif not report.gaps:
        lines.append("No process uses a GPU.")
    told = {f"processes[{placement.process.pid}].memory" for placement in report.processes}
    for gap in report.gaps:
        if gap.fact not in told:
            text = f"not known: {printable(gap.fact)} ({printable(gap.source)}: {printable(gap.reason)})"
            lines.append(style.wrap(text, "", "    "))
    return "\n".join(lines) + "\n"


def _cells(placement: Placement) -> tuple[str, ...]:
    process = placement.process
    cpus = process.cpus or "?"
    sizes = [told.anon_bytes + told.shared_bytes + told.file_bytes for told in process.memory]
    return (
        str(process.pid),
        printable(process.name or "?"),
        format_cpulist(process.gpus) or "-",
        format_cpulist(placement.nodes) or "?",
        cpus if len(cpus) <= MAX_CPUS else cpus[: MAX_CPUS - 1] + "…",
        _size(sum(sizes)) if sizes else "?",
        _percent(placement.local_share),
        _size(sum(told.shared_bytes for told in process.memory)) if process.memory else "?",
        _percent(placement.shared_local_share),
        placement.verdict.replace("-", " "),
    )


def _columns(rows: list[tuple[str, ...]], style: Style) -> tuple[int, ...]:
    """Return the columns that a line has room for."""
    kept = list(range(len(_TITLES)))
    for column in _EXPENDABLE:
        width = sum(max(len(row[i]) for row in (_TITLES, *rows)) + 2 for i in kept) - 2
        if style.width is None or width <= style.width:
            break
        kept.remove(column)
    return tuple(kept)


def _row(cells: tuple[str, ...], widths: dict[int, int]) -> str:
    padded = (cells[i].rjust(width) if i in _RIGHT else cells[i].ljust(width) for i, width in widths.items())
    return "  ".join(padded).rstrip()


def _coloured(row: str, placement: Placement, style: Style) -> str:
    word = placement.verdict.replace("-", " ")
    colour = _COLOURS.get(placement.verdict)
    return row if colour is None else row.removesuffix(word) + style.paint(word, colour)


def _details(placement: Placement, style: Style) -> Iterator[str]:
    process = placement.process
    for reason in placement.reasons:
        yield style.wrap(printable(reason), "    ", "      ")
    for text in _by_node(placement):
        yield style.wrap(text, "    ", "      ")
    notes = [f"PID {process.container_pid} in its container"] if process.container_pid else []
    notes += [f"read from {process.memory_source}"] if process.memory_source == "memory.numa_stat" else []
    notes += [f"policy {_policies(process.policies)}"] if set(process.policies) - {"default"} else []
    notes += [f"{_size(process.pinned_bytes)} pinned otherwise (VmPin)"] if process.pinned_bytes else []
    notes += [f"{_size(process.locked_bytes)} locked (VmLck)"] if process.locked_bytes else []
    if notes:
        yield style.wrap(printable("; ".join(notes)), "    ", "      ")
    if placement.verdict in WARNINGS and placement.remedy:
        yield style.wrap(f"do: {placement.remedy}", "    ", "        ")


def _by_node(placement: Placement) -> Iterator[str]:
    process = placement.process
    memory = {told.node: told for told in process.memory}
    threads = {int(node): count for node, count in process.threads_by_node.items()}
    for node in sorted({*memory, *threads}):
        told = memory.get(node, ProcessMemory(node=node))
        sizes = f"{_size(told.anon_bytes)} private, {_size(told.shared_bytes)} shared, {_size(told.file_bytes)} files"
        count = threads.get(node, 0)
        last = f"; {count} thread{'s' * (count != 1)} ran last" if threads else ""
        yield f"node {node}: {sizes if process.memory else 'memory not known'}{last}"


def _policies(policies: dict[str, int]) -> str:
    """Return the policy that most memory is below."""
    name = max(policies, key=lambda name: policies[name])
    return f"{name} for {_size(policies[name])}"


def _size(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.1f} GiB" if size_bytes >= 10 * GIB else f"{size_bytes / MIB:.1f} MiB"


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{part:.0%}"
