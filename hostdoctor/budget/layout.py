"""From a model's config to the layout of its KV cache, or to a refusal: a wrong number is worse than none."""

from collections.abc import Callable
from typing import Any

from hostdoctor.budget.kv import AttentionLayers, KvLayout, LatentLayers, StateLayers
from hostdoctor.budget.layout_fields import unexplained
from hostdoctor.errors import LayoutError
from hostdoctor.parsers.model_config import ModelConfig, count

MAX_LAYERS = 10_000
MAX_STRETCH = 1024  # of a context by YaRN; DeepSeek-V3's 40 is the most seen
# Attention that the fields of a config alone do not describe, by the beginning of the model type.
_REFUSED = {
    "deepseek_v4": "compressed attention (compress_ratios)",
    "mimo_v2": "keys and values of different sizes, other heads in sliding layers",
    "gemma4": "other heads in its full-attention layers (global_head_dim)",
    "nemotron-nas": "heads that differ by layer (block_configs)",
    "deci": "heads that differ by layer (block_configs)",
    "llama4": "chunked local attention (attention_chunk_size)",
    "kimi_linear": "latent attention mixed with linear attention",
    "minimax_m3": "sparse attention with an indexer",
    "falcon_h1": "attention and state in one layer",
    "falcon": "KV heads that depend on its generation",
    "gpt_bigcode": "KV heads that depend on multi_query",
    "phi3small": "block-sparse attention",
    "jamba": "attention mixed with Mamba layers",
    "bamba": "attention mixed with Mamba layers",
    "zamba": "attention shared between Mamba layers",
    "granitemoehybrid": "attention mixed with Mamba layers",
    "lfm2": "attention mixed with convolutions",
    "bailing_hybrid": "latent attention mixed with linear attention",
    "longcat": "two attention layers in one block",
    "mamba": "no attention",
    "rwkv": "no attention",
    "recurrent_gemma": "attention mixed with recurrent layers",
    "mllama": "cross-attention layers",
    "whisper": "cross-attention layers",
    "bidir": "an embedding model, which keeps no KV cache",
    "dream": "a diffusion model, which writes no token after another",
    "llada": "a diffusion model, which writes no token after another",
    "sdar": "a diffusion model, which writes no token after another",
}
_LATENT_TYPES = frozenset(
    ("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa", "glm4_moe_lite", "pangu_ultra_moe", "axk1")
)
_INDEXED_TYPES = frozenset(("deepseek_v32", "glm_moe_dsa"))
_DELTA_TYPES = frozenset(("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"))
_INDEXER_SCALE_BYTES = 4
# Types whose class assumes something else than the general rule where the config is silent.
_NEED_HEAD_DIM = ("gemma", "qwen3", "gpt_oss", "glm4", "seed_oss", "helium", "ernie4_5", "cohere2_moe", "minimax")
_NEED_WINDOW = ("mistral", "gemma2", "gemma3", "cohere2", "gpt_oss", "olmo3", "exaone4", "ministral", "smollm3")
_HEADS_ARE_KV_HEADS = frozenset(("llama", "olmo", "phi", "gpt_neox", "opt"))
_WINDOW_EVERYWHERE = frozenset(("mistral", "mixtral", "phi3", "phimoe", "starcoder2"))
_PATTERN_TYPES = {"gemma3_text": 6, "gemma3": 6, "cohere2": 4}  # one full layer in so many, where not told
_PATTERN_FIELDS = ("sliding_window_pattern", "_sliding_window_pattern")
_MTP_FIELDS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "mtp_transformer_layers")


