"""The signs of ``lspci``, as a list and as a tree, and of ``nvme list``."""

import re
from collections.abc import Mapping

from hostdoctor.sources.signs import Format, Mark

_TREE_ROOT = re.compile(r"-\[[0-9a-f]{4,8}:[0-9a-f]{2}(?:-[0-9a-f]{2})?\](?:-|$)")
_TREE_TOP = re.compile(r"(?<!\S)-(?:\+-)?\[[0-9a-f]")
_TREE_BRANCH = re.compile(r"(?:[+\\]-|---|-\[[0-9a-f]{2}\]-\+-)[0-9a-f]{2}\.[0-7](?![\w.])")
_TREE_BELONGS = re.compile(r"(?<!\S)(?:\||\+-|\\-)(?!\S*-\+)")


def _tree(line: str) -> Mark | None:
    root = _TREE_ROOT.search(line)
    found = root or _TREE_BRANCH.search(line)
    if found is None:
        return None
    column = len(line[: found.start()].rstrip(" \t|+\\-"))
    return Mark("root" if root else "branch", column, opens=bool(root and _TREE_TOP.search(line)))


def _tree_enough(signs: Mapping[str, int]) -> bool:
    return "root" in signs or signs["branch"] > 1


_LSPCI = re.compile(
    r"(?<!\S)((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7])\s+(?:Class )?([^:\[\]\s][^:\[\]]{2,70}?)"
    r"( \[[0-9a-f]{4}\])?:(?:\s|$)"
)
# How the names of classes in pci.ids end, and those of one word.
_LSPCI_CLASS = re.compile(
    r".*[ -](?:controller|bridge|device|memory|peripheral|accelerators?|processor|class|[iI]nstrumentation|[iI]nterface"
    r"|adapter|bus|Bus|port|Pen|Channel|Card|counters|synchroni[sz]ation|synchronizer|\(IEEE 1394\)|[mM]anagement"
    r"|coprocessor|[sS]tation)|Bluetooth|Broadband|CXL|Processor|CANBUS|Bridge|Modem|Timer|PIC|RTC|IOMMU|SMBus|InfiniBand|SSA|Scanner|Coprocessor|Keyboard|[0-9a-f]{4}"
)
_LSPCI_BELONGS = re.compile(
    r"^\s|\t|^[0-9a-f]{2,3}: [0-9a-f]{2} |(?<!\S)(?:LnkCap|LnkSta|LnkCtl|DevCap|DevSta|DevCtl|Capabilities:"
    r"|Kernel driver|Kernel modules|Subsystem:|Region \d|NUMA node:|Memory at|Control:|Status:|Flags:|Bus: prim|IOMMU)"
)


def _lspci(line: str) -> Mark | None:
    found = _LSPCI.search(line)
    if found is None:
        return None
    known = found[3] or _LSPCI_CLASS.fullmatch(found[2])
    return Mark("device", found.start(), key=found[1]) if known else None


_NVME_TABLE = re.compile(
    r"(?<!\S)(?:(Node\s+(?:Generic\s+)?SN\s+Model\s+(?:Version\s+)?Name?space)|Subsystem\s+Subsystem-NQN"
    r"|(/dev/nvme\d{1,5}n\d{1,5})\s.{0,200}?[\d.,]+\s*[KMGTP]?i?B\s*/\s*[\d.,]+\s*[KMGTP]?i?B)"
)
_NVME_JSON = re.compile(r"\"(DevicePath|NameSpace|ModelNumber|Devices)\"\s*:")
_NVME_BELONGS = re.compile(r"^\s*[{}\[\]\"]|/dev/n|-----")


def _nvme(line: str) -> Mark | None:
    if found := _NVME_TABLE.search(line):
        return Mark("table", found.start(), key=found[2] or "", opens=bool(found[1]))
    names = [*_NVME_JSON.finditer(line)]
    if not names:
        return None
    column = len(line[: names[0].start()].rstrip(" \t{[,"))
    return Mark("+".join(sorted({name[1] for name in names})), column, opens=names[0][1] == "Devices")


def _nvme_enough(signs: Mapping[str, int]) -> bool:
    return "table" in signs or len(set("+".join(signs).split("+"))) > 1


FORMATS = (
    Format(
        kind="lspci-tree",
        words=("-[", "+-", "\\-", "]--"),
        mark=_tree,
        belongs=_TREE_BELONGS.search,
        enough=_tree_enough,
        misses=3,
    ),
    Format(
        kind="lspci",
        words=tuple(f".{function} " for function in range(8)),
        mark=_lspci,
        belongs=_LSPCI_BELONGS.search,
        enough=bool,
        misses=40,
    ),
    Format(
        kind="nvme-list",
        words=("/dev/nvme", "Namespace", "DevicePath", "NameSpace", "ModelNumber", "Devices", "-NQN"),
        mark=_nvme,
        belongs=_NVME_BELONGS.search,
        enough=_nvme_enough,
        misses=4,
    ),
)
