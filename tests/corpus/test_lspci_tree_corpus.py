"""Real outputs of ``lspci -t`` and ``-tv``: expected answers were read from the texts, not taken from the parser."""

import json
from pathlib import Path
from typing import Any

import pytest

from hostdoctor.errors import ParseError
from hostdoctor.parsers.lspci_tree import LspciTree, TreeFunction, parse_lspci_tree
from tests.support.corpus import corpus_names, corpus_text
from tests.support.mangle import MANGLINGS

KIND = "lspci-tree"
NAMES = corpus_names(KIND)
EXPECTED: dict[str, Any] = json.loads(Path(__file__).with_name("lspci_tree_expected.json").read_text())
WORDS = {"head": "begins after the first root", "tail": "ends before the last", "twice": "is shown twice"}
UNREADABLE = {"on one line"}

pytestmark = [pytest.mark.corpus, pytest.mark.skipif(not NAMES, reason="no corpus")]


def expected_functions(name: str) -> tuple[TreeFunction, ...]:
    return tuple(_function(*row) for row in EXPECTED[name[:3]].get("functions", ()))


def _function(bdf: str, upstream: str, root: str, name: str, ids: str = "") -> TreeFunction:
    is_bridge = name == "bridge"
    vendor_id, _, device_id = ids.partition(":")
    return TreeFunction(
        bdf=bdf,
        name=None if is_bridge else name or None,
        vendor_id=vendor_id or None,
        device_id=device_id or None,
        upstream=tuple(upstream.split()),
        root_complex=root,
        is_bridge=is_bridge,
    )


def places(functions: tuple[TreeFunction, ...]) -> dict[str, tuple[tuple[str, ...], str]]:
    return {function.bdf: (function.upstream, function.root_complex) for function in functions}


def read(text: str) -> LspciTree:
    try:
        return parse_lspci_tree(text)
    except ParseError:
        return LspciTree(functions=())


@pytest.mark.parametrize("name", NAMES)
def test_says_what_the_text_says(name: str) -> None:
    expected = EXPECTED[name[:3]]
    if "error" in expected:
        with pytest.raises(ParseError, match="root bus"):
            parse_lspci_tree(corpus_text(KIND, name))
        return
    tree = parse_lspci_tree(corpus_text(KIND, name))
    assert tree.functions == expected_functions(name)
    gaps = [f"{gap.fact} {gap.reason}" for gap in tree.gaps]
    assert [word for word in expected["gaps"] if not any(WORDS.get(word, word) in gap for gap in gaps)] == []
    assert len(gaps) == len(expected["gaps"])


@pytest.mark.parametrize("mangling", MANGLINGS)
@pytest.mark.parametrize("name", NAMES)
def test_mangled_text_gives_no_other_place(name: str, mangling: str) -> None:
    expected = places(expected_functions(name))
    found = places(read(MANGLINGS[mangling](corpus_text(KIND, name))).functions)
    assert {bdf: place for bdf, place in found.items() if expected.get(bdf) != place} == {}
    assert len(found) == len(expected) or mangling in UNREADABLE


@pytest.mark.parametrize("name", NAMES)
def test_cut_text_gives_no_other_place(name: str) -> None:
    text = corpus_text(KIND, name)
    expected = places(expected_functions(name))
    step = max(7, len(text) // 150)
    for at in range(0, len(text), step):
        for part in (text[:at], text[text.rfind("\n", 0, at) + 1 :]):
            found = places(read(part).functions)
            assert {bdf: place for bdf, place in found.items() if expected.get(bdf) != place} == {}, (at, part[:80])
