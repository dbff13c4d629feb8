"""Kubelet's hard eviction threshold of memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.parsers.kubelet_config import DEFAULT_BYTES, parse_eviction_bytes

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("evictionHard:\n  nodefs.available: 10%\n  memory.available: 500Mi\nother: 1\n", 500 << 20),
        ('evictionHard:\n    "memory.available": "1.5Gi"\n', 3 << 29),
        ("evictionHard: {memory.available: 5%, nodefs.available: 10%}\n", 5 << 30),
        ("evictionHard:\n  memory.available: 1000000k # more\n", 10**9),
        ("evictionHard:\n  memory.available: 12345\n", 12345),
        ("evictionHard:\n  nodefs.available: 10%\nevictionSoft:\n  memory.available: 9Gi\n", DEFAULT_BYTES),
        ("evictionSoft:\n  memory.available: 9Gi\n", DEFAULT_BYTES),
        ("", DEFAULT_BYTES),
        ("evictionHard:\n  # memory.available: 5Gi\n  memory.available: 250Mi\n", 250 << 20),
        ("evictionHard: # thresholds\n  memory.available: 250Mi\n", 250 << 20),
        ("#evictionHard:\n#  memory.available: 5Gi\n", DEFAULT_BYTES),
    ],
)
def test_what_it_keeps_free(text: str, size: int) -> None:
    assert parse_eviction_bytes(HEAD + text, 100 << 30) == size
    assert parse_eviction_bytes((HEAD + text).replace("\n", "\r\n"), 100 << 30) == size


def test_json_is_read_too() -> None:
    text = '{\n "kind": "KubeletConfiguration",\n "evictionHard": {\n  "memory.available": "250Mi"\n }\n}\n'
    assert parse_eviction_bytes(text, None) == 250 << 20


def test_json_on_one_line_is_read_too() -> None:
    soft, hard = '"evictionSoft":{"memory.available":"9Gi"}', '"evictionHard":{"memory.available":"2Gi"}'
    text = f'{{"kind":"KubeletConfiguration",{soft},{hard}}}'
    assert parse_eviction_bytes(text, None) == 2 << 30
    assert parse_eviction_bytes('{"kind":"KubeletConfiguration","evictionHard":{}}', None) == DEFAULT_BYTES
    with pytest.raises(ParseError, match="not JSON"):
        parse_eviction_bytes(text[:-1], None)


def test_a_share_of_an_unknown_total_is_unknown() -> None:
    assert parse_eviction_bytes(HEAD + "evictionHard:\n  memory.available: 5%\n", None) is None


@pytest.mark.parametrize("text", ["", "kind: Pod\n", HEAD + "evictionHard:\n  memory.available: lots\n"])
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_eviction_bytes(text, 1 << 30)


@given(st.text(alphabet="evictionHard: {}memory.available%0123456789GMKi\n\"'", max_size=300))
def test_any_text_gives_bytes_or_a_parse_error(text: str) -> None:
    try:
        size = parse_eviction_bytes(HEAD + text, 1 << 40)
    except ParseError:
        return
    assert size is not None
    assert size >= 0
