"""The lines of the tree that ``lspci -t`` draws: where a branch begins, and undoing wraps and log prefixes."""

import itertools
import re
from collections.abc import Iterator, Sequence

import msgspec

from hostdoctor.parsers.prefix import strip_common_prefix

_LINE = 1000  # characters of a line that are read; pciutils prints at most 1024
_TERMINAL = 79  # columns; mailers break earlier
_HEX = "[0-9a-fA-F]"
_LABEL = rf"\[(?:({_HEX}{{4,8}}):)?({_HEX}{{2}})\]"
_DEVICE = rf"([01]{_HEX})\.([0-7])(?![\w.])"
_BUSES = rf"-\[(?:{_HEX}{{4,8}}:)?({_HEX}{{2}})(?:-({_HEX}{{2}}))?\]"
_BEGIN = rf"(?=(\[(?:{_HEX}{{4,8}}:)?{_HEX}{{2}}\]-)|[01]{_HEX}\.[0-7](?![\w.]))"

# What stands in front, how it is joined (a lone ``-`` is a root, or lost its backslash), and a label if there is one.
START = re.compile(rf"([ |]*)(-\+-|[+\\]-|-){_BEGIN}")
# One step along a branch: connector, a bus label's domain and number, device, function, a bridge's first and last bus.
STEP = re.compile(rf"-*([+\\]-)?(?:{_LABEL}|{_DEVICE}(?:{_BUSES})?)")

_BRANCH = re.compile(rf"(?:-\+-|[+\\]-|(?<![^\s|>])-){_BEGIN}")
_QUOTES = re.compile(r"^(?:> ?)+")
_CUT = re.compile(r"\S*(?:[+\\]-?|[-+][0-9a-f]{1,2}\.?|\.[0-7]-(?:\[[0-9a-f:-]*\]?-?)?|\[[0-9a-f:]*|---+)")
_OLD_BUSES = re.compile(rf"-\[{_HEX}{{2}}(?:-{_HEX}{{2}})?\]-")
_BEGUN = re.compile(r"[ |]*[+\\](?:-[01]?|-[01][0-9a-f]\.?)?")
_ONLY_IDS = re.compile(rf"{_HEX}{{4}}:{_HEX}{{4}}$")
_SPLIT_IDS = re.compile(r"\[[0-9a-f]{4}:?[0-9a-f]{0,3}$")
_ELISION = re.compile(
    r"[\s|+\\-]*[<\[({*]*\s*(?:\.\.|…|snip|cut|skip|omit|elided|truncat|removed|deleted)", re.IGNORECASE
)


class Branch(msgspec.Struct):
    """A line of the tree, wraps undone. Without ``text``, lines of the tree are missing here.

    ``bars`` is what stood alone on the line before, padded to where a terminal breaks lines; ``""`` where nothing did.
    """

    number: int
    text: str = ""
    bars: str = ""


def branches(lines: Sequence[str]) -> list[Branch]:
    """Return the branches of a text, numbered from 1; ``[]`` where there is no tree."""
    shown = [_QUOTES.sub("", line[:_LINE]).expandtabs()[:_LINE] for line in lines]
    spaced = 5 * shown.count("") > 2 * len(shown)
    numbered = [(number, line) for number, line in enumerate(shown, 1) if line or not spaced]
    found = ((i, _BRANCH.search(line)) for i, (_, line) in enumerate(numbered) if "-" in line)
    columns = {i: len(numbered[i][1][: match.start()].rstrip(" |")) for i, match in found if match}
    if not columns:
        return []
    first, end = min(columns), max(columns) + 3
    inner = [line for _, line in numbered[first:end]]
    inner = _without_common_bar(strip_common_prefix(inner, {i - first: column for i, column in columns.items()}))
    return list(_unwrapped(inner, [number for number, _ in numbered[first:end]]))


def _without_common_bar(lines: list[str]) -> list[str]:
    """Take off the bar of a log or table: the tree's own stands further right, and on no line of a root bus."""
    starts = [start[1] for line in lines if (start := START.match(line))]
    first, last = min(starts, default=""), max(starts, default="")
    common = next((first[:i] for i, character in enumerate(first) if last[i : i + 1] != character), first)
    end = common.rfind("|") + 1 if common.startswith("|") else 0
    return [line[end:] if line.startswith(common[:end]) else line for line in lines]


def _unwrapped(lines: Sequence[str], numbers: Sequence[int]) -> Iterator[Branch]:
    """Yield the branches, each with what a narrow terminal or a mailer moved to the next lines."""
    width = max(len(line) for line in lines)
    hard = width >= _TERMINAL and _breaks_at(lines, width)
    current: Branch | None = None
    before, bars, begun = "", "", ""
    for number, line in zip(numbers, lines, strict=True):
        glue = _glue(current.text, before, line, width, hard) if current and line else None
        if current and glue is not None:
            current.text, before = f"{current.text}{glue}{line.strip()}", line
            continue
        if current:
            yield current
        current, before = None, line
        if START.match(begun + line):
            current, bars, begun = Branch(number, begun + line, bars), "", ""
            continue
        begun = line if _BEGUN.fullmatch(line) else ""
        if line:
            bars = "" if line.strip(" |") else line.ljust(width)
        if _ELISION.match(line):
            yield Branch(number)
    if current:
        yield current


def _breaks_at(lines: Sequence[str], width: int) -> bool:
    """Whether the lines that go on below were broken at ``width`` exactly, as a terminal does, within words."""
    pairs = itertools.pairwise(lines)
    broken = [len(line) for line, after in pairs if START.match(line) and after and not START.match(after)]
    return 10 * broken.count(width) >= 7 * len(broken)


def _glue(text: str, before: str, line: str, width: int, hard: bool) -> str | None:
    """Return what joins a line to the branch that it goes on with; None when it is a line of its own.

    ``hard``: lines were broken at ``width`` exactly, within words.
    """
    start = START.match(text)
    body = text[start.end(1) :] if start else text
    is_bare = " " not in body
    if len(text) > _LINE or _BEGUN.fullmatch(line):
        return None
    if START.match(line):
        return "" if is_bare and _is_rest(body, before, line) else None
    if is_bare and (_CUT.fullmatch(body) or (body[-1] == "-" and STEP.match(line))):
        return ""
    if body[-1] == "-" or not line.strip(" |") or _ELISION.match(line) or line.startswith(("```", "$ ", "# ")):
        return None
    if is_bare and _ONLY_IDS.match(line):
        return " "
    if width < (72 if is_bare else 40) or len(before) + 1 + len(line.split()[0]) <= width:
        return None
    return "" if _SPLIT_IDS.search(body) or (hard and not is_bare and len(before) == width) else " "


def _is_rest(body: str, before: str, line: str) -> bool:
    """Whether what looks like a branch of its own is the rest of one: ``+`` / ``-00.0``, ``01.0`` / ``-[02]-``."""
    if body[-1] in "+\\":
        return line[0] == "-"
    return len(before) >= 60 and body[-2:-1] == "." and _OLD_BUSES.match(line) is not None
