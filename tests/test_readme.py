"""The README shows real output, and its recipes are valid."""

import re
import shutil
import subprocess  # noqa: TID251  shells that check the recipes
from pathlib import Path

import pytest

from tests.cli.support import hostdoctor
from tests.support.serving_results import options, write_results

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def block(start: str) -> str:
    return str(next(text for _, text in BLOCKS if text.startswith(start)))


def test_the_verdict_shown_is_the_demo_s() -> None:
    assert block("CRITICAL  demo") == hostdoctor("check", "--demo").out


def test_the_map_shown_is_the_demo_s() -> None:
    real = hostdoctor("topo", "--demo").out.splitlines()
    shown = [line for line in block("demo: ").splitlines() if line != "…"]
    assert [line for line in shown if line not in real] == []


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
        assert "Reason=[node_problem] HOSTDOCTOR CRITICAL - HD201" in (tmp_path / "drained").read_text()


def test_every_option_named_exists() -> None:
    commands = ("check", "topo", "explain", "capture", "compare", "measure memory", "measure nvme", "measure copy")
    help_text = "".join(hostdoctor(*name.split(), "--help").out for name in commands)
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", "".join(text for _, text in BLOCKS if "hostdoctor" in text)))
    assert {option for option in named if option not in help_text} <= {"--of", "--hardware"}  # lstopo's, numactl's
