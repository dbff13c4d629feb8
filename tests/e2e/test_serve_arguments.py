"""Every ``vllm serve`` command line that ``wrap`` emits is taken by vLLM's own parser, and means what it should."""

import json
import shlex
import subprocess  # noqa: TID251  the engine's own Python
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import hostdoctor
from tests.e2e.tiny_vllm import Engine
from tests.support.hostbuilder import build_files, load_host, pack

pytestmark = pytest.mark.e2e

PARSER = Path(__file__).with_name("parse_serve.py")
SERVE = ("vllm", "serve", "a/model")
# Host, GPUs, the caller's words after the model; what the engine should then know of binding.
CASES: tuple[tuple[str, str, tuple[str, ...], dict[str, Any]], ...] = (
    ("dgx-h100", "0", (), {"numa_bind": False, "numa_bind_nodes": None}),
    ("dgx-h100", "0,1,2,3", ("--tensor-parallel-size", "4"), {"numa_bind": False, "tensor_parallel_size": 4}),
    ("dgx-h100", "all", ("-tp", "8"), {"numa_bind": True, "numa_bind_nodes": [0, 0, 0, 0, 1, 1, 1, 1]}),
    ("dgx-h100", "7,0", ("-tp=2",), {"numa_bind": True, "numa_bind_nodes": [1, 0]}),
    ("dgx-h100", "7,0", ("--tensor_parallel_size", "2"), {"numa_bind_nodes": [1, 0], "tensor_parallel_size": 2}),
    ("l40s-4", "0,3", ("-tp", "2", "--cpu-offload-gb", "12"), {"numa_bind": True, "cpu_offload_gb": 12.0}),
    ("l40s-4", "0,3", ("-tp", "2", "--kv-offloading-size=64"), {"numa_bind": True, "kv_offloading_size": 64.0}),
)


def emitted(folder: Path, host: str, gpus: str, words: tuple[str, ...]) -> list[str]:
    """Return what ``vllm serve`` is given by the emitted command line."""
    captured = folder / f"{host}.tar.gz"
    if not captured.exists():
        captured.write_bytes(pack(build_files(load_host(host))))
    ran = hostdoctor(
        "wrap",
        "--from",
        str(captured),
        "--gpus",
        gpus,
        "--engine-version",
        "0.32.0",
        "--as",
        "args",
        "--",
        *SERVE,
        *words,
    )
    assert ran.status == 0, ran.err
    line = shlex.split(ran.out)
    return line[line.index("serve") + 1 :]


def test_vllm_takes_every_emitted_command_line(vllm: Engine, tmp_path: Path) -> None:
    lines = [emitted(tmp_path, host, gpus, words) for host, gpus, words, _ in CASES]
    done = subprocess.run(
        (str(vllm.python), str(PARSER)),
        input="".join(f"{json.dumps(line)}\n" for line in lines),
        capture_output=True,
        text=True,
        check=True,
        env=vllm.environment,
    )
    answers = [json.loads(answer) for answer in done.stdout.splitlines() if answer.startswith("{")]
    assert len(answers) == len(CASES), done.stderr
    for (host, gpus, words, meant), line, answer in zip(CASES, lines, answers, strict=True):
        told = {"model_tag": "a/model"} | meant
        assert {key: answer.get(key) for key in told} == told, (host, gpus, words, line, answer, done.stderr)


def test_the_parser_would_have_refused_a_flag_that_there_is_not(vllm: Engine) -> None:
    done = subprocess.run(
        (str(vllm.python), str(PARSER)),
        input='["a/model", "--numa-bind-node", "x", "--nonsense"]\n',
        capture_output=True,
        text=True,
        check=True,
        env=vllm.environment,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == {"refused": 2}
