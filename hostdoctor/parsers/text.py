"""Undoing what pasting does to a text, for every parser alike."""

import re

# ECMA-48 escapes, and the same with the ESC lost on the way (a bare "[4m" before a title).
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b.?|\[\d{1,2}(?:;\d{1,2}){0,3}m")
_INVISIBLE = str.maketrans(dict.fromkeys("\ufeff\0\u200b\u200e\u200f") | {"\u00a0": " "})


def clean_lines(text: str) -> list[str]:
    """Return the text's lines without terminal escapes, carriage returns, byte-order marks and trailing blanks.

    Tabs and leading blanks stay: they carry columns and nesting.
    """
    text = text.translate(_INVISIBLE)
    if "\x1b" in text or "m" in text:
        text = _ESCAPES.sub("", text)
    return [line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
