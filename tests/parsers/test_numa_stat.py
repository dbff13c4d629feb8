"""A control group's memory by node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.facts import ProcessMemory
from hostdoctor.parsers.numa_stat import parse_numa_stat

VERSION_2 = """anon N0=4096 N1=8192
file N0=1048576 N1=2097152
kernel_stack N0=16384 N1=0
shmem N0=1048576 N1=1048576
workingset_nodes N0=0 N1=0
"""
VERSION_1 = "total=81 N0=80 N1=1\nfile=40 N0=39 N1=1\nanon=41 N0=41 N1=0\nunevictable=0 N0=0 N1=0\n"


def test_shared_memory_is_taken_out_of_files() -> None:
    assert parse_numa_stat(VERSION_2) == (
        ProcessMemory(node=0, anon_bytes=4096, shared_bytes=1 << 20, file_bytes=0),
        ProcessMemory(node=1, anon_bytes=8192, shared_bytes=1 << 20, file_bytes=1 << 20),
    )


def test_counts_read_at_different_moments_are_never_negative() -> None:
    (told,) = parse_numa_stat("anon N0=0\nfile N0=4096\nshmem N0=8192\n")
    assert (told.shared_bytes, told.file_bytes) == (8192, 0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (VERSION_1, "not version 2"),
        ("", "no anon"),
        ("anon N0=1\nfile N0=1\n", "no shmem"),
        ("anon N0=1\nfile N0=1\nshmem N0=1 N1=1\n", "different nodes"),
        ("anon N0=1\nfile N0=-1\nshmem N0=1\n", "not a node's bytes"),
        (f"anon N0={'9' * 4000}\nfile N0=1\nshmem N0=1\n", "not a node's bytes"),
        ("anon N0=٣\nfile N0=1\nshmem N0=1\n", "not a node's bytes"),
        ("anon " + " ".join(f"N{n}=0" for n in range(2000)), "too many nodes"),
        ("x\n" * 5000, "not version 2"),
    ],
)
def test_what_is_not_this_file_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        parse_numa_stat(text)


@given(st.text() | st.from_regex(r"(anon|file|shmem) (N\d=\w+ ?){1,3}\n"))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        parse_numa_stat(VERSION_2 + text)
    except ParseError:
        return
