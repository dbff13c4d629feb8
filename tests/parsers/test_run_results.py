"""Results of benchmark clients, in every shape that they were saved in."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.facts.runs import Latency, RunResult
from hostdoctor.parsers.run_results import parse_run_results
from tests.support.corpus import corpus_names, corpus_text

HEAD = {
    "date": "20260301-101500", "endpoint_type": "openai", "backend": "openai", "label": None, "model_id": "org/m-8b",
    "tokenizer_id": "org/m-8b", "num_prompts": 4, "vllm_version": "0.33.0", "request_rate": 2.0, "burstiness": 1.0,
    "max_concurrency": 8, "duration": 2.5, "completed": 3, "failed": 1, "total_input_tokens": 300,
    "total_output_tokens": 10, "request_throughput": 1.2, "request_goodput": None,
}  # fmt: skip
AGGREGATES = {
    "mean_ttft_ms": 31.0, "median_ttft_ms": 30.0, "std_ttft_ms": 1.0, "p99_ttft_ms": 39.0, "p99.9_ttft_ms": 40.0,
    "median_tpot_ms": 12.0, "p99_tpot_ms": 15.0, "median_itl_ms": 11.0, "p99_itl_ms": 14.0, "median_e2el_ms": 70.0,
}  # fmt: skip
DETAILS = {
    "input_lens": [100, 100, 100, 100], "output_lens": [3, 0, 3, 1], "ttfts": [0.030, 0.0, 0.031, 0.040],
    "itls": [[0.010, 0.012], [], [0.011, 0.013], []], "latencies": [0.052, 0.0, 0.055, 0.040],
    "start_times": [100.0, 100.1, 100.2, 100.3], "queue_times": [0.0, 0.0, 0.0, 0.0],
    "generated_texts": ["a", "", "b", "c"], "errors": ["", "Connection reset", "", ""],
}  # fmt: skip


def read(*documents: dict[str, Any], between: str = "\n") -> tuple[RunResult, ...]:
    return parse_run_results(between.join(json.dumps(x) for x in documents), "result.json")


def one(document: dict[str, Any]) -> RunResult:
    (run,) = read(document)
    return run


def samples(run: RunResult, name: str) -> list[float]:
    return [round(x, 6) for x in run.latencies[name].samples_ms or ()]


def test_vllm_s_aggregates_alone() -> None:
    run = one(HEAD | AGGREGATES)
    assert run.latencies == {
        "ttft": Latency(quantiles_ms={"p50": 30.0, "p99": 39.0, "p99.9": 40.0}, count=3),
        "tpot": Latency(quantiles_ms={"p50": 12.0, "p99": 15.0}, count=3),
        "itl": Latency(quantiles_ms={"p50": 11.0, "p99": 14.0}, count=7),
        "e2el": Latency(quantiles_ms={"p50": 70.0}, count=3),
    }
    assert (run.tool, run.model, run.completed, run.failed, run.prompts) == ("vllm bench serve", "org/m-8b", 3, 1, 4)
    assert (run.request_rate, run.max_concurrency, run.burstiness, run.duration_s) == (2.0, 8.0, 1.0, 2.5)
    assert (run.input_tokens, run.output_tokens, run.versions) == (300, 10, {"vllm_version": "0.33.0"})


def test_vllm_s_details_without_the_request_that_failed() -> None:
    run = one(HEAD | AGGREGATES | DETAILS)
    assert samples(run, "ttft") == [30.0, 31.0, 40.0]
    assert samples(run, "e2el") == [52.0, 55.0, 40.0]
    assert samples(run, "tpot") == [11.0, 12.0]  # one token has no time per further token
    assert samples(run, "itl") == [10.0, 12.0, 11.0, 13.0]
    assert run.latencies["itl"].count == 4
    assert (run.completed, run.failed) == (3, 1)


def test_gaps_between_tokens_come_in_the_order_in_which_they_ended() -> None:
    details = DETAILS | {"start_times": [100.2, 100.1, 100.0, 100.21]}
    assert samples(one(HEAD | details), "itl") == [11.0, 13.0, 10.0, 12.0]
    overlapping = DETAILS | {"start_times": [100.0, 100.1, 100.001, 100.3]}
    assert samples(one(HEAD | overlapping), "itl") == [10.0, 11.0, 12.0, 13.0]


def test_details_of_versions_without_latencies_and_start_times() -> None:
    details = {key: value for key, value in DETAILS.items() if key not in ("latencies", "start_times", "queue_times")}
    head = {key: value for key, value in HEAD.items() if key != "failed"}
    run = one(head | details)
    assert samples(run, "e2el") == [52.0, 55.0, 40.0]
    assert samples(run, "tpot") == [11.0, 12.0]
    assert run.failed == 1


def test_latencies_stay_without_save_detailed() -> None:
    run = one(HEAD | AGGREGATES | {"latencies": [0.052, 0.0, 0.055, 0.040], "queue_times": [0.0] * 4})
    assert samples(run, "e2el") == [52.0, 55.0, 40.0]
    assert run.latencies["ttft"].samples_ms is None
    assert run.failed == 1


@pytest.mark.parametrize("infinite", ["inf", float("inf")])
def test_an_infinite_rate_is_one(infinite: object) -> None:
    assert one(HEAD | AGGREGATES | {"request_rate": infinite}).request_rate == "inf"


def test_results_appended_to_one_file_are_runs_in_order() -> None:
    runs = read(HEAD | AGGREGATES, HEAD | AGGREGATES | {"median_itl_ms": 12.0})
    assert [run.latencies["itl"].quantiles_ms["p50"] for run in runs] == [11.0, 12.0]
    assert len(parse_run_results(json.dumps([HEAD | AGGREGATES] * 3), "summary.json")) == 3


def test_what_was_never_measured_is_not_zero() -> None:
    run = one(HEAD | {"median_ttft_ms": 30.0, "median_itl_ms": 0.0, "p99_itl_ms": 0.0, "p99_ttft_ms": float("nan")})
    assert run.latencies == {"ttft": Latency(quantiles_ms={"p50": 30.0}, count=3)}


def test_details_that_do_not_fit_together_are_not_read() -> None:
    run = one(HEAD | AGGREGATES | DETAILS | {"errors": [""]})
    assert all(latency.samples_ms is None for latency in run.latencies.values())
    assert run.notes == ("the lists per request differ in length: not read",)


def test_start_times_that_metadata_made_words_still_order_the_requests() -> None:
    words = DETAILS | {"start_times": ["100.2", "100.1", 100.0, "100.21"]}
    assert samples(one(HEAD | words), "itl") == [11.0, 13.0, 10.0, 12.0]


def test_half_a_character_in_a_name_can_still_be_written() -> None:
    run = one(HEAD | AGGREGATES | {"model_id": "m\ud800", "vllm_version": "0.33\udfff"})
    assert (run.model, run.versions) == ("m?", {"vllm_version": "0.33?"})


def test_guidellm_without_metadata_has_no_versions() -> None:
    assert one(GUIDELLM | {"metadata": [[]]}).versions == {}


def test_a_run_of_which_every_request_failed_says_so() -> None:
    nothing = {"completed": 0, "failed": 4, "median_ttft_ms": 0.0, "median_itl_ms": 0.0, "p99_itl_ms": 0.0}
    with pytest.raises(ParseError, match="all 4 requests failed"):
        read(HEAD | nothing)


def test_samples_that_are_no_times_are_left_out() -> None:
    broken = {"ttfts": [0.03, 0.0, None, -1.0], "itls": [[0.01, "x", 1e30], [], None, [True]]}
    run = one(HEAD | AGGREGATES | DETAILS | broken)
    assert samples(run, "ttft") == [30.0]
    assert samples(run, "itl") == [10.0]


SGLANG = {
    "tag": None, "backend": "sglang", "dataset_name": "random", "request_rate": float("inf"), "max_concurrency": 16,
    "sharegpt_output_len": None, "random_input_len": 100, "random_output_len": 3, "random_range_ratio": 0.0,
    "server_info": {"model_path": "org/m-8b", "tokenizer_path": "org/m-8b", "version": "0.5.23"},
    "duration": 3.0, "completed": 3, "total_input_tokens": 300, "total_output_tokens": 9,
    "total_output_tokens_retokenized": 9, "total_throughput": 103.0, "mean_e2e_latency_ms": 61.0,
    "median_e2e_latency_ms": 60.0, "p99_e2e_latency_ms": 80.0, "median_ttft_ms": 30.0, "p99_ttft_ms": 39.0,
    "median_tpot_ms": 12.0, "p99_tpot_ms": 15.0, "median_itl_ms": 11.0, "p95_itl_ms": 13.0, "p99_itl_ms": 14.0,
}  # fmt: skip


def test_sglang_s_lines() -> None:
    first, second = read(SGLANG, SGLANG | {"median_itl_ms": 12.0})
    assert first.tool == "sglang bench serving"
    assert (first.model, first.request_rate, first.max_concurrency) == ("org/m-8b", "inf", 16.0)
    assert first.versions == {"sglang": "0.5.23"}
    assert first.latencies["e2el"] == Latency(quantiles_ms={"p50": 60.0, "p99": 80.0}, count=3)
    assert first.latencies["itl"].quantiles_ms == {"p50": 11.0, "p95": 13.0, "p99": 14.0}
    assert second.latencies["itl"].quantiles_ms["p50"] == 12.0


def test_sglang_s_details() -> None:
    keys = ("input_lens", "output_lens", "ttfts", "itls", "generated_texts", "errors")
    run = one(SGLANG | {key: DETAILS[key] for key in keys})
    assert samples(run, "itl") == [10.0, 12.0, 11.0, 13.0]
    assert samples(run, "e2el") == [52.0, 55.0, 40.0]
    assert run.failed == 1


def summary(median: float, p99: float, count: int = 95) -> dict[str, Any]:
    percentiles = {"p001": 0.1, "p50": median, "p95": p99, "p99": p99, "p999": p99 + 1}
    return {"successful": {"mean": median, "median": median, "count": count, "percentiles": percentiles}, "errored": {}}


GUIDELLM = {
    "metadata": {"version": 2, "guidellm_version": "0.8.1", "python_version": "3.12"},
    "args": {"model": "org/m-8b", "backend": "openai_http", "random_seed": 7},
    "benchmarks": [
        {
            "type_": "generative_benchmark",
            "config": {"strategy": {"type_": "constant", "rate": 4.0, "max_concurrency": 64}},
            "duration": 30.0,
            "metrics": {
                "request_totals": {"successful": 95, "errored": 5, "incomplete": 0, "total": 100},
                "prompt_token_count": {"successful": {"total_sum": 9500.0}},
                "output_token_count": {"successful": {"total_sum": 6080}},
                "time_to_first_token_ms": summary(30.0, 39.0),
                "inter_token_latency_ms": summary(11.0, 14.0),
                "time_per_output_token_ms": summary(12.0, 15.0),
                "request_latency": summary(0.7, 0.9),
            },
        }
    ],
}


def test_guidellm_s_latency_is_in_seconds_and_the_rest_in_milliseconds() -> None:
    run = one(GUIDELLM)
    assert run.latencies["ttft"].quantiles_ms == {"p50": 30.0, "p95": 39.0, "p99": 39.0, "p99.9": 40.0}
    assert run.latencies["e2el"].quantiles_ms["p99"] == pytest.approx(900)
    assert (run.latencies["itl"].count, run.completed, run.failed, run.prompts) == (95, 95, 5, 100)
    assert (run.model, run.request_rate, run.max_concurrency, run.seed) == ("org/m-8b", 4.0, 64.0, 7)
    assert (run.input_tokens, run.output_tokens, run.duration_s) == (9500, 6080, 30.0)
    assert run.versions == {"guidellm_version": "0.8.1", "python_version": "3.12"}
    assert run.notes == ("GuideLLM's ITL is a mean a request, and its TPOT counts the first token",)


def test_guidellm_s_requests_are_samples_where_all_of_them_are_kept() -> None:
    benchmark = json.loads(json.dumps(GUIDELLM["benchmarks"]))[0]
    requests = [
        {"request_start_time": 9.0 - i, "time_to_first_token_ms": 30.0 + i, "request_latency": 0.1} for i in range(2)
    ]
    benchmark["requests"] = {"successful": requests, "errored": [{"time_to_first_token_ms": 1.0}]}
    sampled = one(GUIDELLM | {"benchmarks": [benchmark]})
    assert sampled.latencies["ttft"].samples_ms is None
    benchmark["metrics"]["request_totals"]["successful"] = 2
    run = one(GUIDELLM | {"benchmarks": [benchmark]})
    assert run.latencies["ttft"].samples_ms == (31.0, 30.0)
    assert samples(run, "e2el") == [100.0, 100.0]


def test_each_of_guidellm_s_benchmarks_is_a_run() -> None:
    assert len(read(GUIDELLM | {"benchmarks": [*GUIDELLM["benchmarks"], *GUIDELLM["benchmarks"], None]})) == 2


def aiperf(unit: str, scale: float) -> dict[str, Any]:
    def metric(median: float, p99: float, **more: float) -> dict[str, Any]:
        quantiles = {"p50": median * scale, "p95": p99 * scale, "p99": p99 * scale}
        return {"unit": unit, "avg": median * scale} | quantiles | more

    return {
        "schema_version": "1.4", "aiperf_version": "0.13.0", "start_time": "2026-03-01T10:00:00", "is_complete": True,
        "input_config": {
            "endpoint": {"type": "chat", "model_names": ["org/m-8b"]},
            "loadgen": {"concurrency": 8, "request_rate": 4.0},
            "input": {"random_seed": 3},
        },
        "request_count": {"unit": "requests", "avg": 97.0},
        "error_request_count": {"unit": "requests", "avg": 3.0},
        "benchmark_duration": {"unit": "sec", "avg": 25.0},
        "total_isl": {"unit": "tokens", "avg": 9700.0},
        "output_sequence_length": {"unit": "tokens", "avg": 64.0, "sum": 6208.0},
        "time_to_first_token": metric(30.0, 39.0, count=97),
        "inter_token_latency": metric(11.0, 14.0),
        "request_latency": metric(700.0, 900.0),
    }  # fmt: skip


@pytest.mark.parametrize(("unit", "scale"), [("ms", 1.0), ("ns", 1e6), ("us", 1e3), ("sec", 1e-3), ("Seconds", 1e-3)])
def test_aiperf_is_read_in_its_own_unit(unit: str, scale: float) -> None:
    run = one(aiperf(unit, scale))
    assert run.latencies["ttft"].quantiles_ms == pytest.approx({"p50": 30.0, "p95": 39.0, "p99": 39.0})
    assert run.latencies["e2el"].quantiles_ms["p99"] == pytest.approx(900)
    assert [latency.count for latency in run.latencies.values()] == [97, 97, 97]
    assert (run.tool, run.completed, run.failed, run.model) == ("aiperf", 97, 3, "org/m-8b")
    assert (run.request_rate, run.max_concurrency, run.seed, run.duration_s) == (4.0, 8.0, 3, 25.0)
    assert (run.input_tokens, run.output_tokens, run.versions) == (9700, 6208, {"aiperf_version": "0.13.0"})
    assert run.notes == ("AIPerf's ITL is a mean a request",)


def test_a_unit_that_nobody_knows_is_not_guessed() -> None:
    document = aiperf("ms", 1.0)
    document["time_to_first_token"]["unit"] = "ticks"
    assert set(one(document).latencies) == {"itl", "e2el"}
    with pytest.raises(ParseError):
        one({"time_to_first_token": {"avg": 3.0, "p50": 3.0, "p99": 3.0}})


def test_genai_perf_is_aiperf_s_older_form() -> None:
    old = aiperf("ms", 1.0) | {"input_config": {"model": ["org/m-8b"], "concurrency": 4, "backend": "vllm"}}
    del old["error_request_count"]
    run = one(old | {"error_summary": [{"error_details": {"code": 500}, "count": 2}], "was_cancelled": True})
    assert (run.model, run.max_concurrency, run.failed) == ("org/m-8b", 4.0, 2)
    assert run.notes[1] == "cut short before its end"


TABLE = """\
============ Serving Benchmark Result ============
Successful requests:                     400
Failed requests:                         2
Maximum request concurrency:             8
Request rate configured (RPS):           4.00
Benchmark duration (s):                  101.20
Total input tokens:                      102400
Total generated tokens:                  25600
---------------Time to First Token----------------
Mean TTFT (ms):                          31.25
Median TTFT (ms):                        30.50
P99 TTFT (ms):                           39.75
---------------Inter-token Latency----------------
Median ITL (ms):                         0.00
P99 ITL (ms):                            14.25
----------------End-to-end Latency----------------
Median E2EL (ms):                        700.00
==================================================
"""


@pytest.mark.parametrize(
    "text",
    [
        TABLE,
        TABLE.replace("\n", "\r\n"),
        "".join(f"(APIServer pid=12) {line}\n" for line in TABLE.splitlines()),
        "".join(f"> {line}   \n" for line in TABLE.splitlines()),
        TABLE.replace("30.50", "**30.50**").replace("E2EL", "E2E Latency"),
        "Namespace(backend='openai', extra={'a': {1}})\n\x1b[1m" + TABLE,
    ],
    ids=["plain", "crlf", "prefixed", "quoted", "bold", "after a log"],
)
def test_the_printed_table(text: str) -> None:
    (run,) = parse_run_results(text, "log.txt")
    assert run.latencies == {
        "ttft": Latency(quantiles_ms={"p50": 30.5, "p99": 39.75}, count=400),
        "itl": Latency(quantiles_ms={"p99": 14.25}, count=25_200),
        "e2el": Latency(quantiles_ms={"p50": 700.0}, count=400),
    }
    assert (run.completed, run.failed, run.max_concurrency, run.request_rate) == (400, 2, 8.0, 4.0)


def test_two_tables_are_two_runs_and_a_form_is_none() -> None:
    assert len(parse_run_results(TABLE + TABLE, "log.txt")) == 2
    form = "\n".join(line[:41] + "xxx" if ":" in line else line for line in TABLE.splitlines())
    with pytest.raises(ParseError, match="no benchmark result with a latency"):
        parse_run_results(form, "form.txt")


def test_a_thousand_runs_in_one_file_are_a_mistake() -> None:
    assert len(read(*[HEAD | AGGREGATES] * 1000)) == 1000
    with pytest.raises(ParseError, match="more than 1000 results"):
        read(*[HEAD | AGGREGATES] * 1001)


def test_a_result_amid_structured_log_lines() -> None:
    lines = [{"level": "info", "n": i} for i in range(3000)]
    assert one_of(read(*lines, HEAD | AGGREGATES, *lines)).completed == 3


def one_of(runs: tuple[RunResult, ...]) -> RunResult:
    (run,) = runs
    return run


def test_json_that_a_log_cuts_keeps_its_whole_values_and_the_table_s() -> None:
    whole = json.dumps(HEAD | AGGREGATES)
    cut = TABLE + "<<<RESULT>>>\n" + whole[: whole.index('"median_itl_ms"') + 19]
    (run,) = parse_run_results(cut, "log.txt")
    assert run.tool == "vllm bench serve"
    assert run.latencies["tpot"].quantiles_ms == {"p50": 12.0, "p99": 15.0}
    assert run.latencies["itl"].quantiles_ms == {"p99": 14.25}  # the cut number is not one
    assert run.latencies["ttft"].quantiles_ms["p50"] == 30.0


def test_indented_json_behind_a_log_s_prefix() -> None:
    lines = json.dumps(HEAD | AGGREGATES, indent=4).splitlines()
    text = "\n".join(f"[rank0]: {line}" for line in lines)
    assert parse_run_results(text, "log.txt")[0].latencies["itl"].quantiles_ms["p99"] == 14.0


def test_hostdoctor_s_own_runs_come_back_as_they_were() -> None:
    run = RunResult(
        source="a.json", tool="hostdoctor", latencies={"wall": Latency(samples_ms=(1.5, 2.5), count=2)}, seed=3
    )
    assert parse_run_results(msgspec.json.encode(run).decode(), "a.json") == (run,)


@pytest.mark.parametrize(
    "latency",
    [
        {"samples_ms": [1.0, -2.0]},
        {"samples_ms": "x"},
        {"quantiles_ms": {"p50": 0.0}},
        {"samples_ms": [float("nan")]},
        {"quantiles_ms": {"\ud800": 1.0}},
    ],
)
def test_own_runs_that_somebody_changed_are_refused(latency: dict[str, Any]) -> None:
    with pytest.raises(ParseError):
        one({"kind": "hostdoctor-run", "source": "a", "tool": "hostdoctor", "latencies": {"itl": latency}})


@pytest.mark.parametrize(
    "text",
    [
        "", "\n\n", "null", "[]", "{}", "[" * 200_000, '{"a":' * 100_000, '[{"a":' * 100_000, "{" * 300_000,
        '{"median_ttft_ms": ' + "9" * 100_000 + "}", '{"median_ttft_ms": 1e999}', '{"ttfts": [' + "[" * 50_000,
        '{"benchmarks": [{"metrics": {}}]}', '{"benchmarks": 3}', '{"latencies": [1, 2]}',
        '{"median_ttft_ms": "NaN", "p99_itl_ms": NaN, "ttfts": {"a": 1}, "itls": 3}',
        '{"kind": "hostdoctor-run"}', '{"time_to_first_token": {"unit": 3}}', '{"time_to_first_token": {"unit": "ms"}}',
        "Median TTFT (ms):" + " " * 100_000 + "3", "\x00\xff\ud800", '{"a' + "\\" * 100_001,
    ],
)  # fmt: skip
def test_what_is_no_result_is_a_parse_error(text: str) -> None:
    with pytest.raises(ParseError):
        parse_run_results(text, "hostile")


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
FIELDS = st.sampled_from([*HEAD, *AGGREGATES, *DETAILS, "server_info", "benchmarks", *aiperf("ms", 1)])


@given(st.sampled_from([HEAD | AGGREGATES | DETAILS, SGLANG, GUIDELLM, aiperf("ms", 1)]), FIELDS, JSON)
def test_any_value_in_any_field_gives_runs_or_a_parse_error(document: dict[str, Any], field: str, value: Any) -> None:
    try:
        runs = read(document | {field: value})
    except ParseError:
        return
    for latency in (latency for run in runs for latency in run.latencies.values()):
        assert all(0 <= x <= 1e9 for x in latency.samples_ms or ())
        assert all(0 < x <= 1e9 for x in latency.quantiles_ms.values())


@given(st.text(max_size=300))
def test_any_text_gives_runs_or_a_parse_error(text: str) -> None:
    with pytest.raises(ParseError):
        parse_run_results(text, "any")


# file: (median TTFT, p99 TTFT, median ITL, p99 ITL) as the file prints them
STATED: dict[str, tuple[float | None, ...]] = {
    "005-console-sglang1505.txt": (56180.29, 117505.87, 196.81, 902.97),
    "006-console-sglang4305.txt": (4346.42, 4372.80, 52.10, 64.42),
    "007-console-sglang7059.txt": (272.39, 2352.30, 14.24, 28.14),
    "011-console-sglang6411.txt": (2150.81, 4978.92, None, None),
    "013-console-vllm21094.txt": (723.85, 1099.04, 0.09, 60.85),
    "015-console-vllm8531.txt": (64.68, 141.49, 19.60, 44.31),
    "905-llmd-log-embedded-json.txt": (877.08, 1353.17, 36.94, 66.37),
    "906-lp-n1-34keys.json": (3418.08, 3418.08, 66.27, 69.61),
    "907-lp-n1-35keys.json": (3084.67, 3084.67, 60.53, 79.79),
}


@pytest.mark.corpus
@pytest.mark.parametrize("name", STATED)
def test_published_results(name: str) -> None:
    (run,) = parse_run_results(corpus_text("bench-serve", name), name)
    told = [run.latencies.get(key, Latency()).quantiles_ms.get(p) for key in ("ttft", "itl") for p in ("p50", "p99")]
    assert told == [None if x is None else pytest.approx(x, abs=0.006) for x in STATED[name]]


@pytest.mark.corpus
@pytest.mark.parametrize("name", corpus_names("bench-serve"))
def test_every_published_result_but_an_empty_form_is_read(name: str) -> None:
    text = corpus_text("bench-serve", name)
    if "xxx.xx" in text:
        with pytest.raises(ParseError):
            parse_run_results(text, name)
        return
    assert all(run.latencies for run in parse_run_results(text, name))
