"""``lscpu``: the CPU's name, sockets and threads, the NUMA nodes' CPUs, and the hypervisor (util-linux, lscpu.c).

The plain form (``NUMA node0 CPU(s):  0-31``), the grouped one of newer versions, and ``-J``, in any language.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact, Gap
from hostdoctor.parsers.cpulist import count_cpulist
from hostdoctor.parsers.lscpu_labels import (
    by_structure,
    cpus_of,
    field_of,
    is_plausible,
    is_sign_of_lscpu,
    is_told_of_virtualization,
    node_id,
    virtualization_of,
)
from hostdoctor.parsers.lscpu_nodes import NodeLists
from hostdoctor.parsers.lscpu_text import Pair, read_pairs
from hostdoctor.parsers.text import excerpt

_MARKS = ("On-line CPU", " Endian", "BogoMIPS", "NUMA")
_TOGETHER = (
    ("cpus", "online"),
    ("threads_per_core", "cores_per_socket", "sockets"),
    ("model_name",),
    ("hypervisor_vendor", "virtualization_type"),
)
_INTEGER = re.compile(r"[1-9][0-9]{0,6}")
_ONCE = frozenset({"architecture", "cpus", "online", "numa_node_count"})
# What a field is called in the host that is made of it.
_FACTS = {
    "architecture": "system.architecture",
    "model_name": "system.cpu_model",
    "sockets": "system.packages",
    "hypervisor_vendor": "system.virtualization",
}


class LscpuNode(Fact, frozen=True, kw_only=True):
    """A node's CPUs; ``""`` where it has none, None where the list cannot be trusted."""

    id: int
    cpus: str | None = None


class LscpuRecord(Fact, frozen=True, kw_only=True):
    """One output. ``online`` is a cpulist; ``hypervisor_vendor`` is None without a gap where lscpu found none.

    ``cores_per_socket`` counts the cores of all types together; ``model_name`` joins several types' names.
    """

    architecture: str | None = None
    model_name: str | None = None
    cpus: int | None = None
    online: str | None = None
    sockets: int | None = None
    cores_per_socket: int | None = None
    threads_per_core: int | None = None
    numa_node_count: int | None = None
    nodes: tuple[LscpuNode, ...] = ()
    hypervisor_vendor: str | None = None
    virtualization_type: str | None = None
    gaps: tuple[Gap, ...] = ()


def parse_lscpu(text: str, source: str = "lscpu") -> LscpuRecord:
    """Return what the first complete output in a text tells, else the fullest one.

    Facts in gaps are named as in the host (``system.packages``, ``numa_nodes[1].cpus``); those that it has not,
    by the field. Raises ParseError when there is no output of ``lscpu`` (its ``-e`` and ``-p`` tables are none).
    """
    blocks = _blocks(read_pairs(excerpt(text, _MARKS)))
    records = [record for block in blocks if (record := _Reading(block, source).record()) is not None]
    if not records:
        first = next((line for line in text[:4096].splitlines() if line.strip()), "")
        raise ParseError(source, 0, first, "no output of lscpu")
    return next(filter(_is_complete, records), None) or max(records, key=_told)


def _blocks(pairs: Sequence[Pair]) -> Iterator[list[Pair]]:
    """Yield the pairs of one output after the other; what is there once and comes again begins a new one."""
    block: list[Pair] = []
    seen: set[object] = set()
    for pair in pairs:
        mark = _once(pair)
        if mark is not None and mark in seen:
            yield block
            block, seen = [], set()
        block.append(pair)
        if mark is not None:
            seen.add(mark)
    yield block


def _once(pair: Pair) -> object:
    if pair.value in {"Little Endian", "Big Endian"}:
        return "byte order"
    field = field_of(pair)
    return field if field in _ONCE else node_id(pair)


def _is_complete(record: LscpuRecord) -> bool:
    return bool(record.cpus and record.online) and (record.numa_node_count or 0) == len(record.nodes)


def _told(record: LscpuRecord) -> int:
    return len(record.nodes) + sum(getattr(record, field) is not None for field in record.__struct_fields__)


def _listed(nodes: Mapping[int, str | None]) -> int:
    return sum(count_cpulist(cpus or "") for cpus in nodes.values())


