from pathlib import Path

import pytest

from hostdoctor.errors import ParseError
from hostdoctor.parsers.xml_events import MAX_DEPTH, MAX_ELEMENTS, read_xml


class Seen:
    """Writes the events down."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.events.append(f"<{tag}" + "".join(f" {name}={value}" for name, value in attributes.items()))

    def end(self, tag: str) -> None:
        self.events.append(f">{tag}")

    def text(self, data: str) -> None:
        if data.strip():
            self.events.append(data.strip())


def events(text: str) -> list[str]:
    seen = Seen()
    assert read_xml(text, "test", "a", seen)
    return seen.events


def refusal(text: str) -> ParseError:
    with pytest.raises(ParseError) as caught:
        read_xml(text, "test", "a", Seen())
    return caught.value


PLAIN = '<a x="1"><b>t</b></a>'
SEEN = ["<a x=1", "<b", "t", ">b", ">a"]


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        f'<?xml version="1.0" encoding="UTF-8"?>\n{PLAIN}\n',
        f'<?xml version="1.0" encoding="UTF-16"?>{PLAIN}',
        f'<!DOCTYPE a SYSTEM "a.dtd">\r\n{PLAIN}',
        f'<!DOCTYPE a PUBLIC "-//A//EN" "http://192.0.2.1/a.dtd">{PLAIN}',
        f"\ufeff```xml\n\n<?xml version='1.0'?>\n{PLAIN}\n```\nThanks!",
        f"<!-- <c> -->{PLAIN}<!-- & -->",
        f"see <this>:\n{PLAIN} & <that>",
        f"{PLAIN}\n{PLAIN}",
    ],
)
def test_reads_the_document_and_nothing_else(text: str) -> None:
    assert events(text) == SEEN


def test_lines_are_those_of_the_whole_text() -> None:
    error = refusal("one\ntwo\n<a>\n<b></c>\n</a>")
    assert (error.line, error.text, error.reason) == (4, "<b></c>", "mismatched tag")


LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))


@pytest.mark.parametrize(
    "text",
    [
        f'<!DOCTYPE a [<!ENTITY l0 "ha">{LAUGHS}]><a>&l9;</a>',
        '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>',
        '<!DOCTYPE a SYSTEM "a.dtd" [<!ENTITY % p SYSTEM "http://192.0.2.1/">%p;]><a/>',
        "<!DOCTYPE a []><a></a>",
        '<!DOCTYPE a [<!ATTLIST a x CDATA "1">]><a></a>',
    ],
)
def test_refuses_declarations(text: str) -> None:
    assert refusal(text).reason == "a DOCTYPE that declares something is not read"


def test_an_undeclared_entity_is_an_error_or_nothing(tmp_path: Path) -> None:
    assert refusal("<a>&x;</a>").reason == "undefined entity"
    dtd = tmp_path / "a.dtd"
    dtd.write_text('<!ENTITY x "fetched">')
    assert events(f'<!DOCTYPE a SYSTEM "{dtd}"><a>&x;</a>') == ["<a", ">a"]


@pytest.mark.parametrize(
    "text",
    ["", "a", "<b><a></b>", "<ab></ab>", "<a><b></a>", "<a x='1' x='2'></a>", "<a>\x01</a>", "<a>\ud800<</a>", "<a><b"],
)
def test_refuses_what_is_not_well_formed(text: str) -> None:
    if text != "<a><b":
        refusal(text)
    else:
        assert not read_xml(text, "test", "a", Seen())


@pytest.mark.parametrize("end", range(4, len(PLAIN)))
def test_says_when_the_tail_is_missing(end: int) -> None:
    seen = Seen()
    assert read_xml(PLAIN[:end], "test", "a", seen) is False
    assert seen.events == SEEN[: len(seen.events)]


def test_bounds_depth_and_number() -> None:
    assert len(events("<a>" + "<b>" * (MAX_DEPTH - 1) + "</b>" * (MAX_DEPTH - 1) + "</a>")) == 2 * MAX_DEPTH
    assert refusal("<a>" + "<b>" * MAX_DEPTH).reason == "more elements than any host has"
    assert refusal("<a>" + "<b/>" * MAX_ELEMENTS + "</a>").reason == "more elements than any host has"
    assert refusal(f"<a x='{'1' * 3_000_000}'></a>").reason == "a tag longer than any"
