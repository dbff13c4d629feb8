"""The recipes for Kubernetes, node-problem-detector and Slurm, held against what reads them."""

import json
import stat
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.cli.support import hostdoctor
from tests.placement.tools import needs, run

FOLDER = Path(__file__).parents[2] / "templates"
SCRIPTS = sorted((FOLDER / "slurm").iterdir())
DOCUMENTS = list(yaml.safe_load_all((FOLDER / "kubernetes" / "daemonset.yaml").read_text(encoding="utf-8")))
NPD = json.loads((FOLDER / "monitoring" / "node-problem-detector.json").read_text(encoding="utf-8"))
POD = DOCUMENTS[1]["spec"]["template"]["spec"]


class TestKubernetes:
    @pytest.mark.parametrize("version", ["1.29", "1.33"])
    def test_the_manifests_are_valid(self, version: str) -> None:
        for document in DOCUMENTS:
            kubernetes_validate.validate(document, version, strict=True)

    def test_what_is_mounted_is_there_and_what_is_there_is_mounted(self) -> None:
        mounted = {mount["name"] for container in POD["containers"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in POD["volumes"]}

    def test_nothing_has_a_right_that_it_does_not_need(self) -> None:
        assert POD["automountServiceAccountToken"] is False
        assert "hostNetwork" not in POD
        for container in POD["containers"]:
            context = container["securityContext"]
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert "ports" not in container

    def test_the_agents_options_are_ones_that_it_has(self) -> None:
        program, command, *options = POD["containers"][0]["args"]
        told = hostdoctor(command, "--help").out
        assert program == "hostdoctor"
        assert all(option in told for option in options if option.startswith("--"))

    def test_the_labels_are_written_as_the_recipe_says(self, tmp_path: Path) -> None:
        script = POD["containers"][1]["args"][0]
        line = next(line for line in script.splitlines() if "hostdoctor check" in line)
        words = line.replace("/features.d/", f"{tmp_path}/").split()
        assert hostdoctor(*words[1:], "--demo").status == 2
        assert "hostdoctor.status=critical\n" in (tmp_path / "hostdoctor").read_text(encoding="utf-8")

    def test_the_loop_ends_when_told(self) -> None:
        script = POD["containers"][1]["args"][0]
        quick = script.replace("hostdoctor check", ": hostdoctor check").replace("sleep 900", "sleep 2")
        assert run("bash", "-c", f"(sleep 0.2; kill -TERM $$) & {quick}").returncode == 0


class TestNodeProblemDetector:
    """The rules of pkg/custompluginmonitor/types/config.go."""

    def test_permanent_rules_have_their_condition(self) -> None:
        conditions = {condition["type"] for condition in NPD["conditions"]}
        assert {rule["condition"] for rule in NPD["rules"]} == conditions
        assert {rule["type"] for rule in NPD["rules"]} == {"permanent"}
        assert all(set(condition) == {"type", "reason", "message"} for condition in NPD["conditions"])

    def test_no_rule_waits_longer_than_all_may(self) -> None:
        assert {rule["timeout"] for rule in NPD["rules"]} == {NPD["pluginConfig"]["timeout"]}
        assert NPD["plugin"] == "custom"

    def test_the_rules_tell_broken_from_degraded(self, root_of: Any) -> None:
        broken, degraded = (rule["args"] for rule in NPD["rules"])
        for words, statuses in (
            (("--demo",), [1, 1]),
            (("--demo", "--ignore", "HD201"), [0, 0]),
            (("--from", root_of("sick-2n"), "--select", "HD302"), [2, 1]),  # a warning, and the node of a GPU unknown
        ):
            assert [hostdoctor(*args, *words).status for args in (broken, degraded)] == statuses

    def test_the_message_fits(self, root_of: Any) -> None:
        words = ("--from", root_of("sick-2n"), "--select", "HD302")
        message = hostdoctor(*NPD["rules"][1]["args"], *words).out.partition(" | ")[0]
        assert len(message.encode()) <= NPD["pluginConfig"]["max_output_length"]


STATES = {
    "idle": "NodeName=gpu7 State=IDLE ThreadsPerCore=2 Reason=none",
    "ours": "NodeName=gpu7 State=IDLE+DRAIN ThreadsPerCore=2 Reason=hostdoctor: HOSTDOCTOR CRITICAL [root@now]",
    "theirs": "NodeName=gpu7 State=MIXED+DRAIN ThreadsPerCore=2 Reason=fan replaced [admin@now]",
    "down": "NodeName=gpu7 State=DOWN+DRAIN ThreadsPerCore=2 Reason=hostdoctor: HOSTDOCTOR CRITICAL [root@now]",
}
LINE = "HOSTDOCTOR CRITICAL - HD201 gpu-link-narrow GPU5 | critical=1 gpus=8"
DRAINED = "update NodeName=gpu7 State=DRAIN Reason=hostdoctor: HOSTDOCTOR CRITICAL - HD201 gpu-link-narrow GPU5\n"
RESUMED = "update NodeName=gpu7 State=RESUME\n"


class Node:
    """A Slurm node on which hostdoctor, scontrol and logger are doubles that write down what they were told."""

    def __init__(self, folder: Path, shell: str) -> None:
        self.folder, self.shell = folder, shell

    def double(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    def run(self, script: str, *, status: int, state: str = "idle", line: str = LINE, **variables: str) -> int:
        self.double("hostdoctor", f'printf "%s " "$@" >"{self.folder}/asked"; echo "{line}"; exit {status}')
        told = f'if [ "$1" = show ]; then echo "{STATES[state]}"; else echo "$*" >>"{self.folder}/told"; fi'
        self.double("scontrol", told)
        self.double("logger", f'echo "$*" >>"{self.folder}/logged"')
        environment = {
            "HOSTDOCTOR_PATH": f"{self.folder}:/usr/bin:/bin",
            "SLURMD_NODENAME": "gpu7.example",
            **variables,
        }
        path = str(FOLDER / "slurm" / script)
        return run(needs(self.shell), path, environment=environment).returncode

    def read(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(encoding="utf-8") if path.exists() else ""


@pytest.fixture(params=["dash", "bash"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    return Node(tmp_path, request.param)


class TestSlurm:
    @pytest.mark.parametrize(
        ("status", "state", "told"),
        [
            (0, "idle", ""),
            (1, "idle", DRAINED),
            (1, "ours", ""),
            (1, "theirs", ""),
            (1, "down", ""),
            (0, "ours", RESUMED),
            (0, "theirs", ""),
            (0, "down", ""),
            (3, "idle", ""),
            (3, "ours", ""),
            (127, "idle", ""),
        ],
    )
    def test_the_health_check_drains_and_resumes(self, node: Node, status: int, state: str, told: str) -> None:
        assert node.run("healthcheck.sh", status=status, state=state) == 0
        assert node.read("told") == told
        assert ("could not be made" in node.read("logged")) == (status > 1)

    @pytest.mark.parametrize(("status", "ended"), [(0, 0), (1, 1), (64, 0), (70, 0), (127, 0)])
    def test_the_prolog_refuses_broken_gpus_alone(self, node: Node, status: int, ended: int) -> None:
        assert node.run("prolog.sh", status=status, SLURM_JOB_GPUS="4,5", SLURM_JOB_ID="77") == ended
        assert node.read("asked").endswith("--gpus 4,5 ")
        assert ("job 77" in node.read("logged")) == (status != 0)

    def test_a_program_that_cannot_start_drains_nothing(self, node: Node) -> None:
        assert node.run("healthcheck.sh", status=1, line="") == 0
        assert node.run("prolog.sh", status=1, line="", SLURM_JOB_GPUS="0") == 0
        assert (node.read("told"), node.read("logged").count("status 70")) == ("", 2)

    def test_a_job_without_gpus_is_not_looked_at(self, node: Node) -> None:
        assert node.run("prolog.sh", status=1) == 0
        assert node.read("asked") == ""

    def test_the_commands_are_ones_that_hostdoctor_takes(self, node: Node) -> None:
        node.run("prolog.sh", status=0, SLURM_JOB_GPUS="4,5")
        asked = hostdoctor(*node.read("asked").split(), "--demo")
        assert (asked.status, asked.out.partition(" | ")[0]) == (1, LINE.partition(" | ")[0])
        node.run("healthcheck.sh", status=0)
        assert hostdoctor(*node.read("asked").split(), "--demo").status == 1

    @pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
    def test_shellcheck_is_content(self, path: Path) -> None:
        done = run(needs("shellcheck"), str(path))
        assert done.stdout.decode() == ""
        assert path.stat().st_mode & stat.S_IXUSR
