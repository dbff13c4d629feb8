"""Real outputs of ``lspci -vvv`` and kin: expected answers were read from the texts, not taken from the parser."""

import json
from pathlib import Path
from typing import Any

import pytest

from hostdoctor.errors import ParseError
from hostdoctor.parsers.lspci import LspciFunction, LspciListing, parse_lspci
from tests.support.corpus import corpus_names, corpus_text
from tests.support.mangle import MANGLINGS

KIND = "lspci-verbose"
NAMES = corpus_names(KIND)
EXPECTED: dict[str, Any] = json.loads(Path(__file__).with_name("lspci_verbose_expected.json").read_text())

pytestmark = [pytest.mark.corpus, pytest.mark.skipif(not NAMES, reason="no corpus")]


def facts(function: LspciFunction) -> dict[str, object]:
    fields = [field for field in LspciFunction.__struct_fields__ if field != "link"]
    values: dict[str, object] = {field: getattr(function, field) for field in fields}
    values |= {field: getattr(function.link, field) for field in function.link.__struct_fields__}
    return {field: value for field, value in values.items() if value is not None and value is not False}


def read(text: str) -> dict[str, dict[str, object]]:
    try:
        listing = parse_lspci(text)
    except ParseError:
        listing = LspciListing(functions=())
    return {function.bdf: facts(function) for function in listing.functions}


def others(name: str, found: dict[str, dict[str, object]], ignored: set[str]) -> list[tuple[str, str, object]]:
    expected = {function["bdf"]: function for function in EXPECTED[name[:3]]["functions"]}
    return [
        (bdf, field, value)
        for bdf, function in found.items()
        for field, value in function.items()
        if field not in ignored and expected.get(bdf, {}).get(field) != value
    ]


@pytest.mark.parametrize("name", NAMES)
def test_says_what_the_text_says(name: str) -> None:
    listing = parse_lspci(corpus_text(KIND, name))
    assert [facts(function) for function in listing.functions] == EXPECTED[name[:3]]["functions"]
    assert sorted(gap.fact for gap in listing.gaps) == sorted(EXPECTED[name[:3]]["gaps"])


@pytest.mark.parametrize("mangling", MANGLINGS)
@pytest.mark.parametrize("name", NAMES)
def test_mangled_text_gives_no_other_value(name: str, mangling: str) -> None:
    found = read(MANGLINGS[mangling](corpus_text(KIND, name)))
    assert others(name, found, set()) == []
    assert len(found) == len(EXPECTED[name[:3]]["functions"]) or mangling == "on one line"


@pytest.mark.parametrize("name", NAMES)
def test_cut_text_gives_no_other_value(name: str) -> None:
    text = corpus_text(KIND, name)
    cut_words = {"name", "class_code", "driver", "port_type", "numa_node", "iommu_group"}
    for at in range(0, len(text), max(13, len(text) // 120)):
        assert others(name, read(text[:at]), cut_words) == [], text[max(0, at - 80) : at]
        assert others(name, read(text[at:]), {"name"}) == [], text[at : at + 80]
