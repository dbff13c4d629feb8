"""Reading ``lscpu`` in any language and layout into pairs of label and value, and into outputs."""

import re
from collections.abc import Iterable, Iterator

import msgspec

from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact
from hostdoctor.parsers.cpulist import canonical_cpulist
from hostdoctor.parsers.prefix import strip_common_prefix
from hostdoctor.parsers.text import clean_lines

# What lscpu's own words are where no translation is installed; labels that are inside others stand behind them.
_WORDS = "|".join(
    (
        r"Architecture|CPU op-mode\(s\)|Address sizes|Byte Order|On-line CPU\(s\) (?:list|mask)",
        r"Off-line CPU\(s\) (?:list|mask)|Thread\(s\) per core|Core\(s\) per (?:socket|cluster)",
        r"NUMA node\(s\)|NUMA node\d+ CPU\(s\)|Hypervisor vendor|Virtualization type",
    )
)
_MORE_WORDS = "|".join(
    (
        r"CPU\(s\) scaling MHz|CPU\(s\)|Socket\(s\)(?: per book)?|Cluster\(s\)|(?:BIOS )?Vendor ID",
        r"(?:BIOS )?Model name|(?:BIOS )?CPU family|Model|Stepping|CPU (?:max |min |static |dynamic )?MHz",
        r"Frequency boost|BogoMIPS|Hypervisor|Virtualization(?: features)?|L\d[di]?(?: cache)?|Caches \(sum of all\)",
        r"NUMA|Flags|Vulnerabilities|Vulnerability [\w ]{1,40}|Machine type|Books?\(s\)(?: per drawer)?|Drawer\(s\)",
        r"Dispatching mode|Physical (?:sockets|chips|cores/chip)|Microcode version|ISA|MMU",
    )
)
_KNOWN = re.compile(rf"(?<!\S)(?:{_WORDS}):")
_ANY_KNOWN = re.compile(rf"(?<!\S)({_WORDS}|{_MORE_WORDS}):")
_JSON = re.compile(r'"(field|data)"\s*:\s*(?:"((?:[^"\\]|\\.)*)"|null|(\d{1,9}))')
_LIST = re.compile(r"[\d,:-]+")
# A report's rulers and titles, its packages, and the rows of a GPU matrix.
_FOREIGN = re.compile(
    r"={2,}|-{4,}|\[(?:pip3?|conda|uv|prefix)\]|\b(?:Info|Environment|Variables|[Ll]ibraries)$|^(?:GPU|NIC)\d{1,3}\s|\s:\s"
)
# lscpu wraps a value at the terminal's width and aligns the rest; a terminal or a mailer does not align it.
_ALIGNED_COLUMNS = 10
_WRAP_COLUMNS = 40
_TERMINAL_COLUMNS = 80
_SHORTEST_RUN_TOGETHER = 3
_MAX_LABEL = 120
_MAX_VALUE = 16_384
_QUOTES = " \t|>*`\"'"


class Pair(Fact, frozen=True, kw_only=True):
    """A label without its colon, and the value behind it.

    ``is_glued``: the value was put together from lines where a number may have been cut in two, or none.
    ``is_cut``: the text ends within the value.
    """

    label: str
    value: str
    is_glued: bool = False
    is_cut: bool = False


def read_pairs(text: str) -> list[Pair]:
    """Return all pairs in the order of the text: ``lscpu``'s plain, grouped and JSON forms, in any language."""
    if '"field"' in text:
        pairs = list(_json_pairs(text))
        if pairs:
            return pairs
    lines = clean_lines(text)
    known = {i: match.start() for i, line in enumerate(lines) if ":" in line and (match := _KNOWN.search(line))}
    if known:
        lines = strip_common_prefix(lines, known)
    return list(_line_pairs(lines))


