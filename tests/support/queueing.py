"""A server whose latencies follow a known law, so that the boundary of any SLO is known before it is looked for.

Waiting as in an M/M/1 queue: exponential with mean S / (1 − ρ), ρ the share of the capacity that context × concurrency
takes; before it the prefill, in proportion to the context. Gaps between tokens are lognormal. A variant's penalties
multiply both.
"""

import math
import random

import msgspec

from hostdoctor.facts.runs import Latency, RunResult
from hostdoctor.measure.matrix.experiment import Experiment, Grid, Load, Model, Server, Slo, Variant
from hostdoctor.measure.matrix.grid import Cell

SIGMA, Z99 = 0.2, 2.3263478740408408


class Law(msgspec.Struct, frozen=True, kw_only=True):
    """The planted server. Times in milliseconds, ``capacity_tokens`` is where the queue grows without end."""

    capacity_tokens: float = 400_000
    service_ms: float = 40.0
    prefill_ms_per_token: float = 0.004
    gap_ms: float = 12.0
    slots: float = 40.0  # at so many at once a gap is twice as long
    ttft_penalty: dict[str, float] = {}
    itl_penalty: dict[str, float] = {}
    run_effect: float = 0.01  # how much repeats of one cell vary

    def wait_ms(self, context: int, many: int) -> float:
        """Return the mean wait."""
        load = min(0.995, context * many / self.capacity_tokens)
        return self.service_ms / (1 - load)

    def ttft_p99_ms(self, variant: str, context: int, many: int) -> float:
        """Return the true p99 of the time to the first token."""
        plain = self.prefill_ms_per_token * context + self.wait_ms(context, many) * math.log(100)
        return plain * self.ttft_penalty.get(variant, 1.0)

    def itl_p99_ms(self, variant: str, context: int, many: int) -> float:
        """Return the true p99 between two tokens."""
        return self.gap(variant, many) * math.exp(Z99 * SIGMA)

    def gap(self, variant: str, many: int) -> float:
        """Return the median gap."""
        return self.gap_ms * (1 + many / self.slots) * self.itl_penalty.get(variant, 1.0)

    def holds(self, variant: str, context: int, many: int, slo: Slo) -> bool:
        """Return the truth."""
        assert slo.ttft_p99_ms is not None
        assert slo.itl_p99_ms is not None
        fast = self.ttft_p99_ms(variant, context, many) <= slo.ttft_p99_ms
        return fast and self.itl_p99_ms(variant, context, many) <= slo.itl_p99_ms

    def ttft(self, source: random.Random, variant: str, context: int, many: int) -> float:
        """Return one time to the first token."""
        wait = source.expovariate(1 / self.wait_ms(context, many))
        return (self.prefill_ms_per_token * context + wait) * self.ttft_penalty.get(variant, 1.0)

    def run(self, source: random.Random, cell: Cell, *, requests: int = 500, gaps: int = 300) -> RunResult:
        """Return what a client would have measured in one run of a cell."""
        variant, context, many = cell.series.variant, cell.context, cell.concurrency
        scale = source.lognormvariate(0, self.run_effect)
        median = scale * self.gap(variant, many)
        first = tuple(scale * self.ttft(source, variant, context, many) for _ in range(requests))
        itl = tuple(median * source.lognormvariate(0, SIGMA) for _ in range(gaps))
        return RunResult(
            source="simulated",
            tool="hostdoctor",
            latencies={
                "ttft": Latency(samples_ms=first, count=requests),
                "itl": Latency(samples_ms=itl, count=gaps),
            },
            completed=requests,
            failed=0,
            max_concurrency=many,
        )


def experiment(
    variants: tuple[str, ...] = ("A", "C"),
    *,
    contexts: tuple[int, ...] = (2048, 4096, 8192, 16384, 32768),
    concurrency: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128),
    slo: Slo | None = None,
    repeats: int = 3,
) -> Experiment:
    """Return an experiment on a simulated server."""
    return Experiment(
        slo=slo or Slo(ttft_p99_ms=600.0, itl_p99_ms=60.0),
        model=Model(name="a/model"),
        server=Server(command=("serve", "--port", "8000")),
        grid=Grid(contexts=contexts, concurrency=concurrency, output_tokens=64),
        load=Load(repeats=repeats),
        variants=tuple(Variant(name=name) for name in variants),
    )
