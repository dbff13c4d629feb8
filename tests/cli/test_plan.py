"""``hostdoctor plan``: the stable JSON, the first screen, and one clear line for what cannot be."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.budget.models import DEEPSEEK_V3, GPT_OSS_120B, KNOWN, LLAMA_8B, REFUSED, write
from tests.cli.support import hostdoctor
from tests.support.write_schemas import FOLDER

Root = Callable[[str], str]
GIB = 1 << 30
TRAFFIC = (
    "--rps", "12", "--peak-rps", "20", "--time-in-system", "3", "--sessions", "100",
    "--input-tokens", "2000,9000,30000", "--output-tokens", "300,800,1500",
)  # fmt: skip


def validated(text: str, name: str) -> Any:
    document = json.loads(text)
    schema = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    return document


def planned(*arguments: str) -> Any:
    ran = hostdoctor("plan", *arguments, "--format", "json")
    assert (ran.status, ran.err) == (0, "")
    return validated(ran.out, "plan.schema.json")


@pytest.mark.parametrize("name", KNOWN)
def test_bytes_a_token_as_json(tmp_path: Path, name: str) -> None:
    fields, kv_dtype, wanted = KNOWN[name]
    plan = planned("--config", write(tmp_path, fields), "--gpu", "h100-80", "--kv-dtype", kv_dtype)
    assert plan["schema_version"] == "1"
    assert plan["kv"]["bytes_per_token_per_rank"] == plan["kv"]["bytes_per_token_total"] == wanted


@pytest.mark.parametrize("name", REFUSED)
def test_an_unsupported_layout_exits_3_with_why_and_no_number(tmp_path: Path, name: str) -> None:
    fields, named = REFUSED[name]
    path = write(tmp_path, fields)
    ran = hostdoctor("plan", "--config", path, "--gpu", "h100-80", "--format", "json")
    document = validated(ran.out, "plan-unsupported.schema.json")
    assert (ran.status, ran.err) == (3, "")
    assert set(document) == {"schema_version", "unsupported"}
    assert named in document["unsupported"]
    plain = hostdoctor("plan", "--config", path, "--gpu", "h100-80")
    assert (plain.status, plain.out, plain.err.count("\n")) == (3, "", 1)


def test_a_cache_that_is_quantized_beside_the_config_needs_its_precision_said(tmp_path: Path) -> None:
    path = write(tmp_path, LLAMA_8B)
    (tmp_path / "hf_quant_config.json").write_text('{"quantization": {"kv_cache_quant_algo": "FP8"}}', encoding="utf-8")
    ran = hostdoctor("plan", "--config", path, "--gpu", "h100-80")
    assert (ran.status, ran.out, ran.err.count("\n")) == (64, "", 1)
    assert "quantized KV cache (FP8)" in ran.err
    assert planned("--config", path, "--gpu", "h100-80", "--kv-dtype", "fp8")["kv"]["bytes_per_token_total"] == 65_536
    (tmp_path / "hf_quant_config.json").write_text("[]", encoding="utf-8")
    broken = hostdoctor("plan", "--config", path, "--gpu", "h100-80")
    assert (broken.status, broken.out, broken.err.count("\n")) == (3, "", 1)


def test_weights_of_a_float32_checkpoint_are_said_to_be_loaded_at_half_their_size(tmp_path: Path) -> None:
    path = write(tmp_path, LLAMA_8B | {"torch_dtype": "float32"})
    (tmp_path / "model.safetensors.index.json").write_text('{"metadata": {"total_size": 32000000000}}', "utf-8")
    told = planned("--config", path, "--gpu", "h100-80")
    assert any("load as 16 bits" in note for note in told["notes"])
    halved = planned("--config", path, "--gpu", "h100-80", "--weights-gib", "15")
    assert not any("load as 16 bits" in note for note in halved["notes"])


@pytest.mark.parametrize(
    "more", [("--max-model-len", "1000"), ("--used-gib", "79.9"), ("--max-model-len", "5000", "--replicas", "999")]
)
def test_requests_longer_than_any_replica_holds_do_not_fit(tmp_path: Path, more: tuple[str, ...]) -> None:
    ran = hostdoctor(
        "plan", "--config", write(tmp_path, LLAMA_8B), "--gpu", "h100-80", "--weights-gib", "16", *TRAFFIC, *more
    )
    assert (ran.status, ran.err) == (2, "")


def test_a_log_s_peaks_are_not_below_a_stated_rate(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    log.write_text("".join(f'{{"timestamp": {1000 + i}, "input_tokens": 1}}\n' for i in range(600)), encoding="utf-8")
    load = planned("--log", str(log), "--gpu", "h100-80", "--rps", "30")["traffic"]["load"]
    assert (load["rps"], load["peak_rps"], load["burst_rps"]) == (30, 30, 30)


@pytest.mark.parametrize(
    "rates",
    [("--rps", "20", "--peak-rps", "5"), ("--peak-rps", "20", "--burst-rps", "5"), ("--rps", "2", "--burst-rps", "1")],
)
def test_the_busiest_minute_or_second_is_not_the_quieter_one(tmp_path: Path, rates: tuple[str, ...]) -> None:
    ran = hostdoctor("plan", "--config", write(tmp_path, LLAMA_8B), "--gpu", "h100-80", *rates)
    assert (ran.status, ran.out, ran.err.count("\n")) == (64, "", 1)
    assert "cannot be the quieter one" in ran.err


def test_tensor_parallel_of_16_repeats_kv_heads(tmp_path: Path) -> None:
    kv = planned("--config", write(tmp_path, LLAMA_8B), "--gpu", "h100-80", "--tp", "16")["kv"]
    assert (kv["bytes_per_token_per_rank"], kv["bytes_per_token_total"]) == (16_384, 262_144)


def test_window_bytes_belong_to_the_state_of_a_sequence(tmp_path: Path) -> None:
    path = write(tmp_path, GPT_OSS_120B)
    kv = planned("--config", path, "--gpu", "h100-80", "--batched-tokens", "2048")["kv"]
    assert kv["state_bytes_per_sequence"] == (-(-(127 + 2 * 2048) // 16) + 1) * 16 * 36_864
    whole = planned("--config", path, "--gpu", "h100-80", "--no-hybrid-manager")["kv"]
    assert (whole["bytes_per_token_per_rank"], whole["state_bytes_per_sequence"]) == (73_728, 0)


def test_16_4_1_on_an_80_gib_card_with_48_taken() -> None:
    for gpu in (("--gpu-memory-gib", "80"), ("--gpu", "h100-80")):
        plan = planned("--kv-bytes-per-token", "262144", *gpu, "--used-gib", "48")
        held = {found["context_tokens"]: found["sessions"] for found in plan["sessions"]}
        assert (held[8192], held[32_768], held[131_072]) == (16, 4, 1)


def test_36_requests_at_once_and_3600_tokens_a_second() -> None:
    traffic = planned("--rps", "12", "--time-in-system", "3", "--output-tokens", "300", "--gpu", "h100-80")["traffic"]
    assert (traffic["active_requests"], traffic["output_tokens_per_s"]) == (36, 3600)


def test_a_model_s_folder_tells_its_weights(tmp_path: Path) -> None:
    write(tmp_path, LLAMA_8B)
    (tmp_path / "model.safetensors.index.json").write_text('{"metadata": {"total_size": 16060522496}}', "utf-8")
    plan = planned("--config", str(tmp_path), "--gpu", "h100-80", "--tp", "2")
    assert plan["weights_bytes"] == 16_060_522_496
    assert plan["vram"]["weights_bytes"] == 8_030_261_248


def test_the_gpus_of_the_map_are_planned_with(tmp_path: Path, root_of: Root) -> None:
    path = write(tmp_path, LLAMA_8B)
    plan = planned("--config", path, "--demo", "--weights-gib", "15")
    assert plan["vram"]["gpu_bytes"] == 81_559 << 20
    assert "H100" in plan["gpu"]
    none = planned("--config", path, "--from", root_of("no-gpu-2n"))
    assert none["vram"]["gpu_bytes"] is None
    assert any("--gpu-memory-gib" in text for text in none["missing"])


def test_this_host_is_asked_when_no_gpu_is_named(tmp_path: Path) -> None:
    plan = planned("--config", write(tmp_path, LLAMA_8B), "--quick")
    assert plan["kv"]["bytes_per_token_per_rank"] == 131_072


def test_a_log_stands_for_traffic(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    rows = [
        {"timestamp": 1000 + i / 10, "input_tokens": 100 + i, "output_tokens": 50, "latency_s": 2.0} for i in range(600)
    ]
    log.write_text("\n".join(["broken", *map(json.dumps, rows)]), encoding="utf-8")
    plan = planned("--log", str(log), "--gpu", "h100-80", "--peak-rps", "30")
    assert (plan["log"]["requests"], plan["log"]["malformed"], plan["log"]["rps"]) == (600, 1, 10)
    assert (plan["traffic"]["active_requests"], plan["traffic"]["peak_active_requests"]) == (20, 60)
    assert any("1 malformed" in note for note in plan["notes"])


def test_what_does_not_fit_exits_2(tmp_path: Path) -> None:
    path = write(tmp_path, LLAMA_8B)
    ran = hostdoctor("plan", "--config", path, "--gpu", "l4-24", "--weights-gib", "40")
    assert ran.status == 2
    assert "too small by 22.0 GiB: more GPUs a replica (--tp) or smaller weights\n" in ran.out
    near = hostdoctor("plan", "--config", path, "--gpu", "l4-24", "--weights-gib", "20")
    assert "or a smaller reserve (--reserve-percent)" in near.out
    few = ("--config", path, "--gpu", "h100-80", "--weights-gib", "15", *TRAFFIC, "--replicas")
    assert [hostdoctor("plan", *few, replicas).status for replicas in ("1", "2")] == [2, 0]


def test_the_first_screen_has_25_lines_and_says_what_there_is_more(tmp_path: Path) -> None:
    path = write(tmp_path, LLAMA_8B)
    for more in ((), TRAFFIC, (*TRAFFIC, "--replicas", "1"), TRAFFIC[:4]):
        ran = hostdoctor("plan", "--config", path, "--gpu", "h100-80", "--weights-gib", "15", *more)
        assert len(ran.out.splitlines()) <= 25
        assert "--all" in ran.out.splitlines()[-1]


def test_the_whole_plan_in_words(tmp_path: Path) -> None:
    path = write(tmp_path, LLAMA_8B)
    ran = hostdoctor(
        "plan", "--config", path, "--gpu", "h100-80", "--weights-gib", "15", *TRAFFIC, "--replicas", "2", "--all"
    )
    for told in (
        "FITS but for a bad day  llama on 1 GPU (h100-80) a replica",
        "Each GPU, 80.0 GiB: weights 15.0 GiB, reserve 16.0 GiB, KV 49.0 GiB",
        "  8,192                   49         98",
        "Traffic: 36 requests at once, 3,600 output tokens/s; at the peak 60 and 6,000; margin for growth 25 %",
        "  long dialogue: 75 requests of 9,800 tokens, 40 fit on a replica: 2 replicas, 3 with one node down",
        "  of the KV long dialogues take 45.5 GiB; 3.5 GiB are left for the batch",
        "  100 sessions alive would hold 119.7 GiB of KV, 2 replicas have 98.0 GiB: what does not fit is",
        "KV is what does not fit on 2 replicas, bad day. In this order:",
        "  1. Trim histories to 5,344 tokens each",
        "  4. Cap requests of 31,500 tokens at ",
        "(`hostdoctor budget` says what a host holds)",
        "Side by side, 9,800 tokens a request:",
        "No figure is missing.",
    ):
        assert told in ran.out


def test_sessions_alive_are_held_against_all_replicas(tmp_path: Path) -> None:
    path = write(tmp_path, LLAMA_8B)
    common = ("plan", "--config", path, "--gpu", "h100-80", "--weights-gib", "15", *TRAFFIC)
    assert "1 replica has 49.0 GiB: what does not fit" in hostdoctor(*common).out
    assert "of KV on each rank, 3 replicas have 169.5 GiB: all of it stays" in (
        hostdoctor(*common, "--tp", "2", "--replicas", "3").out
    )


def test_nothing_stated_names_everything_that_is_missing(root_of: Root) -> None:
    ran = hostdoctor("plan", "--from", root_of("no-gpu-2n"), "--all")
    assert ran.status == 0
    assert ran.out.startswith("NOT KNOWN")
    assert "10 figures missing" in ran.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("--tp", "3"), ("--tp", "64"), ("--tp", "0"), ("--tp", "-1"), ("--tp", "1.5"), ("--kv-dtype", "fp9"),
        ("--gpu", "abacus"), ("--gpu-memory-gib", "0"), ("--gpu-memory-gib", "-4"), ("--gpu-memory-gib", "nan"),
        ("--gpu-memory-gib", "1e99"), ("--gpu", "h100-80", "--gpu-memory-gib", "4"), ("--gpu", "h100-80", "--demo"),
        ("--used-gib", "-1"), ("--weights-gib", "inf"), ("--reserve-percent", "nan"), ("--reserve-percent", "91"),
        ("--rps", "-1"), ("--rps", "nan"), ("--peak-rps", "inf"), ("--time-in-system", "-3"), ("--sessions", "-1"),
        ("--input-tokens", "a,b"), ("--input-tokens", "1,2,3,4"), ("--output-tokens", "5,9,8"),
        ("--output-tokens", "-5"), ("--growth-percent", "-1"), ("--growth-percent", "nan"), ("--replicas", "0"),
        ("--block-size", "0"), ("--kv-bytes-per-token", "0"), ("--max-model-len", "0"), ("--option", "x"),
        ("--max-model-len", "200000"), ("--log", "/nothing/there"), ("--log", "/"), ("--from", "/nothing/there"),
        ("--speculative-tokens", "-1"), ("--batched-tokens", "0"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_impossible_input_is_one_line_and_64(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    named = () if {"--gpu", "--gpu-memory-gib", "--from"} & set(arguments) else ("--gpu", "h100-80")
    ran = hostdoctor("plan", "--config", write(tmp_path, LLAMA_8B), *named, *arguments)
    assert (ran.status, ran.out, ran.err.count("\n")) == (64, "", 1)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '"x"', "[" * 100_000, '{"a":' * 100_000, '{"model_type": "\\ud800"}', "\x00", "9" * 10_000,
     '{"model_type": "llama", "num_hidden_layers": NaN}', '{"num_hidden_layers": 1e400}'],
    ids=range(12),
)  # fmt: skip
def test_a_config_that_is_none_is_one_line_and_3(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    for more in ((), ("--format", "json")):
        ran = hostdoctor("plan", "--config", str(path), "--gpu", "h100-80", *more)
        assert ran.status == 3
        assert (ran.out + ran.err).count("\n") in (1, 4)  # a line, or the document that says why


def test_a_config_that_does_not_exist_is_64(tmp_path: Path) -> None:
    for path in (str(tmp_path / "config.json"), str(tmp_path), "/dev/null", "x" * 5000):
        ran = hostdoctor("plan", "--config", path, "--gpu", "h100-80")
        assert (ran.status, ran.err.count("\n")) == (64 if path != "x" * 5000 else ran.status, 1)
        assert ran.status in (3, 64)


def test_precisions_that_a_model_has_not_are_unsupported(tmp_path: Path) -> None:
    ran = hostdoctor("plan", "--config", write(tmp_path, DEEPSEEK_V3), "--kv-dtype", "nvfp4", "--gpu", "h100-80")
    assert (ran.status, ran.out) == (3, "")
    assert "not defined for MLA" in ran.err
