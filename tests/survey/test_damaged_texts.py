"""Texts that a paste cut, glued or shifted: what cannot be right must be missing, never wrong."""

from contextlib import suppress

from hostdoctor.errors import ParseError
from hostdoctor.parsers.interrupts import parse_interrupts


def test_an_interrupt_row_that_keeps_its_indent_takes_a_fragment() -> None:
    header = " " * 11 + "".join(f"CPU{i:<8}" for i in range(8)).rstrip() + "\n"
    row = " 12:" + "".join(f"{i:11}" for i in range(8)) + " e i\n"
    for tail in ("2", "2\n", "7,"):
        with suppress(ParseError):
            parse_interrupts(header + "1: 3\n" + row + tail)
