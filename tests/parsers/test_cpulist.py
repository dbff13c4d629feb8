import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.parsers.cpulist import (
    MAX_ID,
    canonical_cpulist,
    count_cpulist,
    cpulist_ranges,
    format_cpulist,
    is_within,
    parse_cpulist,
    shared_cpus,
)

ids = st.frozensets(st.integers(0, 300), max_size=60)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("  \n", []),
        ("0", [0]),
        ("0-3,8", [0, 1, 2, 3, 8]),
        ("0-1, 4-5", [0, 1, 4, 5]),
        ("0-0", [0]),
        ("5,3,3-4", [3, 4, 5]),
        ("0-9:2/4", [0, 1, 4, 5, 8, 9]),
        ("10-14:1/5", [10]),
        ("1-7:2", [1, 3, 5, 7]),
        (str(MAX_ID), [MAX_ID]),
    ],
)
def test_parses(text: str, expected: list[int]) -> None:
    assert parse_cpulist(text) == frozenset(expected)


@pytest.mark.parametrize(
    "text",
    [
        *("a", "-1", "1-", "0,,1", "0,", ",0", "3-1", "0-3:", "0-3:0/4", "0-3:5/4", "0-3:0", "0-3:1/2/3", "0-1-2"),
        *("0x3", "٣", "0 1", "1.5", "+1", "1_0", "N/A", str(MAX_ID + 1), "99999999999999999999", "0-99999999"),
    ],
)
def test_refuses(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_cpulist(text, "here")
    assert caught.value.source == "here"


@given(ids)
def test_parse_inverts_format(numbers: frozenset[int]) -> None:
    text = format_cpulist(numbers)
    assert parse_cpulist(text) == numbers
    assert canonical_cpulist(text) == text
    assert count_cpulist(text) == len(numbers)


@given(ids)
def test_canonical_joins_what_programs_list_one_by_one(numbers: frozenset[int]) -> None:
    assert canonical_cpulist(",".join(map(str, sorted(numbers)))) == format_cpulist(numbers)


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 9), st.integers(1, 9))
def test_groups_are_the_kernels(first: int, length: int, used: int, group: int) -> None:
    text = f"{first}-{first + length}:{min(used, group)}/{group}"
    expected = {i for i in range(first, first + length + 1) if (i - first) % group < min(used, group)}
    assert parse_cpulist(text) == expected


@pytest.mark.parametrize("text", ["1,0", "0-3,3", "0-3,2-5", "8,12,1", "0-31,64-9"])
def test_canonical_refuses_what_does_not_ascend(text: str) -> None:
    with pytest.raises(ParseError):
        canonical_cpulist(text)


@given(ids, ids, ids)
def test_within_is_the_subset(numbers: frozenset[int], one: frozenset[int], other: frozenset[int]) -> None:
    assert is_within(format_cpulist(numbers), [format_cpulist(one), format_cpulist(other)]) == (numbers <= one | other)


@given(st.lists(ids, max_size=4))
def test_shared_are_the_lists_that_meet(lists: list[frozenset[int]]) -> None:
    expected = {i for i, a in enumerate(lists) for j, b in enumerate(lists) if i != j and a & b}
    assert shared_cpus({i: format_cpulist(numbers) for i, numbers in enumerate(lists)}) == expected


@given(st.text(alphabet="0123456789,-:/ \n", max_size=40))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        ranges = cpulist_ranges(text)
    except ParseError:
        return
    assert all(0 <= span.start < span.stop <= MAX_ID + 1 for span in ranges)


@pytest.mark.parametrize(
    "text",
    [f"0-{MAX_ID}," * 4_000_000 + "0", "0," * 25_000_000 + "0", f"0-{MAX_ID}:1/1," * 100 + "0", "9" * 50_000_000],
    ids=["ranges", "items", "groups", "digits"],
)
def test_refuses_hostile_lists_soon(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_cpulist(text)
    assert len(str(caught.value)) < 300
