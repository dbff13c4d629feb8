"""``matrix`` drives the real vLLM on CPUs: 2 × 2 × 2 of what its backend honours, and the words of all variants.

B is silently ignored on CPUs and C and D are refused when the engine starts, so these are shown to vLLM's own parsers.
"""

import json
import shlex
import subprocess  # noqa: TID251  the engine's own Python
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import hostdoctor
from tests.e2e.test_compare import free_port
from tests.e2e.tiny_vllm import Engine
from tests.support.live_run import Started

pytestmark = pytest.mark.e2e

SERVE, BENCH = (Path(__file__).with_name(name) for name in ("parse_serve.py", "parse_bench.py"))
CONTEXTS, CONCURRENCY, OUTPUT, REQUESTS, REPEATS = (256, 1024), (1, 4), 16, 190, 2
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "hidden_size": 4096, "head_dim": 128, "max_position_embeddings": 32768,
    "torch_dtype": "bfloat16", "vocab_size": 128256,
}  # fmt: skip


def experiment(vllm: Engine, port: int) -> str:
    server = [str(vllm.vllm), "serve", str(vllm.model), "--host", "127.0.0.1", "--port", str(port)]
    server += ["--dtype", "bfloat16", "--enforce-eager", "--max-num-seqs", "8"]
    return f"""
[slo]
ttft_p99_ms = 2000
itl_p99_ms = 500
[model]
name = {json.dumps(str(vllm.model))}
[server]
command = {json.dumps(server)}
ready_timeout_s = 600
[binding]
node = 0
[client]
command = {json.dumps([str(vllm.vllm), "bench", "serve"])}
[grid]
contexts = {list(CONTEXTS)}
concurrency = {list(CONCURRENCY)}
output_tokens = {OUTPUT}
[prefix]
context = 1024
concurrency = [4]
[load]
requests = {REQUESTS}
repeats = {REPEATS}
warm_ups = 2
[[variants]]
name = "prefix-caching"
args = ["--enable-prefix-caching"]
[[variants]]
name = "no-prefix-caching"
args = ["--no-enable-prefix-caching"]
"""


