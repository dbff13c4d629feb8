"""The JSON documents in a result file: one, a list, one a line, amid log lines, or cut off at the end."""

import json
import re
from collections.abc import Iterator
from typing import Any

from hostdoctor.errors import ParseError
from hostdoctor.parsers.prefix import strip_common_prefix

Object = dict[str, Any]

MAX_DOCUMENTS = 200_000  # lines of a structured log, mostly
_FAILURES = 16  # braces in log lines that begin no document
_REPAIRS = 8
_REPAIRED_CHARS = 1 << 20  # what has lists per request is not flat
_INT_DIGITS = 20
_BEGIN = re.compile(r'\{\s{0,400}"|\[\s{0,400}\{')
_KEY = re.compile(r'"[A-Za-z_ -]{3,40}"\s{0,8}:')


def find_objects(text: str, source: str) -> list[Object]:
    """Return every object that stands alone or in a list, in order; ``[]`` where there is none.

    An object that the end of the text cuts off is closed after its last whole value. Raises ParseError for more than
    MAX_DOCUMENTS.
    """
    found = list(_objects(text, source))
    if found or _KEY.search(text) is None:
        return found
    lines = text.split("\n")
    keys = ((index, _KEY.search(line, 0, 512)) for index, line in enumerate(lines[:2000]))
    bare = strip_common_prefix(lines, {index: match.start() for index, match in keys if match})
    return [] if bare == lines else list(_objects("\n".join(bare), source))


def _objects(text: str, source: str) -> Iterator[Object]:
    decoder = json.JSONDecoder(parse_int=_int, parse_constant=_constant, strict=False)
    failures = documents = position = 0
    while match := _BEGIN.search(text, position):
        try:
            document, position = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            failures += 1
            position = match.start() + 1
            if failures == 1:
                yield from _repaired(decoder, text[match.start() : match.start() + _REPAIRED_CHARS + 1])
            if failures > _FAILURES:
                return
            continue
        documents += 1
        if documents > MAX_DOCUMENTS:
            raise ParseError(source, 0, "", f"more than {MAX_DOCUMENTS} JSON documents")
        yield from (x for x in (document if isinstance(document, list) else [document]) if isinstance(x, dict))


def _repaired(decoder: json.JSONDecoder, text: str) -> Iterator[Object]:
    """Yield the flat object that the end of the text cuts off, without its last value, which may be cut itself."""
    end = len(text) if len(text) <= _REPAIRED_CHARS else 0
    for _ in range(_REPAIRS):
        end = text.rfind(",", 0, end)
        if end < 0 or "\n\n" in text[end:]:
            return
        try:
            document, _ = decoder.raw_decode(text[:end] + "}")
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict):
            yield document
        return


def _int(digits: str) -> int | None:
    return int(digits) if len(digits) <= _INT_DIGITS else None


def _constant(word: str) -> str | None:
    """Return what Python's writer means: an infinite rate is one, NaN is no value."""
    return "inf" if word == "Infinity" else None
