"""``nvidia-smi -q`` (``--query``): an indented ``key : value`` tree for every GPU.

::

    Driver Version                            : 570.86.15
    Attached GPUs                             : 8
    GPU 00000000:1B:00.0
        Product Name                          : NVIDIA H100 80GB HBM3
        GPU Link Info
            Link Width
                Max                           : 16x
"""

import re
from collections.abc import Iterable

import msgspec

from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact, Gap
from hostdoctor.parsers.bdf import canonical_bdf
from hostdoctor.parsers.prefix import strip_common_prefix
from hostdoctor.parsers.text import clean_lines, excerpt

MIB = 1 << 20
MAX_GPUS = 256
_LIMIT = 1 << 23  # characters; eight GPUs with a thousand processes fill one million
_MARKS = ("NVSMI LOG", "Attached GPUs", "Product Name")
_MAX_LINE = 400
_HEADER = re.compile(r"(?<!\S)GPU ?((?:[0-9a-fA-F]{4,8}:)[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])(?=\s*$|\s+\S)")
_TOP = re.compile(r"(?<!\S)(?:=+NVSMI LOG=|(?:Timestamp|Driver Version|CUDA Version|Attached GPUs)\s*:)")
_PAIR = re.compile(r"(\s*)(\S[^:]{0,60}?)\s*:\s(.*)|(\s*)(\S[^:]{0,60}?)\s*:$")
_HEADING = re.compile(r"(\s*)([A-Z][\w /().-]{2,60})$")
_LOST = re.compile(
    r"Unable to determine the device handle for (?:gpu|GPU) ?(?:\d{1,3}: ?)?"
    r"([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])?:? ?(.{0,120})"
)
_UNKNOWN = re.compile(
    r"\[?(?:N/A|Not Supported|Not Available|Unknown(?: Error)?|Insufficient Permissions|ERR!|None)\]?$"
    r"|Requested functionality|GPU (?:is lost|access blocked|requires reset)|$",
    re.IGNORECASE,
)
_LANES = frozenset({1, 2, 4, 8, 12, 16, 32})


class SmiGpu(Fact, frozen=True, kw_only=True):
    """A GPU. ``index`` is the driver's, None where the text need not show all; generations are PCIe's.

    ``max_generation`` is what GPU and slot can do together; the device's and the host's own are told by newer drivers.
    """

    bdf: str
    index: int | None = None
    name: str | None = None
    uuid: str | None = None
    persistence: bool | None = None
    mig: bool | None = None
    performance_state: str | None = None
    addressing_mode: str | None = None
    c2c: bool | None = None
    memory_bytes: int | None = None
    bar1_bytes: int | None = None
    width_lanes: int | None = None
    max_width_lanes: int | None = None
    generation: int | None = None
    max_generation: int | None = None
    device_max_generation: int | None = None
    host_max_generation: int | None = None


class NvidiaSmiQuery(Fact, frozen=True, kw_only=True):
    """One output. ``attached`` is the driver's count of GPUs; ``whole``: all of them are shown."""

    gpus: tuple[SmiGpu, ...]
    driver_version: str | None = None
    cuda_version: str | None = None
    attached: int | None = None
    whole: bool = False
    gaps: tuple[Gap, ...] = ()


class _Block(msgspec.Struct):
    """The lines of one GPU: its values under (heading, key), the first of each."""

    bdf: str
    values: dict[tuple[str, str], str] = {}
    headings: list[tuple[int, str]] = []
    indents: set[int] = set()
    has_slices: bool = False


def parse_nvidia_smi_q(text: str, source: str = "nvidia-smi -q") -> NvidiaSmiQuery:
    """Return the GPUs that the first output in a text shows, in its order, which is the driver's.

    Raises ParseError when there is no such output. A GPU that the driver lost is a gap under its address.
    """
    lines = clean_lines(excerpt(text, _MARKS, _LIMIT))
    marks = ((i, _HEADER.search(line[:_MAX_LINE]) or _TOP.search(line[:_MAX_LINE])) for i, line in enumerate(lines))
    lines = strip_common_prefix(lines, {i: mark.start() for i, mark in marks if mark})
    head, blocks, gaps = _blocks(lines, source)
    if not blocks and not head.keys() & {"Attached GPUs"}:
        line = next((line for line in lines if line.strip()), "")
        raise ParseError(source, 1, line[:80], "no output of nvidia-smi -q")
    attached = _integer(head.get("Attached GPUs"))
    whole = attached == len(blocks)
    if attached is not None and not whole:
        reason = f"{len(blocks)} of {attached} attached GPUs are shown: which is which is not told"
        gaps.append(Gap(fact="gpus", source=source, reason=reason))
    return NvidiaSmiQuery(
        gpus=tuple(_gpu(block, index if whole else None) for index, block in enumerate(blocks)),
        driver_version=_known(head.get("Driver Version")),
        cuda_version=_known(head.get("CUDA Version")),
        attached=attached,
        whole=whole,
        gaps=tuple(gaps),
    )


