"""What a line of ``lscpu`` means: by its label where it is English, else by where it stands and what its value is."""

import math
import re
from collections.abc import Sequence
from itertools import pairwise, takewhile

from hostdoctor.errors import ParseError
from hostdoctor.parsers.cpulist import canonical_cpulist, count_cpulist, format_cpulist
from hostdoctor.parsers.lscpu_text import Pair, is_foreign

MAX_NODE = 1023
LABELS = {
    "Architecture": "architecture",
    "CPU(s)": "cpus",
    "On-line CPU(s) list": "online",
    "On-line CPU(s) mask": "online",
    "Model name": "model_name",
    "Thread(s) per core": "threads_per_core",
    "Core(s) per socket": "cores_per_socket",
    "Socket(s)": "sockets",
    "NUMA node(s)": "numa_node_count",
    "Hypervisor vendor": "hypervisor_vendor",
    "Virtualization type": "virtualization_type",
}
# Values that lscpu prints in every language: machine names (uname -m) and hypervisors (lscpu.c, hv_vendors).
_MACHINE = re.compile(
    r"x86_64|i[3-6]86|aarch64(?:_be)?|arm\w{0,8}|ppc(?:64)?(?:le)?|s390x?|riscv\d\d|loongarch\d\d|mips\w{0,6}|sparc\w{0,3}"
    r"|ia64|e2k|alpha|parisc\d*"
)
_HYPERVISORS = frozenset(
    {"Xen", "KVM", "Microsoft", "VMware", "IBM", "Linux-VServer", "User-mode Linux", "Innotek GmbH", "Hitachi"}
    | {"Parallels", "Oracle", "OS/400", "pHyp", "Unisys s-Par", "Windows Subsystem for Linux"}
)
# The words for "full" and "para" in util-linux' translations.
_VIRTUALIZATION = {
    "full": frozenset({"full", "voll", "complet", "completo", "compleet", "lleno", "cheio", "plná", "pełna", "fuld"})
    | {
        "повна",
        "полный",
        "пуно",
        "tam",
        "đầy",
        "penuh",
        "täysi",
        "完全",
        "完全仮想化",
        "全部",
        "전체",
        "كامل",
        "მთლიანი",
    },
    "para": frozenset({"para", "neben", "semi", "paravirtualizace", "пара", "псус", "phần", "პარა"})
    | {"半", "部分", "準仮想化", "شبه"},
    "none": frozenset({"none"}),
    "container": frozenset({"container"}),
}
_PLAIN_WORD = re.compile(r"[\w./-]{1,32}")
_ROW = re.compile(r"\d,\d+,")  # of the ``-p`` table
_MOST_WORDS = {"hypervisor_vendor": 4}
_NOT_NODES = re.compile(r"GPU|\bID\b|[Aa]ffinity")
_INTEGER = re.compile(r"\d{1,7}")
_CODE = re.compile(r"\d{1,7}|0x[0-9a-fA-F]{1,8}")
_MASK = re.compile(r"(?:0x)?[0-9a-fA-F,]{1,4096}")
_HEX_LIKE = re.compile(r"[0-9a-fA-Fx,:\s.…-]*")
_LIST_LIKE = re.compile(r"[\d,:\s.…-]*|0x[0-9a-fA-F,]*")
# A word with a number or several words; not a revision ("2.3 (pvr 004e 1203)").
_NAME = re.compile(r"(?=.*[^\W\d_]{2})(?!\d+\.\d).*[\d\s]")
_MODEL_WITHIN = 5
_RUN_WITHOUT_FAMILY = 4


def node_id(pair: Pair) -> int | None:
    """Return the node whose CPUs a line tells: a label with NUMA and one number, a value that is a list or blank."""
    if "NUMA" not in pair.label or _NOT_NODES.search(pair.label):
        return None
    like = _HEX_LIKE if pair.label.endswith(" CPU(s)") else _LIST_LIKE
    if not like.fullmatch(pair.value):
        return None
    numbers = re.findall(r"\d{1,5}", pair.label)
    return int(numbers[0]) if len(numbers) == 1 and int(numbers[0]) <= MAX_NODE else None


def is_node_count(pair: Pair) -> bool:
    """Tell whether a line counts nodes: NUMA without a number in the label. ``NUMA node:`` is ``lspci``'s."""
    if pair.label in {"NUMA node", "NUMA"} or "NUMA" not in pair.label or _NOT_NODES.search(pair.label):
        return False
    return not any(character.isdigit() for character in pair.label) and bool(_INTEGER.fullmatch(pair.value))


def field_of(pair: Pair) -> str | None:
    """Return the record's field that a line tells by itself, without its neighbours."""
    if pair.label in LABELS:
        return LABELS[pair.label]
    if is_node_count(pair):
        return "numa_node_count"
    if _MACHINE.fullmatch(pair.value):
        return "architecture"
    return None


def is_plausible(field: str, word: str) -> bool:
    """Tell whether a field's text can be whole and nothing else: lines that were run together have more words."""
    if field == "model_name":
        return any(map(str.isalpha, word)) and not (is_foreign(word) or _ROW.search(word))
    words = word.split()
    most = _MOST_WORDS.get(field, 1) if word[0].isupper() else 1
    return len(words) <= most and all(map(_PLAIN_WORD.fullmatch, words)) and not is_foreign(word)


