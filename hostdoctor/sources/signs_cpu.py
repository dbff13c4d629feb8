"""The signs of ``numactl --hardware``, ``lscpu`` and ``/proc/interrupts``."""

import re
from collections.abc import Mapping

from hostdoctor.sources.signs import TAIL, Format, Mark

_NUMACTL = re.compile(
    r"(?<!\S)(?:(available):\s*\d{1,5}\s+nodes?\s*\(|node\s+(\d{1,5}\s+(?:cpus|size|free))\s?:|node (distances):)"
    r"|(No NUMA) (?:support )?available on this system"
)
_NUMACTL_BELONGS = re.compile(r"(?<!\S)node\s+\d|(?<!\S)\d{1,5}:\s+\d|^[\s\d.,-]+$")


def _numactl(line: str) -> Mark | None:
    found = _NUMACTL.search(line)
    if found is None:
        return None
    sign = found[found.lastindex or 0]
    return Mark(sign, found.start(), key=sign, opens=sign == "available")


_LSCPU = re.compile(
    r"(?<![^\s{])(?P<json>\"field\"\s*:\s*\")?(?:(Architecture|CPU op-mode\(s\)|Byte Order|CPU\(s\)|Vendor ID"
    r"|On-line CPU\(s\) list|Model name|Socket\(s\)|Thread\(s\) per core|Core\(s\) per (?:socket|cluster)"
    r"|Hypervisor vendor)\s{0,4}:|(NUMA node\(s\)|NUMA node\d{1,5} CPU\(s\))\s{0,4}:\s*(?:\d|\"|$))"
)
# What stays the same in every language that lscpu speaks.
_LSCPU_ANY_LANGUAGE = re.compile(
    r"(?<!\S)(?:(BogoMIPS)|(L1d)(?![\w<\"])[^:：\"<]{0,20})\s{0,4}[:：]|(32-bit, 64-bit|Little Endian|Big Endian"
    r"|GenuineIntel|AuthenticAMD)$|(NUMA)(?! node:)[^:：\"<]{0,40}[:：]\s*[\d,-]+$"
)
_LSCPU_NODE = re.compile(r"NUMA\D{1,20}\d{1,5}\D{0,20}[:：]\s*\d")
_LSCPU_ONCE = ("Architecture", "CPU(s)", "On-line", "NUMA")
_LSCPU_NAMED = ("Architecture", "Byte Order", "Vendor ID", "Model name", "On-line CPU(s) list", "NUMA", "BogoMIPS")
_LSCPU_BELONGS = re.compile(
    r"^\s+\S|(?<!\S)(?:Vulnerab|Flags|Stepping|CPU |Model|Virtuali|Hypervisor|L\d|Caches|NUMA|Frequency|Address|Book"
    r"|Drawer|Machine|Dispatching|Microcode|Physical|BogoMIPS|Off-line|Socket|Cluster)[^=:]{0,40}:|^# |^[\d,]+$"
    r"|:\s+(?:x86_64|aarch64|ppc64le|s390x|riscv64|i686)$|^[^:：]{0,40}[^\x00-\x7f][^:：]{0,40}[:：]"
)


def _lscpu(line: str) -> Mark | None:
    found = _LSCPU.search(line)
    if found and not (found[2] == "CPU(s)" and "NUMA" in line):  # German: NUMA-Knoten0 CPU(s)
        sign = found[found.lastindex or 0]
        key = sign if sign.startswith(_LSCPU_ONCE) else ""
        column = -1 if found["json"] else found.start()
        return Mark("node" if found[3] and key.endswith("CPU(s)") else sign, column, key, key == "Architecture")
    found = _LSCPU_ANY_LANGUAGE.search(line)
    if found is None:
        return None
    if "CPU" in line and _LSCPU_NODE.match(found[0]):
        return Mark("NUMA node", -1, key=found[0].partition(":")[0].strip())
    index = found.lastindex or 0
    return Mark(found[index], found.start() if index < 3 else -1)


def _lscpu_enough(signs: Mapping[str, int]) -> bool:
    if "node" in signs or (signs["NUMA node"] and signs["NUMA node"] + signs["NUMA"] > 1):
        return True
    return len(signs) >= 3 and any(sign.startswith(_LSCPU_NAMED) for sign in signs)


_CPU_HEADER = re.compile(r"CPU(?<!\SCPU)\d{1,5}(?:(?:\s+CPU\d{1,5}){2}|(?:\s+CPU\d{1,5})?$)|IRQ\s+TOTAL\s+NAME")
_IRQ = re.compile(
    r"(?<!\S)(\d{1,7}):\s+\d{1,20}\s|^\s*(\d{1,7})\s+\d{1,20}\s+[A-Za-z]|(?<!\S)(\d{1,7})\s+\d{1,20}\s+[A-Z][\w-]*-(?:MSI|APIC)"
)
_IRQ_CHIPS = ("MSI", "APIC", "-edge", "-fasteoi", "-level", " Edge ", " Level ", "GICv")
_IRQ_NVME = re.compile(r"nvme\d{1,5}q\d")
_IRQ_BELONGS = re.compile(r"(?<!\S)\w{1,12}:?\s+\d|^[\s\d]+$")


def _interrupts(line: str) -> Mark | None:
    if ("CPU" in line or "TOTAL" in line) and (header := _CPU_HEADER.search(line)):
        return Mark("header", header.start(), opens=True)
    sign = _irq_sign(line[-TAIL:])
    found = _IRQ.search(line) if sign else None
    if found is None:
        return None
    number = found.lastindex or 0
    return Mark(sign, found.start(number), key=found[number])


def _irq_sign(tail: str) -> str:
    if "nvme" in tail and _IRQ_NVME.search(tail):
        return "nvme"
    for chip in _IRQ_CHIPS:
        if chip in tail:
            return "row"
    return ""


def _interrupts_enough(signs: Mapping[str, int]) -> bool:
    return "nvme" in signs or signs["row"] > (0 if "header" in signs else 2)


FORMATS = (
    Format(
        kind="numactl",
        words=(" cpus:", " size:", " free:", "available:", "No NUMA", "distances:"),
        mark=_numactl,
        belongs=_NUMACTL_BELONGS.search,
        enough=bool,
        misses=6,
    ),
    Format(
        kind="lscpu",
        words=(
            *("CPU(s)", "NUMA", "Architecture", "op-mode", "BogoMIPS", "L1d", "Vendor ID", "Model name", "(s) per "),
            *("Socket(s)", " Endian", "32-bit, 64-bit", "GenuineIntel", "AuthenticAMD", "Hypervisor vendor"),
        ),
        mark=_lscpu,
        belongs=_LSCPU_BELONGS.search,
        enough=_lscpu_enough,
        misses=12,
    ),
    Format(
        kind="interrupts",
        words=("CPU", "nvme", "TOTAL", *_IRQ_CHIPS),
        mark=_interrupts,
        belongs=_IRQ_BELONGS.search,
        enough=_interrupts_enough,
        misses=6,
    ),
)