class _Reading:
    """Making a record of one output's pairs; ``gaps`` collects why something is not known."""

    def __init__(self, pairs: Sequence[Pair], source: str) -> None:
        self.pairs = pairs
        self.source = source
        self.gaps: dict[str, str] = {}
        self.told: dict[str, list[Pair]] = {}
        for pair in pairs:
            field = field_of(pair)
            if field:
                self.told.setdefault(field, []).append(pair)
        self.nodes = NodeLists(pairs)
        self._add_by_structure()

    def record(self) -> LscpuRecord | None:
        """Return the record, None where the pairs are not lscpu's."""
        cpus, threads, sockets = self._number("cpus"), self._number("threads_per_core"), self._number("sockets")
        online = self._online(cpus)
        count = self._number("numa_node_count")
        if not self.nodes.pairs and count is None and online is None and not (cpus and threads):
            return None
        nodes = self.nodes.lists(online, count, self.gaps)
        vendor, kind = self._hypervisor()
        return LscpuRecord(
            architecture=self._word("architecture"),
            model_name=self._word("model_name"),
            cpus=cpus,
            online=online,
            sockets=sockets,
            cores_per_socket=self._cores(cpus or _listed(nodes), threads, sockets),
            threads_per_core=threads,
            numa_node_count=count,
            nodes=tuple(LscpuNode(id=node, cpus=cpus) for node, cpus in sorted(nodes.items())),
            hypervisor_vendor=vendor,
            virtualization_type=kind,
            gaps=tuple(Gap(fact=fact, source=self.source, reason=reason) for fact, reason in self.gaps.items()),
        )

    def _add_by_structure(self) -> None:
        """Add what lines of unknown labels tell, in an output of lscpu, and where nothing known contradicts it."""
        if not (self.nodes.pairs or any(map(is_sign_of_lscpu, self.pairs))):
            return
        found = by_structure(self.pairs)
        for fields in _TOGETHER:
            known = {field: self.told[field][0] for field in fields if field in self.told}
            if all(found.get(field) == pair for field, pair in known.items()):
                self.told |= {field: [found[field]] for field in fields if field in found and field not in known}

    def _gap(self, field: str, reason: str) -> None:
        self.gaps[_FACTS.get(field, field)] = reason

    def _is_cut(self, field: str) -> bool:
        """Tell whether the text ends within a field's value, of which something may be lost then."""
        is_cut = any(pair.is_cut for pair in self.told.get(field, ()))
        if is_cut:
            self._gap(field, "the text ends here")
        return is_cut

    def _number(self, field: str) -> int | None:
        if self._is_cut(field):
            return None
        values = {pair.value for pair in self.told.get(field, ())}
        if len(values) != 1:
            self._gap(field, "differs between CPU types" if values else "not printed")
            return None
        value = values.pop()
        if not _INTEGER.fullmatch(value):
            self._gap(field, f"printed as {value[:20]!r}")
            return None
        return int(value)

    def _cores(self, cpus: int, threads: int | None, sockets: int | None) -> int | None:
        """Return the cores of a socket; several CPU types print theirs one after the other.

        None where they do not add up to the CPUs there are and lines are lost; an average is printed for uneven ones.
        """
        printed = self.told.get("cores_per_socket", ())
        values = [pair.value for pair in printed if _INTEGER.fullmatch(pair.value)]
        if not values or self._is_cut("cores_per_socket"):
            return self._number("cores_per_socket")
        total = sum(map(int, values))
        product = total * (threads or 0) * (sockets or 0)
        is_whole = "cpus" in self.told and ("hypervisor_vendor" in self.told or is_told_of_virtualization(self.pairs))
        if (product < cpus and not is_whole) or (len(printed) > 1 and product != cpus):
            self._gap("cores_per_socket", "does not add up to the CPUs")
            return None
        return total

    def _word(self, field: str) -> str | None:
        if self._is_cut(field):
            return None
        words = list(dict.fromkeys(pair.value for pair in self.told.get(field, ())))
        known = [word for word in words if word not in {"", "-", "unknown"} and ":" not in word]
        if not known or not all(is_plausible(field, word) for word in known):
            self._gap(field, f"printed as {words[0]!r}" if words else "not printed")
            return None
        return " + ".join(known)

    def _online(self, cpus: int | None) -> str | None:
        pair = self.told.get("online", [None])[0]
        if pair is None:
            self._gap("online", "not printed")
            return None
        try:
            online = cpus_of(pair.value, is_mask=self.nodes.is_mask)
        except ParseError as error:
            self._gap("online", f"{error.reason}: {pair.value[:40]!r}")
            return None
        if not online or ((pair.is_glued or pair.is_cut) and count_cpulist(online) != cpus):
            self._gap("online", "the list is cut")
            return None
        return online

    def _hypervisor(self) -> tuple[str | None, str | None]:
        """Return the hypervisor and how it virtualizes; no line is no gap where those around it are there."""
        pairs = self.told.get("hypervisor_vendor")
        if not pairs:
            if not is_told_of_virtualization(self.pairs):
                self._gap("hypervisor_vendor", "not printed")
            return None, None
        word = self.told["virtualization_type"][0].value if "virtualization_type" in self.told else ""
        kind = virtualization_of(word)
        if kind is None:
            self._gap("virtualization_type", f"printed as {word[:20]!r}" if word else "not printed")
        return self._word("hypervisor_vendor"), kind