def cpus_of(value: str, *, is_mask: bool = False) -> str:
    """Return a list, or a mask (``lscpu -x``), as the kernel spells lists; raises ParseError on anything else."""
    if not (is_mask or value.startswith("0x")):
        return canonical_cpulist(value, "lscpu")
    if not _MASK.fullmatch(value):
        raise ParseError("lscpu", 0, value, "not a mask")
    bits = int(value.replace(",", ""), 16)
    return format_cpulist(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1)


def is_sign_of_lscpu(pair: Pair) -> bool:
    """Tell a line that lscpu prints in every language, and little else does."""
    return "BogoMIPS" in pair.label or pair.value in {"Little Endian", "Big Endian"}


def is_told_of_virtualization(pairs: Sequence[Pair]) -> bool:
    """Tell whether the lines before and after the hypervisor's place are there, so that its absence says something."""
    labels = [pair.label for pair in pairs]
    before = any("BogoMIPS" in label or label == "Model name" for label in labels)
    return before and any("L1d" in label or "NUMA" in label or label.startswith("Vulnerab") for label in labels)


def virtualization_of(word: str) -> str | None:
    """Return ``full``, ``para``, ``none`` or ``container`` for the word of any language, None for another."""
    return next((kind for kind, words in _VIRTUALIZATION.items() if word in words), None)


def by_structure(pairs: Sequence[Pair]) -> dict[str, Pair]:
    """Return the lines of unknown labels that their places tell, by field; none where it is not certain."""
    found: dict[str, Pair] = {}
    listed = _online_at(pairs)
    if listed is not None:
        found["cpus"], found["online"] = pairs[listed - 1], pairs[listed]
        found |= _topology(pairs, listed)
        found |= _model(pairs, listed)
    return found | _hypervisor(pairs)


def _online_at(pairs: Sequence[Pair]) -> int | None:
    """Return the first line that lists CPUs right behind one that counts them."""
    for i in range(1, len(pairs)):
        before, pair = pairs[i - 1], pairs[i]
        if "NUMA" in pair.label or not _INTEGER.fullmatch(before.value):
            continue
        is_one_cpu = (before.value, pair.value) == ("1", "0") and "CPU" in before.label and "CPU" in pair.label
        if is_one_cpu or _lists_up_to(pair.value, int(before.value)):
            return i
    return None


def _lists_up_to(value: str, count: int) -> bool:
    if not any(mark in value for mark in ",-"):
        return False
    try:
        canonical = canonical_cpulist(value)
    except ParseError:
        return False
    has_leading_zero = any(len(number) > 1 for number in re.findall(r"(?<!\d)0\d*", value))
    return not has_leading_zero and 0 < count_cpulist(canonical) <= count


def _topology(pairs: Sequence[Pair], listed: int) -> dict[str, Pair]:
    """Return threads, cores and sockets: three numbers in a row, whose product is the number of CPUs.

    They follow the list of online CPUs (up to util-linux 2.36), or the CPU family and the model (x86), or the model.
    """
    start = _skip_offline(pairs, listed + 1)
    run = _codes(pairs, start)
    offset = 0
    if not run:
        near = range(start, min(start + _MODEL_WITHIN, len(pairs)))
        run = _codes(pairs, next((i for i in near if _CODE.fullmatch(pairs[i].value)), len(pairs)))
        offset = 1 if len(run) == _RUN_WITHOUT_FAMILY else 2
    three = run[offset : offset + 3]
    if len(three) < 3 or not all(_INTEGER.fullmatch(pair.value) for pair in three):
        return {}
    if math.prod(int(pair.value) for pair in three) != int(pairs[listed - 1].value):
        return {}
    return dict(zip(("threads_per_core", "cores_per_socket", "sockets"), three, strict=True))


def _skip_offline(pairs: Sequence[Pair], start: int) -> int:
    is_list = start < len(pairs) and any(mark in pairs[start].value for mark in ",-")
    return start + 1 if is_list and _LIST_LIKE.fullmatch(pairs[start].value) else start


def _codes(pairs: Sequence[Pair], start: int) -> list[Pair]:
    """Return the lines in a row that bear a number, without a hexadecimal stepping and microcode at the end."""
    following = pairs[start : start + 8]
    codes = list(takewhile(lambda pair: "NUMA" not in pair.label and _CODE.fullmatch(pair.value), following))
    while codes and codes[-1].value.startswith("0x"):
        codes.pop()
    return codes


def _model(pairs: Sequence[Pair], listed: int) -> dict[str, Pair]:
    """Return the model's name: near the vendor, the first word behind the CPU lists or, in older versions, numbers."""
    start = _skip_offline(pairs, listed + 1)
    start = next((i for i in range(start, len(pairs)) if not _CODE.fullmatch(pairs[i].value)), len(pairs))
    for pair in pairs[start : start + _MODEL_WITHIN]:
        if "BogoMIPS" in pair.label or "MHz" in pair.label:
            break
        if _NAME.match(pair.value) and "BIOS" not in pair.label and pair.value != "IBM/S390":
            return {"model_name": pair}
    return {}


def _hypervisor(pairs: Sequence[Pair]) -> dict[str, Pair]:
    """Return a hypervisor by its name, and how it virtualizes, which the next line tells."""
    for pair, following in pairwise(pairs):
        if pair.value in _HYPERVISORS and "ID" not in pair.label and virtualization_of(following.value):
            return {"hypervisor_vendor": pair, "virtualization_type": following}
    return {}
