"""Which engine a command line starts and what its options say."""

import shlex
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.errors import UsageError
from hostdoctor.placement.engine_version import installed_version
from hostdoctor.placement.engines import EngineCommand, recognise
from hostdoctor.placement.versions import asked_version, parse_version


def command(line: str, engine: str | None = None) -> EngineCommand:
    return recognise(shlex.split(line), engine)


@pytest.mark.parametrize(
    ("line", "engine", "program"),
    [
        ("vllm serve m", "vllm", "vllm"),
        ("/opt/venv/bin/vllm serve m", "vllm", "/opt/venv/bin/vllm"),
        ("python -m vllm.entrypoints.openai.api_server --model m", "vllm", "python"),
        ("python3.12 -u -W ignore -m vllm.entrypoints.openai.api_server", "vllm", "python3.12"),
        ("python3 /opt/venv/bin/vllm serve m", "vllm", "python3"),
        ("vllm bench throughput --model m", "vllm", "vllm"),
        ("vllm bench serve --model m", "generic", "vllm"),
        ("vllm chat", "generic", "vllm"),
        ("sglang serve --model-path m", "sglang", "sglang"),
        ("python -m sglang.launch_server --model-path m", "sglang", "python"),
        ("python -m sglang.bench_serving", "generic", "python"),
        ("trtllm-serve m --tp_size 4", "tensorrt-llm", "trtllm-serve"),
        ("trtllm-llmapi-launch trtllm-serve m", "tensorrt-llm", "trtllm-serve"),
        ("trtllm-llmapi-launch python3 own.py", "tensorrt-llm", "trtllm-llmapi-launch"),
        ("mpirun -n 4 --oversubscribe trtllm-serve m", "tensorrt-llm", "trtllm-serve"),
        ("llama-server -m x.gguf", "llama.cpp", "llama-server"),
        ("./build/bin/llama-cli -m x.gguf", "llama.cpp", "./build/bin/llama-cli"),
        ("torchrun --nproc-per-node 4 train.py", "torchrun", "torchrun"),
        ("python -m torch.distributed.run train.py", "torchrun", "python"),
        ("env -i -u X A=B vllm serve m", "vllm", "vllm"),
        ("env -iu X -- A=B vllm serve m", "vllm", "vllm"),
        ("A=B vllm serve m", "vllm", "vllm"),
        ("nice -n 5 nohup setsid ionice -c2 -n0 vllm serve m", "vllm", "vllm"),
        ("nice -10 vllm serve m", "vllm", "vllm"),
        ("timeout -k 5 60 stdbuf -oL vllm serve m", "vllm", "vllm"),
        ("time -f %e vllm serve m", "vllm", "vllm"),
        ("exec -a name vllm serve m", "vllm", "vllm"),
        ("sudo -E -u vllm vllm serve m", "vllm", "vllm"),
        ("sudo --user=vllm HOME=/x env A=B vllm serve m", "vllm", "vllm"),
        ("uv run --with vllm==0.23 vllm serve m", "vllm", "vllm"),
        ("conda run -n vllm python -m vllm.entrypoints.openai.api_server", "vllm", "python"),
        ("numactl -N 0 -m 0 vllm serve m", "vllm", "vllm"),
        ("taskset -c 0-3 vllm serve m", "vllm", "vllm"),
        ("python -m vllm.entrypoints.cli.main serve m -tp 2", "vllm", "python"),
        ("python -m vllm.entrypoints.cli.main bench serve", "generic", "python"),
        ("python3 -um vllm.entrypoints.openai.api_server", "vllm", "python3"),
        ("python3 -mvllm.entrypoints.openai.api_server", "vllm", "python3"),
        ("python -IOX dev -Wignore --check-hash-based-pycs never -m sglang.launch_server", "sglang", "python"),
        ("python -m pdb -m vllm.entrypoints.openai.api_server", "vllm", "python"),
        ("python -m cProfile -o x -m torch.distributed.run train.py", "torchrun", "python"),
        ("python -m pdb train.py", "generic", "python"),
        ("python -m vllm serve m", "vllm", "python"),
        ("python -m vllm bench serve", "generic", "python"),
        ("python -m sglang.cli.main serve --model-path m", "sglang", "python"),
        ("python -uc 'import vllm'", "generic", "python"),
        ("env --ignore-env A.B=1 vllm serve m", "vllm", "vllm"),
        ("timeout --sig KILL 10 vllm serve m", "vllm", "vllm"),
        ("doas -u vllm vllm serve m", "vllm", "vllm"),
        ("runuser -u vllm -- vllm serve m", "vllm", "vllm"),
        ("prlimit --memlock=unlimited flock /run/lock vllm serve m", "vllm", "vllm"),
        ("gdb --args python -m vllm.entrypoints.openai.api_server", "vllm", "python"),
        ("python serve.py", "generic", "python"),
        ("python -c 'import vllm' serve", "generic", "python"),
        ("python", "generic", "python"),
        ("pythonic -m vllm.entrypoints.openai.api_server", "generic", "pythonic"),
        ("echo vllm serve m", "generic", "echo"),
        ("uv run python serve.py vllm serve", "generic", "uv"),
        ("uv run --python python3.12 vllm serve m", "vllm", "python3.12"),
    ],
)
def test_the_engine_is_recognised(line: str, engine: str, program: str) -> None:
    told = command(line)
    assert (told.engine, told.argv[told.program]) == (engine, program)


