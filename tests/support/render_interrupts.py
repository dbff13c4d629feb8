"""``/proc/interrupts`` as the kernel prints it: the inverse that round-trip tests hold the parser against."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Line(NamedTuple):
    """One interrupt: its number (or label, ``NMI``), a count a CPU, and what follows the counts."""

    label: str
    counts: Sequence[int]
    tail: str


def render_interrupts(cpus: Sequence[int], lines: Sequence[Line]) -> str:
    """Return the table: labels right-aligned in at least three columns, counts in ten and a blank."""
    precision = max([3, *(len(line.label) for line in lines)])
    header = " " * (precision + 8) + "".join(f"CPU{cpu:<8d}" for cpu in cpus)
    rows = (f"{x.label:>{precision}}: " + "".join(f"{n:>10d} " for n in x.counts) + x.tail for x in lines)
    return "\n".join([header, *rows]) + "\n"


def nvme_line(irq: int, counts: Sequence[int], names: str, chip: str = "IR-PCI-MSI 524288-edge") -> Line:
    """Return an x86 row of NVMe queues."""
    return Line(str(irq), counts, f"{chip}      {names}")


def one_hot(cpus: Sequence[int], fired: Mapping[int, int]) -> list[int]:
    """Return a row's counts: zero but for the CPUs given."""
    return [fired.get(cpu, 0) for cpu in cpus]
