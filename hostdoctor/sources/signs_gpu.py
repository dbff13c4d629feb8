"""The signs of ``nvidia-smi topo -m`` and of the environment reports around it."""

import re
from collections.abc import Mapping

from hostdoctor.sources.signs import Format, Mark

_LINK = r"(?:SYS|SOC|NODE|PHB|PXB|PIX|PSB|NV\d{1,2})"
_TOPO_ROW = re.compile(rf"(GPU(?<!\SGPU)\d{{1,4}})\s+(?:X|{_LINK}+|OK|NS|CNS|GNS|TNS)(?!\S)")
_TOPO_CELLS = re.compile(rf"\s(?:(X)|({_LINK}+)|(OK|NS|CNS|GNS|TNS))(?!\S)")
_TOPO_LABEL = re.compile(r"GPU(?<!\SGPU)\d{1,4}(?=\s|$)")
_TOPO_NAMES = re.compile(r"GPU\d{1,4}(?:\s+(?:GPU|NIC)\d{1,4}(?:\s|$)|$)")
_TOPO_BELONGS = re.compile(
    rf"(?<!\S)(?:X|{_LINK}+)(?!\S)|Legend:|= (?:Self|Connection)|(?<!\S)NIC\d{{1,4}}\s?:|NUMA Affinity|GPU NUMA ID"
)


def _topo(line: str) -> Mark | None:
    label = _TOPO_LABEL.search(line)
    if label is None:
        return None
    if row := _TOPO_ROW.search(line):
        return _topo_row(line, row)
    if "Affinity" in line:
        return Mark("header", label.start(), opens=True)
    return Mark("names", label.start(), opens=True) if _TOPO_NAMES.match(line, label.start()) else None


def _topo_row(line: str, row: "re.Match[str]") -> Mark:
    kinds = {cell.lastindex for cell in _TOPO_CELLS.finditer(line, row.end(1))}
    sign = "status" if 3 in kinds else "row" if {1, 2} <= kinds else "part"
    return Mark(sign, row.start(), key=row[1])


def _topo_enough(signs: Mapping[str, int]) -> bool:
    if "status" in signs:
        return False
    return "row" in signs or ("header" in signs and "part" in signs)


_COLLECT = re.compile(
    r"(?<!\S)(?:(Collecting environment information)|(PyTorch version)\s*:|(PyTorch): \d|(Is CUDA available)\s*:"
    r"|(CUDA available): (?:True|False)|(GPU models and configuration)\s*:|(Nvidia driver version)\s*:"
    r"|(CUDA Driver Version)s?\s*:|(Python platform)\s*:|(?:GPU|NVIDIA) (Topology)\s*:)"
)
_COLLECT_MORE = re.compile(r"(?<!\S)(?:(OS)\s*: \w|(Hypervisor vendor)\s*: )|(Could not collect)$")

_COLLECT_BELONGS = re.compile(r"GPU \d{1,3}\s?: [A-Z]")


def _collect(line: str) -> Mark | None:
    if found := _COLLECT.search(line):
        sign = found[found.lastindex or 0]
        return Mark(sign, found.start(), key=sign, opens=sign.startswith("Collecting"))
    found = _COLLECT_MORE.search(line)
    return Mark("more " + found[found.lastindex or 0], found.start(), weak=True) if found else None


def _collect_enough(signs: Mapping[str, int]) -> bool:
    named = [sign for sign in signs if not sign.startswith("more ")]
    return (
        "GPU models and configuration" in signs
        or len(named) > 1
        or {"Topology", "more Could not collect"} <= set(signs)
    )


_SMI_HEADER = re.compile(r"(?<!\S)GPU ?([0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7])(?:\s|$)")
_SMI_TOP = re.compile(r"(?<!\S)(?:=+(NVSMI LOG)=|(Attached GPUs)\s*:)")
_SMI_KEY = re.compile(r"(?<!\S)(GPU UUID|Product Name|Product Brand|VBIOS Version|GPU Link Info)(?:\s*:|$)")
_SMI_BELONGS = re.compile(r"^\s|\s:(?:\s|$)")


def _query(line: str) -> Mark | None:
    if found := _SMI_HEADER.search(line):
        return Mark("GPU", found.start(), key=found[1])
    if found := _SMI_TOP.search(line):
        return Mark("top", found.start(), opens=bool(found[1]))
    found = _SMI_KEY.search(line)
    return Mark(found[1], -1, weak=True) if found else None


def _query_enough(signs: Mapping[str, int]) -> bool:
    return "GPU" in signs and len(signs) > 1


FORMATS = (
    Format(
        kind="nvidia-smi-q",
        words=("GPU ", "GPU0", "GPUs", "NVSMI LOG", "Product ", "VBIOS"),
        mark=_query,
        belongs=_SMI_BELONGS.search,
        enough=_query_enough,
        misses=12,
    ),
    Format(
        kind="topo-matrix",
        words=("GPU",),
        mark=_topo,
        belongs=_TOPO_BELONGS.search,
        enough=_topo_enough,
        misses=6,
    ),
    Format(
        kind="collect-env",
        words=(
            *("environment information", "PyTorch version", "PyTorch: ", "CUDA available", "GPU models"),
            *("driver version", "CUDA Driver", "Python platform", "OS: ", "OS  ", "Topology", "Hypervisor vendor"),
            "Could not collect",
        ),
        mark=_collect,
        belongs=_COLLECT_BELONGS.match,
        enough=_collect_enough,
        misses=500,
    ),
)
