"""``wrap`` from the command line: what it prints for known hosts, what it refuses, what it writes."""

import os
import shlex
import stat
from pathlib import Path

import pytest

from tests.cli.support import Ran, hostdoctor
from tests.support.hostbuilder import build_files, load_host, pack

SERVE = ("vllm", "serve", "a/model")


@pytest.fixture(autouse=True)
def no_devices_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captures")
    for host in ("dgx-h100", "gb200-tray", "pod-2-of-8", "l40s-4", "workstation", "no-gpu-2n"):
        (folder / host).write_bytes(pack(build_files(load_host(host))))
    return folder


def wrap(captures: Path, host: str, *words: str) -> Ran:
    return hostdoctor("wrap", "--from", str(captures / host), *words)


def line(captures: Path, host: str, *words: str) -> list[str]:
    """Return the emitted command line, with its variables in front."""
    ran = wrap(captures, host, "--as", "args", *words)
    assert ran.status == 0, ran.err
    return shlex.split(ran.out)


@pytest.mark.parametrize(
    ("gpus", "node"),
    [("0", "0"), ("3", "0"), ("4", "1"), ("7", "1"), ("0,1,2,3", "0"), ("7,4", "1")],
)
def test_gpus_of_one_node_get_one_outer_bind(captures: Path, gpus: str, node: str) -> None:
    words = line(captures, "dgx-h100", "--gpus", gpus, "--", *SERVE)
    assert words[words.index("numactl") :] == ["numactl", f"--cpunodebind={node}", f"--membind={node}", *SERVE]
    assert f"CUDA_VISIBLE_DEVICES={gpus}" in words
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in words


def test_gpus_of_two_nodes_get_no_outer_bind(captures: Path) -> None:
    words = line(captures, "dgx-h100", "--engine-version", "0.24.0", "--", *SERVE, "-tp", "8")
    assert "numactl" not in words
    assert words[-10:] == ["--numa-bind", "--numa-bind-nodes", *"00001111"]


@pytest.mark.parametrize("version", ["0.19.1", "0.11.0"])
def test_vllm_without_the_flag_is_refused_with_what_would_work(captures: Path, version: str) -> None:
    ran = wrap(captures, "dgx-h100", "--engine-version", version, "--", *SERVE, "-tp", "8")
    assert (ran.status, ran.out) == (2, "")
    assert "0.20" in ran.err
    assert ran.err.count("\n") == 1


def test_a_node_that_is_a_gpus_memory_is_never_bound_as_cpus(captures: Path) -> None:
    words = line(captures, "gb200-tray", "--gpus", "2", "--", "python", "serve.py")
    assert words[words.index("numactl") + 1 :][:2] == ["--cpunodebind=1", "--membind=1"]


def test_a_pods_cpu_set_is_named_cpu_by_cpu(captures: Path) -> None:
    words = line(captures, "pod-2-of-8", "--", *SERVE)
    bound = words[words.index("numactl") + 1]
    assert bound.startswith("--physcpubind=")


def test_more_than_the_node_holds_is_preferred_not_bound(captures: Path) -> None:
    ran = wrap(captures, "dgx-h100", "--gpus", "0", "--", *SERVE, "--kv-offloading-size", "5000")
    assert "--preferred=0" in ran.out
    assert "--membind" not in ran.out
    assert "hostdoctor ps" in ran.out
    assert "--membind=0" in wrap(captures, "dgx-h100", "--gpus", "0", "--policy", "bind", "--", *SERVE).out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*SERVE, "-tp", "2"), "the memory asked for fits the node"),
        ((*SERVE, "--config", "x.yaml"), "could not be told"),
        ((*SERVE, "-tp", "2", "--kv-transfer-config", "{}"), "could not be told"),
        (("python", "-m", "sglang.launch_server", "--tp", "2", "--enable-hierarchical-cache"), "could not be told"),
        (("./serve.sh",), "could not be told"),
    ],
)
def test_that_memory_fits_is_said_only_where_it_is_known(captures: Path, words: tuple[str, ...], said: str) -> None:
    ran = wrap(captures, "dgx-h100", "--gpus", "0,1", "--", *words)
    assert [line for line in ran.out.splitlines() if "memory policy bind" in line and said in line]