@pytest.mark.parametrize(
    "line",
    ["sh -c 'vllm serve m'", "bash -lc 'exec vllm serve m'", "env -S 'vllm serve m'", "uv run sh -c 'vllm serve m'"],
)
def test_a_shell_string_is_not_looked_into(line: str) -> None:
    told = command(line)
    assert told.engine == "generic"
    assert told.hidden
    assert "not looked into" in " ".join(told.notes)


def test_the_caller_may_name_the_engine() -> None:
    assert command("./start --numa-node 0", "sglang").engine == "sglang"
    assert command("vllm serve m", "generic").engine == "generic"
    assert not command("./start", "vllm").recognised
    assert command("vllm serve m", "vllm").recognised
    with pytest.raises(UsageError, match="unknown engine 'ollama': one of vllm"):
        command("ollama serve", "ollama")


@pytest.mark.parametrize("words", [[], ["env", "A=B"], ["nice"], ["timeout", "5"], ["A=B"]])
def test_a_command_is_needed(words: list[str]) -> None:
    with pytest.raises(UsageError, match="no command"):
        recognise(words)


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ("", (1, 1, 1)),
        ("-tp 4 -pp 2 -dp 3", (4, 2, 3)),
        ("-tp=4", (4, 1, 1)),
        ("--tensor-parallel-size 4 --data_parallel_size=2", (4, 1, 2)),
        ("--tensor_parallel_size 2 --tensor-parallel-size 8", (8, 1, 1)),
        ("-tp four -pp 0 -dp -1", (None, None, None)),
        ("-tp", (None, 1, 1)),
        ("-tp 99999999999999999999", (None, 1, 1)),
        ("--tensor-par 4", (None, 1, 1)),
        ("--config f.yaml -tp 4", (4, None, None)),
        ("-- -tp 4", (1, 1, 1)),
    ],
)
def test_sizes_of_vllm(options: str, sizes: tuple[int | None, ...]) -> None:
    told = command(f"vllm serve m {options}")
    assert (told.tensor_parallel, told.pipeline_parallel, told.data_parallel) == sizes


def test_sizes_of_others() -> None:
    assert command("sglang serve --tp 4 --dp-size 2").gpus_used == 8
    assert command("trtllm-serve m --tp_size 4 --pp_size=2").gpus_used == 8
    assert command("vllm serve m -tp 4 --nnodes 2").gpus_used is None
    assert command("vllm serve m --headless -dp 4").hosts is None
    assert command("torchrun --nnodes 2 --nproc_per_node=4 train.py --nnodes 7").hosts == 2
    assert command("llama-server -m x").tensor_parallel is None


def test_memory_options_of_vllm() -> None:
    told = command("vllm serve m --cpu_offload_gb 12.5 --kv-offloading-size=100 -asc 4")
    assert (told.cpu_offload_gib_per_gpu, told.kv_offload_gib, told.api_servers) == (12.5, 100.0, 4)
    told = command("vllm serve m --cpu-offload-gb lots -dp 2 --distributed-executor-backend ray")
    assert (told.cpu_offload_gib_per_gpu, told.kv_offload_gib, told.api_servers) == (None, None, None)
    assert told.executor == "ray"


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ("", False),
        ("""--kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'""", True),
        ("""--kv-transfer-config={"kv_connector":"Own","kv_role":"kv_producer"}""", None),
        ("""--kv-transfer-config '{"kv_connector":"Own","kv_role":"kv_producer"}'""", True),
        ("""--kv_transfer_config '{"kv_connector":"OffloadingConnector","kv_role":"kv_both"}'""", False),
        ("--kv-transfer-config.kv_connector MooncakeConnector", True),
        ("--kv-transfer-config.kv_connector Own", None),
        ("--kv-transfer-config [1]", None),
        ("--kv-transfer-config " + "[" * 100_000, None),
    ],
)
def test_disaggregation_of_vllm(options: str, answer: bool | None) -> None:
    assert command(f"vllm serve m {options}").disaggregated is answer


def test_disaggregation_of_sglang() -> None:
    assert command("sglang serve --disaggregation-mode prefill").disaggregated is True
    assert command("sglang serve --disaggregation-mode null").disaggregated is False


