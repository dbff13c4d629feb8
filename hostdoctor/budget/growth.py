"""How much anonymous memory an engine still takes after its start: workers, its core, API servers, multimodal cache.

| part | bytes | source |
|---|---|---|
| vLLM, LMCache in it: each worker | 4 GiB | an estimate: CUDA context and libraries; no figure is published |
| vLLM: engine core, per DP engine | 2 GiB | an estimate |
| vLLM: each API server | 2 GiB | an estimate |
| vLLM: multimodal cache | 4 GiB × (API servers + DP) | ``--mm-processor-cache-gb`` and its documented copies |
| SGLang: each scheduler | 4 GiB | an estimate |
| SGLang: tokenizer and detokenizer | 4 GiB per engine | an estimate |

The multimodal cache counts only when it is asked for (``multimodal``): text models do not fill it. Measured figures
replace all of it: the service's anon (memory.stat, or RssAnon of its processes) at its peak, less what it has now.
"""

from typing import Literal, get_args

from hostdoctor.facts import Fact

Engine = Literal["vllm", "sglang", "lmcache"]
ENGINES: tuple[Engine, ...] = get_args(Engine)
GIB = 1 << 30


class Growth(Fact, frozen=True, kw_only=True):
    """Bytes still to come: for each rank, on its own node, and for processes that may run on any node."""

    rank_bytes: int
    shared_bytes: int
    source: str


def default_growth(engine: Engine, dp: int, api_servers: int = 1, *, multimodal: bool = False) -> Growth:
    """Return an engine's growth by the table above."""
    if engine == "sglang":
        return Growth(rank_bytes=4 * GIB, shared_bytes=4 * GIB * dp, source="default for SGLang")
    cache = 4 * GIB * (api_servers + dp) if multimodal else 0
    shared = 2 * GIB * dp + 2 * GIB * api_servers + cache
    return Growth(rank_bytes=4 * GIB, shared_bytes=shared, source="default for vLLM")
