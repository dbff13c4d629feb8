"""The document that ``measure copy`` writes, as far as the survey needs it: the links of the path while copies ran."""

import re

import msgspec

from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact, LinkReading
from hostdoctor.parsers.bdf import canonical_bdf

KIND = "measure-copy"
MAX_LINKS = 64
MAX_READINGS = 10**9
SPEEDS_GTS = frozenset(("2.5", "5", "8", "16", "32", "64", "128"))
WIDTHS_LANES = frozenset(("1", "2", "4", "8", "12", "16", "32"))
_AT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")


class MeasuredGpu(Fact, frozen=True, kw_only=True):
    """Which GPU was copied to."""

    bdf: str
    uuid: str | None = None


class _Kind(msgspec.Struct):
    kind: str


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
        kind = msgspec.json.decode(text.encode("utf-8", "replace"), type=_Kind).kind
        if kind != KIND:
            raise ParseError(
                source,
                0,
                kind,
                "only what hostdoctor measure copy wrote is judged (report --measured shows the others)",
            )
        document = msgspec.json.decode(text.encode("utf-8", "replace"), type=MeasuredCopies)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ParseError(source, 0, text[:80], f"not a document of hostdoctor measure copy ({error})") from None
    if not _AT.fullmatch(document.circumstances.at):
        raise ParseError(source, 0, document.circumstances.at, "not a time as hostdoctor measure copy writes it")
    links = document.links
    if len(links) > MAX_LINKS or len({link.bdf for link in links}) < len(links) or not all(map(_is_sound, links)):
        raise ParseError(source, 0, text[:80], "links that cannot have been read")
    return document


def _is_sound(link: LinkReading) -> bool:
    """Tell whether a link was read as often as it says, and showed rates and widths that PCIe has."""
    counts = (link.speeds_gts, link.widths_lanes)
    return (
        canonical_bdf(link.bdf) == link.bdf
        and link.speeds_gts.keys() <= SPEEDS_GTS
        and link.widths_lanes.keys() <= WIDTHS_LANES
        and 0 <= link.readings <= MAX_READINGS
        and all(times > 0 for count in counts for times in count.values())
        and all(sum(count.values()) <= link.readings for count in counts)
    )