class _Reader:
    """The fields of a config, and which of them have been read."""

    def __init__(self, config: ModelConfig) -> None:
        self.fields = config.fields
        self.type = config.model_type or ""
        self.used = {"model_type", "architectures", "dtype", "torch_dtype", "text_config"}

    def get(self, name: str) -> Any:
        """Return a field's value, or None."""
        self.used.add(name)
        return self.fields.get(name)

    def need(self, name: str) -> int:
        """Return a field that is a count above zero; raise LayoutError for any other."""
        value = self.get(name)
        if value is None:
            raise LayoutError(f"unsupported layout: {name} is absent")
        number = count(value)
        if not number:
            raise LayoutError(f"unsupported layout: {name} is {_shown(value)}, not a count")
        return number

    def optional(self, name: str) -> int | None:
        """Return a field that is a count, None where it is absent, null or zero."""
        return self.need(name) if self.get(name) else None


def kv_layout(config: ModelConfig) -> KvLayout:
    """Return how the model's KV cache is laid out; raise LayoutError where that is not known for certain."""
    reader = _Reader(config)
    _refuse(reader)
    layout = _kind(reader)(reader)
    names = unexplained(reader.fields, reader.used)
    if names:
        told = f"{_shown(names[0])} = {_shown(reader.fields[names[0]])}"
        raise LayoutError(
            f"unsupported layout: {_shown(reader.type)}: {told} may change the KV cache in a way that is not known"
        )
    return layout


def _refuse(reader: _Reader) -> None:
    for name, why in _REFUSED.items():
        if reader.type.lower().startswith(name):
            raise LayoutError(f"unsupported layout: {_shown(reader.type)}: {why}")
    if reader.get("is_encoder_decoder"):
        raise LayoutError("unsupported layout: an encoder-decoder model")
    for name, both_ways in (("is_causal", False), ("use_bidirectional_attention", True)):
        if reader.get(name) is both_ways:
            raise LayoutError(f"unsupported layout: {name} = {both_ways}: an embedding model, which keeps no KV cache")
    if reader.fields.get("mask_token_id") is not None:
        raise LayoutError("unsupported layout: mask_token_id: a model that fills in masks, not one token after another")
    if reader.type in _LATENT_TYPES and "kv_lora_rank" not in reader.fields:
        raise LayoutError("unsupported layout: kv_lora_rank is absent")


def _kind(reader: _Reader) -> Callable[[_Reader], KvLayout]:
    if reader.fields.get("kv_lora_rank") is not None:
        return _latent
    if reader.type in _DELTA_TYPES:
        return _delta
    return _nemotron_h if reader.type == "nemotron_h" else _attention


# MLA: one latent for all heads.


def _latent(reader: _Reader) -> KvLayout:
    if reader.type not in _LATENT_TYPES:
        raise LayoutError(f"unsupported layout: kv_lora_rank in a model type not known for it: {_shown(reader.type)}")
    latent, rope = reader.need("kv_lora_rank"), reader.need("qk_rope_head_dim")
    head_dim = reader.get("head_dim")
    if head_dim not in (None, 0, rope, latent + rope):
        raise LayoutError(f"unsupported layout: head_dim = {_shown(head_dim)} beside a latent of {latent}+{rope}")
    for name in ("q_lora_rank", "qk_nope_head_dim", "qk_head_dim", "v_head_dim", "num_key_value_heads"):
        reader.get(name)  # of the weights alone: the cache holds the latent
    return KvLayout(
        latent=LatentLayers(
            layers=_layers(reader), latent_dim=latent, rope_dim=rope, indexer_bytes=_indexer_bytes(reader)
        ),
        heads=reader.need("num_attention_heads"),
        max_tokens=_max_tokens(reader),
        draft_layers=_draft_layers(reader),
    )


def _indexer_bytes(reader: _Reader) -> int:
    if reader.type not in _INDEXED_TYPES:
        return 0
    types = reader.get("indexer_types")
    if types is not None and (not isinstance(types, list) or any(kind != "full" for kind in types)):
        raise LayoutError("unsupported layout: indexer_types: indexers that layers share")
    dim = reader.need("index_head_dim")
    reader.need("index_topk")
    reader.get("index_n_heads")
    return dim + _INDEXER_SCALE_BYTES