def _blocks(lines: Iterable[str], source: str) -> tuple[dict[str, str], list[_Block], list[Gap]]:
    head: dict[str, str] = {}
    blocks: list[_Block] = []
    gaps: list[Gap] = []
    for long in lines:
        line = long[:_MAX_LINE]
        if (lost := _LOST.search(line)) is not None:
            gaps.append(_lost(lost, source))
        elif (found := _HEADER.search(line)) is not None and (bdf := canonical_bdf(found[1])) is not None:
            if any(block.bdf == bdf for block in blocks) or len(blocks) == MAX_GPUS:
                break  # a second output begins
            blocks.append(_Block(bdf=bdf, values={}, headings=[], indents=set()))
        elif blocks:
            if "NVSMI LOG=" in line:
                break
            _take(blocks[-1], line)
        elif (pair := _pair(line)) is not None:
            head.setdefault(pair[1], pair[2])
    return head, blocks, gaps


def _lost(found: "re.Match[str]", source: str) -> Gap:
    bdf = canonical_bdf(found[1] or "")
    where = f"pci_devices[{bdf}].handle" if bdf else "gpus"
    return Gap(fact=where, source=source, reason=found[2].strip() or "device handle not available", kind="error")


def _pair(line: str) -> tuple[int, str, str] | None:
    found = _PAIR.match(line)
    if found is None:
        return None
    if found[2] is None:
        return len(found[4]), found[5], ""
    return len(found[1]), found[2], found[3].strip()


def _take(block: _Block, line: str) -> None:
    """Take one line: a pair goes under the nearest heading that stands further left."""
    pair = _pair(line)
    if pair is None:
        if (found := _HEADING.match(line)) is not None:
            _leave(block, len(found[1]))
            block.headings.append((len(found[1]), found[2]))
            block.indents.add(len(found[1]))
            block.has_slices = block.has_slices or found[2].startswith("MIG Device")
        return
    indent, key, value = pair
    _leave(block, indent)
    block.indents.add(indent)
    if any(name.startswith("MIG Device") for _, name in block.headings):
        return
    heading = block.headings[-1][1] if block.headings else ""
    block.values.setdefault((heading, key), value)
    block.values.setdefault(("", key), value)


def _leave(block: _Block, indent: int) -> None:
    """Leave the headings that a line is not below; where indentation was lost, the last one stays."""
    if len(block.indents) < 2 and indent in block.indents:
        block.headings = block.headings[-1:]
        return
    while block.headings and block.headings[-1][0] >= indent:
        block.headings.pop()


def _gpu(block: _Block, index: int | None) -> SmiGpu:
    def told(key: str, heading: str = "") -> str | None:
        return _known(block.values.get((heading, key)))

    has_slices = block.has_slices and len(block.indents) < 2  # whose memory this is, only indentation tells
    uuid = told("GPU UUID")
    return SmiGpu(
        bdf=block.bdf,
        index=index,
        name=told("Product Name"),
        uuid=uuid if uuid and uuid.startswith(("GPU-", "MIG-")) else None,
        persistence=_switch(told("Persistence Mode")),
        mig=_switch(told("Current", "MIG Mode")),
        performance_state=told("Performance State"),
        addressing_mode=told("Addressing Mode"),
        c2c=_c2c(told("GPU C2C Mode"), told("Addressing Mode")),
        memory_bytes=None if has_slices else _bytes(told("Total", "FB Memory Usage")),
        bar1_bytes=None if has_slices else _bytes(told("Total", "BAR1 Memory Usage")),
        width_lanes=_lanes(told("Current", "Link Width")),
        max_width_lanes=_lanes(told("Max", "Link Width")),
        generation=_generation(told("Current", "PCIe Generation")),
        max_generation=_generation(told("Max", "PCIe Generation")),
        device_max_generation=_generation(told("Device Max", "PCIe Generation")),
        host_max_generation=_generation(told("Host Max", "PCIe Generation")),
    )


def _known(text: str | None) -> str | None:
    return None if text is None or _UNKNOWN.match(text) else text


def _integer(text: str | None) -> int | None:
    found = re.match(r"\d{1,7}(?!\d)", text or "")
    return int(found[0]) if found else None


def _switch(text: str | None) -> bool | None:
    return {"Enabled": True, "Disabled": False}.get(text or "")


def _c2c(mode: str | None, addressing: str | None) -> bool | None:
    """Return whether a chip-to-chip link joins GPU and CPU: the mode says so, and only over it is there ATS."""
    told = _switch(mode)
    return True if told is None and addressing == "ATS" else told


def _bytes(text: str | None) -> int | None:
    found = re.match(r"(\d{1,9}) ?Mi?B", text or "")
    return int(found[1]) * MIB if found else None


def _lanes(text: str | None) -> int | None:
    found = re.match(r"(\d{1,2})x", text or "")
    return int(found[1]) if found and int(found[1]) in _LANES else None


def _generation(text: str | None) -> int | None:
    number = _integer(text)
    return number if number is not None and 1 <= number <= 6 else None
