"""Parameter shapes from a model's own files: config.json, else the headers of its safetensors files."""

from typing import Any

import msgspec

from hostdoctor.budget.rounding import Layers, layers_of_config, layers_of_header
from hostdoctor.errors import ParseError, UsageError
from hostdoctor.parsers.safetensors_header import parse_safetensors_header
from hostdoctor.sources.base import Source

MAX_SHARDS = 2000
QUANTIZATION = "hf_quant_config.json"  # modelopt's, beside a config.json that says nothing of it


def read_config(text: bytes | None, path: str) -> dict[str, Any]:
    """Return config.json's object; raise UsageError for what is not one."""
    if text is None:
        raise UsageError(f"--config: cannot be read: {path[:80]!r}")
    try:
        config = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UsageError(f"--config {path[:80]!r}: not JSON: {error}") from error
    if not isinstance(config, dict):
        raise UsageError(f"--config {path[:80]!r}: no JSON object")
    return config


def with_quantization(config: dict[str, Any], beside: bytes | None) -> dict[str, Any]:
    """Return the config with what ``hf_quant_config.json`` beside it says of the weights; any such file says enough."""
    return config if beside is None else {"quantization_config": {"quant_method": "modelopt"}} | config


def layers_of_model(source: Source, folder: str, tp: int) -> tuple[Layers | None, str]:
    """Return a model's layers on one rank and which file told them; None where no file tells them."""
    data = source.read_bytes(f"{folder}/config.json")
    if data is not None:
        config = read_config(data, f"{folder}/config.json")
        layers = layers_of_config(with_quantization(config, source.read_bytes(f"{folder}/{QUANTIZATION}")), tp)
        if layers is not None:
            return layers, f"{folder}/config.json"
    tensors: dict[str, Any] = {}
    shards = [name for name in source.listdir(folder) if name.endswith(".safetensors")][:MAX_SHARDS]
    for name in shards:
        shard = source.read_bytes(f"{folder}/{name}")
        try:
            tensors |= parse_safetensors_header(shard or b"", name)
        except ParseError:
            return None, ""
    return (layers_of_header(tensors, tp) if tensors and data is None else None), f"{folder}/*.safetensors"
