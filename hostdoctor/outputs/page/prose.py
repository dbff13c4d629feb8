"""Text on its way into a page: printable, escaped, and the little Markdown of the checks' documentation."""

import re
from typing import Any, Literal

from markupsafe import Markup, escape

from hostdoctor.facts import Fact
from hostdoctor.outputs.words import printable

MOST_CHARACTERS = 2000
MOST_CODE_CHARACTERS = 40_000
_INLINE = re.compile(r"`([^`]{1,200})`|(https://[^\s<>\"'`()]{1,300})")


class Block(Fact, frozen=True, kw_only=True):
    """A part of a documentation: a paragraph, heading, list or piece of code."""

    kind: Literal["heading", "paragraph", "list", "code"]
    text: str = ""
    items: tuple[str, ...] = ()


def visible(value: Any, most: int = MOST_CHARACTERS) -> Any:
    """Return what a template prints: text with its control characters made visible, cut where it is endless."""
    if value is None or isinstance(value, (Markup, bool)):
        return value
    return printable(str(value), most)


def unbroken(text: str) -> str:
    """Return a figure that no line end takes apart, but before its interval."""
    return text.replace(" ", "\u00a0").replace("\u00a0[", " [")


def verbatim(text: str, most: int = MOST_CODE_CHARACTERS) -> Markup:
    """Return lines of code or of a table as they are; control characters but the line's end are made visible."""
    cut = text if len(text) <= most else text[:most] + "\n… cut here"
    return escape("\n".join(printable(line.replace("\t", "    "), MOST_CODE_CHARACTERS) for line in cut.split("\n")))


def prose(text: str) -> Markup:
    """Return one paragraph: `code` in back quotes, https addresses as links, all else escaped."""
    parts, at = [], 0
    cleaned = printable(text, MOST_CHARACTERS)
    for match in _INLINE.finditer(cleaned):
        parts.append(escape(cleaned[at : match.start()]))
        code, link = match.groups()
        parts.append(Markup("<code>{}</code>").format(code) if code else _link(link))
        at = match.end()
    parts.append(escape(cleaned[at:]))
    return Markup().join(parts)


def blocks(text: str) -> list[Block]:
    """Return the blocks of a check's documentation: ``##`` headings, ``- `` lists, paragraphs, indented code."""
    found: list[Block] = []
    lines: list[str] = []
    for line in [*text.strip().split("\n"), ""]:
        if line.startswith("#"):
            found += [*_block(lines), Block(kind="heading", text=line.lstrip("# "))]
            lines = []
        elif line.strip():
            lines.append(line)
        else:
            found += _block(lines)
            lines = []
    return found


def _block(lines: list[str]) -> list[Block]:
    if not lines:
        return []
    if lines[0].startswith("- "):
        items = "\n".join(lines)[2:].split("\n- ")
        return [Block(kind="list", items=tuple(" ".join(item.split()) for item in items))]
    if all(line.startswith("    ") for line in lines):
        return [Block(kind="code", text="\n".join(line[4:] for line in lines))]
    return [Block(kind="paragraph", text=" ".join(line.strip() for line in lines))]


def _link(address: str) -> Markup:
    shown = address.rstrip(".,;:")
    return Markup('<a href="{}" rel="noreferrer">{}</a>{}').format(shown, shown, address[len(shown) :])