def _line_pairs(lines: Iterable[str]) -> Iterator[Pair]:
    last: Pair | None = None
    columns = 0
    for line in lines:
        found = _pairs_of(line)
        more = None if found or last is None else _continued(last, columns, line)
        if more is not None:
            last, columns = more, len(line)
            continue
        if last is not None:
            yield last
        yield from found[:-1]
        last, columns = (found[-1], len(line)) if found else (None, 0)
    if last is not None:
        yield msgspec.structs.replace(last, is_cut=True)


def _pairs_of(line: str) -> list[Pair]:
    """Return the pairs of a line: one, or many where an output's lines were run together."""
    ascii_colon, wide_colon = line.find(":"), line.find("：")
    if ascii_colon < 0 and wide_colon < 0:
        return _pair_without_colon(line)
    known = list(_ANY_KNOWN.finditer(line)) if ascii_colon != line.rfind(":") else []
    if len(known) >= _SHORTEST_RUN_TOGETHER:
        ends = [match.start() for match in known[1:]] + [len(line)]
        return [_pair(m.group(1), line[m.end() : end]) for m, end in zip(known, ends, strict=True)]
    colon = min(position for position in (ascii_colon, wide_colon) if position >= 0)
    return _pair_if_label(line[:colon], line[colon + 1 :])


def _pair_without_colon(line: str) -> list[Pair]:
    """Return a pair whose label lost its colon, as some translations do: blanks tell it from the value."""
    label, gap, value = line.strip().partition("  ")
    return _pair_if_label(label, value) if gap and value.strip()[:1].isdigit() else []


def _pair_if_label(label: str, value: str) -> list[Pair]:
    if len(label) > _MAX_LABEL or not any(character.isalpha() for character in label):
        return []
    return [_pair(label, value)]


def _pair(label: str, value: str) -> Pair:
    return Pair(label=" ".join(label.split()).strip(_QUOTES), value=value.strip(_QUOTES))


def _continued(pair: Pair, columns: int, line: str) -> Pair | None:
    """Return a pair with the next line of its wrapped value, None where the line is no more of it."""
    more = line.strip(_QUOTES)
    is_aligned = len(line) - len(line.lstrip()) >= _ALIGNED_COLUMNS
    if not more or len(pair.value) > _MAX_VALUE or is_foreign(more):
        return None
    if pair.value and not _LIST.fullmatch(pair.value):
        seam = "" if is_aligned or columns >= _TERMINAL_COLUMNS else " "
        is_more = is_aligned or columns >= _WRAP_COLUMNS
        return msgspec.structs.replace(pair, value=pair.value + seam + more) if is_more else None
    if not _LIST.fullmatch(more):
        return None
    if pair.value[-1:] in {",", "-"} or more[0] in ",-":
        return msgspec.structs.replace(pair, value=pair.value + more)
    is_likely = is_aligned or columns >= _WRAP_COLUMNS or (not pair.value and any(mark in more for mark in ",-"))
    return (
        msgspec.structs.replace(pair, value=pair.value + more, is_glued=True)
        if is_likely and _fits(pair.value, more)
        else None
    )


def is_foreign(text: str) -> bool:
    """Tell that a text has what no value of lscpu has, but the lines of a report around it."""
    return _FOREIGN.search(text) is not None


def _fits(begun: str, more: str) -> bool:
    """Tell whether a list goes on in ascending order where a number was cut in two; the line's last may be cut too."""
    try:
        canonical_cpulist(",".join(begun.rsplit(",", 2)[-2:]) + (more.rpartition(",")[0] or more))
    except ParseError:
        return False
    return True


def _json_pairs(text: str) -> Iterator[Pair]:
    """Yield the pairs of ``lscpu -J``, flat or nested, also where the document is cut or stands among other lines."""
    field: str | None = None
    for match in _JSON.finditer(text):
        key, quoted, number = match.groups()
        if key == "field":
            field = _unescaped(quoted or "")
        elif field is not None:
            yield _pair(field.strip().rstrip(":："), _unescaped(quoted or number or ""))
            field = None


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    try:
        return msgspec.json.decode(f'"{text}"', type=str)
    except msgspec.DecodeError:
        return text
