"""Configs of known models, each cut down to the facts that its KV cache follows from, written by hand."""

import json
from pathlib import Path
from typing import Any

from hostdoctor.parsers.model_config import ModelConfig, parse_model_config

Fields = dict[str, Any]


def dense(model_type: str, layers: int, heads: int, kv_heads: int, hidden: int, **more: Any) -> Fields:
    """Return a model whose layers all attend to everything."""
    return {
        "model_type": model_type, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "hidden_size": hidden, "torch_dtype": "bfloat16",
        "max_position_embeddings": 131072, "vocab_size": 128256, "tie_word_embeddings": False, **more,
    }  # fmt: skip


def latent(model_type: str, layers: int, heads: int, **more: Any) -> Fields:
    """Return a model with multi-head latent attention as DeepSeek's."""
    return {
        "model_type": model_type, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": heads, "hidden_size": 7168, "kv_lora_rank": 512, "q_lora_rank": 1536,
        "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "torch_dtype": "bfloat16",
        "max_position_embeddings": 163840, **more,
    }  # fmt: skip


INDEXER = {"index_head_dim": 128, "index_n_heads": 64, "index_topk": 2048}
LLAMA_8B = dense("llama", 32, 32, 8, 4096)
DEEPSEEK_V3 = latent("deepseek_v3", 61, 128, num_nextn_predict_layers=1)
DEEPSEEK_V32 = latent("deepseek_v32", 61, 128, **INDEXER)
GPT_OSS_120B = dense(
    "gpt_oss", 36, 64, 8, 2880, head_dim=64, sliding_window=128,
    layer_types=["sliding_attention", "full_attention"] * 18,
)  # fmt: skip
QWEN35_35B: Fields = {
    "model_type": "qwen3_5_moe",
    "text_config": dense(
        "qwen3_5_moe_text", 40, 16, 2, 2048, head_dim=256, full_attention_interval=4,
        layer_types=(["linear_attention"] * 3 + ["full_attention"]) * 10,
        linear_num_key_heads=16, linear_num_value_heads=32, linear_key_head_dim=128, linear_value_head_dim=128,
        linear_conv_kernel_dim=4, mamba_ssm_dtype="float32", mtp_num_hidden_layers=1,
    ),
}  # fmt: skip
NEMOTRON_NANO_30B = dense(
    "nemotron_h", 52, 32, 2, 2688, head_dim=128, sliding_window=None, mamba_num_heads=64, mamba_head_dim=64, n_groups=8,
    hybrid_override_pattern="MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
    ssm_state_size=128, conv_kernel=4, mamba_ssm_cache_dtype="float32", chunk_size=128, expand=2,
)  # fmt: skip

# Model: its fields, the KV precision, and the bytes that a token takes on one GPU.
KNOWN: dict[str, tuple[Fields, str, int]] = {
    "Llama-3.1-8B": (LLAMA_8B, "bf16", 131_072),
    "Llama-3.1-8B in fp8": (LLAMA_8B, "fp8", 65_536),
    "Llama-3.1-8B in nvfp4": (LLAMA_8B, "nvfp4", 36_864),
    "Llama-3.1-8B in int8": (LLAMA_8B, "int8_per_token_head", 67_584),
    "Llama-3.1-8B in int4": (LLAMA_8B, "int4_per_token_head", 34_816),
    "Llama-3.1-70B": (dense("llama", 80, 64, 8, 8192), "bf16", 327_680),
    "Llama-3.1-405B": (dense("llama", 126, 128, 8, 16384), "bf16", 516_096),
    "Mixtral-8x7B": (dense("mixtral", 32, 32, 8, 4096, sliding_window=None, num_local_experts=8), "bf16", 131_072),
    "Qwen3-8B": (dense("qwen3", 36, 32, 8, 4096, head_dim=128, use_sliding_window=False), "bf16", 147_456),
    "Qwen3-30B-A3B": (dense("qwen3_moe", 48, 32, 4, 2048, head_dim=128), "bf16", 98_304),
    "Qwen3-235B-A22B": (dense("qwen3_moe", 94, 64, 4, 4096, head_dim=128), "bf16", 192_512),
    "DeepSeek-V3": (DEEPSEEK_V3, "bf16", 70_272),
    "DeepSeek-V3.2": (DEEPSEEK_V32, "bf16", 78_324),
    "DeepSeek-V3.2 in fp8_ds_mla": (DEEPSEEK_V32, "fp8_ds_mla", 48_068),
    "gpt-oss-120b": (GPT_OSS_120B, "bf16", 36_864),
    "Qwen3.5-35B-A3B": (QWEN35_35B, "bf16", 20_480),
    "Nemotron-3-Nano-30B": (NEMOTRON_NANO_30B, "bf16", 6_144),
    "GLM-5": (latent("glm_moe_dsa", 78, 64, head_dim=64, **INDEXER), "bf16", 100_152),
    "MQA": (dense("starcoder2", 40, 48, 1, 6144, sliding_window=None), "bf16", 20_480),
    "KV shared by the last 10 of 30 layers": (
        dense("gemma3n_text", 30, 8, 2, 2048, head_dim=256, sliding_window=512, num_kv_shared_layers=10,
              layer_types=(["sliding_attention"] * 4 + ["full_attention"]) * 6),
        "bf16",
        4 * 2 * 2 * 256 * 2,
    ),
}  # fmt: skip

