"""Headers of safetensors files."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.parsers.safetensors_header import parse_safetensors_header


def file(text: bytes, length: int | None = None) -> bytes:
    return (len(text) if length is None else length).to_bytes(8, "little") + text + b"\0" * 16


def test_tensors_without_the_metadata() -> None:
    tensors = {"a.weight": {"dtype": "BF16", "shape": [2, 4], "data_offsets": [0, 16]}}
    assert parse_safetensors_header(file(json.dumps(tensors | {"__metadata__": {"format": "pt"}}).encode())) == tensors


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 8, file(b"{}", 1 << 62), file(b"[1]"), file(b'{"a": '), file(b"[" * 100_000), file(b'{"\xff": 1}')],
)
def test_what_is_no_header_is_refused(data: bytes) -> None:
    with pytest.raises(ParseError):
        parse_safetensors_header(data)


@given(st.binary(max_size=200))
def test_any_bytes_give_tensors_or_a_parse_error(data: bytes) -> None:
    try:
        tensors = parse_safetensors_header(data)
    except ParseError:
        return
    assert isinstance(tensors, dict)
