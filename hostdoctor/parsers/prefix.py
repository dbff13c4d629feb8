"""Taking a log shipper's prefix off every line: time stamps, ``[rank0]:``, ``(name pid=1, ip=…)``, ``> `` quotes."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

MAX_PREFIX = 400
_TOKENS = re.compile(r"\w+|\s+|[^\w\s]")
_DIGIT = re.compile(r"\d")


def strip_common_prefix(lines: Sequence[str], columns: Mapping[int, int]) -> list[str]:
    """Return the lines without the prefix that most of them share; the indentation behind it stays.

    ``columns`` tells, for those lines whose content is known, at which column it begins: what stands before it is
    the prefix. Numbers, times and ids in it may differ from line to line; its punctuation may not. A line that
    lacks the prefix stays as it is, and so do all of them where fewer than half have one.
    """
    pattern = common_prefix(lines, columns)
    return list(lines) if pattern is None else cut_prefix(lines, pattern)


def common_prefix(lines: Sequence[str], columns: Mapping[int, int]) -> "re.Pattern[str] | None":
    """Return the pattern of the prefix that :func:`strip_common_prefix` strips, None where there is none."""
    found = [lines[index][:column].rstrip() for index, column in columns.items() if column <= MAX_PREFIX]
    prefixes = [text for text in found if text]
    if 2 * len(prefixes) <= len(columns):
        return None
    pattern = _pattern(prefixes)
    matched = sum(1 for line in lines if pattern.match(line))
    return pattern if matched * 2 >= sum(1 for line in lines if line) else None


def cut_prefix(lines: Sequence[str], pattern: "re.Pattern[str]") -> list[str]:
    """Return the lines without what the pattern matches, and the blanks and the bar that all of them have behind it."""
    ends = [match.end() if (match := pattern.match(line)) else -1 for line in lines]
    ends = _past_blanks(lines, ends)
    full = [end for line, end in zip(lines, ends, strict=True) if 0 <= end < len(line)]
    if full and all(line[end] == "|" for line, end in zip(lines, ends, strict=True) if 0 <= end < len(line)):
        ends = _past_blanks(lines, [end + (0 <= end < len(line)) for line, end in zip(lines, ends, strict=True)])
    return [line[end:] if end >= 0 else line for line, end in zip(lines, ends, strict=True)]


def _past_blanks(lines: Sequence[str], ends: Sequence[int]) -> list[int]:
    """Return the ends moved over the blanks that every line with something behind its prefix has."""
    pairs = [(line, end) for line, end in zip(lines, ends, strict=True) if 0 <= end < len(line)]
    gap = min((len(line) - end - len(line[end:].lstrip(" ")) for line, end in pairs), default=0)
    return [end + gap if end >= 0 else end for end in ends]


def _pattern(prefixes: Sequence[str]) -> "re.Pattern[str]":
    """Return a pattern for the commonest shape: punctuation as it is, words as they are only where they never vary."""
    split = [_TOKENS.findall(prefix) for prefix in prefixes]
    shape, _ = Counter(tuple(map(_class, tokens)) for tokens in split).most_common(1)[0]
    same = [tokens for tokens in split if tuple(map(_class, tokens)) == shape]
    return re.compile("".join(_token(kind, {t[i] for t in same}) for i, kind in enumerate(shape)))


def _class(token: str) -> str:
    if token.isspace():
        return " "
    return token if re.fullmatch(r"[^\w\s]", token) else "w"


def _token(kind: str, seen: set[str]) -> str:
    if kind == " ":
        return r"[ \t]+"
    if kind != "w":
        return re.escape(kind)
    if all(word.isdigit() for word in seen):
        return r"\d+"
    if all(_DIGIT.search(word) for word in seen):
        return r"(?=[^\W\d]*\d)\w+"
    return re.escape(next(iter(seen))) if len(seen) == 1 else r"\w+"
