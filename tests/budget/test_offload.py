"""Engines' own options, by version and in their own units."""

from typing import Any

import pytest

from hostdoctor.budget.growth import GIB, default_growth
from hostdoctor.budget.offload import KvOffload, Options, kv_chunks, kv_rounding, options, parse_version, pool_in_shm
from hostdoctor.errors import UsageError


def told(engine: Any = "vllm", version: str = "0.33.0", weights: float = 0, kv: float = 0, ranks: int = 4) -> Options:
    return options(engine, parse_version(version), weights_gib=weights, kv_gib=kv, ranks_per_engine=ranks)


def test_vllm_takes_gib_per_gpu_and_gib_over_all_ranks() -> None:
    assert told(weights=12, kv=64).flags == ("--cpu-offload-gb", "12", "--kv-offloading-size", "64")
    assert told(weights=0.5).flags == ("--cpu-offload-gb", "0.5")
    assert told().flags == ()


@pytest.mark.parametrize(
    ("version", "backend"), [("0.11.1", True), ("v0.14.1", True), ("0.15.0", False), ("0.33.0rc1", False), ("", False)]
)
def test_before_0_15_the_backend_has_to_be_named(version: str, backend: bool) -> None:
    named = ("--kv-offloading-backend", "native") if backend else ()
    assert told(version=version, kv=64).flags == ("--kv-offloading-size", "64", *named)


@pytest.mark.parametrize("version", ["0.11.0", "0.9", "0.11"])
def test_before_0_11_1_there_is_no_kv_option(version: str) -> None:
    with pytest.raises(UsageError, match="has no --kv-offloading-size"):
        told(version=version, kv=64)
    assert told(version=version, weights=4).flags == ("--cpu-offload-gb", "4")


def test_an_unstated_version_is_said() -> None:
    assert told(version="", kv=1).notes == ("no --engine-version stated: vLLM 0.27 or later is assumed",)


@pytest.mark.parametrize("text", ["new", "0.x", "1", "0.1.2 && rm", "9" * 400])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a version"):
        parse_version(text)


def test_sglang_takes_whole_gb_per_rank() -> None:
    # 64 GiB over 4 ranks are 17.18 GB each
    assert told("sglang", kv=64).flags == ("--enable-hierarchical-cache", "--hicache-size", "17")
    assert told("sglang", weights=12.7).flags == ("--cpu-offload-gb", "12")


@pytest.mark.parametrize("sizes", [{"kv": 3.0}, {"weights": 0.9}])
def test_less_than_sglangs_unit_is_refused(sizes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        told("sglang", **sizes)


def test_lmcache_takes_gib_per_rank_in_the_environment() -> None:
    made = told("lmcache", weights=2, kv=50)
    assert made.environment == {"LMCACHE_LOCAL_CPU": "True", "LMCACHE_MAX_LOCAL_CPU_SIZE": "12.5"}
    assert made.flags == (
        *("--cpu-offload-gb", "2"),
        *("--kv-transfer-config", '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'),
    )


def test_the_pool_lies_in_dev_shm_since_0_27_and_was_rounded_before() -> None:
    assert pool_in_shm("vllm", (0, 27, 0))
    assert pool_in_shm("vllm", None)
    assert not pool_in_shm("vllm", (0, 26, 9))
    assert not pool_in_shm("sglang", None)
    assert (kv_rounding("vllm", (0, 26, 0)), kv_rounding("vllm", (0, 27, 0)), kv_rounding("lmcache", None)) == (2, 1, 1)


def test_chunks_of_llama_8b_and_of_deepseek_v3() -> None:
    assert kv_chunks(100 * GIB, 131_072, 16) == KvOffload(bytes_per_chunk=2_097_152, chunks=51_200, tokens=819_200)
    latent = kv_chunks(100 * GIB, 70_272, 64)  # one copy, whatever the ranks
    assert (latent.bytes_per_chunk, latent.chunks) == (4_497_408, 23_874)


def test_chunks_are_unknown_without_the_bytes_of_a_token() -> None:
    assert kv_chunks(GIB, None, 16) == KvOffload()
    assert kv_chunks(None, 131_072, 16) == KvOffload(bytes_per_chunk=2_097_152)


def test_growth_by_engine() -> None:
    assert default_growth("vllm", 1).shared_bytes == 4 * GIB
    assert default_growth("vllm", 2, 3).shared_bytes == (4 + 6) * GIB
    assert default_growth("vllm", 2, 3, multimodal=True).shared_bytes == (10 + 20) * GIB
    assert default_growth("lmcache", 1) == default_growth("vllm", 1)
    assert default_growth("sglang", 2).shared_bytes == 8 * GIB


@pytest.mark.parametrize(
    ("gib", "told"),
    [(64.0, "64"), (0.57, "0.57"), (100 / 3, "33.333333"), (2 / 3, "0.666666"), (1e-6, "0.000001"), (100.0, "100")],
)
def test_sizes_are_told_in_digits_and_never_rounded_up(gib: float, told: str) -> None:
    made = options("vllm", None, weights_gib=gib, kv_gib=gib, ranks_per_engine=1)
    assert made.flags == ("--cpu-offload-gb", told, "--kv-offloading-size", told)


def test_a_size_that_no_option_can_tell_is_refused() -> None:
    with pytest.raises(UsageError, match="less than it can be told"):
        options("vllm", None, weights_gib=1e-7, kv_gib=0, ranks_per_engine=1)
