"""Small pieces of SVG: elements whose text and attributes are escaped, and monospaced text that is known to fit.

Coordinates are user units (pixels at natural size). A font may draw a character wider than two cells of a monospaced
one: texts with such characters are told their length.
"""

import unicodedata
from html import escape

from hostdoctor.outputs.words import printable

CELL_EM = 0.6021  # DejaVu Sans Mono, the widest of the common monospaced fonts
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
_LONGEST = 50_000  # characters of an attribute: paths of curves are long
_SINGLE = "…·×–—›"
_NO_XML = {0xFFFE: "?", 0xFFFF: "?"}


def tag(name: str, *children: str, **attributes: object) -> str:
    """Return an element; children are markup already, ``stroke_width`` becomes ``stroke-width``, None is left out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{given}>{''.join(children)}</{name}>" if children else f"<{name}{given}/>"


def words(text: str) -> str:
    """Return a machine's text as markup: printable, escaped, nothing that XML cannot hold."""
    return escape(printable(text).translate(_NO_XML))


def title(text: str) -> str:
    """Return the element that browsers show as a tooltip."""
    return tag("title", words(text))


def cells(text: str) -> int:
    """Return how many monospaced cells a text takes at most."""
    return sum(_cells(character) for character in text)


def text_width(text: str, size: float) -> float:
    """Return the width of a text set at this size."""
    return cells(text) * size * CELL_EM


def fit(text: str, width: float, size: float) -> str:
    """Return the text, cut with an ellipsis where it is wider than this."""
    if text_width(text, size) <= width:
        return text
    room, kept = int(width / (size * CELL_EM)) - 1, ""
    for character in text:
        room -= _cells(character)
        if room < 0:
            break
        kept += character
    return f"{kept.rstrip()}…" if kept.strip() else ""


def label(x: float, y: float, text: str, width: float, size: float, **attributes: object) -> str:
    """Return one line of text no wider than this, the whole of it as its title where it was cut; "" when none fits."""
    whole = printable(text).translate(_NO_XML)
    shown = fit(whole, width, size)
    if not shown:
        return ""
    is_plain = all(character.isascii() or character in _SINGLE for character in shown)
    exact, adjust = (None, None) if is_plain else (text_width(shown, size), "spacingAndGlyphs")
    tip = "" if shown == whole else title(whole)
    return tag(
        "text", tip + escape(shown), x=x, y=y, font_size=size, textLength=exact, lengthAdjust=adjust, **attributes
    )


def _cells(character: str) -> int:
    if character.isascii() or character in _SINGLE:
        return 1
    if unicodedata.combining(character):
        return 0
    return 1 if character <= "\u024f" else 2


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{round(value, 2):g}"
    return escape(printable(str(value), _LONGEST).translate(_NO_XML))