@pytest.mark.parametrize("version", ["0.24.0", "0.24", "0.26.1rc1", "0.27.0", "1.0", "2"])
@pytest.mark.parametrize("gib", ["400", "600", "900"])
def test_auto_and_budget_agree_on_what_fits_a_version(captures: Path, version: str, gib: str) -> None:
    serve = (*SERVE, "-tp", "1", "--kv-offloading-size", gib)
    words = line(captures, "dgx-h100", "--gpus", "0", "--engine-version", version, "--", *serve)
    asked = version.removesuffix("rc1") if "." in version else f"{version}.0"
    host = ("--from", str(captures / "dgx-h100"), "--gpus", "0", "--tp", "1")
    told = hostdoctor("budget", *host, "--kv-offload-gib", gib, "--engine-version", asked)
    assert told.status in (0, 2)
    assert ("--membind=0" in words) == (told.status == 0)


def test_a_version_of_large_numbers_is_no_usage_error(captures: Path) -> None:
    assert line(captures, "dgx-h100", "--gpus", "0", "--engine-version", "202605.1", "--", *SERVE)[-1] == "a/model"


def test_gpus_that_the_engine_leaves_idle_take_no_memory(captures: Path) -> None:
    offload = ("--cpu-offload-gb", "120")
    for size, policy in (("1", "--membind=0"), ("4", "--preferred=0")):  # four such copies do not fit, one does
        ran = wrap(captures, "dgx-h100", "--gpus", "0,1,2,3", "--", *SERVE, "-tp", size, *offload)
        assert policy in next(line for line in ran.out.splitlines() if line.startswith("  if works numactl"))


def test_the_far_arm_is_the_other_node(captures: Path) -> None:
    words = line(captures, "dgx-h100", "--gpus", "0", "--arm", "far", "--", *SERVE)
    assert words[words.index("numactl") + 1 :][:2] == ["--cpunodebind=1", "--membind=1"]


def test_an_unknown_node_is_refused_or_assumed_aloud(tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.write_text(
        "available: 2 nodes (0-1)\nnode 0 cpus: 0 1 2 3\nnode 0 size: 64000 MB\nnode 0 free: 60000 MB\n"
        "node 1 cpus: 4 5 6 7\nnode 1 size: 64000 MB\nnode 1 free: 60000 MB\n"
        "node distances:\nnode   0   1\n  0:  10  21\n  1:  21  10\n\n"
        "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-7\tN/A\tN/A\n",
        encoding="ascii",
    )
    refused = hostdoctor("wrap", "--from", str(texts), "--", *SERVE)
    assert (refused.status, refused.out) == (3, "")
    assert "--assume-node" in refused.err
    assumed = hostdoctor("wrap", "--from", str(texts), "--assume-node", "1", "--", *SERVE)
    assert assumed.status == 0
    assert "node 1 was assumed" in assumed.out
    assert "node 1 was assumed" in assumed.err


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("--gpus", "0", "--", "numactl", "-N", "1", *SERVE), 2),
        (("--gpus", "0", "--", "taskset", "-c", "1", *SERVE), 2),
        (("--gpus", "0", "--", *SERVE, "--numa-bind", "--numa-bind-nodes", "1"), 2),
        (("--gpus", "0", "--", "env", "CUDA_VISIBLE_DEVICES=3", *SERVE), 2),
        (("--gpus", "0", "--", "docker", "run", "image"), 2),
        (("--gpus", "0,0", "--", *SERVE), 64),
        (("--gpus", "9", "--", *SERVE), 64),
        (("--gpus", "x;y", "--", *SERVE), 64),
        (("--assume-node", "7", "--", *SERVE), 64),
        (("--engine", "nonsense", "--", *SERVE), 64),
        (("--engine-version", "newest", "--", *SERVE), 64),
        (("--as", "powershell", "--", *SERVE), 64),
        (("--gpus", "0"), 64),
        (("--gpus", "0", "--"), 64),
    ],
)
def test_what_cannot_be_is_one_line(captures: Path, words: tuple[str, ...], status: int) -> None:
    ran = wrap(captures, "dgx-h100", *words)
    assert (ran.status, ran.out) == (status, ""), ran
    assert ran.err.count("\n") == 1


