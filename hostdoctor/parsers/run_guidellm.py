"""GuideLLM's ``benchmarks.json``: ``benchmarks[].metrics.<name>.successful``, one run a benchmark."""

from typing import Any

from hostdoctor.facts.runs import Latency, RunResult
from hostdoctor.parsers.run_json import Object
from hostdoctor.parsers.run_values import (
    count,
    inner,
    items,
    milliseconds,
    number,
    positive,
    rate,
    seed,
    times_ms,
    versions,
    word,
)

# GuideLLM's inter-token latency is a mean a request; its time per output token counts the first token too.
_NAMES = {
    "ttft": ("time_to_first_token_ms", 1.0),
    "tpot": ("time_per_output_token_ms", 1.0),
    "itl": ("inter_token_latency_ms", 1.0),
    "e2el": ("request_latency", 1000.0),
}
_QUANTILES = {"p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99", "p999": "p99.9"}
NOTE = "GuideLLM's ITL is a mean a request, and its TPOT counts the first token"


def is_guidellm(document: Object) -> bool:
    """Return whether this is a report with at least one benchmark."""
    return any(isinstance(inner(x, "metrics"), dict) for x in items(document.get("benchmarks")))


def read_guidellm(document: Object, source: str) -> list[RunResult]:
    """Return a run for each benchmark, of the requests that succeeded."""
    return [
        _run(document, benchmark, source)
        for benchmark in items(document["benchmarks"])
        if isinstance(inner(benchmark, "metrics"), dict)
    ]


def _run(document: Object, benchmark: Object, source: str) -> RunResult:
    totals = inner(benchmark, "metrics", "request_totals") or benchmark.get("request_totals")
    succeeded = count(inner(totals, "successful"))
    strategy = inner(benchmark, "config", "strategy") or inner(benchmark, "args", "strategy")
    requests = [x for x in items(inner(benchmark, "requests", "successful")) if isinstance(x, dict)]
    if len(requests) != succeeded or any(number(x.get("request_start_time")) is None for x in requests):
        requests = []  # a sample of them, or in an unknown order
    requests.sort(key=lambda x: float(x["request_start_time"]))
    latencies = {name: _latency(benchmark, requests, key, scale) for name, (key, scale) in _NAMES.items()}
    return RunResult(
        source=source,
        tool="guidellm",
        latencies={name: latency for name, latency in latencies.items() if latency is not None},
        completed=succeeded,
        failed=count(inner(totals, "errored")),
        prompts=count(inner(totals, "total")),
        model=word(inner(document, "args", "model")) or word(inner(benchmark, "config", "backend", "model")),
        backend=word(inner(document, "args", "backend")),
        request_rate=rate(inner(strategy, "rate")),
        max_concurrency=positive(inner(strategy, "streams")) or positive(inner(strategy, "max_concurrency")),
        seed=seed(inner(document, "args", "random_seed")),
        duration_s=positive(benchmark.get("duration")),
        input_tokens=_total(benchmark, "prompt_token_count"),
        output_tokens=_total(benchmark, "output_token_count"),
        versions=versions(document.get("metadata")),
        notes=(NOTE,),
    )


def _latency(benchmark: Object, requests: list[Object], key: str, scale: float) -> Latency | None:
    summary = inner(benchmark, "metrics", key, "successful")
    quantiles = {}
    for theirs, ours in _QUANTILES.items():
        told: Any = inner(summary, "percentiles", theirs)
        value = milliseconds(inner(summary, theirs) if told is None else told, scale)
        if value is not None:
            quantiles[ours] = value
    median = milliseconds(inner(summary, "median"), scale)
    if median is not None:
        quantiles.setdefault("p50", median)
    samples = tuple(times_ms((x.get(key) for x in requests), scale))
    if not quantiles and not samples:
        return None
    counted = len(samples) if samples else count(inner(summary, "count"))
    return Latency(samples_ms=samples or None, quantiles_ms=quantiles, count=counted)


def _total(benchmark: Object, key: str) -> int | None:
    return count(inner(benchmark, "metrics", key, "successful", "total_sum"))
