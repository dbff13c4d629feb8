"""XML as a stream of events, read safely: no entities, nothing fetched, bounded depth and number of elements."""

from typing import Protocol
from xml.parsers import expat

from hostdoctor.errors import ParseError
from hostdoctor.parsers.text import clean_lines

MAX_DEPTH = 128
MAX_TAG = 1 << 20
_PIECE = 1 << 18
MAX_ELEMENTS = 500_000  # a host of a thousand CPUs and 4,096 PCI functions has some 30,000
# What expat says of a document that is sound as far as it goes.
_CUT = frozenset(
    expat.errors.codes[message]
    for message in (
        expat.errors.XML_ERROR_NO_ELEMENTS,
        expat.errors.XML_ERROR_UNCLOSED_TOKEN,
        expat.errors.XML_ERROR_PARTIAL_CHAR,
    )
)


class Sink(Protocol):
    """What takes the events."""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Take a start tag."""

    def end(self, tag: str) -> None:
        """Take an end tag."""

    def text(self, data: str) -> None:
        """Take characters between tags."""


def read_xml(text: str, source: str, root: str, sink: Sink) -> bool:
    """Feed a document whose root element is ``root`` to the sink; return False when its tail is missing.

    What stands before and behind the document is left out. A DOCTYPE that names a DTD is accepted and never fetched;
    one that declares anything is refused, and so are documents deeper or longer than any host's.
    Raises ParseError for all that, and where there is no such document or it is not well-formed.
    """
    text = "\n".join(clean_lines(text))
    first = text.find(f"<{root}")
    if first < 0:
        raise ParseError(source, 0, "", f"no <{root}> in it")
    first = next((at for mark in ("<?xml", "<!DOCTYPE") if (at := text.find(mark, 0, first)) >= 0), first)
    last = text.find(f"</{root}>", first)
    whole = last >= first
    last = last + len(root) + 3 if whole else len(text)
    try:
        _feed(_parser(source, root, sink), text[first:last].encode("utf-8", "replace"), source)
    except expat.ExpatError as error:
        if whole or error.code not in _CUT:
            line = error.lineno + text.count("\n", 0, first)
            raise ParseError(source, line, _line(text, line), expat.ErrorString(error.code)) from None
    return whole


def _feed(parser: expat.XMLParserType, data: bytes, source: str) -> None:
    """Parse in pieces, so that a tag without end, or with a million attributes, is given up early."""
    for start in range(0, len(data), _PIECE):
        parser.Parse(data[start : start + _PIECE], False)
        if start + _PIECE - parser.CurrentByteIndex > MAX_TAG:
            raise ParseError(source, parser.CurrentLineNumber, "", "a tag longer than any")
    parser.Parse(b"", True)


def _line(text: str, number: int) -> str:
    return next(iter(text.split("\n", number)[number - 1 : number]), "").strip()


def _parser(source: str, root: str, sink: Sink) -> expat.XMLParserType:
    parser = expat.ParserCreate("utf-8")
    depth = elements = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth, elements
        if not depth and tag != root:
            raise ParseError(source, parser.CurrentLineNumber, tag, f"the root element is not <{root}>")
        depth += 1
        elements += 1
        if depth > MAX_DEPTH or elements > MAX_ELEMENTS:
            raise ParseError(source, parser.CurrentLineNumber, tag, "more elements than any host has")
        sink.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        sink.end(tag)

    def doctype(name: str, system_id: str | None, public_id: str | None, has_internal_subset: bool) -> None:  # noqa: ARG001
        if has_internal_subset:
            raise ParseError(source, parser.CurrentLineNumber, name, "a DOCTYPE that declares something is not read")

    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = sink.text
    parser.StartDoctypeDeclHandler = doctype
    return parser
