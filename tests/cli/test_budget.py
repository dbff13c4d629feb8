"""``hostdoctor budget``: the document, the picture, and what the exit status means."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.budget.models import DEEPSEEK_V3, QWEN35_35B
from tests.cli.support import Ran, hostdoctor
from tests.support.hostbuilder import build_files, load_host, write_tree

DEMO = ("budget", "--demo")
GIB = 1 << 30
LLAMA_8B = {
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 32,
}


def document(*arguments: str, status: int = 0) -> dict[str, Any]:
    ran = hostdoctor(*arguments, "--format", "json")
    assert (ran.status, ran.err) == (status, "")
    told: dict[str, Any] = json.loads(ran.out)
    return told


def refused(*arguments: str) -> str:
    ran: Ran = hostdoctor("budget", *arguments)
    assert (ran.status, ran.out) == (64, "")
    assert ran.err.count("\n") == 1
    return ran.err


def test_the_document_has_the_stable_shape() -> None:
    told = document(*DEMO, "--tp", "4", "--kv-offload-gib", "64", "--engine-version", "0.33.0")
    stable = ["schema_version", "nodes", "total", "fits", "flags", "kv_offload", "weights", "findings"]
    assert list(told)[: len(stable)] == stable
    assert set(told["nodes"][0]) == {
        *("id", "memory_bytes", "available_bytes", "pinnable_bytes", "bound_by", "planned"),
    }
    assert set(told["total"]) == {"pinnable_bytes", "bound_by"}
    assert (told["fits"], told["flags"]) == (True, ["--kv-offloading-size", "64"])
    assert told["kv_offload"] == {"bytes_per_chunk": None, "chunks": None, "tokens": None}
    assert told["weights"]["rounding_factor"] is None


def test_a_pool_is_total_over_the_ranks_and_lands_near_their_gpus() -> None:
    told = document(*DEMO, "--tp", "4", "--kv-offload-gib", "64")
    assert [share["kv_bytes"] for share in told["shares"]] == [16 * GIB] * 4
    assert [node["planned"]["kv_bytes"] for node in told["nodes"]] == [64 * GIB, 0]
    told = document(*DEMO, "--tp", "4", "--dp", "2", "--kv-offload-gib", "64")
    assert [node["planned"]["kv_bytes"] for node in told["nodes"]] == [64 * GIB, 64 * GIB]


def test_named_gpus_are_the_ranks_in_order() -> None:
    told = document(*DEMO, "--gpus", "7,0", "--tp", "2", "--kv-offload-gib", "3")
    assert [(share["gpu"], share["node"]) for share in told["shares"]] == [("GPU7", 1), ("GPU0", 0)]


def test_what_does_not_fit_says_by_how_much_where_and_what_does() -> None:
    ran = hostdoctor(*DEMO, "--tp", "4", "--kv-offload-gib", "2000")
    assert ran.status == 2
    assert "DOES NOT FIT" in ran.out
    assert "node 0: 2000.0 GiB planned, " in ran.out
    told = document(*DEMO, "--tp", "4", "--kv-offload-gib", "2000", status=2)
    most = told["largest"]["kv_offload_bytes"]
    short = next(f for f in told["findings"] if f["subject"] == "node 0" and f["severity"] == "critical")
    assert f"--kv-offload-gib {most * 10 // GIB / 10:.1f}" in short["remedy"]["text"]
    assert document(*DEMO, "--tp", "4", "--kv-offload-gib", str(most // GIB))["fits"] is True


def test_weights_are_counted_as_they_are_pinned(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(LLAMA_8B))
    told = document(*DEMO, "--tp", "1", "--cpu-offload-gib", "3.25", "--config", str(config))
    of_folder = document(*DEMO, "--tp", "1", "--cpu-offload-gib", "3.25", "--config", str(tmp_path))
    assert of_folder["weights"] == told["weights"]
    assert told["weights"]["rounding_factor"] == pytest.approx(1.154, abs=0.0005)
    assert told["nodes"][0]["planned"]["weights_bytes"] == 8 * 480 << 20
    told = document(*DEMO, "--tp", "1", "--cpu-offload-gib", "3.25")
    assert told["weights"] == {"rounding_factor": 2.0, "source": told["weights"]["source"]}
    assert told["weights"]["source"].startswith("upper bound")
    assert told["nodes"][0]["planned"]["weights_bytes"] == 6.5 * GIB


def test_weights_that_are_quantized_beside_the_config_have_no_shapes_of_16_bits(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B), encoding="utf-8")
    (tmp_path / "hf_quant_config.json").write_text('{"quantization": {"quant_algo": "NVFP4"}}', encoding="utf-8")
    told = document(*DEMO, "--tp", "4", "--cpu-offload-gib", "2", "--config", str(tmp_path))
    assert told["weights"]["rounding_factor"] == 2.0


def test_a_stage_of_a_pipeline_has_its_part_of_the_layers(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B), encoding="utf-8")
    told = document(*DEMO, "--tp", "1", "--pp", "4", "--cpu-offload-gib", "13", "--config", str(tmp_path))
    assert {share["weights_bytes"] for share in told["shares"]} == {8 * 480 << 20}


def test_tokens_of_a_pool() -> None:
    told = document(*DEMO, "--tp", "2", "--kv-offload-gib", "100", "--kv-bytes-per-token", "131072")
    assert told["kv_offload"] == {"bytes_per_chunk": 2097152, "chunks": 51200, "tokens": 819200}


def test_both_kinds_of_offload_are_allowed_and_warned_of() -> None:
    told = document(*DEMO, "--tp", "4", "--kv-offload-gib", "8", "--cpu-offload-gib", "2")
    assert told["fits"] is True
    assert any("both offloaded" in f["message"] and f["severity"] == "warning" for f in told["findings"])


def test_each_engine_has_its_own_options() -> None:
    plan = (*DEMO, "--tp", "4", "--kv-offload-gib", "64", "--engine")
    assert document(*plan, "sglang")["flags"] == ["--enable-hierarchical-cache", "--hicache-size", "17"]
    assert document(*plan, "lmcache")["environment"]["LMCACHE_MAX_LOCAL_CPU_SIZE"] == "16"
    assert "Options: LMCACHE_LOCAL_CPU=True LMCACHE_MAX_LOCAL_CPU_SIZE=16 --kv-transfer-config" in (
        hostdoctor(*plan, "lmcache").out
    )


def test_a_node_that_binding_would_fill_is_better_preferred() -> None:
    free = document(*DEMO, "--tp", "4", "--reserve-gib", "0", "--page-cache-gib", "0")["nodes"][0]["pinnable_bytes"]
    told = document(*DEMO, "--tp", "4", "--kv-offload-gib", str(free // GIB), status=2)
    warned = next(f for f in told["findings"] if "--membind=0" in f["message"])
    assert "--preferred=0" in warned["remedy"]["text"]


def test_a_pod_is_bound_by_its_own_limit_and_its_shm(root_of: Any) -> None:
    told = document("budget", "--from", root_of("pod-2-of-8"))
    assert any("memory.max" in limit["name"] for limit in told["limits"])
    told = document("budget", "--from", root_of("pod-2-of-8"), "--kv-offload-gib", "65", status=2)
    assert any(f["subject"] == "/dev/shm" and f["severity"] == "critical" for f in told["findings"])


def test_gpu_memory_of_a_superchip_is_no_place_to_pin(root_of: Any) -> None:
    told = document("budget", "--from", root_of("gb200-tray"))
    by_bound = {node["bound_by"] for node in told["nodes"] if node["pinnable_bytes"] == 0}
    assert by_bound <= {"the GPU's own memory", "no memory"}
    assert told["total"]["pinnable_bytes"] == sum(n["pinnable_bytes"] for n in told["nodes"]) > 0


def test_text_alone_cannot_tell(tmp_path: Path) -> None:
    text = tmp_path / "numactl.txt"
    text.write_text(
        "available: 2 nodes (0-1)\nnode 0 cpus: 0 1\nnode 0 size: 1000 MB\nnode 0 free: 10 MB\nnode 1 cpus: 2 3\n"
        "node 1 size: 1000 MB\nnode 1 free: 10 MB\nnode distances:\nnode   0   1 \n  0:  10  21 \n  1:  21  10 \n"
    )
    told = document("budget", "--from", str(text), "--tp", "2", "--kv-offload-gib", "1", status=3)
    assert told["fits"] is None
    assert told["reason"]
    assert [node["pinnable_bytes"] for node in told["nodes"]] == [None, None]
    without_a_plan = hostdoctor("budget", "--from", str(text))
    assert "how much may be pinned is not known" in without_a_plan.out
    assert without_a_plan.status == 3


def test_the_picture_has_every_part() -> None:
    out = hostdoctor(*DEMO, "--tp", "8", "--kv-offload-gib", "400", "--cpu-offload-gib", "20").out
    bars = [line.strip() for line in out.splitlines() if line.strip().startswith("[")]
    assert len(bars) == 2
    assert all(len(bar) == 62 and {*"#acrWK."} <= set(bar) for bar in bars)


def test_what_is_pinned_or_reserved_already_is_told(tmp_path: Path) -> None:
    host = load_host("no-gpu-2n")
    files = {"/proc/vmstat": "nr_foll_pin_acquired 2000000\nnr_foll_pin_released 951424\n"}
    (host["node"][0])["hugepages_2m"] = 1024
    write_tree(build_files(host | {"files": files}), tmp_path)
    out = hostdoctor("budget", "--from", str(tmp_path)).out
    assert "Taken already: pinned now 4.0 GiB, node 0 huge pages 2.0 GiB" in out


def test_more_reserve_less_to_pin() -> None:
    sizes = [document(*DEMO, "--reserve-gib", str(gib))["total"]["pinnable_bytes"] for gib in (0, 20, 2000)]
    assert sizes[0] > sizes[1] > sizes[2] == 0


def test_measured_growth_replaces_the_default() -> None:
    told = document(*DEMO, "--anon-gib", "100")
    assert not any("an estimate" in f["message"] for f in told["findings"])
    assert told["total"]["pinnable_bytes"] < document(*DEMO, "--anon-gib", "0")["total"]["pinnable_bytes"]


def test_kubelets_threshold_counts() -> None:
    told = document(*DEMO, "--eviction-gib", "1900")
    assert told["total"]["bound_by"] == "kubelet eviction"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--demo", "--tp", "16"), "16 ranks, but 8 GPUs in scope"),
        (("--demo", "--gpus", "0,1", "--tp", "2", "--dp", "2"), "4 ranks, but 2 GPUs in scope"),
        (("--demo", "--tp", "0"), "--tp: 0 is not between 1 and"),
        (("--demo", "--pp", "-3"), "--pp: -3 is not between 1 and"),
        (("--demo", "--kv-offload-gib", "-1"), "--kv-offload-gib: not a size in GiB: -1"),
        (("--demo", "--cpu-offload-gib", "nan"), "--cpu-offload-gib: not a size in GiB: nan"),
        (("--demo", "--reserve-gib", "inf"), "--reserve-gib: not a size in GiB: inf"),
        (("--demo", "--kv-offload-gib", "1e300"), "--kv-offload-gib: not a size in GiB: 1e+300"),
        (("--demo", "--page-cache-percent", "101"), "--page-cache-percent: 101 is not between 0 and 100"),
        (("--demo", "--kv-bytes-per-token", "0"), "--kv-bytes-per-token: 0 is not between 1 and"),
        (("--demo", "--engine", "other"), "other"),
        (("--demo", "--engine-version", "latest"), "--engine-version: not a version: 'latest'"),
        (("--demo", "--kv-offload-gib", "1", "--engine-version", "0.10.2"), "vLLM 0.10.2 has no --kv-offloading-size"),
        (("--demo", "--config", "/nonexistent/config.json"), "--config: cannot be read"),
        (("--demo", "--gpus", "99"), "no GPU '99' here"),
        (("--demo", "--from", "x"), "name two different hosts"),
    ],
)
def test_impossible_input_is_one_clear_line(arguments: tuple[str, ...], said: str) -> None:
    assert said in refused(*arguments)


def test_a_config_that_is_no_json_object(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    for text in ("", "{", "[1, 2]", "\udcff"):
        config.write_text(text, errors="surrogateescape")
        assert "--config" in refused("--demo", "--config", str(config))


def test_the_files_of_a_model_stay_cached(tmp_path: Path) -> None:
    blob = tmp_path / "blobs" / "x"
    blob.parent.mkdir()
    with blob.open("wb") as file:
        file.truncate(3 * GIB)
    model = tmp_path / "snapshot"
    model.mkdir()
    (model / "model.safetensors").symlink_to(blob)
    (model / "again.safetensors").symlink_to(blob)
    sizes = [
        document("budget", "--page-cache-percent", "0", *more)["nodes"][0]["pinnable_bytes"]
        for more in (("--page-cache-gib", "3"), ("--model-path", str(model)), ("--page-cache-gib", "0"))
    ]
    assert sizes[0] == pytest.approx(sizes[1], abs=GIB // 2)
    assert sizes[2] > sizes[1] + 2 * GIB


def test_of_a_capture_nobody_can_tell_the_size_of_files() -> None:
    ran = hostdoctor(*DEMO, "--model-path", "/models")
    assert (ran.status, ran.out) == (3, "")
    assert "only the running host tells" in ran.err


def test_check_takes_the_planned_sizes(root_of: Any) -> None:
    ids = ("--select", "HD303,HD307,HD308,HD311", "--format", "json")
    ran = hostdoctor("check", "--from", root_of("pod-2-of-8"), "--kv-offload-gib", "4000", *ids)
    fired = {r["id"] for r in json.loads(ran.out)["results"] if r["status"] == "fail"}
    assert {"HD307", "HD308"} <= fired
    quiet = json.loads(hostdoctor("check", "--from", root_of("pod-2-of-8"), *ids).out)
    assert {r["skip_kind"] for r in quiet["results"]} == {"no-plan"}
    assert hostdoctor("check", "--demo", "--kv-offload-gib", "-2").status == 64


@pytest.mark.parametrize(
    ("config", "words", "chunk_bytes", "chunks"),
    [
        (LLAMA_8B, ("--tp", "2"), 2_097_152, 51_200),
        (DEEPSEEK_V3, ("--tp", "8", "--block-size", "64"), 4_497_408, 23_874),
        (DEEPSEEK_V3, ("--tp", "8"), 4_497_408, 23_874),
        (QWEN35_35B, ("--tp", "2"), None, None),
    ],
)
def test_a_config_gives_the_pool_in_tokens(
    tmp_path: Path, config: dict[str, Any], words: tuple[str, ...], chunk_bytes: int | None, chunks: int | None
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    ran = hostdoctor(
        *("budget", "--demo", "--kv-offload-gib", "100", "--config", str(tmp_path), "--format", "json"), *words
    )
    kv = json.loads(ran.out)["kv_offload"]
    assert (kv["bytes_per_chunk"], kv["chunks"]) == (chunk_bytes, chunks)


def test_a_layout_that_is_not_known_gives_no_tokens_but_the_reason(tmp_path: Path) -> None:
    odd = LLAMA_8B | {"compress_ratios": [4, 8]}
    (tmp_path / "config.json").write_text(json.dumps(odd), encoding="utf-8")
    ran = hostdoctor("budget", "--demo", "--tp", "2", "--kv-offload-gib", "100", "--config", str(tmp_path))
    assert ran.status == 0
    assert "unsupported layout" in ran.out


def test_heads_that_do_not_divide_among_the_ranks_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B), encoding="utf-8")
    ran = hostdoctor("budget", "--demo", "--tp", "3", "--kv-offload-gib", "100", "--config", str(tmp_path))
    assert (ran.status, ran.out, ran.err.count("\n")) == (64, "", 1)


def test_a_plan_of_more_ranks_than_the_host_has_gpus_is_refused() -> None:
    ran = hostdoctor("plan", "--demo", "--kv-bytes-per-token", "1000", "--tp", "16")
    assert (ran.status, ran.out, ran.err.count("\n")) == (64, "", 1)
