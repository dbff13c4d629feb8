"""Interrupts: numbers handed out as drivers ask for them, then ``/proc/interrupts``, ``/proc/irq`` and ``msi_irqs``."""

from dataclasses import dataclass

from hostdoctor.parsers.cpulist import format_cpulist
from tests.support.hostbuilder.cpus import Layout
from tests.support.hostbuilder.files import Tree
from tests.support.hostbuilder.pci import Function

FIRST = 64


@dataclass(frozen=True, slots=True)
class Vector:
    """One MSI-X vector: the CPUs it may land on and the one where it does."""

    irq: int
    function: Function
    index: int
    name: str
    allowed: str
    lands_on: int
    count: int


class Interrupts:
    """The interrupts of a host."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._vectors: list[Vector] = []
        self._used: dict[str, int] = {}

    def add(self, function: Function, name: str, allowed: str, lands_on: int, count: int = 1000) -> int:
        """Give a function its next vector; return the interrupt's number."""
        index = self._used.get(function.bdf, 0)
        self._used[function.bdf] = index + 1
        irq = FIRST + len(self._vectors)
        self._vectors.append(Vector(irq, function, index, name, allowed, lands_on, count))
        return irq

    def write(self, arch: str, tree: Tree) -> None:
        """Write everything that shows interrupts."""
        node_of = {cpu.id: cpu.node for cpu in self._layout.cpus}
        for vector in self._vectors:
            folder = f"/proc/irq/{vector.irq}"
            values = {"smp_affinity_list": vector.allowed, "effective_affinity_list": vector.lands_on}
            tree.attributes(folder, values | {"node": node_of[vector.lands_on]})
            tree.put(f"{vector.function.path}/msi_irqs/{vector.irq}", "msix")
        tree.put("/proc/irq/default_smp_affinity", format_cpulist(self._layout.cpu_ids))
        tree.text("/proc/interrupts", self._table(arch))

    def _table(self, arch: str) -> str:
        cpus = len(self._layout.cpus)
        zeros = "         0 " * cpus
        lines = [" " * 12 + "".join(f"CPU{i:<8}" for i in range(cpus))]
        for vector in self._vectors:
            at = 11 * vector.lands_on
            cells = f"{zeros[:at]}{vector.count:>10} {zeros[at + 11 :]}"
            lines.append(f"{vector.irq:>4}: {cells} {_chip(arch, vector)}      {vector.name}")
        busy = "    120000 " * cpus
        names = (
            ("NMI", "Non-maskable interrupts"),
            ("LOC", "Local timer interrupts"),
            ("RES", "Rescheduling interrupts"),
        )
        lines += [f"{key:>4}: {busy} {text}" for key, text in names]
        return "\n".join([*lines, " ERR:          0", ""])


def _chip(arch: str, vector: Vector) -> str:
    if arch == "aarch64":
        return f"ITS-PCI-MSIX-{vector.function.bdf} {vector.index:>3} Edge"
    domain, bus, device, function = vector.function.address
    number = (domain << 32 | (bus << 8 | device << 3 | function) << 11 | vector.index) & 0xFFFFFFFFF
    return f"IR-PCI-MSI {number}-edge"
