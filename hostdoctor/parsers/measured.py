"""The document that ``measure copy`` writes, as far as the survey needs it: the links of the path while copies ran."""

import msgspec

from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact, LinkReading

KIND = "measure-copy"
MAX_LINKS = 64
MAX_VALUES = 16  # different speeds or widths of one link


class MeasuredGpu(Fact, frozen=True, kw_only=True):
    """Which GPU was copied to."""

    bdf: str
    uuid: str | None = None


class Taken(Fact, frozen=True, kw_only=True):
    """When and on which host that was."""

    at: str
    hostname: str | None = None


class MeasuredCopies(Fact, frozen=True, kw_only=True):
    """What the document tells of links."""

    kind: str
    circumstances: Taken
    gpu: MeasuredGpu
    links: tuple[LinkReading, ...] = ()


def parse_measured(text: str, source: str) -> MeasuredCopies:
    """Return the document of ``measure copy -o``; raise ParseError for anything else."""
    try:
        document = msgspec.json.decode(text.encode("utf-8", "replace"), type=MeasuredCopies)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ParseError(source, 0, text[:80], f"not a document of hostdoctor measure copy ({error})") from None
    if document.kind != KIND:
        raise ParseError(source, 0, document.kind, f"not a document of hostdoctor measure copy (kind, wanted {KIND})")
    if len(document.links) > MAX_LINKS or any(not _is_sound(link) for link in document.links):
        raise ParseError(source, 0, text[:80], "links that cannot have been read")
    return document


def _is_sound(link: LinkReading) -> bool:
    counts = (link.speeds_gts, link.widths_lanes)
    return all(
        len(count) <= MAX_VALUES and all(_is_number(value) and times > 0 for value, times in count.items())
        for count in counts
    )


def _is_number(text: str) -> bool:
    return text.isascii() and len(text) <= 5 and text.replace(".", "", 1).isdigit()
