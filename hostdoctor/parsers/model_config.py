"""A model's ``config.json`` in Hugging Face's format: one JSON object, the language model's part in ``text_config``."""

import json
import math
from typing import Any

from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact

MAX_CHARACTERS = 16 << 20
MAX_NAME = 200
_PARTS = ("text_config", "llm_config", "language_config")  # where models of several kinds keep the language model
_OF_THE_WHOLE = ("is_encoder_decoder", "is_causal")  # told beside the language model, and true of it
MAX_COUNT = 1 << 40  # no count of layers, heads, channels or tokens is larger


class ModelConfig(Fact, frozen=True, kw_only=True):
    """What a config says of the language model. ``fields`` are as in the file, those of ``text_config`` where present.

    ``dtype`` is the type of the weights' elements as told (``dtype`` or ``torch_dtype``), None where it is not told;
    ``kv_scheme`` what the quantization part says of a quantized KV cache.
    """

    source: str
    model_type: str | None = None
    architecture: str | None = None
    dtype: str | None = None
    kv_scheme: str | None = None
    fields: dict[str, Any] = {}  # noqa: RUF012  msgspec copies it


def parse_model_config(text: str, source: str) -> ModelConfig:
    """Return what the text says; raise ParseError for anything but a JSON object that describes a model."""
    return model_config(_object(text, source), source)


def model_config(whole: dict[str, Any], source: str) -> ModelConfig:
    """Return what a config's object says; raise ParseError where it describes no model."""
    part = next((name for name in _PARTS if whole.get(name)), "text_config")
    if part != "text_config" and "num_hidden_layers" in whole:
        part = "text_config"
    nested = whole.get(part)
    if nested is not None and not isinstance(nested, dict):
        raise ParseError(source, 0, part, "not an object")
    fields: dict[str, Any] = (
        {name: whole[name] for name in _OF_THE_WHOLE if name in whole} | nested if nested else whole
    )
    model_type = _text(fields.get("model_type")) or _text(whole.get("model_type"))
    if model_type is None and "num_hidden_layers" not in fields:
        raise ParseError(
            source, 0, ", ".join(whole)[:60], "no model_type and no num_hidden_layers: not a model's config.json"
        )
    names = whole.get("architectures")
    return ModelConfig(
        source=source,
        model_type=model_type,
        architecture=_text(names[0]) if isinstance(names, list) and names else None,
        dtype=next((found for part in (fields, whole) if (found := _dtype(part))), None),
        kv_scheme=next((found for part in (whole, fields) if (found := _kv_scheme(part))), None),
        fields=fields,
    )


def parse_quantized_cache(text: str, source: str) -> str | None:
    """Return what modelopt's ``hf_quant_config.json`` says of the cache; raise ParseError for no JSON object."""
    return quantized_cache(_object(text, source))


def count(value: object) -> int | None:
    """Return a count (a whole number from 0), or None for any other value; JSON's 8.0 is 8."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and not (math.isfinite(value) and value.is_integer()):
        return None
    return int(value) if 0 <= value <= MAX_COUNT else None


def _object(text: str, source: str) -> dict[str, Any]:
    if len(text) > MAX_CHARACTERS:
        raise ParseError(source, 0, "", f"more than {MAX_CHARACTERS >> 20} MiB")
    try:
        found = json.loads(text.lstrip("\ufeff"))
    except json.JSONDecodeError as error:
        line = text.splitlines()[error.lineno - 1 : error.lineno] if len(text) < (1 << 20) else []
        raise ParseError(source, error.lineno, "".join(line), f"not JSON ({error.msg})") from None
    except RecursionError:
        raise ParseError(source, 0, text[:60], "nested too deeply") from None
    except ValueError:
        raise ParseError(source, 0, text[:60], "a number with too many digits") from None
    if not isinstance(found, dict):
        raise ParseError(source, 0, text[:60], "not a JSON object")
    return found


def _text(value: object) -> str | None:
    """Return a name, fit for every output and not longer than names are; None for anything else."""
    if not isinstance(value, str) or not value:
        return None
    return value[:MAX_NAME].encode("utf-8", "replace").decode()


def _dtype(part: dict[str, Any]) -> str | None:
    name = _text(part.get("dtype")) or _text(part.get("torch_dtype"))
    return name.removeprefix("torch.") if name else None


def _kv_scheme(part: dict[str, Any]) -> str | None:
    """Return what ``quantization_config`` says of the cache, in compressed-tensors', modelopt's or Quark's words."""
    found = part.get("quantization_config")
    return quantized_cache(found) if isinstance(found, dict) else None


def quantized_cache(found: dict[str, Any]) -> str | None:
    """Return what a quantization says of the KV cache in its ``kv_cache_…`` fields, None where it says nothing."""
    nested = found.get("quantization")
    told = found | nested if isinstance(nested, dict) else found
    for name, value in told.items():
        if name.startswith("kv_cache_") and value:
            if isinstance(value, dict):
                return f"{value.get('num_bits', '?')}-bit {value.get('type', '')}".strip()[:MAX_NAME]
            return _text(value) or _text(name)
    return None