KNOWN |= {
    "DeepSeek-V2-Lite": (latent("deepseek_v2", 27, 16, q_lora_rank=None, first_k_dense_replace=1), "bf16", 31_104),
    "Qwen2.5-7B, which tells a window that it does not use": (
        dense("qwen2", 28, 28, 4, 3584, sliding_window=131072, max_window_layers=28, use_sliding_window=False),
        "bf16",
        57_344,
    ),
    "Phi-3-mini-128k, whose window is longer than its context": (
        dense("phi3", 32, 32, 32, 3072, sliding_window=262144), "bf16", 393_216,
    ),
    "Phi-3.5-MoE, whose window is its context": (
        dense("phimoe", 32, 32, 8, 4096, sliding_window=131072, num_local_experts=16), "bf16", 131_072,
    ),
    "Phi-4-mini": (
        dense("phi3", 32, 24, 8, 3072, sliding_window=262144, full_attn_mod=1, interpolate_factor=1), "bf16", 131_072,
    ),
    "Command R7B, with its pattern told twice": (
        dense("cohere2", 32, 32, 8, 4096, head_dim=128, sliding_window=4096, sliding_window_pattern=4,
              _sliding_window_pattern=4, order_of_interleaved_layers="local_attn_first", use_parallel_block=True),
        "bf16",
        8 * 4096,
    ),
    "EXAONE 4, with its layers in letters too": (
        dense("exaone4", 64, 40, 8, 5120, head_dim=128, sliding_window=4096, sliding_window_pattern="LLLG",
              layer_types=(["sliding_attention"] * 3 + ["full_attention"]) * 16),
        "bf16",
        16 * 4096,
    ),
    "a language model in llm_config": ({"model_type": "internvl_chat", "llm_config": LLAMA_8B}, "bf16", 131_072),
    "a language model in language_config": (
        {"model_type": "multi_modality", "language_config": dense("llama", 30, 32, 32, 4096)}, "bf16", 491_520,
    ),
    "OPT-6.7B": (
        {k: v for k, v in dense("opt", 32, 32, 32, 4096, ffn_dim=16384, word_embed_proj_dim=4096,
                                do_layer_norm_before=True).items() if k != "num_key_value_heads"},
        "bf16",
        524_288,
    ),
}  # fmt: skip

