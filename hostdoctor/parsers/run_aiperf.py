"""``profile_export_aiperf.json`` of AIPerf and ``profile_export_genai_perf.json`` of GenAI-Perf, its predecessor.

``{"time_to_first_token": {"unit": "ms", "avg": …, "p50": …, "p99": …}, …}``, at the top or under ``records``.
"""

from typing import Any

from hostdoctor.facts.runs import Latency, RunResult
from hostdoctor.parsers.run_json import Object
from hostdoctor.parsers.run_values import count, inner, items, milliseconds, positive, rate, seed, versions, word

_NAMES = {
    "ttft": ("time_to_first_token", "ttft"),
    "itl": ("inter_token_latency", "itl"),
    "e2el": ("request_latency", "e2e"),
}
_UNITS_MS = {
    "ns": 1e-6, "nanoseconds": 1e-6, "us": 1e-3, "µs": 1e-3, "microseconds": 1e-3,
    "ms": 1.0, "milliseconds": 1.0, "s": 1e3, "sec": 1e3, "seconds": 1e3,
}  # fmt: skip
NOTE = "AIPerf's ITL is a mean a request"


def is_aiperf(document: Object) -> bool:
    """Return whether this has at least one latency with its unit."""
    return any(_metric(document, names) is not None for names in _NAMES.values())


def read_aiperf(document: Object, source: str) -> RunResult:
    """Return the run; quantiles only, in whatever unit the file states. One without a unit is not read."""
    config = document.get("input_config")
    latencies = {name: _latency(document, names) for name, names in _NAMES.items()}
    cancelled = document.get("was_cancelled") is True or document.get("is_complete") is False
    return RunResult(
        source=source,
        tool="aiperf",
        latencies={name: latency for name, latency in latencies.items() if latency is not None},
        completed=_average(document, "request_count"),
        failed=_failed(document),
        model=_first(inner(config, "endpoint", "model_names")) or _first(inner(config, "model")),
        tokenizer=word(inner(config, "tokenizer", "name")),
        backend=word(inner(config, "endpoint", "type")) or word(inner(config, "backend")),
        request_rate=rate(inner(config, "loadgen", "request_rate") or inner(config, "request_rate")),
        max_concurrency=positive(_one(inner(config, "loadgen", "concurrency") or inner(config, "concurrency"))),
        seed=seed(inner(config, "input", "random_seed")),
        date=word(document.get("start_time")),
        duration_s=positive(inner(_metric(document, ("benchmark_duration",)), "avg")),
        input_tokens=_average(document, "total_isl") or _sum(document, "input_sequence_length"),
        output_tokens=_average(document, "total_osl") or _sum(document, "output_sequence_length"),
        versions=versions(document),
        notes=(NOTE, "cut short before its end") if cancelled else (NOTE,),
    )


def _metric(document: Object, names: tuple[str, ...]) -> Object | None:
    for parent in (document, document.get("records")):
        for name in names:
            found = inner(parent, name)
            if isinstance(found, dict) and isinstance(found.get("unit"), str):
                return found
    return None


def _latency(document: Object, names: tuple[str, ...]) -> Latency | None:
    metric = _metric(document, names)
    scale = _UNITS_MS.get(metric["unit"].strip().lower()) if metric else None
    if metric is None or scale is None:
        return None
    keys = ("p50", "p90", "p95", "p99", "p99.9")
    quantiles = {key: value for key in keys if (value := milliseconds(metric.get(key), scale)) is not None}
    if not quantiles:
        return None
    counted = count(metric.get("count"))
    return Latency(quantiles_ms=quantiles, count=_average(document, "request_count") if counted is None else counted)


def _average(document: Object, name: str) -> int | None:
    return count(inner(document, name, "avg")) or count(inner(document, "records", name, "avg"))


def _sum(document: Object, name: str) -> int | None:
    return count(inner(document, name, "sum")) or count(inner(document, "records", name, "sum"))


def _failed(document: Object) -> int | None:
    told = _average(document, "error_request_count")
    if told is not None or not isinstance(document.get("error_summary"), list):
        return told
    return sum(count(inner(x, "count")) or 0 for x in items(document["error_summary"]))


def _one(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _first(value: Any) -> str | None:
    return word(_one(value))
