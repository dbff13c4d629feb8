import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.prefix import strip_common_prefix

ROWS = ["\tGPU0\tGPU1", "GPU0\t X \tNV4", "GPU1\tNV4\t X", "", "  X    = Self"]
COLUMNS = [1, 0, 0]


def logged(prefix: str) -> tuple[list[str], dict[int, int]]:
    marks = [prefix.replace("#", str(10 + 37 * i)) for i in range(len(ROWS))]
    lines = [(mark + row).rstrip() for mark, row in zip(marks, ROWS, strict=True)]
    return lines, {i: len(marks[i]) + column for i, column in enumerate(COLUMNS)}


@pytest.mark.parametrize(
    "prefix",
    [
        *("> ", ">> ", "# ", "// ", "[rank0]: ", "0: ", "(w pid=1, ip=10.0.0.#) ", "2025-06-03T16:33:56.#Z stdout F "),
        *("2025-06-03 16:33:56.#[6724][DEBUG] a.b[x_3].node[0].stdout ", "Jun  3 16:33:# node bash[9]: ", "a-1  | "),
        *("[   #.123] ", "INFO 06-03 16:33:# [file.py:#] "),
    ],
)
def test_strips_the_prefix_and_keeps_the_indentation(prefix: str) -> None:
    assert strip_common_prefix(*logged(prefix)) == ROWS


def test_keeps_the_blanks_of_a_prefix_that_has_none_behind_it() -> None:
    assert strip_common_prefix(["x> a", "x>  b", "x>"], {0: 3, 1: 4}) == ["a", " b", ""]
    assert strip_common_prefix(["x>a", "x> b"], {0: 2, 1: 3}) == ["a", " b"]


def test_keeps_lines_that_lack_the_prefix() -> None:
    lines, columns = logged("[rank0]: ")
    assert strip_common_prefix([*lines, "[rank1]: other", "plain"], columns) == [*ROWS, "other", "plain"]
    assert strip_common_prefix([*lines, "[mode]: other"], columns) == [*ROWS, "[mode]: other"]


def test_keeps_everything_where_most_lines_have_none() -> None:
    lines = ["[x] a", "b", "c", "d"]
    assert strip_common_prefix(lines, {0: 4, 1: 0, 2: 0}) == lines
    assert strip_common_prefix(lines, {0: 4}) == lines
    assert strip_common_prefix(["  a", "  b"], {0: 2, 1: 2}) == ["  a", "  b"]
    assert strip_common_prefix(lines, {}) == lines
    assert strip_common_prefix([], {}) == []


def test_takes_a_bar_for_the_prefix_only_where_every_line_has_it() -> None:
    tree = ["-+-[0000:80]-", " |           \\-01.0", " \\-[0000:00]-"]
    lines = ["log: " + line for line in tree]
    assert strip_common_prefix(lines, dict.fromkeys(range(3), 4)) == tree


@given(
    st.lists(st.text(alphabet="ab1 |>[]:.\t", max_size=12), max_size=8),
    st.dictionaries(st.integers(0, 7), st.integers(0, 12)),
)
def test_only_ever_takes_from_the_begin_of_a_line(lines: list[str], columns: dict[int, int]) -> None:
    known = {index: column for index, column in columns.items() if index < len(lines)}
    stripped = strip_common_prefix(lines, known)
    assert len(stripped) == len(lines)
    assert all(line.endswith(rest) for line, rest in zip(lines, stripped, strict=True))


@pytest.mark.parametrize("prefix", ["a" * 400, "[1]" * 130, "a1." * 130, ": " * 190])
def test_takes_time_in_proportion_to_the_text(prefix: str) -> None:
    lines = [prefix + "x" * 1000] * 2000
    start = time.process_time()
    strip_common_prefix(lines, dict.fromkeys(range(500), len(prefix)))
    assert time.process_time() - start < 2
