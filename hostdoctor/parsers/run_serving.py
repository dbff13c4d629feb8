"""What ``vllm bench serve`` and SGLang's serving benchmark save; both go back to one program.

Aggregates are in milliseconds (``median_ttft_ms``, ``p99_itl_ms``, ``p99_e2e_latency_ms``), lists per request in
seconds (``ttfts``, ``itls``, ``latencies``). vLLM keeps ``latencies`` also without ``--save-detailed``, the rest only
with it.
"""

import re
from collections.abc import Callable
from itertools import accumulate
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
        errors, starts = items(document.get("errors")), items(document.get("start_times"))
        total = max(len(values) for values in lists.values())
        self.notes: tuple[str, ...] = ()
        self.failed: int | None = None
        if any(values and len(values) != total for values in (*lists.values(), errors)):
            self.notes = ("the lists per request differ in length: not read",)
            total = 0
        has_starts = len(starts) == total and all(number(x) is not None for x in starts)
        order = sorted(range(total), key=starts.__getitem__) if has_starts else range(total)
        kept = [i for i in order if not _has_failed(i, errors, lists)]
        if total and (errors or lists["ttfts"]):
            self.failed = total - len(kept)
        self.succeeded = len(kept) if total else None
        self._starts = [starts[i] for i in kept] if has_starts else None
        self._lists = {key: [values[i] for i in kept] if values and total else [] for key, values in lists.items()}

    def samples(self, name: str) -> tuple[float, ...]:
        """Return a latency's samples in milliseconds, ``()`` where the lists do not tell it."""
        read: dict[str, Callable[[], list[Any]]] = {
            "ttft": lambda: self._lists["ttfts"],
            "tpot": self._tpots,
            "itl": self._itls,
            "e2el": self._e2els,
        }
        return tuple(times_ms(read[name](), _S))

    def _e2els(self) -> list[Any]:
        if self._lists["latencies"]:
            return [x for x in self._lists["latencies"] if x]
        if not (self._lists["itls"] and self._lists["ttfts"]):
            return []
        return [
            None if (first := number(ttft)) is None else first + sum(times_ms(items(itls), 1.0))
            for ttft, itls in zip(self._lists["ttfts"], self._lists["itls"], strict=True)
        ]

    def _tpots(self) -> list[Any]:
        ttfts, lengths, e2els = self._lists["ttfts"], self._lists["output_lens"], self._e2els()
        if not ttfts or len(lengths) != len(ttfts) or len(e2els) != len(ttfts):
            return []
        return [
            (whole - first) / (length - 1)
            for first, whole, told in zip(map(number, ttfts), map(number, e2els), lengths, strict=True)
            if first is not None and whole is not None and (length := count(told)) is not None and length > 1
        ]

    def _itls(self) -> list[Any]:
        """Return the gaps between tokens, by when they ended where the file tells when requests started."""
        lists = [times_ms(items(x), 1.0) for x in self._lists["itls"]]
        if self._starts is None or not self._lists["ttfts"]:
            return [gap for gaps in lists for gap in gaps]
        firsts = [number(x) or 0.0 for x in self._lists["ttfts"]]
        ended = [
            (end, gap)
            for start, first, gaps in zip(self._starts, firsts, lists, strict=True)
            for end, gap in zip(accumulate(gaps, initial=start + first), gaps, strict=False)
        ]
        return [gap for _, gap in sorted(ended, key=lambda pair: pair[0])]


def _has_failed(index: int, errors: list[Any], lists: dict[str, list[Any]]) -> bool:
    if errors and errors[index]:
        return True
    told = [lists[key][index] for key in ("ttfts", "latencies") if lists[key]]
    return bool(told) and not any(told)
