"""What offloaded weights really pin: PyTorch's pinned allocator rounds each parameter up to a power of two.

vLLM's and SGLang's ``--cpu-offload-gb`` pin the layers' parameters one by one (``Tensor.pin_memory()``), as the engine
holds them: q, k and v in one, gate and up in one, each tensor-parallel rank with its part. Norms and biases are a few
KiB and are left out. Llama 8B in bf16 has 48, 32, 224 and 112 MiB a layer, which pin 64, 32, 256 and 128: 1.154 times.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from hostdoctor.facts import Fact

# Rounding up to a power of two stays below twice; vllm#56410 and vllm#53042 saw 1.9.
WORST_FACTOR = 2.0
PAGE_BYTES = 4096
_DENSE = frozenset(("llama", "mistral", "qwen2", "qwen3"))
_ELEMENT_BYTES = {"bfloat16": 2, "float16": 2, "float32": 2}  # engines load float32 checkpoints as 16 bits
_HEADER_BYTES = {"BF16": 2, "F16": 2, "F32": 2}
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "kv_lora_rank", "quantization_config")
MAX_LAYERS, MAX_SIZE = 10_000, 1 << 40


class Layers(Fact, frozen=True, kw_only=True):
    """The parameters of each layer on one rank, in bytes, in the order in which they are offloaded."""

    parameter_bytes: tuple[int, ...]
    layers: int


def pinned_bytes(parameter_bytes: Iterable[int]) -> int:
    """Return what parameters of these sizes pin, each rounded up to a power of two; no parameter pins nothing."""
    return sum(1 << (size - 1).bit_length() for size in parameter_bytes if size > 0)


def rounding_factor(parameter_bytes: Iterable[int]) -> float:
    """Return pinned bytes over asked bytes, 1.0 for no parameters."""
    sizes = tuple(parameter_bytes)
    return pinned_bytes(sizes) / sum(sizes) if sum(sizes) else 1.0


def offloaded_bytes(layers: Layers, asked_bytes: int) -> int:
    """Return what a rank pins when it is to offload so many bytes: layer by layer until they are reached."""
    whole = sum(layers.parameter_bytes)
    full = min(asked_bytes // whole, layers.layers) if whole else 0
    pinned = full * pinned_bytes(layers.parameter_bytes)
    left = asked_bytes - full * whole
    if full == layers.layers:
        return pinned
    for size in layers.parameter_bytes:
        if left <= 0:
            break
        pinned += pinned_bytes((size,))
        left -= size
    return pinned


def largest_asked(pinned: int, layers: Layers | None, factor: float) -> int:
    """Return the most that can be asked of a rank so that it pins no more than ``pinned`` bytes."""
    if layers is None:
        return int(pinned / factor)
    each, whole = pinned_bytes(layers.parameter_bytes), sum(layers.parameter_bytes)
    full = min(pinned // each, layers.layers)
    asked, left = full * whole, pinned - full * each
    if full == layers.layers:
        return asked
    for size in layers.parameter_bytes:
        left -= pinned_bytes((size,))
        if left < 0:
            break
        asked += size
    return asked


def layers_of_config(config: Mapping[str, Any], tp: int) -> Layers | None:
    """Return the fused parameters of a dense Llama-like decoder on one of ``tp`` ranks, None for any other model.

    ``config`` is Hugging Face's config.json. Experts, latent attention and quantized weights are other models.
    """
    text = config.get("text_config")
    if config.get("quantization_config"):
        return None
    config = text if isinstance(text, Mapping) else config
    element = _ELEMENT_BYTES.get(str(config.get("torch_dtype") or config.get("dtype")))
    if config.get("model_type") not in _DENSE or element is None or any(config.get(key) for key in _EXPERTS):
        return None
    names = ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers")
    sizes = [_size(config.get(name)) for name in names]
    hidden, inter, heads, layers = sizes
    kv_heads = heads if config.get("num_key_value_heads") is None else _size(config["num_key_value_heads"])
    if not all(sizes) or not kv_heads or layers > MAX_LAYERS or heads % tp or inter % tp or not _splits(kv_heads, tp):
        return None
    head_dim = _size(config.get("head_dim")) or hidden // heads
    q, kv, part = heads // tp * head_dim, max(1, kv_heads // tp) * head_dim, inter // tp
    shapes = ((q + 2 * kv, hidden), (hidden, q), (2 * part, hidden), (hidden, part))
    return Layers(parameter_bytes=tuple(rows * columns * element for rows, columns in shapes), layers=layers)


def layers_of_header(tensors: Mapping[str, Any], tp: int) -> Layers | None:
    """Return the same from safetensors headers (tensor name -> dtype and shape), None where they show another model.

    The heads are not in a header: keys and values of less than 256 rows a rank may be replicated, which is not known.
    """
    layers: dict[str, dict[str, tuple[int, int, int]]] = {}
    for name, tensor in tensors.items():
        found = _layer_tensor(name)
        if found is None:
            continue
        shape = _matrix(tensor)
        if shape is None:
            return None
        layers.setdefault(found[0], {})[found[1]] = shape
    first = next(iter(layers.values()), {})
    if set(first) != set(_FUSED) or any(layer != first for layer in layers.values()):
        return None
    rows = {part: first[part][0] * first[part][1] * first[part][2] for part in first}
    if any(size % tp for size in rows.values()) or (tp > 1 and first["k_proj"][0] // tp < 256):
        return None
    fused = (("q_proj", "k_proj", "v_proj"), ("o_proj",), ("gate_proj", "up_proj"), ("down_proj",))
    return Layers(parameter_bytes=tuple(sum(rows[part] for part in parts) // tp for parts in fused), layers=len(layers))


_FUSED = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def _layer_tensor(name: str) -> tuple[str, str] | None:
    """Return the layer and the part of ``model.layers.3.self_attn.q_proj.weight``; norms and embeddings are none."""
    parts = name.split(".")
    if "layers" not in parts or parts[-1] != "weight" or len(parts) < 4 or "norm" in parts[-2]:
        return None
    return parts[parts.index("layers") + 1], parts[-2] if "experts" not in parts else name


def _matrix(tensor: Any) -> tuple[int, int, int] | None:
    """Return rows, columns and bytes an element of a 16- or 32-bit matrix."""
    if not isinstance(tensor, Mapping):
        return None
    shape, element = tensor.get("shape"), _HEADER_BYTES.get(str(tensor.get("dtype")))
    if element is None or not isinstance(shape, list) or len(shape) != 2 or not all(_size(n) for n in shape):
        return None
    return shape[0], shape[1], element


def _splits(kv_heads: int, tp: int) -> bool:
    """Tell whether the ranks can share the heads: whole heads each, or whole ranks to a head."""
    return kv_heads % tp == 0 or tp % kv_heads == 0


def _size(value: Any) -> int:
    """Return a positive integer, 0 for anything else."""
    return value if type(value) is int and 0 < value < MAX_SIZE else 0
