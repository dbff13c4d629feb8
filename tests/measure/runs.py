"""Runs made by hand: what a benchmark client would have measured on a host whose truth is known."""

import random
from collections.abc import Sequence

from hostdoctor.facts.runs import Latency, RunResult


def run(name: str = "run", samples: Sequence[float] = (), *, metric: str = "itl", failed: int = 0) -> RunResult:
    """Return a run with samples of one latency."""
    latency = Latency(samples_ms=tuple(samples), count=len(samples))
    return RunResult(
        source=name, tool="vllm bench serve", latencies={metric: latency}, completed=len(samples), failed=failed
    )


def told(name: str = "run", metric: str = "itl", count: int | None = 4000, **quantiles: float) -> RunResult:
    """Return a run whose client kept quantiles only."""
    latencies = {metric: Latency(quantiles_ms=quantiles, count=count)}
    return RunResult(source=name, tool="vllm bench serve", latencies=latencies, completed=count)


def arm(
    ratio: float = 1.0, *, runs: int = 10, samples: int = 1000, effect: float = 0.03, seed: int = 1
) -> list[RunResult]:
    """Return runs with lognormal samples around ``ratio`` × 10 ms and a run effect."""
    source = random.Random(seed)
    found = []
    for index in range(runs):
        scale = 10 * ratio * source.lognormvariate(0, effect)
        found.append(run(f"{seed}-{index}", [scale * source.lognormvariate(0, 0.1) for _ in range(samples)]))
    return found
