"""The four usual variants of where weights and KV are kept, as vLLM (and LMCache) are told them, with D's contract."""

import json
from collections.abc import Sequence

from hostdoctor.measure.matrix.experiment import Contract

# vLLM's multi-tier connector with the "fs" tier under that name (docs.vllm.ai v0.23.0, v1/kv_offload/tiering).
TIERING = (0, 23, 0)
FS_CONTRACT = Contract(
    holds="KV blocks of prompts, for prefixes that return; each is staged through the pool in RAM",
    cold_when="the pool in RAM has evicted it (LRU); the file stays and is read back when a prompt begins alike",
    answers_before_it_returns="no: a request waits for its blocks before its first token; what fails is computed anew",
    cleaned_by="nobody: vLLM deletes no block (vllm#54327 would); an operator, by age, or by emptying the folder",
    when_full="stores fail and are dropped, requests go on; whatever else writes to that file system fails too",
    when_restarted="blocks are found again by their hash, for the same model and layout; others are dead files",
)
LMCACHE_CONTRACT = Contract(
    holds="KV chunks of prompts, for prefixes that return; each is staged through LMCache's pool in RAM",
    cold_when="LMCache's pool in RAM has evicted it (LRU)",
    answers_before_it_returns="no: a request waits for its chunks before its first token",
    cleaned_by="LMCache, by LRU, down to LMCACHE_MAX_LOCAL_DISK_SIZE",
    when_full="the least recently used chunks are evicted",
    when_restarted="the index is lost with the process: chunks on disk are dead files, to be deleted before a start",
)


def tiering_args(ram_bytes: int, folder: str) -> tuple[str, ...]:
    """Return vLLM's words for a pool in RAM (all workers together) with files below a folder as its second tier."""
    extra = {
        "spec_name": "TieringOffloadingSpec",
        "cpu_bytes_to_use": ram_bytes,
        "secondary_tiers": [{"type": "fs", "root_dir": folder, "n_read_threads": 32, "n_write_threads": 16}],
    }
    return _connector({"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "kv_connector_extra_config": extra})


def lmcache_disk(folder: str, gib: int) -> dict[str, str]:
    """Return LMCache's variables for files below a folder, at most so many GiB."""
    return {"LMCACHE_LOCAL_DISK": f"file://{folder.rstrip('/')}/", "LMCACHE_MAX_LOCAL_DISK_SIZE": str(gib)}


def doubling(most: int) -> tuple[int, ...]:
    """Return 1, 2, 4, 8 … up to the production limit, which is always the last."""
    found = [1]
    while found[-1] * 2 < most:
        found.append(found[-1] * 2)
    return tuple(dict.fromkeys((*found, most)))


def usual_contexts(limit: int, usual: Sequence[int] = (2048, 8192, 32768)) -> tuple[int, ...]:
    """Return 2k, 8k, 32k and the longest, as far as they are below it."""
    return tuple(dict.fromkeys((*(tokens for tokens in usual if tokens < limit), limit)))


def _connector(config: dict[str, object]) -> tuple[str, ...]:
    return ("--kv-transfer-config", json.dumps(config, separators=(",", ":")))