@pytest.fixture(scope="module")
def matrix(vllm: Engine, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return the folder and the document of one matrix: four server starts, about ten minutes on two cores."""
    base = tmp_path_factory.mktemp("matrix")
    file, out = base / "experiment.toml", base / "out"
    file.write_text(experiment(vllm, free_port()), encoding="utf-8")
    ran = Started(
        ("matrix", "run", str(file), "--out", str(out), "--format", "json"), environment=dict(vllm.environment)
    )
    printed, err = ran.process.communicate()
    (base / "progress.txt").write_text(err, encoding="utf-8")
    assert ran.process.returncode == 0, err
    assert ran.started_processes() == ()
    return out, json.loads(printed)


def test_every_cell_is_measured_once_a_repeat(matrix: tuple[Path, dict[str, Any]]) -> None:
    document = matrix[1]
    assert document["complete"]
    assert document["runs"] == 2 * (len(CONTEXTS) * len(CONCURRENCY) + 1) * REPEATS
    assert [cell["failure"] for cell in document["cells"]] == [None] * len(document["cells"])
    for cell in document["cells"]:
        assert cell["judged"]["failed_requests"] == 0
        (ttft, itl) = cell["judged"]["tails"]
        sent = 192 if cell["cell"]["cut"] == "prefix" else REQUESTS  # four prefixes, as many of each
        assert ttft["samples"] == REPEATS * (sent - cell["cell"]["concurrency"])
        assert itl["value_ms"] is not None
    assert document["versions"]["vllm"]


def test_prompt_and_answer_are_as_long_as_their_cell_says(matrix: tuple[Path, dict[str, Any]]) -> None:
    for path in matrix[0].glob("runs/*/grid-*/r0/result.json"):
        told = json.loads(path.read_text(encoding="utf-8"))
        whole = (told["total_input_tokens"] + told["total_output_tokens"]) / REQUESTS
        assert whole == pytest.approx(int(told["hostdoctor_context"]), rel=0.01)
        assert told["total_output_tokens"] == REQUESTS * OUTPUT


def test_the_prefix_cache_is_hit_in_its_own_cut_alone(matrix: tuple[Path, dict[str, Any]]) -> None:
    hits = {
        (cell["cell"]["series"]["variant"], cell["cell"]["cut"]): cell["signals"].get("cache hits")
        for cell in matrix[1]["cells"]
    }
    assert hits["prefix-caching", "prefix"] > 50
    assert hits["prefix-caching", "grid"] < 20
    assert not hits["no-prefix-caching", "prefix"]


def test_the_boundary_is_the_same_from_the_raw_files(matrix: tuple[Path, dict[str, Any]]) -> None:
    folder, document = matrix
    limits = ("--ttft-p99-ms", "2000", "--itl-p99-ms", "500", "--format", "json")
    ran = hostdoctor("matrix", "boundary", str(folder / "runs"), *limits)
    assert ran.status == 0, ran.err
    again = json.loads(ran.out)
    rows = {one["series"]["variant"]: one["rows"] for one in again["series"]}
    assert rows == {one["series"]["variant"]: one["rows"] for one in document["series"]}


def commands(tmp_path: Path) -> tuple[list[list[str]], list[list[str]]]:
    """Return the servers' and the clients' words of a dry run over all four variants."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    file = tmp_path / "x.toml"
    made = hostdoctor(
        *("matrix", "init", "--model", "a/model", "--config", str(tmp_path / "config.json"), "--weights-gib", "15"),
        *("--gpu", "h100-80", "--ttft-p99-ms", "500", "--itl-p99-ms", "50", "--nvme-dir", "/mnt/kv"),
        *("--kv-dtypes", "auto,fp8", "--repeats", "1", "-o", str(file)),
    )
    assert made.status == 0, made.err
    ran = hostdoctor("matrix", "run", str(file), "--dry-run")
    assert ran.status == 0, ran.err
    lines = [shlex.split(line) for line in ran.out.splitlines() if " serve " in line]
    servers = [line[line.index("serve") + 1 :] for line in lines if "bench" not in line]
    benches = [line[line.index("serve") + 1 :] for line in lines if "bench" in line]
    return servers, [line[:-1] if line[-1] == "&" else line for line in benches]


def parsed(vllm: Engine, parser: Path, lines: list[list[str]]) -> list[dict[str, Any]]:
    done = subprocess.run(
        (str(vllm.python), str(parser)),
        input="".join(f"{json.dumps(line)}\n" for line in lines),
        capture_output=True,
        text=True,
        check=True,
        env=vllm.environment,
    )
    answers = [json.loads(answer) for answer in done.stdout.splitlines() if answer.startswith("{")]
    assert len(answers) == len(lines), done.stderr
    return answers


def test_vllm_takes_every_variant_s_server(vllm: Engine, tmp_path: Path) -> None:
    answers = parsed(vllm, SERVE, commands(tmp_path)[0])
    assert len(answers) == 8
    assert not [answer for answer in answers if "refused" in answer]
    assert sorted(answer["cpu_offload_gb"] for answer in answers) == [0, 0, 0, 0, 0, 0, 2, 2]
    assert len([answer for answer in answers if answer["kv_offloading_size"]]) == 2
    assert sorted(answer["kv_cache_dtype"] for answer in answers) == ["auto"] * 4 + ["fp8"] * 4
    assert {answer["max_model_len"] for answer in answers} == {32768}
    tiers = [answer["kv_transfer_config"] for answer in answers if answer["kv_transfer_config"]]
    assert len(tiers) == 2
    extra = tiers[0]["kv_connector_extra_config"]
    assert extra["spec_name"] == "TieringOffloadingSpec"
    assert extra["secondary_tiers"][0]["root_dir"] == "/mnt/kv"


def test_vllm_s_client_takes_every_cell(vllm: Engine, tmp_path: Path) -> None:
    answers = parsed(vllm, BENCH, commands(tmp_path)[1])
    assert not [answer for answer in answers if "refused" in answer]
    assert {answer["dataset_name"] for answer in answers} == {"random", "prefix_repetition"}
    for answer in answers:
        told = dict(pair.split("=", 1) for pair in answer["metadata"] or [])
        if told.get("hostdoctor_cut") == "grid":
            context = int(told["hostdoctor_context"])
            assert answer["random_input_len"] + 256 == context - context // 128
            assert answer["max_concurrency"] == int(told["hostdoctor_concurrency"])