def test_a_host_without_gpus_has_nothing_to_place(captures: Path) -> None:
    ran = wrap(captures, "no-gpu-2n", "--", *SERVE)
    assert (ran.status, ran.out) == (2, "")


def test_words_after_the_command_are_the_commands(captures: Path) -> None:
    words = line(captures, "dgx-h100", "--gpus", "0", "vllm", "serve", "m", "--help", "--gpus", "7", "--", "-x")
    assert words[-7:] == ["serve", "m", "--help", "--gpus", "7", "--", "-x"]


def test_a_written_script_is_whole_executable_and_not_overwritten(captures: Path, tmp_path: Path) -> None:
    script = tmp_path / "start.sh"
    words = ("--gpus", "0", "-o", str(script), "--", *SERVE)
    ran = wrap(captures, "dgx-h100", *words)
    assert (ran.status, ran.out) == (0, "")
    assert stat.S_IMODE(script.stat().st_mode) & 0o111
    first = script.read_text(encoding="utf-8")
    again = wrap(captures, "dgx-h100", *words)
    assert (again.status, script.read_text(encoding="utf-8")) == (64, first)
    assert "--force" in again.err
    assert wrap(captures, "dgx-h100", "--force", *words).status == 0
    assert [path.name for path in tmp_path.iterdir()] == ["start.sh"]


def test_a_drop_in_is_not_executable(captures: Path, tmp_path: Path) -> None:
    unit = tmp_path / "numa.conf"
    wrap(captures, "dgx-h100", "--gpus", "0", "--as", "systemd", "-o", str(unit), "--", "/usr/bin/vllm", "serve", "m")
    assert not stat.S_IMODE(unit.stat().st_mode) & 0o111
    assert "NUMAPolicy=bind\nNUMAMask=0\n" in unit.read_text(encoding="utf-8")


def test_nothing_of_this_machines_environment_gets_in(captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    words = line(captures, "dgx-h100", "--gpus", "0", "--", *SERVE)
    assert "CUDA_VISIBLE_DEVICES=0" in words


def test_bytes_that_are_not_text_survive(captures: Path) -> None:
    odd = os.fsdecode(b"\xff\xfe name")
    ran = wrap(captures, "dgx-h100", "--gpus", "0", "--as", "args", "--", "cat", odd)
    assert ran.status == 0
    assert shlex.split(ran.out)[-1] == odd


def test_an_engine_that_uses_fewer_gpus_than_there_are_gets_the_first(captures: Path) -> None:
    words = line(captures, "dgx-h100", "--", *SERVE)  # tensor-parallel size 1
    assert words[words.index("numactl") :] == ["numactl", "--cpunodebind=0", "--membind=0", *SERVE]
    assert "CUDA_VISIBLE_DEVICES=0" in words
    assert "CUDA_VISIBLE_DEVICES=0,1,2,3" in line(captures, "dgx-h100", "--", *SERVE, "-tp", "4")


@pytest.mark.parametrize(
    "words", [("--image", "x"), ("--memory-gib", "8", "--as", "docker"), ("--shm-gib", "8", "--as", "systemd")]
)
def test_an_option_without_a_place_in_the_form_is_refused(captures: Path, words: tuple[str, ...]) -> None:
    ran = wrap(captures, "dgx-h100", *words, "--", "/usr/bin/vllm", "serve", "m")
    assert (ran.status, ran.out) == (64, "")
    assert words[0] in ran.err
