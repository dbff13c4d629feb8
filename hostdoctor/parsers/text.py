"""Undoing what pasting does to a text, for every parser alike."""

import re
from collections.abc import Iterable

# ECMA-48 escapes (CSI, OSC, others), and colours whose ESC was lost on the way (a bare "[4m" before a title).
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b.?|\[\d{1,3}(?:;\d{1,3}){0,4}m"
)
# Replaced one by one: str.translate takes seconds for a large text that is not plain ASCII.
_INVISIBLE = dict.fromkeys("\ufeff\0\u200b\u200e\u200f", "") | {"\u00a0": " "}


def clean_lines(text: str) -> list[str]:
    """Return the text's lines without terminal escapes, carriage returns, byte-order marks and trailing blanks.

    Tabs and leading blanks stay: they carry columns and nesting.
    """
    for character, instead in _INVISIBLE.items():
        text = text.replace(character, instead)
    if "\x1b" in text or "m" in text:
        text = _ESCAPES.sub("", text)
    return [line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]


def excerpt(text: str, marks: Iterable[str], limit: int = 1 << 20) -> str:
    """Return a text as it is, or of a longer one the ``limit`` characters around the first mark that occurs in it.

    Marks are tried in order. The excerpt begins at a line's begin; it is ``""`` where no mark occurs.
    """
    if len(text) <= limit:
        return text
    at = next((position for mark in marks if (position := text.find(mark)) >= 0), None)
    if at is None:
        return ""
    start = text.rfind("\n", 0, max(0, at - limit // 4)) + 1
    return text[start : start + limit]
