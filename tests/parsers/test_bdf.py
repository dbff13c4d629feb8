import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.bdf import canonical_bdf


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3b:00.0", "0000:3b:00.0"),
        ("0000:3b:00.0", "0000:3b:00.0"),
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0000:3B:1F.7\n", "0000:3b:1f.7"),
        ("10000:e1:00.0", "10000:e1:00.0"),
        ("000D:03:00.0", "000d:03:00.0"),
        ("ffffffff:ff:1f.7", "ffffffff:ff:1f.7"),
    ],
)
def test_spells_addresses_one_way(text: str, expected: str) -> None:
    assert canonical_bdf(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "N/A",
        "3b:00",
        "3b:00.8",
        "3b:20.0",
        "0000:3b:00.0.1",
        "123456789:00:00.0",
        "GPU0",
        "3b-00.0",
        "٣b:00.0",
        "3b:00.0 x",
    ],
)
def test_anything_else_is_none(text: str) -> None:
    assert canonical_bdf(text) is None


@given(st.integers(0, 0xFFFFFFFF), st.integers(0, 255), st.integers(0, 31), st.integers(0, 7))
def test_canonical_is_a_fixed_point(domain: int, bus: int, device: int, function: int) -> None:
    text = f"{domain:04x}:{bus:02x}:{device:02x}.{function}"
    assert canonical_bdf(text) == text
    assert canonical_bdf(f"{domain:08X}:{bus:02X}:{device:02X}.{function}") == text


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_none(text: str) -> None:
    found = canonical_bdf(text)
    assert found is None or canonical_bdf(found) == found
