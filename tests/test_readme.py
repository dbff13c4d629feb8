"""The README shows real output, and its recipes are valid."""

import re
import shutil
import subprocess  # noqa: TID251  shells that check the recipes
from pathlib import Path

import pytest

from hostdoctor.budget.gpus import GPUS
from hostdoctor.cli.app import COMMANDS
from tests.cli.support import hostdoctor
from tests.support.serving_results import options, write_results

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
MANUAL = (Path(__file__).parents[1] / "docs" / "plan.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


# Options of lstopo, numactl, vLLM and others that recipes name.
FOREIGN = {
    *("--of", "--hardware", "--cpunodebind", "--membind"),
    *("--port", "--model", "--seed", "--request-rate", "--save-result", "--save-detailed", "--result-filename"),
    *("--tensor-parallel-size", "--kv-offloading-size", "--kv-offloading-backend", "--numa-bind", "--numa-bind-nodes"),
}


def block(start: str) -> str:
    return str(next(text for _, text in BLOCKS if text.startswith(start)))


def test_the_verdict_shown_is_the_demo_s() -> None:
    assert block("CRITICAL  demo") == hostdoctor("check", "--demo").out


def test_the_map_shown_is_the_demo_s() -> None:
    real = hostdoctor("topo", "--demo").out.splitlines()
    shown = [line for line in block("demo: ").splitlines() if line != "…"]
    assert [line for line in shown if line not in real] == []


def test_the_plan_shown_is_the_command_s() -> None:
    command = re.search(r"^`hostdoctor (plan [^`]+)`:$", README, re.MULTILINE)
    assert command is not None
    assert block("FITS") == hostdoctor(*command[1].split()).out


def test_the_gpus_of_the_manual_are_those_that_are_known() -> None:
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| ([0-9.]+) \|$", MANUAL, re.MULTILINE)
    assert {name: float(size) for name, size in rows} == {gpu.name: gpu.memory_gib for gpu in GPUS.values()}


def test_the_options_of_the_manual_exist() -> None:
    help_text = hostdoctor("plan", "--help").out + hostdoctor("budget", "--help").out
    assert [option for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", MANUAL) if option not in help_text] == []


def test_the_budget_shown_is_the_demo_s() -> None:
    command, shown = block("$ hostdoctor budget").split("\n", 1)
    assert shown == hostdoctor(*command.removeprefix("$ hostdoctor ").split()).out


def test_the_comparison_shown_is_of_such_runs(tmp_path: Path) -> None:
    arms = {"near": write_results(tmp_path, "near"), "control": write_results(tmp_path, "control")}
    ran = hostdoctor("compare", *options(far=write_results(tmp_path, "far", 1.25), **arms))
    assert block("near is faster") == ran.out


@pytest.mark.parametrize("shell", ["dash", "sh", "bash"])
def test_shell_recipes_parse(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = block("#!/bin/sh")
    done = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("status", "line", "drained"),
    [(1, "HOSTDOCTOR CRITICAL - HD201 | x=1", True), (0, "HOSTDOCTOR OK - fine | x=1", False), (1, "", False),
     (64, "", False), (70, "", False), (127, "", False)],
)  # fmt: skip
def test_the_slurm_script_drains_on_a_critical_verdict_alone(
    tmp_path: Path, status: int, line: str, drained: bool
) -> None:
    script = block("#!/bin/sh").replace("/usr/local/bin/hostdoctor", str(tmp_path / "hostdoctor"))
    (tmp_path / "hostdoctor").write_text(f"#!/bin/sh\necho '{line}'\nexit {status}\n")
    (tmp_path / "scontrol").write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/drained\n')
    for name in ("hostdoctor", "scontrol"):
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:/usr/bin:/bin"
    done = subprocess.run(["sh", "-c", script], env={"PATH": path}, capture_output=True, text=True, check=False)
    assert (done.returncode, (tmp_path / "drained").exists()) == (0, drained)
    if drained:
        assert "Reason=hostdoctor: HOSTDOCTOR CRITICAL - HD201" in (tmp_path / "drained").read_text()


def test_every_option_named_exists() -> None:
    experiments = ("measure memory", "measure nvme", "measure copy")
    help_text = "".join(hostdoctor(*name.split(), "--help").out for name in (*COMMANDS, *experiments))
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", "".join(text for _, text in BLOCKS if "hostdoctor" in text)))
    foreign = {option for option in named if option not in help_text}
    assert foreign <= FOREIGN, foreign - FOREIGN


def test_the_command_lines_shown_are_wrap_s() -> None:
    for shown in re.findall(r"^\$ hostdoctor (wrap --demo .*)\n(.*)$", README, re.MULTILINE):
        assert hostdoctor(*shown[0].split()).out.rstrip("\n") == shown[1]


def test_the_preflight_is_ten_lines_of_options_that_exist() -> None:
    recipe = block("set -e\ngpus=")
    assert recipe.count("\n") <= 10
    joined = recipe.replace("\\\n", " ")
    for command, said in re.findall(r"hostdoctor (check|budget|run) (.*?)(?: -- |#|$)", joined, re.MULTILINE):
        known = hostdoctor(command, "--help").out
        for option in re.findall(r"--[a-z-]+", said):
            assert f"{option} " in known, (command, option)


def test_the_manual_of_the_report_names_options_that_exist() -> None:
    manual = (Path(__file__).parents[1] / "docs" / "report.md").read_text(encoding="utf-8")
    help_text = "".join(hostdoctor(name, "--help").out for name in COMMANDS)
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", manual))
    foreign = {option for option in named if option not in help_text}
    # those of measure and compare, which may not be there yet
    assert foreign <= {"--near", "--far", "--watch"}


def test_the_picture_is_there_and_small() -> None:
    (name,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    picture = Path(__file__).parents[1] / name
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 200_000
