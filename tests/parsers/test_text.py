import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.text import clean_lines, excerpt


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\r\nb\rc\n", ["a", "b", "c", ""]),
        ("\ufeffa \t\n", ["a", ""]),
        ("\x1b[4mGPU0\x1b[0m", ["GPU0"]),
        ("[4mGPU0[0m", ["GPU0"]),
        ("\x1b[38;5;196mred\x1b[K", ["red"]),
        ("[38;5;196mred[0m", ["red"]),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x1b\\", ["link"]),
        ("\x1b[01;31m\x1b[Kcpus\x1b[m\x1b[K", ["cpus"]),
        ("\tnode\u00a00", ["\tnode 0"]),
        ("a\0b\u200b", ["ab"]),
        ("M[1] [12] m", ["M[1] [12] m"]),
    ],
)
def test_undoes_what_pasting_does(text: str, expected: list[str]) -> None:
    assert clean_lines(text) == expected


@given(st.text())
def test_clean_lines_have_no_escapes_left(text: str) -> None:
    lines = clean_lines(text)
    assert lines
    assert not any(mark in line for line in lines for mark in "\x1b\r\n\0\ufeff")


def test_excerpt_begins_at_a_line_around_the_first_mark() -> None:
    text = "noise\n" * 1000 + "here is it\n" + "noise\n" * 1000
    assert excerpt(text, ["no such mark", "here"], limit=200).startswith("noise\nnoise\n")
    assert "here is it" in excerpt(text, ["here"], limit=200)
    assert len(excerpt(text, ["here"], limit=200)) == 200
    assert excerpt(text, ["no such mark"], limit=200) == ""
    assert excerpt("short", ["no such mark"]) == "short"