# Attention alone: multi-head, grouped, multi-query, with sliding layers or without.


def _attention(reader: _Reader) -> KvLayout:
    layers, heads = _layers(reader), reader.need("num_attention_heads")
    kv_heads, dim = _kv_heads(reader, heads), _head_dim(reader, heads)
    if any(kind != 1 for kind in _listed(reader, "attn_type_list")):  # MiniMax: 1 is softmax attention
        raise LayoutError("unsupported layout: attn_type_list: attention mixed with linear attention")
    window, sliding = _sliding(reader, layers)
    if reader.type.startswith("gemma3n") and "num_kv_shared_layers" not in reader.fields:
        raise LayoutError("unsupported layout: num_kv_shared_layers is absent")
    shared = reader.optional("num_kv_shared_layers") or 0  # the last ones use the cache of earlier layers
    if shared >= layers:
        raise LayoutError(f"unsupported layout: num_kv_shared_layers is {shared} of {layers} layers")
    own = sliding[: layers - shared]
    full = AttentionLayers(layers=own.count(False), kv_heads=kv_heads, head_dim=dim)
    slides = AttentionLayers(layers=own.count(True), kv_heads=kv_heads, head_dim=dim, window_tokens=window)
    return KvLayout(
        attention=tuple(group for group in (full, slides) if group.layers),
        heads=heads,
        max_tokens=_max_tokens(reader),
        draft_layers=_draft_layers(reader),
    )


def _kv_heads(reader: _Reader, heads: int) -> int:
    if reader.get("num_key_value_heads") is None and reader.type in _HEADS_ARE_KV_HEADS:
        return heads
    kv_heads = reader.need("num_key_value_heads")
    if kv_heads > heads or heads % kv_heads:
        raise LayoutError(f"unsupported layout: {kv_heads} KV heads do not divide {heads} attention heads")
    return kv_heads


def _head_dim(reader: _Reader, heads: int) -> int:
    dim = reader.optional("head_dim")
    if reader.type == "nemotron_h":
        dim = dim or reader.optional("attention_head_dim")
    if dim is None:
        hidden = reader.need("hidden_size")
        if hidden % heads or reader.type.startswith(_NEED_HEAD_DIM):
            raise LayoutError("unsupported layout: head_dim is absent, and is not hidden_size / num_attention_heads")
        dim = hidden // heads
    reader.get("hidden_size")
    value_dim = reader.optional("v_head_dim")
    if value_dim not in (None, dim):
        raise LayoutError(f"unsupported layout: keys of {dim} elements, values of {value_dim} (v_head_dim)")
    return dim


def _sliding(reader: _Reader, layers: int) -> tuple[int | None, list[bool]]:
    """Return the window in tokens, and for each layer whether it slides."""
    if "sliding_window" not in reader.fields and reader.type.startswith(_NEED_WINDOW):
        raise LayoutError("unsupported layout: sliding_window is absent, and its default depends on the version")
    window = reader.optional("sliding_window")
    if reader.get("sliding_window_size") not in (None, window):
        raise LayoutError("unsupported layout: sliding_window and sliding_window_size differ")
    kinds = _listed(reader, "layer_types")
    uses = _uses_window(reader)
    pattern = _pattern(reader)
    if kinds:
        _restated(reader, kinds)
        return window, _by_kind(kinds, layers, window)
    if window is None or uses is False:
        return None, [False] * layers
    if pattern:
        return window, [(i + 1) % pattern != 0 for i in range(layers)]
    if reader.type == "gemma2":
        return window, [i % 2 == 0 for i in range(layers)]
    if reader.type in _WINDOW_EVERYWHERE and uses is None:
        return window, [True] * layers
    raise LayoutError(f"unsupported layout: sliding_window = {window}, but not which layers slide")


