"""What ``vllm bench serve`` and SGLang's serving benchmark save; both go back to one program.

Aggregates are in milliseconds (``median_ttft_ms``, ``p99_itl_ms``, ``p99_e2e_latency_ms``), lists per request in
seconds (``ttfts``, ``itls``, ``latencies``). vLLM keeps ``latencies`` also without ``--save-detailed``, the rest only
with it.
"""

import re
from itertools import accumulate
from operator import itemgetter
from typing import Any

from hostdoctor.facts.runs import Latency, RunResult, Tool
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

_AGGREGATE = re.compile(r"(median|p\d{1,2}(?:\.\d{1,4})?)_(ttft|tpot|itl|e2el|e2e_latency)_ms")
_SGLANG = ("server_info", "total_throughput", "total_output_tokens_retokenized", "sharegpt_output_len")
_S = 1000.0  # milliseconds in a second


def is_serving(document: Object) -> bool:
    """Return whether this is one run's result: it has at least one latency of this family."""
    return any(_AGGREGATE.fullmatch(key) for key in document) or isinstance(document.get("ttfts"), list)


def read_serving(document: Object, source: str) -> RunResult:
    """Return the run; failed requests (a text in ``errors``, or no time at all) are counted and left out."""
    requests = _Requests(document)
    completed, output = count(document.get("completed")), count(document.get("total_output_tokens"))
    prompts = count(document.get("num_prompts"))
    return RunResult(
        source=source,
        tool=_tool(document),
        latencies=_latencies(document, requests, completed, output),
        completed=completed if completed is not None else requests.succeeded,
        failed=_failed(document, requests, completed, prompts),
        prompts=prompts,
        model=word(document.get("model_id")) or word(inner(document, "server_info", "model_path")),
        tokenizer=word(document.get("tokenizer_id")) or word(inner(document, "server_info", "tokenizer_path")),
        backend=word(document.get("backend")) or word(document.get("endpoint_type")),
        request_rate=rate(document.get("request_rate")),
        max_concurrency=positive(document.get("max_concurrency")),
        burstiness=positive(document.get("burstiness")),
        seed=seed(document.get("seed")),
        date=word(document.get("date")),
        duration_s=positive(document.get("duration")),
        input_tokens=count(document.get("total_input_tokens")),
        output_tokens=output,
        versions=_versions(document),
        notes=requests.notes,
    )


def _tool(document: Object) -> Tool:
    sglang = "model_id" not in document and any(key in document for key in _SGLANG)
    return "sglang bench serving" if sglang else "vllm bench serve"


def _versions(document: Object) -> dict[str, str]:
    engine = word(inner(document, "server_info", "version"))
    return versions(document) | ({"sglang": engine} if engine else {})


def _failed(document: Object, requests: "_Requests", completed: int | None, prompts: int | None) -> int | None:
    if (told := count(document.get("failed"))) is not None:
        return told
    if requests.failed is not None:
        return requests.failed
    return max(0, prompts - completed) if prompts is not None and completed is not None else None


def _latencies(
    document: Object, requests: "_Requests", completed: int | None, output: int | None
) -> dict[str, Latency]:
    told: dict[str, dict[str, float]] = {}
    for key, value in document.items():
        match = _AGGREGATE.fullmatch(key)
        if match and (quantile := milliseconds(value)) is not None:
            name = "e2el" if match[2] == "e2e_latency" else match[2]
            told.setdefault(name, {})["p50" if match[1] == "median" else match[1]] = quantile
    tokens = output - completed if output is not None and completed is not None and output > completed else None
    counts = {"ttft": completed, "tpot": completed, "e2el": completed, "itl": tokens}
    found = {}
    for name, counted in counts.items():
        samples = requests.samples(name)
        if samples or name in told:
            found[name] = Latency(
                samples_ms=samples or None,
                quantiles_ms=told.get(name, {}),
                count=len(samples) if samples else counted,
            )
    return found


class _Requests:
    """The lists per request, reduced to those that succeeded and put in the order in which they started."""

    def __init__(self, document: Object) -> None:
        lists = {key: items(document.get(key)) for key in ("ttfts", "itls", "latencies", "output_lens")}
        errors = items(document.get("errors"))
        starts = [number(x) for x in items(document.get("start_times"))]
        total = max(len(values) for values in lists.values())
        self.notes: tuple[str, ...] = ()
        self.failed: int | None = None
        if any(values and len(values) != total for values in (*lists.values(), errors)):
            self.notes = ("the lists per request differ in length: not read",)
            total, errors = 0, []
        known_starts = [start for start in starts if start is not None]
        has_starts = len(known_starts) == len(starts) == total
        order = sorted(range(total), key=known_starts.__getitem__) if has_starts else range(total)
        failed = _failures(total, errors, lists)
        kept = [i for i in order if not failed[i]]
        if total and (errors or lists["ttfts"]):
            self.failed = total - len(kept)
        self.succeeded = len(kept) if total else None
        self._starts = [known_starts[i] for i in kept] if has_starts else None
        kept_lists = {key: [values[i] for i in kept] if values and total else [] for key, values in lists.items()}
        self._ttfts, self._lengths, self._latencies = (
            [number(x) for x in kept_lists[key]] for key in ("ttfts", "output_lens", "latencies")
        )
        self._gaps = [times_ms(items(x), 1.0) for x in kept_lists["itls"]]
        self._wholes = self._e2els()

    def samples(self, name: str) -> tuple[float, ...]:
        """Return a latency's samples in milliseconds, ``()`` where the lists do not tell it."""
        if name == "ttft":
            return tuple(times_ms(self._ttfts, _S))
        if name == "e2el":
            return tuple(times_ms(filter(None, self._wholes), _S))
        return tuple(times_ms(self._tpots() if name == "tpot" else self._itls(), _S))

    def _e2els(self) -> list[float | None]:
        if self._latencies or not (self._gaps and self._ttfts):
            return self._latencies
        return [
            None if first is None else first + sum(gaps) for first, gaps in zip(self._ttfts, self._gaps, strict=True)
        ]

    def _tpots(self) -> list[float]:
        if not (self._ttfts and self._lengths and self._wholes):
            return []
        return [
            (whole - first) / (length - 1)
            for first, whole, length in zip(self._ttfts, self._wholes, self._lengths, strict=True)
            if first is not None and whole is not None and length is not None and length > 1
        ]

    def _itls(self) -> list[float]:
        """Return the gaps between tokens, by when they ended where the file tells when requests started."""
        if self._starts is None or not self._ttfts:
            return [gap for gaps in self._gaps for gap in gaps]
        ended = [
            (end, gap)
            for start, first, gaps in zip(self._starts, self._ttfts, self._gaps, strict=False)
            for end, gap in zip(accumulate(gaps, initial=start + (first or 0.0)), gaps, strict=False)
        ]
        return [gap for _, gap in sorted(ended, key=itemgetter(0))]


def _failures(total: int, errors: list[Any], lists: dict[str, list[Any]]) -> list[bool]:
    """Return for each request whether it failed: it has an error, or none of its times is one."""
    times = [lists[key] for key in ("ttfts", "latencies") if lists[key] and total]
    silent = [not any(told) for told in zip(*times, strict=True)] if times else [False] * total
    return [bool(error) or nothing for error, nothing in zip(errors, silent, strict=True)] if errors else silent
