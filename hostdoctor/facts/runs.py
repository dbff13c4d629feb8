"""One run of a benchmark client, whichever wrote it."""

from typing import Literal

import msgspec

from hostdoctor.facts import Fact

Tool = Literal["vllm bench serve", "sglang bench serving", "guidellm", "aiperf", "hostdoctor", "console table"]
RUN_DOCUMENT = "hostdoctor-run"  # the value of ``kind`` in such a document


class Latency(Fact, frozen=True, kw_only=True):
    """One latency of a run: per-sample values in milliseconds in time order, or only the client's own quantiles.

    ``quantiles_ms`` has keys like ``p50`` and ``p99.9``. ``count`` is how many samples there were, None when not told.
    """

    samples_ms: tuple[float, ...] | None = None
    quantiles_ms: dict[str, float] = msgspec.field(default_factory=dict)
    count: int | None = None


class RunResult(Fact, frozen=True, kw_only=True):
    """A run: ``latencies`` by ``ttft``, ``tpot``, ``itl``, ``e2el`` (as the client defines them) or ``wall``.

    Failed requests are in ``failed`` and nowhere else. ``request_rate`` is per second; ``"inf"`` sends everything at
    once. ``versions`` are the client's, engine's, driver's … as told; ``labels`` what the caller had noted in the file
    (``--metadata``, ``--label``); ``notes`` say what a reader should know.
    """

    source: str
    tool: Tool
    kind: Literal["hostdoctor-run"] = "hostdoctor-run"
    latencies: dict[str, Latency] = msgspec.field(default_factory=dict)
    completed: int | None = None
    failed: int | None = None
    prompts: int | None = None
    model: str | None = None
    tokenizer: str | None = None
    backend: str | None = None
    request_rate: float | Literal["inf"] | None = None
    max_concurrency: float | None = None
    burstiness: float | None = None
    seed: int | None = None
    date: str | None = None
    duration_s: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    notes: tuple[str, ...] = ()