def _uses_window(reader: _Reader) -> object:
    """Return ``use_sliding_window`` as told."""
    reader.get("max_window_layers")
    if reader.get("full_attn_mod") not in (None, 1):
        raise LayoutError("unsupported layout: full_attn_mod: full attention in some layers alone")
    return reader.get("use_sliding_window")


def _pattern(reader: _Reader) -> int | None:
    """Return one full layer in how many, for the types that say it so."""
    if reader.type not in _PATTERN_TYPES:
        return None
    told = {number for name in _PATTERN_FIELDS if (number := reader.optional(name))}
    if len(told) > 1:
        raise LayoutError(f"unsupported layout: {' and '.join(_PATTERN_FIELDS)} differ")
    if reader.get("order_of_interleaved_layers") not in (None, "local_attn_first"):
        raise LayoutError("unsupported layout: order_of_interleaved_layers: not the sliding layers first")
    return told.pop() if told else _PATTERN_TYPES[reader.type]


def _restated(reader: _Reader, kinds: list[Any]) -> None:
    """Take note of fields that say over again what ``layer_types`` says of each layer; refuse a contradiction."""
    if reader.get("use_sliding_window") is False and "sliding_attention" in kinds:
        raise LayoutError("unsupported layout: use_sliding_window is false, and layer_types names sliding layers")
    for name in (*_PATTERN_FIELDS, "global_attn_every_n_layers", "order_of_interleaved_layers"):
        reader.get(name)


def _by_kind(kinds: list[Any], layers: int, window: int | None) -> list[bool]:
    if len(kinds) != layers:
        raise LayoutError(f"unsupported layout: {len(kinds)} layer_types for {layers} layers")
    for kind in kinds:
        if kind not in ("full_attention", "sliding_attention"):
            raise LayoutError(f"unsupported layout: a layer of type {_shown(kind)}")
    if "sliding_attention" in kinds and window is None:
        raise LayoutError("unsupported layout: sliding layers without a sliding_window")
    return [kind == "sliding_attention" for kind in kinds]


# Hybrids: some layers keep a state of constant size.


def _delta(reader: _Reader) -> KvLayout:
    """Gated delta networks: Qwen3-Next and Qwen3.5."""
    layers, heads = _layers(reader), reader.need("num_attention_heads")
    key_heads, value_heads = reader.need("linear_num_key_heads"), reader.need("linear_num_value_heads")
    key_dim, value_dim = reader.need("linear_key_head_dim"), reader.need("linear_value_head_dim")
    interval = reader.optional("full_attention_interval")
    kinds = _listed(reader, "layer_types")
    if not kinds and interval:
        kinds = ["linear_attention" if (i + 1) % interval else "full_attention" for i in range(layers)]
    full = _counted(kinds, layers, ("full_attention",), ("linear_attention",))
    return _hybrid(
        reader,
        heads,
        full,
        StateLayers(
            layers=layers - full,
            channels=2 * key_heads * key_dim + value_heads * value_dim,
            heads=value_heads,
            head_elements=key_dim * value_dim,
            kernel=reader.need("linear_conv_kernel_dim"),
            state_bytes=_state_element(reader.get("mamba_ssm_dtype")),
        ),
    )


