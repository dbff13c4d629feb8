"""Which fields of a ``config.json`` have no part in the KV cache, so that a layout can be known in spite of them."""

import re

# Exact names whose meaning is known and changes nothing of the cache, though the name might suggest it.
NEUTRAL = frozenset(
    """
    attention_bias attention_dropout attention_multiplier attention_out_bias attention_probs_dropout_prob
    attention_softmax_in_fp32 attention_output_gate attn_output_gate attn_implementation _attn_implementation
    _attn_implementation_autoset _attn_implementation_internal attn_logit_softcapping attn_pdrop attn_temperature_tuning
    attn_scale floor_scale use_qkv_bias qkv_bias use_attention_bias use_attn_output_gate
    cache_implementation use_cache chunk_size_feed_forward cross_attention_hidden_size add_cross_attention
    decoder_layers encoder_layers ffn_dim word_embed_proj_dim do_layer_norm_before _remove_final_layer_norm
    use_parallel_block use_parallel_residual
    decoder_sparse_step dense_intermediate_size first_k_dense_replace interleave_moe_layer_step intermediate_size
    expert_interval moe_layer_freq moe_layer_interval moe_layer_start_index moe_layer_end_index mlp_layer_types
    mlp_only_layers num_dense_layers mlp_bias mlp_hidden_act moe_latent_size latent_moe_use_norm expert_layer_period
    expert_layer_offset
    hidden_size_per_layer_input vocab_size_per_layer_input global_batch_size
    id2label label2id pruned_heads tie_word_embeddings tie_encoder_decoder
    initializer_range layer_norm_eps layer_norm_epsilon layernorm_epsilon layernorm_eps layer_norm_bias layerdrop
    layer_scale_init_value residual_multiplier scale_depth dim_model_base norm_eps rms_norm_eps
    n_group topk_group num_expert_group routed_expert_hidden_size use_grouped_topk n_shared_experts num_shared_experts
    shared_expert_intermediate_size shared_intermediate_size moe_shared_expert_intermediate_size
    moe_shared_expert_overlap share_expert_dim share_expert_dims shared_expert_gate use_shared_expert_gate
    num_beam_groups use_qk_norm qk_norm qk_layernorm qk_norm_type query_pre_attn_scalar pad_head head_bias
    lm_head_bias logits_to_keep num_logits_to_keep partial_rotary_factor rotary_dim rotary_emb_base rotary_pct
    rope_parameters rope_scaling rope_theta rope_local_base_freq local_rope_theta rope_interleave mrope_section
    no_rope_layers no_rope_layer_interval pretraining_tp hidden_dim_multiplier embedding_multiplier
    index_topk_pattern indexer_rope_interleave
    vision_config audio_config quantization_config compression_config auto_map prefix
    vision_feature_layer vision_feature_select_strategy projector_hidden_act multimodal_projector_bias
    output_hidden_states output_attentions output_gate_type
    use_bidirectional_attention linear_bias mlp_ffn_dim num_local_experts initial_context_length time_step_rank
    laurel_rank activation_sparsity_pattern num_experts_per_layer
    original_max_position_embeddings seq_aux
    moe_num_shared_experts
    """.split()  # noqa: SIM905  a list of words reads better than a hundred quotes
)

# Everything that cache layouts have been named with so far; a field with such a word and a value needs a known layout.
_TELLING = re.compile(
    r"kv|key|value|head|att|window|swa|sliding|layer|block|cache|compress|latent|rank|lora|ssm|mamba|conv|state"
    r"|recurren|rwkv|retention|index|sparse|linear|delta|chunk|pattern|share|global|local|hybrid|memor|interval|period"
    r"|group|dim|mla|cla|yoco|hyper|cross|stride|context_len|dsa|nsa|moba|engram|sink"
)


def unexplained(fields: dict[str, object], used: set[str]) -> list[str]:
    """Return the names of fields that may change the cache in a way that no known layout explains.

    ``used`` are the fields that the layout was read from. Fields that are null, false, zero or empty change nothing.
    """
    return [
        name
        for name, value in fields.items()
        if value and name not in used and name not in NEUTRAL and _TELLING.search(name.lower())
    ]
