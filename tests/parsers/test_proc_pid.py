"""What the kernel says of one process."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.parsers.proc_pid import parse_stat, parse_status

TAIL = (
    "S 41 42 42 0 -1 4194304 900 0 0 0 5 6 0 0 20 0 7 0 8812 100 200 18446744073709551615 94 95 140722 0 0 0 0"
    " 16781312 16386 0 0 0 17 5 0 0 0 0 0 96 97 98 99 100 101 102 0"
)


@pytest.mark.parametrize("name", ["python3", "tmux: server", "a) S 1 (b", "(sd-pam)", "two\nlines", ""])
def test_a_name_may_hold_anything(name: str) -> None:
    stat = parse_stat(f"4711 ({name}) {TAIL}\n")
    assert (stat.pid, stat.name, stat.state, stat.parent_pid) == (4711, name, "S", 41)
    assert (stat.threads, stat.start_ticks, stat.stack_start, stat.last_cpu) == (7, 8812, 140722, 5)


@pytest.mark.parametrize(
    "text",
    ["", "4711", "4711 (x", "4711 (x) S 1 2", f"x (y) {TAIL}", f"1 ({'n' * 65}) {TAIL}", f"{'1' * 30} (y) {TAIL}"],
)
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_stat(text)


def test_status_is_a_name_and_a_value_on_each_line() -> None:
    status = parse_status("Name:\tx: y\nUid:\t0\t0\t0\t0\nVmRSS:\t    1024 kB\nnone\n\nCpus_allowed_list:\t0-3\n")
    assert status == {"Name": "x: y", "Uid": "0\t0\t0\t0", "VmRSS": "1024 kB", "Cpus_allowed_list": "0-3"}


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    parse_status(text)
    try:
        parse_stat(f"1 ({text}) {TAIL[:40]} {text} {TAIL}")
    except ParseError:
        return