def _nemotron_h(reader: _Reader) -> KvLayout:
    """Mamba-2 layers with some of attention, and others without any memory of a sequence."""
    words = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
    pattern = reader.get("hybrid_override_pattern")
    kinds = _listed(reader, "layers_block_type")
    if isinstance(pattern, str) and not kinds:
        kinds = [words.get(letter, letter) for letter in pattern]
    for name in ("expand", "chunk_size", "use_mamba_kernels", "mamba_hidden_act", "mamba_proj_bias", "use_conv_bias"):
        reader.get(name)
    layers = _layers(reader) if reader.get("num_hidden_layers") is not None else len(kinds)
    full = _counted(kinds, layers, ("attention",), ("mamba", "mlp", "moe"))
    heads, size = reader.need("mamba_num_heads"), reader.need("mamba_head_dim")
    state = reader.need("ssm_state_size")
    if reader.get("sliding_window"):
        raise LayoutError("unsupported layout: a hybrid model with a sliding window")
    return _hybrid(
        reader,
        reader.need("num_attention_heads"),
        full,
        StateLayers(
            layers=kinds.count("mamba"),
            channels=heads * size,
            groups=reader.need("n_groups"),
            group_channels=2 * state,
            heads=heads,
            head_elements=size * state,
            kernel=reader.need("conv_kernel"),
            state_bytes=_state_element(reader.get("mamba_ssm_cache_dtype")),
        ),
    )


def _hybrid(reader: _Reader, heads: int, full: int, state: StateLayers) -> KvLayout:
    group = AttentionLayers(layers=full, kv_heads=_kv_heads(reader, heads), head_dim=_head_dim(reader, heads))
    return KvLayout(
        attention=(group,), state=state, heads=heads, max_tokens=_max_tokens(reader), draft_layers=_draft_layers(reader)
    )


def _counted(kinds: list[Any], layers: int, wanted: tuple[str, ...], others: tuple[str, ...]) -> int:
    if not kinds or len(kinds) != layers:
        raise LayoutError(f"unsupported layout: the kinds of {len(kinds)} layers are told, of {layers}")
    for kind in kinds:
        if kind not in wanted and kind not in others:
            raise LayoutError(f"unsupported layout: a layer of type {_shown(kind)}")
    found = sum(kind in wanted for kind in kinds)
    if found in (0, layers):
        raise LayoutError("unsupported layout: a hybrid model without attention layers, or without others")
    return found


def _state_element(dtype: object) -> int:
    sizes = {None: 2, "auto": 2, "bfloat16": 2, "float16": 2, "float32": 4}
    if not (dtype is None or isinstance(dtype, str)) or dtype not in sizes:
        raise LayoutError(f"unsupported layout: recurrent states of type {_shown(dtype)}")
    return sizes[dtype]


# What every layout has.


def _layers(reader: _Reader) -> int:
    layers = reader.need("num_hidden_layers")
    if layers > MAX_LAYERS:
        raise LayoutError(f"unsupported layout: num_hidden_layers is {layers}")
    return layers


def _max_tokens(reader: _Reader) -> int | None:
    told = reader.optional("max_position_embeddings")
    return None if told is None else max(told, _stretched(reader) or 0)


def _stretched(reader: _Reader) -> int | None:
    """Return the context that YaRN makes of the one that the model was trained with, None without YaRN."""
    for scaling in (reader.get("rope_scaling"), reader.get("rope_parameters")):
        if isinstance(scaling, dict) and "yarn" in (scaling.get("rope_type"), scaling.get("type")):
            own, factor = count(scaling.get("original_max_position_embeddings")), scaling.get("factor")
            if own and isinstance(factor, (int, float)) and 1 <= factor <= MAX_STRETCH:
                return int(own * factor)
    return None


def _draft_layers(reader: _Reader) -> int:
    """Return how many layers with attention the model's own draft (MTP) adds when it speculates."""
    for name in ("use_mtp", "mtp_use_dedicated_embeddings", "index_share_for_mtp_iteration"):
        reader.get(name)
    kinds = _listed(reader, "mtp_layers_block_type") or list(reader.get("mtp_hybrid_override_pattern") or "")
    told = [number for name in _MTP_FIELDS if (number := reader.optional(name))]
    if kinds:
        return sum(kind in ("attention", "*") for kind in kinds) * max(told, default=1)
    return max(told, default=0)


def _listed(reader: _Reader, name: str) -> list[Any]:
    value = reader.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > MAX_LAYERS:
        raise LayoutError(f"unsupported layout: {name} is not a list of layers")
    return value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
