"""nodeN/meminfo."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.parsers.node_meminfo import parse_node_meminfo

TEXT = """\

Node 1 MemTotal:       20539604 kB
Node 1 MemFree:        13993792 kB
Node 1 Active(file):    1863592 kB
Node 1 HugePages_Total:     3
"""


def test_counters_are_bytes_and_huge_pages_a_count() -> None:
    told = parse_node_meminfo(TEXT)
    assert told.node == 1
    assert told.values == {
        "MemTotal": 20539604 * 1024,
        "MemFree": 13993792 * 1024,
        "Active(file)": 1863592 * 1024,
        "HugePages_Total": 3,
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("MemTotal: 3 kB", "not understood"),
        (TEXT + "Node 0 Slab: 1 kB", "another node than 1"),
        (TEXT + "Node 1 MemFree: 1 kB", "given twice"),
        (TEXT + "Node 1 Slab: -1 kB", "not understood"),
        (TEXT + "Node 1 Slab: " + "9" * 5000 + " kB", "not understood"),
        (TEXT[:-3], "not understood"),
    ],
)
def test_what_is_not_one_nodes_meminfo_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        parse_node_meminfo(text)


@given(st.text())
def test_any_text_gives_counters_or_a_parse_error(text: str) -> None:
    with pytest.raises(ParseError):
        parse_node_meminfo("Node" + text)
