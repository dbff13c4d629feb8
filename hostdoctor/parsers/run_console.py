"""The table that ``vllm bench serve`` and SGLang's benchmark print: ``Median TTFT (ms):   12.34``."""

import re
from collections.abc import Iterator, Sequence

from hostdoctor.facts.runs import Latency, RunResult
from hostdoctor.parsers.run_values import count, milliseconds, number, positive, rate, word

_TITLE = "Serving Benchmark Result"
_ROW = re.compile(
    r"(Median|P\d{1,2}(?:\.\d{1,4})?) (TTFT|TPOT|ITL|E2EL|E2E Latency) \(ms\):"
    r"\s{0,200}\**(\d{1,12}(?:\.\d{1,9})?)\**\s{0,400}$"
)
_FIELD = re.compile(
    r"(Successful requests|Failed requests|Benchmark duration \(s\)|Total input tokens|Total generated tokens"
    r"|Backend|Traffic request rate|Request rate configured \(RPS\)|Max(?:imum)? req(?:u|eu)est concurrency)"
    r":\s{0,200}\**([^\s*]{1,100})"
)


def find_tables(lines: Sequence[str], source: str) -> list[RunResult]:
    """Return a run for each table that has a number, a table without its head included; ``[]`` where none has."""
    runs = (_run(table, source) for table in _tables(lines))
    return [run for run in runs if run is not None]


def _tables(lines: Sequence[str]) -> Iterator[list[str]]:
    table: list[str] = []
    for line in lines:
        if _TITLE in line and table:
            yield table
            table = []
        if "):" in line or _FIELD.search(line[:600]) or _TITLE in line:
            table.append(line[:600])
    yield table


def _run(lines: Sequence[str], source: str) -> RunResult | None:
    told: dict[str, dict[str, float]] = {}
    for match in filter(None, map(_ROW.search, lines)):
        value = milliseconds(number(match[3]))
        name = "e2el" if match[2].startswith("E2E") else match[2].lower()
        if value is not None:
            told.setdefault(name, {})["p50" if match[1] == "Median" else match[1].lower()] = value
    if not told:
        return None
    fields = {match[1]: match[2] for match in filter(None, map(_FIELD.search, lines))}
    completed, output = count(fields.get("Successful requests")), count(fields.get("Total generated tokens"))
    concurrency = next((value for key, value in fields.items() if key.startswith("Max")), None)
    gaps = output - completed if output is not None and completed is not None and output > completed else None
    return RunResult(
        source=source,
        tool="console table",
        latencies={
            name: Latency(quantiles_ms=quantiles, count=gaps if name == "itl" else completed)
            for name, quantiles in told.items()
        },
        completed=completed,
        failed=count(fields.get("Failed requests")),
        backend=word(fields.get("Backend")),
        request_rate=rate(fields.get("Traffic request rate") or fields.get("Request rate configured (RPS)")),
        max_concurrency=positive(concurrency),
        duration_s=positive(fields.get("Benchmark duration (s)")),
        input_tokens=count(fields.get("Total input tokens")),
        output_tokens=output,
    )
