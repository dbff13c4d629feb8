"""KV bytes a token of known models, and refusals of what is not known for certain."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.budget.kv import KV_DTYPES, KvOptions, kv_cost, kv_dtype_named, offload_chunks, stated_cost
from hostdoctor.budget.layout import kv_layout
from hostdoctor.errors import LayoutError, UsageError
from tests.budget.models import (
    DEEPSEEK_V3,
    DEEPSEEK_V32,
    GPT_OSS_120B,
    KNOWN,
    LLAMA_8B,
    NEMOTRON_NANO_30B,
    QWEN35_35B,
    REFUSED,
    config,
    dense,
    latent,
)

GIB = 1 << 30
LLAMA, DEEPSEEK = kv_layout(config(LLAMA_8B)), kv_layout(config(DEEPSEEK_V3))
DIVISORS = (1, 2, 4, 8, 16, 32)


@pytest.mark.parametrize("name", KNOWN)
def test_bytes_a_token(name: str) -> None:
    fields, kv_dtype, wanted = KNOWN[name]
    assert kv_cost(kv_layout(config(fields)), KvOptions(kv_dtype=kv_dtype)).bytes_per_token_per_rank == wanted


@pytest.mark.parametrize("name", REFUSED)
def test_a_layout_that_is_not_known_gets_no_number(name: str) -> None:
    fields, named = REFUSED[name]
    with pytest.raises(LayoutError, match=named):
        kv_layout(config(fields))


def test_128_kib_a_token_4_gib_a_sequence_32_gib_for_eight() -> None:
    cost = kv_cost(LLAMA, KvOptions())
    assert cost.bytes_per_token_per_rank == 128 << 10
    assert cost.session_bytes(32_768) == 4 * GIB
    assert 8 * cost.session_bytes(32_768) == 32 * GIB
    assert cost.sessions(32 * GIB, 32_768) == 8


def test_context_is_linear_and_an_80_gib_card_with_48_taken_holds_16_4_1() -> None:
    cost = stated_cost(2 * GIB // 8192, tp=1)
    assert [cost.session_bytes(tokens) // GIB for tokens in (8192, 32_768, 131_072)] == [2, 8, 32]
    assert [cost.sessions((80 - 48) * GIB, tokens) for tokens in (8192, 32_768, 131_072)] == [16, 4, 1]


@pytest.mark.parametrize(("tp", "rank", "total"), [(1, 131_072, 131_072), (8, 16_384, 131_072), (16, 16_384, 262_144)])
def test_kv_heads_are_repeated_where_ranks_are_more(tp: int, rank: int, total: int) -> None:
    cost = kv_cost(LLAMA, KvOptions(tp=tp))
    assert (cost.bytes_per_token_per_rank, cost.bytes_per_token_total) == (rank, total)


def test_every_rank_keeps_the_whole_latent() -> None:
    cost = kv_cost(DEEPSEEK, KvOptions(tp=8))
    assert (cost.bytes_per_token_per_rank, cost.bytes_per_token_total) == (70_272, 8 * 70_272)
    assert cost.block_tokens == 64


def test_offload_chunks_of_llama_hold_every_rank_s_share() -> None:
    chunks = offload_chunks(100 * GIB, kv_cost(LLAMA, KvOptions(tp=2)).offload_bytes_per_token or 0, 16)
    assert (chunks.bytes_per_chunk, chunks.chunks, chunks.tokens) == (2_097_152, 51_200, 819_200)


def test_offload_chunks_of_deepseek_hold_the_latent_once() -> None:
    chunks = offload_chunks(100 * GIB, kv_cost(DEEPSEEK, KvOptions(tp=8)).offload_bytes_per_token or 0, 64)
    assert (chunks.bytes_per_chunk, chunks.chunks, chunks.tokens) == (4_497_408, 23_874, 23_874 * 64)


@pytest.mark.parametrize(("size", "each", "block"), [(-1, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_offload_chunks_of_impossible_sizes(size: int, each: int, block: int) -> None:
    with pytest.raises(UsageError, match="KV offload"):
        offload_chunks(size, each, block)


def test_sliding_layers_stop_at_their_window_and_two_batches() -> None:
    cost = kv_cost(kv_layout(config(GPT_OSS_120B)), KvOptions())
    pages = -(-(127 + 2 * 8192) // 16) + 1
    assert cost.state_bytes_per_sequence == pages * 16 * 36_864
    assert cost.session_bytes(100) == 7 * 16 * 73_728
    assert cost.session_bytes(131_072) == 131_072 * 36_864 + cost.state_bytes_per_sequence
    whole = kv_cost(kv_layout(config(GPT_OSS_120B)), KvOptions(hybrid_manager=False))
    assert (whole.bytes_per_token_per_rank, whole.state_bytes_per_sequence) == (73_728, 0)


def test_a_model_that_slides_everywhere_grows_no_further() -> None:
    cost = kv_cost(kv_layout(config(dense("mistral", 32, 32, 8, 4096, sliding_window=4096))), KvOptions())
    assert cost.bytes_per_token_per_rank == 0
    assert cost.session_bytes(100_000) == cost.session_bytes(120_000) == cost.state_bytes_per_sequence


def test_gemma_3_has_one_full_layer_in_six_and_gemma_2_one_in_two() -> None:
    third = dense("gemma3_text", 62, 32, 16, 5376, head_dim=128, sliding_window=1024)
    second = dense("gemma2", 46, 32, 16, 4608, head_dim=128, sliding_window=4096)
    assert kv_cost(kv_layout(config(third)), KvOptions()).bytes_per_token_per_rank == 10 * 2 * 16 * 128 * 2
    assert kv_cost(kv_layout(config(second)), KvOptions()).bytes_per_token_per_rank == 23 * 2 * 16 * 128 * 2


def test_a_hybrid_s_blocks_hold_a_state_and_states_are_padded_to_them() -> None:
    # inputs: (2·16·128 + 32·128) channels · 3 · 2 B; state: 32·128·128 · 4 B; a token of one layer: 2·2·256·2 B
    state, token = 8192 * 3 * 2 + 32 * 128 * 128 * 4, 2048
    block = -(-state // (16 * token)) * 16
    cost = kv_cost(kv_layout(config(QWEN35_35B)), KvOptions())
    assert (cost.block_tokens, block) == (1056, 1056)
    assert cost.state_bytes_per_sequence == 30 * 1056 * token
    assert cost.session_bytes(1) == 1056 * 20_480 + cost.state_bytes_per_sequence
    cached = kv_cost(kv_layout(config(QWEN35_35B)), KvOptions(prefix_caching=True))
    assert cached.state_bytes_per_sequence == 2 * cost.state_bytes_per_sequence


def test_a_state_of_sixteen_bits_makes_smaller_blocks() -> None:
    new: dict[str, Any] = {"model_type": "qwen3_next", "layer_types": None, "mamba_ssm_dtype": None}
    fields = QWEN35_35B["text_config"] | new
    layout = kv_layout(config(fields))
    assert (layout.attention[0].layers, kv_cost(layout, KvOptions()).block_tokens) == (10, 544)


def test_mamba_layers_keep_a_state_for_each_sequence() -> None:
    layout = kv_layout(config(NEMOTRON_NANO_30B))
    assert layout.state is not None
    state = (64 * 64 + 2 * 8 * 128) * 3 * 2 + 64 * 64 * 128 * 4
    cost = kv_cost(layout, KvOptions())
    assert (layout.state.layers, cost.block_tokens) == (23, -(-state // (16 * 1024)) * 16)
    assert cost.state_bytes_per_sequence == 23 * cost.block_tokens * 1024


def test_block_types_in_words_are_those_in_letters() -> None:
    words = {"M": "mamba", "E": "moe", "*": "attention"}
    pattern = NEMOTRON_NANO_30B["hybrid_override_pattern"]
    spelt = NEMOTRON_NANO_30B | {"hybrid_override_pattern": None, "layers_block_type": [words[c] for c in pattern]}
    assert kv_layout(config(spelt)) == kv_layout(config(NEMOTRON_NANO_30B))


def test_speculating_adds_the_model_s_own_draft_layers() -> None:
    assert kv_cost(DEEPSEEK, KvOptions(speculative_tokens=1)).bytes_per_token_per_rank == 62 * 1152
    hybrid = kv_cost(kv_layout(config(QWEN35_35B)), KvOptions(speculative_tokens=2))
    assert hybrid.bytes_per_token_per_rank == 11 * 2048
    assert hybrid.fixed_bytes == 30 * 3 * hybrid.block_tokens * 2048


def test_sparse_attention_takes_fp8_as_its_own_format() -> None:
    layout = kv_layout(config(DEEPSEEK_V32))
    assert kv_cost(layout, KvOptions(kv_dtype="fp8")) == kv_cost(layout, KvOptions(kv_dtype="fp8_ds_mla"))
    assert kv_cost(layout, KvOptions(kv_dtype="nvfp4_ds_mla")).bytes_per_token_per_rank == (352 + 132) * 61
    assert kv_cost(DEEPSEEK, KvOptions(kv_dtype="fp8")).bytes_per_token_per_rank == 576 * 61


@pytest.mark.parametrize(
    ("fields", "kv_dtype"),
    [
        (LLAMA_8B, "fp8_ds_mla"), (DEEPSEEK_V3, "nvfp4"), (DEEPSEEK_V3, "int8_per_token_head"),
        (latent("deepseek_v3", 61, 128) | {"kv_lora_rank": 256}, "fp8_ds_mla"),
        (dense("llama", 32, 32, 8, 32 * 72), "nvfp4"), (dense("llama", 32, 32, 8, 32 * 71), "int4_per_token_head"),
    ],
)  # fmt: skip
def test_precisions_that_a_layout_has_not(fields: dict[str, object], kv_dtype: str) -> None:
    with pytest.raises(LayoutError, match=r"not defined|MLA models alone"):
        kv_cost(kv_layout(config(fields)), KvOptions(kv_dtype=kv_dtype))


@pytest.mark.parametrize(
    ("fields", "tp", "told"),
    [
        (LLAMA_8B, 64, "more ranks"), (LLAMA_8B, 3, "32 attention heads"),
        (dense("llama", 2, 48, 8, 4800), 12, "8 KV heads do not divide"),
        (QWEN35_35B, 64, "more ranks"), (NEMOTRON_NANO_30B | {"mamba_num_heads": 12}, 8, "12 state heads"),
        (NEMOTRON_NANO_30B | {"n_groups": 12}, 8, "do not divide"),
    ],
)  # fmt: skip
def test_ranks_among_which_heads_do_not_divide(fields: dict[str, object], tp: int, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        kv_cost(kv_layout(config(fields)), KvOptions(tp=tp))


def test_states_divide_among_the_ranks_with_their_groups_repeated() -> None:
    layout = kv_layout(config(NEMOTRON_NANO_30B))
    state = (64 * 64 + 2 * 16 * 128) // 16 * 3 * 2 + 4 * 64 * 128 * 4
    assert kv_cost(layout, KvOptions(tp=16)).block_tokens == -(-state // (16 * 512)) * 16


def test_old_llamas_tell_no_kv_heads_and_have_as_many_as_heads() -> None:
    old = {name: value for name, value in LLAMA_8B.items() if name != "num_key_value_heads"}
    assert kv_cost(kv_layout(config(old)), KvOptions()).bytes_per_token_per_rank == 4 * 131_072


def test_an_unknown_type_with_the_plain_fields_is_plain() -> None:
    plain = dense("brand_new", 32, 32, 8, 4096, residual_multiplier=0.2, attention_bias=True, sliding_window=None)
    assert kv_layout(config(plain)) == LLAMA


@pytest.mark.parametrize("name", ["kv_compression", "swa_heads", "cross_layers", "memory_tokens", "recurrent_dim"])
def test_one_unknown_field_is_enough_to_refuse(name: str) -> None:
    assert kv_layout(config(LLAMA_8B | {name: None})) == LLAMA
    with pytest.raises(LayoutError, match=name):
        kv_layout(config(LLAMA_8B | {name: 3}))


def test_names_of_precisions() -> None:
    assert [kv_dtype_named(name) for name in ("FP8_e4m3", "bfloat16", "int8")] == ["fp8", "bf16", "int8_per_token_head"]
    with pytest.raises(UsageError, match="fp9"):
        kv_dtype_named("fp9")


@given(
    st.sampled_from([LLAMA_8B, DEEPSEEK_V3, GPT_OSS_120B, QWEN35_35B, NEMOTRON_NANO_30B]),
    st.integers(1, 200_000), st.integers(1, 200_000), st.integers(0, 1 << 40), st.sampled_from(DIVISORS[:4]),
)  # fmt: skip
def test_more_context_never_gives_more_sessions(
    fields: dict[str, object], tokens: int, more: int, pool: int, tp: int
) -> None:
    cost = kv_cost(kv_layout(config(fields)), KvOptions(tp=tp))
    assert cost.session_bytes(tokens) <= cost.session_bytes(tokens + more)
    assert cost.sessions(pool, tokens) >= cost.sessions(pool, tokens + more)
    assert cost.sessions(pool, tokens) * cost.session_bytes(tokens) <= pool


@given(st.integers(1, 200_000), st.sampled_from(DIVISORS), st.sampled_from(DIVISORS))
def test_more_ranks_never_cost_one_rank_more_nor_all_of_them_less(tokens: int, tp: int, other: int) -> None:
    few, many = (kv_cost(LLAMA, KvOptions(tp=size)) for size in sorted((tp, other)))
    assert few.session_bytes(tokens) >= many.session_bytes(tokens)
    assert few.bytes_per_token_total <= many.bytes_per_token_total


@given(st.integers(1, 200_000), st.integers(1, 4096))
def test_a_session_takes_whole_blocks_and_less_than_one_too_many(tokens: int, block: int) -> None:
    cost = kv_cost(LLAMA, KvOptions(block_tokens=block))
    assert 0 <= cost.session_bytes(tokens) - tokens * 131_072 < block * 131_072


def test_lower_precision_never_costs_more_than_sixteen_bits() -> None:
    costs = {name: kv_cost(LLAMA, KvOptions(kv_dtype=name)) for name in KV_DTYPES if not name.endswith("_mla")}
    assert all(cost.bytes_per_token_per_rank <= costs["bf16"].bytes_per_token_per_rank for cost in costs.values())


@pytest.mark.parametrize(
    ("scaling", "most"),
    [
        ({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, 131_072),
        ({"rope_type": "yarn", "factor": 40, "original_max_position_embeddings": 1024}, 40_960),
        ({"rope_type": "yarn", "factor": 4.0}, 40_960), ({"rope_type": "yarn", "factor": "4"}, 40_960), (None, 40_960),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, 40_960),
        ({"rope_type": "yarn", "factor": 1e300, "original_max_position_embeddings": 8192}, 40_960),
    ],
)  # fmt: skip
def test_yarn_stretches_the_longest_context(scaling: object, most: int) -> None:
    fields = dense("qwen3", 36, 32, 8, 4096, head_dim=128) | {"max_position_embeddings": 40960}
    assert kv_layout(config(fields | {"rope_scaling": scaling})).max_tokens == most
    assert kv_layout(config(fields | {"rope_parameters": scaling})).max_tokens == most


def test_a_window_that_no_context_outgrows_is_full_attention() -> None:
    fields = dense("mistral", 36, 32, 8, 4096, head_dim=128, sliding_window=32768) | {"max_position_embeddings": 32768}
    cost = kv_cost(kv_layout(config(fields)), KvOptions())
    assert (cost.bytes_per_token_per_rank, cost.state_bytes_per_sequence) == (147_456, 0)
    assert cost.session_bytes(32_768) == 32_768 * 147_456


def test_what_an_offloaded_token_of_a_hybrid_takes_is_not_told() -> None:
    assert kv_cost(kv_layout(config(QWEN35_35B)), KvOptions()).offload_bytes_per_token is None
