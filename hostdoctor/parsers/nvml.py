"""The document that the NVML reader writes (``sources/nvml_child.py``), from this host now or from a capture.

A field that is not what NVML tells (another type, or out of range) is None and leaves a gap; unknown
fields are ignored.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from hostdoctor.facts import Fabric, Fact, Gap
from hostdoctor.parsers.bdf import canonical_bdf

SOURCE = "NVML"
MAX_GPUS = 256
INDEXES = range(MAX_GPUS)
COUNTS = range(MAX_GPUS + 1)
NODES = range(0xFFFF)  # 0xffff is NVML's "none"
CPUS = range(1 << 20)
SIZES_BYTES = range(1 << 50)
NVLINKS = range(257)
GENERATIONS = range(7)  # 0: no link
WIDTHS_LANES = frozenset({0, 1, 2, 4, 8, 12, 16, 32})  # 0: no link
PSTATE_UNKNOWN = 32
PSTATES = frozenset({*range(16), PSTATE_UNKNOWN})
CLIQUES = range(1 << 32)
PIDS = range(1, 1 << 31)
# What Host calls the document's own fields.
FACTS = {"document.count": "nvidia.gpu_count", "document.driver_version": "system.nvidia_driver"}


class NvmlLink(Fact, frozen=True, kw_only=True):
    """A GPU's PCIe link; generations as NVML counts them (5 is 32 GT/s)."""

    width_lanes: int | None = None
    max_width_lanes: int | None = None
    generation: int | None = None
    max_generation: int | None = None


class NvmlGpu(Fact, frozen=True, kw_only=True):
    """A GPU as NVML tells it. ``errors`` are the library's words by field; it has an index or an address."""

    index: int | None = None
    bdf: str | None = None
    name: str | None = None
    uuid: str | None = None
    errors: Mapping[str, str] = msgspec.field(default_factory=dict)
    memory_node: int | None = None
    cpu_affinity: tuple[int, ...] = ()
    node_affinity: tuple[int, ...] = ()
    link: NvmlLink = NvmlLink()
    memory_bytes: int | None = None
    bar1_bytes: int | None = None
    mig: bool | None = None
    pstate: int | None = None
    persistence: bool | None = None
    c2c: bool | None = None
    nvlinks: int | None = None
    fabric: Fabric | None = None
    processes: tuple[int, ...] = ()


class NvmlDocument(Fact, frozen=True, kw_only=True):
    """What NVML told. ``is_whole``: the driver answered to the end and every GPU in the answer was understood."""

    driver_version: str | None = None
    count: int | None = None
    gpus: tuple[NvmlGpu, ...] = ()
    is_whole: bool = False
    gaps: tuple[Gap, ...] = ()


def parse_nvml(document: Mapping[str, Any] | None, *, ended: bool = True) -> NvmlDocument:
    """Return the records of a document, ``None`` being an empty one; ``ended``: the driver answered to the end.

    An entry that is no object, or has neither an index nor an address of its own, is left out with a gap.
    """
    gaps: list[Gap] = []
    top = _Fields(document or {}, "document", gaps)
    listed = (document or {}).get("gpus", [])
    if not isinstance(listed, list):
        gaps.append(_gap("gpus", f"not understood: {_shown(listed)}"))
        listed = []
    entries = [(i, entry) for i, entry in enumerate(listed[:MAX_GPUS]) if isinstance(entry, dict)]
    gpus = _unambiguous([_gpu(entry, i, gaps) for i, entry in entries], gaps)
    left_out = len(listed) - len(gpus)
    if left_out:
        gaps.append(_gap("gpus", f"not understood: {left_out} of {len(listed)} entries"))
    return NvmlDocument(
        driver_version=top.text("driver_version"),
        count=top.whole("count", COUNTS),
        gpus=tuple(gpus),
        is_whole=ended and not left_out,
        gaps=tuple(gaps),
    )