# Model: its fields, and what the refusal names.
REFUSED: dict[str, tuple[Fields, str]] = {
    "Nemotron-Super-49B": (
        dense("nemotron-nas", 80, 64, 8, 8192) | {"num_key_value_heads": None, "block_configs": [{"attention": {}}]},
        "block_configs",
    ),
    "Nemotron-Super-49B under an unknown type": (
        dense("newer-nas", 80, 64, 8, 8192) | {"num_key_value_heads": None, "block_configs": [{"attention": {}}]},
        "num_key_value_heads is absent",
    ),
    "MiMo-V2-Flash": (dense("mimo_v2_flash", 48, 64, 4, 4096, head_dim=192, v_head_dim=128), "different sizes"),
    "d_v and d_k differ": (dense("new", 48, 64, 4, 4096, head_dim=192, v_head_dim=128), "v_head_dim"),
    "other heads in sliding layers": (dense("new", 48, 64, 4, 4096, swa_num_key_value_heads=8), "swa_num_key_value"),
    "Gemma-4": (
        {"text_config": dense("gemma4_text", 30, 16, 8, 2816, head_dim=256, global_head_dim=512)},
        "global_head_dim",
    ),
    "Gemma-4's fields elsewhere": (dense("new", 30, 16, 8, 4096, num_global_key_value_heads=2), "num_global_key_value"),
    "DeepSeek-V4": (dense("deepseek_v4", 43, 64, 1, 4096, compress_ratios=[0, 4, 128]), "compress_ratios"),
    "DeepSeek-V4's fields elsewhere": (dense("new", 43, 64, 1, 4096, compress_ratios=[0, 4, 128]), "compress_ratios"),
    "GLM-5.2": (latent("glm_moe_dsa", 78, 64, head_dim=192, **INDEXER), "head_dim = 192"),
    "GLM-5.2's shared indexers": (
        latent("glm_moe_dsa", 78, 64, **INDEXER, indexer_types=["full", "shared"] * 39), "indexer_types",
    ),
    "DeepSeek-V3.2 that tells no indexer": (latent("deepseek_v32", 61, 128), "index_head_dim is absent"),
    "latents of an unknown type": (latent("new", 61, 128), "kv_lora_rank"),
    "Llama-4": (dense("llama4_text", 48, 40, 8, 5120, attention_chunk_size=8192), "attention_chunk_size"),
    "chunks of an unknown type": (dense("new", 48, 40, 8, 5120, attention_chunk_size=8192), "attention_chunk_size"),
    "Kimi-Linear": (latent("kimi_linear", 93, 96, linear_attn_config={"head_dim": 128}), "linear attention"),
    "a window, but not where": (dense("qwen2", 28, 28, 4, 3584, sliding_window=4096, use_sliding_window=True), "slide"),
    "two windows": (
        dense("gemma2", 26, 8, 4, 2304, head_dim=256, sliding_window=4096, sliding_window_size=2048), "differ",
    ),
    "no window told": (dense("mistral", 32, 32, 8, 4096), "sliding_window is absent"),
    "half of the layer types": (dense("new", 36, 32, 8, 4096, layer_types=["full_attention"] * 18), "18 layer_types"),
    "a layer type that is new": (dense("new", 2, 32, 8, 4096, layer_types=["full_attention", "spiral"]), "spiral"),
    "no head_dim where it is not the quotient": (dense("qwen3_moe", 48, 32, 4, 2048), "head_dim is absent"),
    "heads that do not divide the width": (dense("new", 48, 30, 2, 4096), "head_dim is absent"),
    "KV heads that do not divide the heads": (dense("new", 48, 32, 5, 4096), "5 KV heads"),
    "no KV heads": ({k: v for k, v in dense("new", 48, 32, 4, 4096).items() if k != "num_key_value_heads"}, "absent"),
    "no layers": ({k: v for k, v in LLAMA_8B.items() if k != "num_hidden_layers"}, "num_hidden_layers is absent"),
    "layers in words": (LLAMA_8B | {"num_hidden_layers": "32"}, "num_hidden_layers is '32'"),
    "negative layers": (LLAMA_8B | {"num_hidden_layers": -32}, "num_hidden_layers is -32"),
    "countless layers": (LLAMA_8B | {"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
    "MiniMax with linear attention": (dense("minimax_m2", 2, 48, 8, 6144, head_dim=128, attn_type_list=[0, 1]), "attn"),
    "an encoder-decoder": (LLAMA_8B | {"is_encoder_decoder": True}, "encoder-decoder"),
    "a hybrid without its pattern": (
        NEMOTRON_NANO_30B | {"hybrid_override_pattern": None}, "0 layers are told, of 52",
    ),
    "states of a new type": (NEMOTRON_NANO_30B | {"mamba_ssm_cache_dtype": "float6"}, "float6"),
    "DeepSeek-V2 that tells no latent": (dense("deepseek_v2", 27, 16, 16, 2048), "kv_lora_rank is absent"),
    "an embedding model that sees both ways": (LLAMA_8B | {"is_causal": False}, "is_causal"),
    "one that says so beside its language model": ({"is_causal": False, "text_config": LLAMA_8B}, "is_causal"),
    "EmbeddingGemma": (
        dense("gemma3_text", 24, 3, 1, 768, head_dim=256, sliding_window=512, use_bidirectional_attention=True),
        "embedding model",
    ),
    "layers that slide without a window in use": (
        dense("qwen3", 2, 32, 8, 4096, head_dim=128, sliding_window=4096, use_sliding_window=False,
              layer_types=["sliding_attention", "full_attention"]),
        "use_sliding_window is false",
    ),
    "an encoder-decoder that says so there": ({"is_encoder_decoder": True, "text_config": LLAMA_8B}, "encoder-decoder"),
    "NV-Embed": ({"text_config": dense("bidir_mistral", 32, 32, 8, 4096, sliding_window=None)}, "embedding model"),
    "a diffusion model": (dense("Dream", 28, 28, 4, 3584), "diffusion"),
    "a diffusion model of an unknown type": (dense("new", 28, 28, 4, 3584, mask_token_id=151666), "mask_token_id"),
    "two patterns": (
        dense("cohere2", 32, 32, 8, 4096, sliding_window=4096, sliding_window_pattern=4, _sliding_window_pattern=6),
        "differ",
    ),
    "a pattern that begins with the full layer": (
        dense("cohere2", 32, 32, 8, 4096, sliding_window=4096, order_of_interleaved_layers="global_attn_first"),
        "order_of_interleaved_layers",
    ),
    "full attention in every other layer": (
        dense("phi3", 32, 24, 8, 3072, sliding_window=2048, full_attn_mod=2), "full_attn_mod",
    ),
    "all KV shared": (dense("new", 30, 8, 2, 2048, num_kv_shared_layers=30), "num_kv_shared_layers"),
}  # fmt: skip


def config(fields: Fields) -> ModelConfig:
    """Return what the parser makes of a model's fields."""
    return parse_model_config(json.dumps(fields), "config.json")


def write(folder: Path, fields: Fields) -> str:
    """Write ``config.json`` and return its path."""
    path = folder / "config.json"
    path.write_text(json.dumps(fields), encoding="utf-8")
    return str(path)
