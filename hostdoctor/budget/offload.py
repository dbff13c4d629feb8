"""From a plan to an engine's own options, in its own units.

| engine | weights | KV pool |
|---|---|---|
| vLLM | ``--cpu-offload-gb``: GiB per GPU | ``--kv-offloading-size``: GiB over TP × PP of one DP engine; since 0.11.1 |
| SGLang | ``--cpu-offload-gb``: whole GiB per GPU | ``--hicache-size``: whole GB (10⁹) per rank |
| LMCache | vLLM's | ``LMCACHE_MAX_LOCAL_CPU_SIZE``: GiB per rank |

vLLM takes ``native`` as the KV backend by itself since 0.15 (vllm#32421); before, it has to be named. Up to 0.26 the
native pool is pinned tensor by tensor, each rounded up to a power of two; since 0.27 it lies in /dev/shm, exact.
"""

import json
import re
from decimal import ROUND_DOWN, Decimal

import msgspec

from hostdoctor.budget.growth import Engine
from hostdoctor.budget.kv import offload_chunks
from hostdoctor.errors import UsageError
from hostdoctor.facts import Fact

GIB, GB = 1 << 30, 10**9
KV_OFFLOADING, NATIVE_DEFAULT, KV_IN_SHM = (0, 11, 1), (0, 15, 0), (0, 27, 0)
_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:[.+-]?[a-z0-9.+-]{0,40})?", re.IGNORECASE)
CONNECTOR = {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}

Version = tuple[int, int, int]


class Options(Fact, frozen=True, kw_only=True):
    """What the engine is started with: words of its command line, and variables of its environment."""

    flags: tuple[str, ...] = ()
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    notes: tuple[str, ...] = ()


class KvOffload(Fact, frozen=True, kw_only=True):
    """A KV pool in the engine's chunks (blocks over all ranks): how large one is, how many, how many tokens."""

    bytes_per_chunk: int | None = None
    chunks: int | None = None
    tokens: int | None = None


def parse_version(text: str) -> Version | None:
    """Return an engine's version, None for none; raise UsageError for what is not one."""
    if not text:
        return None
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--engine-version: not a version: {text[:40]!r}")
    return int(match[1]), int(match[2]), int(match[3] or 0)


def kv_rounding(engine: Engine, version: Version | None) -> float:
    """Return how many times its size a KV pool can pin at most: vLLM before 0.27 rounds each tensor up (vllm#53042)."""
    return 2.0 if engine == "vllm" and version is not None and version < KV_IN_SHM else 1.0


def pool_in_shm(engine: Engine, version: Version | None) -> bool:
    """Tell whether the engine's KV pool is a file in /dev/shm; of an unknown version the newest is assumed."""
    return engine == "vllm" and (version is None or version >= KV_IN_SHM)


def kv_chunks(kv_bytes: int | None, bytes_per_token: int | None, block_tokens: int) -> KvOffload:
    """Return a pool in chunks of ``block_tokens``; ``bytes_per_token`` is stored over all ranks of an engine."""
    if bytes_per_token is None:
        return KvOffload()
    pool = offload_chunks(kv_bytes or 0, bytes_per_token, block_tokens)
    if not kv_bytes:
        return KvOffload(bytes_per_chunk=pool.bytes_per_chunk)
    return KvOffload(bytes_per_chunk=pool.bytes_per_chunk, chunks=pool.chunks, tokens=pool.tokens)


def options(
    engine: Engine, version: Version | None, *, weights_gib: float, kv_gib: float, ranks_per_engine: int
) -> Options:
    """Return an engine's options for so many GiB of weights per GPU and KV per DP engine.

    Raises UsageError where the engine cannot do it: an older version, less than its smallest unit.
    """
    if engine == "sglang":
        return _sglang(weights_gib, kv_gib, ranks_per_engine)
    weights = ("--cpu-offload-gb", _number(weights_gib)) if weights_gib else ()
    if not kv_gib:
        return Options(flags=weights)
    if engine == "lmcache":
        size = kv_gib / ranks_per_engine
        environment = {"LMCACHE_LOCAL_CPU": "True", "LMCACHE_MAX_LOCAL_CPU_SIZE": _number(size)}
        connector = ("--kv-transfer-config", json.dumps(CONNECTOR, separators=(",", ":")))
        return Options(flags=(*weights, *connector), environment=environment)
    return _vllm(weights, version, kv_gib)


def _vllm(weights: tuple[str, ...], version: Version | None, kv_gib: float) -> Options:
    if version is not None and version < KV_OFFLOADING:
        told = ".".join(map(str, version))
        raise UsageError(f"vLLM {told} has no --kv-offloading-size (0.11.1 has): use a later one, or --engine lmcache")
    flags = (*weights, "--kv-offloading-size", _number(kv_gib))
    if version is not None and version < NATIVE_DEFAULT:
        flags = (*flags, "--kv-offloading-backend", "native")
    notes = () if version else ("no --engine-version stated: vLLM 0.27 or later is assumed",)
    return Options(flags=flags, notes=notes)


def _sglang(weights_gib: float, kv_gib: float, ranks: int) -> Options:
    flags: tuple[str, ...] = ()
    notes = []
    if weights_gib:
        whole = int(weights_gib)
        if not whole:
            raise UsageError(f"--cpu-offload-gib {weights_gib:g}: SGLang takes whole GiB")
        flags += ("--cpu-offload-gb", str(whole))
    if kv_gib:
        each = int(kv_gib * GIB / ranks) // GB
        if not each:
            raise UsageError(f"--kv-offload-gib {kv_gib:g}: less than 1 GB for each of {ranks} ranks, SGLang's unit")
        flags += ("--enable-hierarchical-cache", "--hicache-size", str(each))
        notes.append(f"--hicache-size is per rank, in GB (10⁹ bytes): {each} × {ranks} ranks")
    return Options(flags=flags, notes=tuple(notes))


def _number(gib: float) -> str:
    """Return a size as a command line takes it: no exponent, no needless zeros, never more than it is.

    Raises UsageError for less than a millionth.
    """
    text = f"{Decimal(repr(gib)).quantize(Decimal('0.000001'), ROUND_DOWN):f}".rstrip("0").rstrip(".")
    if text == "0":
        raise UsageError(f"{gib:g} GiB for each option of the engine: less than it can be told")
    return text
