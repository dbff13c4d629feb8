"""Results of benchmark clients, told by content: JSON, JSON lines, or the table that was printed."""

import msgspec

from hostdoctor.errors import ParseError
from hostdoctor.facts.runs import RUN_DOCUMENT, Latency, RunResult
from hostdoctor.parsers.run_aiperf import is_aiperf, read_aiperf
from hostdoctor.parsers.run_console import find_tables
from hostdoctor.parsers.run_guidellm import is_guidellm, read_guidellm
from hostdoctor.parsers.run_json import Object, find_objects
from hostdoctor.parsers.run_serving import is_serving, read_serving
from hostdoctor.parsers.run_values import MAX_MS, MIN_QUANTILE_MS
from hostdoctor.parsers.text import clean_lines

MAX_CHARS = 64 << 20
MAX_RUNS = 1000
_TABLE_CHARS = 8 << 20  # a printed table is short; a log may hold several


def parse_run_results(text: str, source: str) -> tuple[RunResult, ...]:
    """Return the runs that a file holds, in its order.

    Reads ``vllm bench serve`` (also ``--append-result``), SGLang's JSON lines, GuideLLM, AIPerf and GenAI-Perf,
    hostdoctor's own, and vLLM's and SGLang's printed table. Raises ParseError where no run with a latency is there.
    """
    if len(text) > MAX_CHARS:
        raise ParseError(source, 0, "", f"larger than {MAX_CHARS >> 20} MiB")
    told = [run for document in find_objects(text, source) for run in _read(document, source)]
    runs = [run for run in told if run.latencies]
    if len(runs) <= 1 and len(text) <= _TABLE_CHARS:
        runs = _with_tables(runs, text, source)
    if len(runs) > MAX_RUNS:
        raise ParseError(source, 0, "", f"more than {MAX_RUNS} results")
    if not runs:
        lines = text[:4096].split("\n")
        number, first = next(((i, line.strip()) for i, line in enumerate(lines, 1) if line.strip()), (0, ""))
        raise ParseError(source, number, first, _why_none(told))
    return tuple(runs)


def _why_none(runs: list[RunResult]) -> str:
    failed = next((run.failed for run in runs if run.failed and not run.completed), None)
    return "no benchmark result with a latency" if failed is None else f"all {failed} requests failed"


def _read(document: Object, source: str) -> list[RunResult]:
    if document.get("kind") == RUN_DOCUMENT:
        return [_own(document, source)]
    if is_guidellm(document):
        return read_guidellm(document, source)
    if is_serving(document):
        return [read_serving(document, source)]
    return [read_aiperf(document, source)] if is_aiperf(document) else []


def _own(document: Object, source: str) -> RunResult:
    try:
        run = msgspec.json.decode(msgspec.json.encode(document), type=RunResult)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
        raise ParseError(source, 0, "", f"not a run as hostdoctor writes it: {error}") from error
    if not all(map(_is_sensible, run.latencies.values())):
        raise ParseError(source, 0, "", "a latency that is no time")
    return msgspec.structs.replace(run, source=source)


def _is_sensible(latency: Latency) -> bool:
    samples, quantiles = latency.samples_ms or (), latency.quantiles_ms.values()
    return all(0 <= x <= MAX_MS for x in samples) and all(MIN_QUANTILE_MS <= x <= MAX_MS for x in quantiles)


def _with_tables(runs: list[RunResult], text: str, source: str) -> list[RunResult]:
    """Return the table's run where no JSON is, and one JSON's run with what only its table tells (JSON cut off)."""
    tables = find_tables(clean_lines(text), source)
    if not runs or len(tables) != 1:
        return runs or tables
    table = tables[0].latencies
    merged = dict(runs[0].latencies)
    for name, latency in table.items():
        known = merged.get(name, Latency(count=latency.count))
        merged[name] = msgspec.structs.replace(known, quantiles_ms=latency.quantiles_ms | known.quantiles_ms)
    return [msgspec.structs.replace(runs[0], latencies=merged)]
