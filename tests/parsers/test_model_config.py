"""A model's config.json: the language model's part, its types, and nothing but ParseError on anything else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.budget.kv import KvOptions, kv_cost
from hostdoctor.budget.layout import kv_layout
from hostdoctor.errors import LayoutError, ParseError
from hostdoctor.parsers.model_config import MAX_CHARACTERS, MAX_NAME, count, parse_model_config
from tests.budget.models import DEEPSEEK_V32, GPT_OSS_120B, LLAMA_8B, NEMOTRON_NANO_30B, QWEN35_35B


def test_the_language_model_s_part_is_read() -> None:
    inner = {"model_type": "x_text", "num_hidden_layers": 2}
    text = json.dumps({"model_type": "x", "architectures": ["XForAll"], "dtype": "bfloat16", "text_config": inner})
    found = parse_model_config("\ufeff" + text, "a.json")
    assert (found.source, found.model_type, found.architecture, found.dtype) == (
        "a.json",
        "x_text",
        "XForAll",
        "bfloat16",
    )
    assert found.fields == inner


@pytest.mark.parametrize(
    ("more", "dtype"),
    [
        ({"dtype": "float16"}, "float16"), ({"torch_dtype": "torch.bfloat16"}, "bfloat16"),
        ({"torch_dtype": None}, None), ({}, None),
    ],
)  # fmt: skip
def test_the_type_of_elements(more: dict[str, Any], dtype: str | None) -> None:
    assert parse_model_config(json.dumps({"model_type": "x"} | more), "c").dtype == dtype


@pytest.mark.parametrize(
    ("quantization", "scheme"),
    [
        ({"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "8-bit float"), ({"kv_cache_scheme": None}, None),
        ({"quantization": {"kv_cache_quant_algo": "FP8"}}, "FP8"), ({"kv_cache_quant_algo": "NVFP4"}, "NVFP4"),
        ({"quant_method": "fp8"}, None), ("fp8", None), ({"kv_cache_scheme": "FP8"}, "FP8"),
        ({"kv_cache_group": ["*k_proj", "*v_proj"], "kv_cache_post_rope": False}, "kv_cache_group"),
    ],
)  # fmt: skip
def test_a_quantized_cache_is_told(quantization: object, scheme: str | None) -> None:
    text = json.dumps({"model_type": "x", "quantization_config": quantization})
    assert parse_model_config(text, "c").kv_scheme == scheme


def test_numbers_that_json_has_not_are_passed_over() -> None:
    assert parse_model_config('{"model_type": "nemotron_h", "time_step_limit": [0.0, Infinity]}', "c").fields


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "not JSON"), ("[]", "not a JSON object"), ('{"a": 1}', "not a model's config.json"), ("{", "not JSON"),
        ('{"model_type": "x", "text_config": []}', "not an object"), ("[" * 100_000, "nested too deeply"),
        ('{"model_type": ' * 50_000, "nested too deeply"), ('{"num_hidden_layers": ' + "9" * 5000 + "}", "digits"),
        (" " * (MAX_CHARACTERS + 1), "more than 16 MiB"),
    ],
    ids=str.strip,
)  # fmt: skip
def test_what_is_no_config_is_said_in_one_line(text: str, told: str) -> None:
    with pytest.raises(ParseError, match=told) as caught:
        parse_model_config(text, "c")
    assert "\n" not in str(caught.value)


def test_names_are_fit_for_every_output() -> None:
    found = parse_model_config('{"model_type": "' + "x" * 1000 + '"}', "c")
    assert found.model_type == "x" * MAX_NAME
    assert parse_model_config('{"model_type": "a\\ud800b"}', "c").model_type == "a?b"


def test_counts_are_whole_and_not_below_zero() -> None:
    values = [8, 8.0, 0, True, "8", -1, 8.5, float("nan"), float("inf"), 10**30, None]
    assert [count(value) for value in values] == [8, 8, 0, *[None] * 8]


@given(st.text())
def test_any_text_is_a_config_or_an_error(text: str) -> None:
    try:
        parse_model_config(text, "c")
    except ParseError:
        return


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
MODELS = (LLAMA_8B, DEEPSEEK_V32, GPT_OSS_120B, QWEN35_35B["text_config"], NEMOTRON_NANO_30B)


@given(st.sampled_from(MODELS), st.data())
def test_any_value_in_any_field_is_a_layout_or_a_refusal(fields: dict[str, Any], data: st.DataObject) -> None:
    changed = dict(fields)
    for name in data.draw(st.lists(st.sampled_from(sorted(fields)), min_size=1, max_size=3)):
        changed[name] = data.draw(JSON)
    try:
        layout = kv_layout(parse_model_config(json.dumps(changed), "c"))
        told = str(kv_cost(layout, KvOptions()).session_bytes(1000))
        assert int(told) > 0
    except (LayoutError, ParseError) as error:
        told = str(error)
    assert "\n" not in told