class TestVersion:
    @pytest.mark.parametrize(
        ("text", "minimum", "answer"),
        [
            ("0.20.0", (0, 20), True),
            ("0.20", (0, 20, 0), True),
            ("0.19.9", (0, 20), False),
            ("0.100.0", (0, 20), True),
            ("v0.23.0rc1", (0, 23), False),
            ("v0.23.0rc1", (0, 20), True),
            ("0.20.1.dev3+g12ab", (0, 20), True),
            ("0.20.0.dev7", (0, 20), False),
            ("0.20.0.post1", (0, 20), True),
            ("2.9.0+cu128", (2, 9), True),
            ("2.9.0a0+git1234", (2, 9), False),
            ("0.5.1.post3", (0, 5, 2), False),
            (" 1.0\n", (0, 20), True),
        ],
    )
    def test_order(self, text: str, minimum: tuple[int, ...], answer: bool) -> None:
        version = parse_version(text)
        assert version is not None
        assert version.reaches(minimum) is answer

    @pytest.mark.parametrize("text", ["", "dev", "latest", "0.1.dev1+g12ab", "0.20;", "1" * 200, "0.²", "-1"])
    def test_what_is_no_version(self, text: str) -> None:
        assert parse_version(text) is None
        with pytest.raises(UsageError, match="is not a version"):
            asked_version(text)

    @given(st.text(max_size=120))
    def test_any_text_is_a_version_or_not(self, text: str) -> None:
        parse_version(text)


class TestInstalledVersion:
    @pytest.fixture
    def packages(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        info = tmp_path / "packages" / "vllm-0.23.1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.23.1+cu128\n")
        monkeypatch.setenv("PYTHONPATH", str(info.parent))
        return tmp_path

    def test_the_named_python_is_asked(self, packages: Path) -> None:
        told = recognise([sys.executable, "-m", "vllm.entrypoints.openai.api_server"])
        version = installed_version(told, 60)
        assert version is not None
        assert version.text == "0.23.1+cu128"

    def test_the_python_of_a_script_is_asked(self, packages: Path) -> None:
        script = packages / "vllm"
        script.write_text(f"#!{sys.executable}\nraise SystemExit(1)\n")
        script.chmod(0o755)
        version = installed_version(recognise([str(script), "serve", "m"]), 60)
        assert version is not None
        assert version.release == (0, 23, 1)

    @pytest.mark.parametrize(
        "line",
        ["sglang serve", "/nowhere/vllm serve m", "uv run vllm serve m", "llama-server", "sudo vllm serve m", "true"],
    )
    def test_what_cannot_be_asked_is_not_known(self, packages: Path, line: str) -> None:
        assert installed_version(command(line), 60) is None


@given(
    st.lists(st.text(alphabet="-=ab /01", max_size=6) | st.sampled_from(["env", "sudo", "vllm", "serve", "-m", "--"]))
)
def test_any_words_are_read(words: list[str]) -> None:
    try:
        told = recognise(words)
    except UsageError:
        return
    assert told.argv == tuple(words)
    assert 0 <= told.program <= len(words)
    assert told.end <= len(words)


@pytest.mark.parametrize(
    "line", ["su vllm -c 'vllm serve m'", "flock /run/lock -c 'vllm serve m'", "runuser vllm --command='vllm serve m'"]
)
def test_a_string_is_a_string_whoever_starts_it(line: str) -> None:
    assert "stands in a string" in (command(line).hidden or "")


@pytest.mark.parametrize("line", ["", "env", "env A=B", "nice -n 5", "sudo -u x", "''", "env A=B ''"])
def test_a_line_without_a_command(line: str) -> None:
    with pytest.raises(UsageError, match="no command to start"):
        command(line)


def test_data_parallel_attention_takes_no_gpus_of_its_own() -> None:
    line = "python -m sglang.launch_server --tp 4 --dp 2"
    assert (command(line).gpus_used, command(line + " --enable-dp-attention").gpus_used) == (8, 4)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("vllm serve m", True),
        ("vllm serve m --cpu-offload-gb 10 --kv_offloading_size=5", True),
        ("vllm serve m --cpu-offload-gb $N", False),
        ("vllm serve m --cpu-offload 10", False),
        ("vllm serve m --config x.yaml", False),
        ("vllm serve m --kv-transfer-config {}", False),
        ("vllm serve m --swap-space 40", False),
        ("python -m sglang.launch_server --model-path m", True),
        ("python -m sglang.launch_server --enable-hierarchical-cache", False),
        ("python -m sglang.launch_server --hicache-size 100", False),
        ("python -m sglang.launch_server --cpu-offload-gb 10", False),
        ("llama-server -m x", False),
        ("./serve.sh", False),
    ],
)
def test_what_memory_the_words_leave_open(line: str, told: bool) -> None:
    assert command(line).memory_told == told
    assert not command("./serve.sh", "vllm").memory_told


@pytest.mark.parametrize("key", ["kv_role", "kv-role"])
def test_a_role_alone_tells_that_prefill_and_decode_are_apart(key: str) -> None:
    assert command(f"vllm serve m --kv-transfer-config.{key} kv_producer").disaggregated is True
