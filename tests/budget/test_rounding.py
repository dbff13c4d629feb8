"""What offloaded weights pin: each parameter rounded up to a power of two."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.budget.model_files import layers_of_model
from hostdoctor.budget.rounding import (
    Layers,
    largest_asked,
    layers_of_config,
    layers_of_header,
    offloaded_bytes,
    pinned_bytes,
    rounding_factor,
)
from hostdoctor.errors import UsageError
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import DiskTree

MIB, GIB = 1 << 20, 1 << 30
LLAMA_8B = {
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 32,
}
LLAMA_70B = LLAMA_8B | {
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_attention_heads": 64,
    "num_hidden_layers": 80,
}


def told(config: dict[str, Any], tp: int = 1) -> Layers:
    layers = layers_of_config(config, tp)
    assert layers is not None
    return layers


def test_8b_on_one_gpu_pins_1_154_times_its_layers() -> None:
    layers = told(LLAMA_8B)
    assert [size // MIB for size in layers.parameter_bytes] == [48, 32, 224, 112]
    assert pinned_bytes(layers.parameter_bytes) == 480 * MIB
    assert rounding_factor(layers.parameter_bytes) == pytest.approx(1.154, abs=0.0005)


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_70b_pins_1_176_times_on_each_of_1_2_4_ranks(tp: int) -> None:
    assert rounding_factor(told(LLAMA_70B, tp).parameter_bytes) == pytest.approx(1.176, abs=0.0005)


def test_a_kv_tensor_just_above_2_gib_pins_4() -> None:
    assert pinned_bytes([2_236_817_408]) == 4 * GIB  # vllm#53042


def test_heads_are_replicated_when_there_are_more_ranks_than_kv_heads() -> None:
    assert told(LLAMA_70B, 16).parameter_bytes[0] == (64 // 16 + 2) * 128 * 8192 * 2


def test_an_own_head_dim_and_the_text_part_of_a_larger_model_count() -> None:
    wide = LLAMA_8B | {"head_dim": 256}
    assert told(wide).parameter_bytes[1] == 4096 * 32 * 256 * 2
    assert told({"text_config": LLAMA_8B, "model_type": "something_vl"}) == told(LLAMA_8B)


@pytest.mark.parametrize(
    "other",
    [
        {"model_type": "mixtral"},
        {"num_local_experts": 8},
        {"kv_lora_rank": 512},
        {"quantization_config": {"quant_method": "fp8"}},
        {"quantization_config": {"quant_method": "fp8"}, "text_config": LLAMA_8B},
        {"torch_dtype": "float8"},
        {"hidden_size": None},
        {"hidden_size": -4096},
        {"hidden_size": "4096"},
        {"hidden_size": True},
        {"num_key_value_heads": 0},
        {"num_hidden_layers": 10**9},
        {"hidden_size": 10**30},
    ],
)
def test_other_models_are_not_guessed(other: dict[str, Any]) -> None:
    assert layers_of_config(LLAMA_8B | other, 1) is None


@pytest.mark.parametrize("tp", [3, 7, 64])
def test_ranks_that_do_not_divide_the_heads_have_no_shapes(tp: int) -> None:
    assert layers_of_config(LLAMA_8B, tp) is None


def test_whole_layers_then_parameters_until_the_size_is_reached() -> None:
    layers = told(LLAMA_8B)
    assert offloaded_bytes(layers, 0) == 0
    assert offloaded_bytes(layers, 1) == 64 * MIB
    assert offloaded_bytes(layers, 49 * MIB) == (64 + 32) * MIB
    assert offloaded_bytes(layers, 416 * MIB) == 480 * MIB
    assert offloaded_bytes(layers, 10_000 * GIB) == 32 * 480 * MIB  # the model ends


@given(st.integers(0, 64 * GIB))
def test_the_largest_that_can_be_asked_pins_no_more_than_there_is(room: int) -> None:
    layers = told(LLAMA_8B)
    asked = largest_asked(room, layers, 1.0)
    assert offloaded_bytes(layers, asked) <= room


@given(st.lists(st.integers(1, 1 << 40), min_size=1))
def test_rounding_never_doubles(sizes: list[int]) -> None:
    assert 1.0 <= rounding_factor(sizes) < 2.0
    assert all(pinned_bytes([size]).bit_count() == 1 for size in sizes)


def header(
    hidden: int = 4096, inter: int = 14336, kv: int = 1024, layers: int = 2, dtype: str = "BF16"
) -> dict[str, Any]:
    shapes = {
        "self_attn.q_proj": [hidden, hidden],
        "self_attn.k_proj": [kv, hidden],
        "self_attn.v_proj": [kv, hidden],
        "self_attn.o_proj": [hidden, hidden],
        "mlp.gate_proj": [inter, hidden],
        "mlp.up_proj": [inter, hidden],
        "mlp.down_proj": [hidden, inter],
    }
    tensors: dict[str, Any] = {
        f"model.layers.{layer}.{name}.weight": {"dtype": dtype, "shape": shape}
        for layer in range(layers)
        for name, shape in shapes.items()
    }
    return tensors | {"model.layers.0.input_layernorm.weight": {"dtype": dtype, "shape": [hidden]}}


def test_headers_tell_the_same_as_the_config() -> None:
    layers = layers_of_header(header(), 1)
    assert layers is not None
    assert layers.parameter_bytes == told(LLAMA_8B).parameter_bytes
    two = layers_of_header(header(), 2)
    assert two is not None
    assert two.parameter_bytes == told(LLAMA_8B, 2).parameter_bytes


@pytest.mark.parametrize(
    ("tensors", "tp"),
    [
        ({}, 1),
        (header(dtype="F8_E4M3"), 1),
        (header(), 8),
        (header() | {"model.layers.0.mlp.experts.0.up_proj.weight": {"dtype": "BF16", "shape": [2, 2]}}, 1),
        (header() | {"model.layers.1.mlp.up_proj.weight": {"dtype": "BF16", "shape": [2, 2]}}, 1),
        (header() | {"model.layers.1.mlp.up_proj.weight": 3}, 1),
    ],
)
def test_headers_of_other_models_are_not_guessed(tensors: dict[str, Any], tp: int) -> None:
    assert layers_of_header(tensors, tp) is None


def write_shard(path: Path, tensors: dict[str, Any]) -> None:
    text = json.dumps(tensors | {"__metadata__": {"format": "pt"}}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"\0" * 64)


def test_a_model_folder_tells_by_its_config_else_by_its_headers(tmp_path: Path) -> None:
    source = RootSource(DiskTree(str(tmp_path)), "x")
    assert layers_of_model(source, "/", 1)[0] is None
    write_shard(tmp_path / "model-1.safetensors", {k: v for k, v in header().items() if ".0." in k})
    write_shard(tmp_path / "model-2.safetensors", {k: v for k, v in header().items() if ".1." in k})
    layers, path = layers_of_model(source, "", 1)
    assert layers is not None
    assert (layers.layers, path) == (2, "/*.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B))
    layers, path = layers_of_model(source, "", 1)
    assert layers is not None
    assert (layers.layers, path) == (32, "/config.json")


def test_a_broken_shard_tells_nothing_and_a_broken_config_is_said(tmp_path: Path) -> None:
    source = RootSource(DiskTree(str(tmp_path)), "x")
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 4096)
    assert layers_of_model(source, "", 1)[0] is None
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(UsageError, match="no JSON object"):
        layers_of_model(source, "", 1)
