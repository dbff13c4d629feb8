import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.parsers.bitmap import MAX_BITS, bitmap_cpulist, bitmap_ids, parse_bitmap


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("00000000,0000ffff,ffffffff", "0-47"),
        ("000000ff,ffff0000,00ffffff\n", "0-23,48-71"),
        ("0x00000303,0x03030000,,0x03030303", "0-1,8-9,16-17,24-25,80-81,88-89,96-97,104-105"),
        ("ff", "0-7"),
        ("0x0", ""),
        ("00000000,00000000", ""),
    ],
)
def test_reads_both_spellings(text: str, cpus: str) -> None:
    assert bitmap_cpulist(parse_bitmap(text)) == cpus


@pytest.mark.parametrize(
    "text",
    ["", "0x", "0xf...f", "0xf...f,0x00000001", "g", "123456789", "-1", "1 1", "1" + ",0" * (MAX_BITS // 32), "٣"],
)
def test_refuses_the_rest(text: str) -> None:
    with pytest.raises(ParseError):
        parse_bitmap(text)


@given(st.frozensets(st.integers(0, 511)))
def test_is_the_inverse_of_printing(ids: frozenset[int]) -> None:
    digits = f"{sum(1 << i for i in ids):0128x}"
    words = ",".join(digits[i : i + 8] for i in range(0, 128, 8))
    assert bitmap_ids(parse_bitmap(words)) == sorted(ids)


@given(st.text(max_size=40))
def test_any_text(text: str) -> None:
    with contextlib.suppress(ParseError):
        assert parse_bitmap(text) >= 0