class _Fields:
    """The fields of an object, each as its kind or None; what is there and not of its kind leaves a gap."""

    def __init__(self, fields: Mapping[str, Any], subject: str, gaps: list[Gap]) -> None:
        self._fields = fields
        self._subject = subject
        self._gaps = gaps

    def whole(self, name: str, valid: "range | frozenset[int]") -> int | None:
        value = self._fields.get(name)
        if type(value) is int and value in valid:  # True is an int too
            return value
        self._refuse_told(name)
        return None

    def text(self, name: str) -> str | None:
        value = self._fields.get(name)
        if isinstance(value, str):
            return value or None
        self._refuse_told(name)
        return None

    def flag(self, name: str) -> bool | None:
        value = self._fields.get(name)
        if isinstance(value, bool):
            return value
        self._refuse_told(name)
        return None

    def ids(self, name: str, valid: range) -> tuple[int, ...]:
        value = self._fields.get(name)
        if isinstance(value, list) and all(type(item) is int and item in valid for item in value):
            return tuple(sorted(set(value)))
        self._refuse_told(name)
        return ()

    def inner(self, name: str) -> "_Fields":
        value = self._fields.get(name)
        if not isinstance(value, dict):
            self._refuse_told(name)
            value = {}
        return _Fields(value, f"{self._subject}.{name}", self._gaps)

    def words(self, name: str) -> dict[str, str]:
        """Return an object's texts by name."""
        inner = self.inner(name)
        told = {key: inner.text(key) for key in inner._fields}
        return {key: value for key, value in told.items() if value is not None}

    def bdf(self) -> str | None:
        text = self.text("bdf")
        bdf = canonical_bdf(text) if text else None
        if text and bdf is None:
            self._refuse_told("bdf")
        return bdf

    def fabric(self) -> Fabric | None:
        if self._fields.get("fabric") is None:
            return None
        told = self.inner("fabric")
        fabric = Fabric(
            state=told.text("state"),
            status=told.text("status"),
            clique_id=told.whole("clique_id", CLIQUES),
            cluster_uuid=told.text("cluster_uuid"),
        )
        return None if fabric == Fabric() else fabric

    def _refuse_told(self, name: str) -> None:
        """Leave a gap about a field, unless it is null or not there."""
        value = self._fields.get(name)
        if value is not None:
            self._gaps.append(_gap(f"{self._subject}.{name}", f"not understood: {_shown(value)}"))


def _gpu(entry: Mapping[str, Any], position: int, gaps: list[Gap]) -> NvmlGpu:
    index = _Fields(entry, f"gpus[{position}]", gaps).whole("index", INDEXES)
    if entry.get("index") is None:
        gaps.append(_gap(f"gpus[{position}].index", "not told"))
    told = _Fields(entry, f"gpus[{position if index is None else index}]", gaps)
    link = told.inner("link")
    pstate = told.whole("pstate", PSTATES)
    return NvmlGpu(
        index=index,
        bdf=told.bdf(),
        name=told.text("name"),
        uuid=told.text("uuid"),
        errors=told.words("errors"),
        memory_node=told.whole("memory_node", NODES),
        cpu_affinity=told.ids("cpu_affinity", CPUS),
        node_affinity=told.ids("node_affinity", NODES),
        link=NvmlLink(
            width_lanes=link.whole("width_lanes", WIDTHS_LANES) or None,
            max_width_lanes=link.whole("max_width_lanes", WIDTHS_LANES) or None,
            generation=link.whole("generation", GENERATIONS) or None,
            max_generation=link.whole("max_generation", GENERATIONS) or None,
        ),
        memory_bytes=told.whole("memory_bytes", SIZES_BYTES) or None,
        bar1_bytes=told.whole("bar1_bytes", SIZES_BYTES) or None,
        mig=told.flag("mig"),
        pstate=None if pstate == PSTATE_UNKNOWN else pstate,
        persistence=told.flag("persistence"),
        c2c=told.flag("c2c"),
        nvlinks=told.whole("nvlinks", NVLINKS),
        fabric=told.fabric(),
        processes=told.ids("processes", PIDS),
    )


def _unambiguous(gpus: list[NvmlGpu], gaps: list[Gap]) -> list[NvmlGpu]:
    """Return the GPUs without indices and addresses that several claim; what then has neither is left out."""
    indices, addresses = Counter(gpu.index for gpu in gpus), Counter(gpu.bdf for gpu in gpus)
    gaps += [
        _gap(f"gpus[{index}].index", f"told of {n} GPUs") for index, n in indices.items() if n > 1 and index is not None
    ]
    gaps += [_gap("gpus", f"{bdf}: told of {n} GPUs") for bdf, n in addresses.items() if bdf and n > 1]
    own = [
        msgspec.structs.replace(
            gpu,
            index=gpu.index if indices[gpu.index] == 1 else None,
            bdf=gpu.bdf if addresses[gpu.bdf] == 1 else None,
        )
        for gpu in gpus
    ]
    return [gpu for gpu in own if gpu.index is not None or gpu.bdf is not None]


def _gap(fact: str, reason: str) -> Gap:
    return Gap(fact=FACTS.get(fact, fact), source=SOURCE, reason=reason, kind="unreadable")


def _shown(value: object) -> str:
    """Return a value for a reason; nothing whose text could be long or deep."""
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, int) and abs(value) >= 1 << 64:
        return "a number beyond 64 bits"
    return repr(value[:40] if isinstance(value, str) else value)
