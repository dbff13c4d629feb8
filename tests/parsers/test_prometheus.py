"""Prometheus' text format, as engines print it and as it may come."""

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.parsers.prometheus import parse_prometheus

PAGE = """# HELP vllm:prefix_cache_queries_total Prefix cache queries, in terms of number of queried tokens.
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="example/model"} 8.128902e+06
vllm:prefix_cache_queries_total{engine="1",model_name="example/model"} 98.0
process_cpu_seconds_total 12.5 1700000000000
odd_label{path="/a}b{",text="with \\" quote, } 7"} 3
not_a_number NaN
endless{le="+Inf"} 4
infinite +Inf
"""


def test_label_sets_are_added_up() -> None:
    assert parse_prometheus(PAGE, "page") == {
        "vllm:prefix_cache_queries_total": 8129000.0,
        "process_cpu_seconds_total": 12.5,
        "odd_label": 3.0,
        "endless": 4.0,
    }


def test_line_ends_of_other_systems() -> None:
    assert parse_prometheus(PAGE.replace("\n", "\r\n"), "page")["odd_label"] == 3.0


@pytest.mark.parametrize(
    "text", ["", "# only a comment\n", "<html>404</html>", '{"detail":"Not Found"}', "name", "name{a} x y z"]
)
def test_other_pages_are_refused(text: str) -> None:
    with pytest.raises(ParseError, match="no Prometheus metrics"):
        parse_prometheus(text, "page")


@given(st.text())
def test_any_text_gives_metrics_or_a_parse_error(text: str) -> None:
    with contextlib.suppress(ParseError):
        parse_prometheus(text, "page")


def test_a_huge_page_takes_no_time_to_speak_of() -> None:
    began = time.process_time()
    with pytest.raises(ParseError):
        parse_prometheus("a{" * 10_000_000 + "\n" + "b " * 5_000_000, "page")
    assert time.process_time() - began < 10
