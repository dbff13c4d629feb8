"""``compare`` drives the real vLLM and its own client: a planted slowdown is found, and nothing where nothing is.

Three arms on one node: near, near again, and *current* with busy neighbours that the server brings along. What is
compared is the end-to-end latency: a model this small answers faster than a client on the same two cores can read
single tokens, so that most inter-token latencies are 0.
"""

import json
import shlex
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import hostdoctor
from tests.e2e.tiny_vllm import Engine
from tests.support.live_run import Started

pytestmark = pytest.mark.e2e

NEIGHBOUR = Path(__file__).with_name("neighbour.py")
PAIRS = 6
REQUESTS, RATE = 120, 8
METRIC = "e2el"
SERVE = "--host 127.0.0.1 --max-model-len 1024 --max-num-seqs 8 --dtype bfloat16 --enforce-eager"
BENCH = (
    "--backend openai --endpoint /v1/completions --dataset-name random --random-input-len 64 --random-output-len 24"
    f" --num-prompts {REQUESTS} --request-rate {{rate}} --seed {{seed}} --ignore-eos --temperature 0"
    " --percentile-metrics ttft,tpot,itl,e2el --save-result --save-detailed --result-filename {result}"
)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def experiment(vllm: Engine, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return the folder and the document of one experiment: 19 server starts, about half an hour on two cores."""
    folder = tmp_path_factory.mktemp("compare") / "out"
    port = free_port()
    server = shlex.join((sys.executable, str(NEIGHBOUR), "current", str(vllm.vllm), "serve", str(vllm.model)))
    client = (str(vllm.vllm), "bench", "serve", "--model", str(vllm.model), "--base-url", f"http://127.0.0.1:{port}")
    ran = Started(
        (
            *("compare", "--node", "0", "--arms", "current,near", "--pairs", str(PAIRS), "--out", str(folder)),
            *(
                "--server",
                f"{server} {SERVE} --port {port}",
                "--rate",
                str(RATE),
                "--metric",
                METRIC,
                "--format",
                "json",
            ),
            *("--", *client, *shlex.split(BENCH)),
        ),
        environment=vllm.environment,
    )
    out, err = ran.process.communicate()
    (folder / "progress.txt").write_text(err, encoding="utf-8")
    assert ran.process.returncode == 0, err
    assert ran.started_processes() == ()
    return folder, json.loads(out)


def test_a_planted_neighbour_is_found(experiment: tuple[Path, dict[str, Any]]) -> None:
    document = experiment[1]
    assert document["arms"] == ["near", "current"]
    assert document["complete"]
    assert document["primary"]["metric"] == METRIC
    assert document["primary"]["verdict"] == "near-faster", document["primary"]
    assert document["failed_requests"] == {"near": 0, "far": 0}
    assert {run["model"] for run in document["provenance"]["near"]} != {None}


def test_each_run_had_its_own_server_where_it_should_be(experiment: tuple[Path, dict[str, Any]]) -> None:
    runs = experiment[1]["runs"]
    assert len(runs) == 3 * PAIRS + 1
    for run in runs:
        assert [place["when"] for place in run["places"]] == ["start", "end"]
        assert all(place["memory_bytes"]["0"] > 0 for place in run["places"])
        if run["role"] != "current":
            assert all(place["memory_inside"] >= 0.95 for place in run["places"])
    logs = {(experiment[0] / run["result"]).with_name("server.log").read_bytes() for run in runs}
    assert len(logs) == len(runs)


def test_near_against_near_shows_no_difference(experiment: tuple[Path, dict[str, Any]]) -> None:
    folder, document = experiment
    low, high = document["metrics"][METRIC]["p50"]["control_ratio_ci"]
    assert low <= 1 <= high
    arms = [
        (f"--{option}", str(path))
        for option, role in (("near", "near"), ("far", "again"))
        for path in sorted(folder.glob(f"runs/*-pair-*-{role}/result.json"))
    ]
    ran = hostdoctor("compare", *(word for pair in arms for word in pair), "--metric", METRIC, "--format", "json")
    assert ran.status == 0, ran.err
    again = json.loads(ran.out)
    assert again["pairs"] == PAIRS
    assert again["primary"]["verdict"] == "no-measurable-difference", again["primary"]
