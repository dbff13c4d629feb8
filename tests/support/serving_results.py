"""Result files as ``vllm bench serve --save-result --save-detailed`` writes them, of a made-up server."""

import json
import random
from pathlib import Path
from typing import Any

REQUESTS, TOKENS, RATE = 120, 16, 4.0


def serving_result(source: random.Random, ratio: float, *, requests: int = REQUESTS) -> dict[str, Any]:
    """Return one run: about 12 ms between tokens and 90 ms to the first, times ``ratio`` and a run effect of 2 %."""
    scale = ratio * source.lognormvariate(0, 0.02)
    ttfts = [0.09 * scale * source.lognormvariate(0, 0.2) for _ in range(requests)]
    itls = [[0.012 * scale * source.lognormvariate(0, 0.1) for _ in range(TOKENS - 1)] for _ in range(requests)]
    return {
        "date": "20260301-101500", "endpoint_type": "openai", "backend": "openai", "label": None,
        "model_id": "org/model-8b", "tokenizer_id": "org/model-8b", "num_prompts": requests, "request_rate": RATE,
        "burstiness": 1.0, "max_concurrency": 8, "duration": requests / RATE, "completed": requests, "failed": 0,
        "total_input_tokens": 256 * requests, "total_output_tokens": TOKENS * requests,
        "input_lens": [256] * requests, "output_lens": [TOKENS] * requests, "ttfts": ttfts, "itls": itls,
        "latencies": [first + sum(gaps) for first, gaps in zip(ttfts, itls, strict=True)],
        "start_times": [i / RATE for i in range(requests)], "queue_times": [0.0] * requests,
        "generated_texts": [""] * requests, "errors": [""] * requests,
    }  # fmt: skip


def write_results(folder: Path, arm: str, ratio: float = 1.0, *, runs: int = 10, requests: int = REQUESTS) -> list[str]:
    """Write an arm's runs, the same for the same arguments; return the files' names in their order."""
    source = random.Random(arm)
    names = []
    for index in range(runs):
        path = folder / f"{arm}-{index}.json"
        path.write_text(json.dumps(serving_result(source, ratio, requests=requests)), encoding="utf-8")
        names.append(str(path))
    return names


def options(**arms: list[str]) -> list[str]:
    """Return ``--near a --near b --far c …``."""
    return [word for arm, names in arms.items() for name in names for word in (f"--{arm}", name)]
