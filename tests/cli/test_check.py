"""``hostdoctor check``: formats, exit statuses, selection, acceptance."""

import datetime
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.support import hostdoctor

Root = Callable[[str], str]

# name of the host -> status under (nagios, npd, gate with its own default, gate --fail-on warning)
STATUSES = {"dgx-h100": (0, 0, 0, 0), "demo": (2, 1, 1, 1), "sick-2n": (2, 1, 1, 1)}


@pytest.mark.parametrize("name", STATUSES)
def test_the_exit_status_follows_the_style(root_of: Root, name: str) -> None:
    common = ("check", "--from", root_of(name), "--format", "nagios")
    found = (
        hostdoctor(*common).status,
        hostdoctor(*common, "--exit-style", "npd").status,
        hostdoctor(*common, "--exit-style", "gate").status,
        hostdoctor(*common, "--exit-style", "gate", "--fail-on", "warning").status,
    )
    assert found == STATUSES[name]


def test_findings_below_fail_on_count_as_ok(root_of: Root) -> None:
    common = ("check", "--from", root_of("sick-2n"), "--format", "nagios", "--ignore", "HD201,HD101")
    assert hostdoctor(*common, "--fail-on", "warning").status == 1
    assert hostdoctor(*common, "--fail-on", "critical").status == 3  # the node of one GPU stays unknown


def test_what_the_first_screen_leaves_out_is_counted_by_severity(root_of: Root) -> None:
    ran = hostdoctor("check", "--from", root_of("sick-2n"))
    assert "  and 5 more findings (1 warning, 4 info): --all shows them\n" in ran.out


def test_info_counts_only_when_asked(root_of: Root) -> None:
    common = ("check", "--from", root_of("dgx-h100"), "--format", "nagios")
    assert hostdoctor(*common).status == 0
    assert hostdoctor(*common, "--fail-on", "info").status == 1


def test_an_unknown_map_is_unknown_and_never_blocks_a_gate(root_of: Root) -> None:
    common = ("check", "--from", root_of("sick-2n"), "--select", "HD302", "--gpus", "6", "--format", "nagios")
    ignored = (*common, "--fail-on", "critical")
    assert [hostdoctor(*ignored, "--exit-style", style).status for style in ("nagios", "npd", "gate")] == [3, 2, 0]


def test_json_is_the_report_with_the_host(root_of: Root) -> None:
    ran = hostdoctor("check", "--from", root_of("demo"), "--format", "json")
    report = json.loads(ran.out)
    assert (ran.status, report["status"], report["schema_version"]) == (2, "critical", "1")
    assert report["host"]["system"]["hostname"] == "demo"
    fired = {result["id"]: result for result in report["results"] if result["status"] == "fail"}
    assert fired["HD201"]["findings"][0]["subject"] == "GPU5"
    assert fired["HD201"]["findings"][0]["evidence"]
    assert {"text", "risk", "scope", "undo", "verify"} == set(fired["HD201"]["findings"][0]["remedy"])


def test_every_skip_has_a_kind_and_a_reason(root_of: Root) -> None:
    for name in ("demo", "workstation", "no-gpu-2n"):
        report = json.loads(hostdoctor("check", "--from", root_of(name), "--format", "json").out)
        skips = [result for result in report["results"] if result["status"] == "skip"]
        assert all(result["skip_kind"] and result["reason"] for result in skips)


def test_the_nagios_line_is_one_short_line_with_perfdata(root_of: Root) -> None:
    ran = hostdoctor("check", "--from", root_of("demo"), "--format", "nagios")
    message, _, perfdata = ran.out.partition(" | ")
    assert message == "HOSTDOCTOR CRITICAL - HD201 gpu-link-narrow GPU5"
    assert len(message) <= 80
    assert re.fullmatch(r"critical=1 warning=0 info=\d+ passed=\d+ skipped=\d+ accepted=0 gpus=8 nodes=2\n", perfdata)


def test_markdown_names_every_finding(root_of: Root) -> None:
    out = hostdoctor("check", "--from", root_of("demo"), "--format", "markdown").out
    assert out.startswith("## hostdoctor: critical\n")
    assert "| critical | HD201 gpu-link-narrow | GPU5 |" in out


def test_only_selected_checks_run(root_of: Root) -> None:
    report = json.loads(
        hostdoctor("check", "--from", root_of("demo"), "--select", "hd201,numa-balancing-on", "--format", "json").out
    )
    assert [result["id"] for result in report["results"]] == ["HD201", "HD301"]


def test_only_named_gpus_are_judged(root_of: Root) -> None:
    common = ("check", "--from", root_of("demo"), "--select", "HD201", "--format", "nagios", "--gpus")
    report = json.loads(hostdoctor("topo", "--from", root_of("demo"), "--format", "json").out)
    gpu5 = report["gpus"][5]
    assert hostdoctor(*common, "0,1").status == 0
    for word in ("5", gpu5["bdf"], gpu5["bdf"].removeprefix("0000:"), gpu5["uuid"], "all"):
        assert hostdoctor(*common, word).status == 2


def test_demo_needs_nothing_of_this_host() -> None:
    ran = hostdoctor("check", "--demo")
    assert ran.status == 2
    assert "HD201 gpu-link-narrow: GPU5" in ran.out


def test_a_matrix_whose_gpus_are_near_every_node_is_an_unknown_map(tmp_path: Path) -> None:
    rows = ["\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity", "GPU0\t X \tPHB\t0-7\t0-1", "GPU1\tPHB\t X \t0-7\t0-1", ""]
    (tmp_path / "topo.txt").write_text("\n".join(rows))
    (tmp_path / "nodes.txt").write_text(
        "available: 2 nodes (0-1)\nnode 0 cpus: 0 1 2 3\nnode 0 size: 9 MB\nnode 1 cpus: 4 5 6 7\nnode 1 size: 9 MB\n"
    )
    for texts in (("topo.txt",), ("topo.txt", "nodes.txt")):
        named = [part for text in texts for part in ("--from", str(tmp_path / text))]
        ran = hostdoctor("check", "--ignore", "HD101", *named)
        assert (ran.status, ran.out.splitlines()[1]) == (3, "  Not known: no source tells the NUMA node of GPU0, GPU1.")


@pytest.mark.parametrize(("days", "status"), [(1, 0), (0, 0), (-1, 2)])
def test_an_accepted_finding_comes_back_after_its_date(root_of: Root, tmp_path: Path, days: int, status: int) -> None:
    today = datetime.datetime.now(tz=datetime.timezone.utc).date()
    until = today + datetime.timedelta(days=days)
    config = tmp_path / "config.toml"
    config.write_text(f'[[accept]]\nid = "HD201"\nsubject = "GPU5"\nreason = "riser ordered"\nuntil = {until}\n')
    ran = hostdoctor("check", "--from", root_of("demo"), "--config", str(config))
    assert ran.status == status
    assert ("1 finding accepted" in ran.out) == (status == 0)


def test_an_acceptance_for_another_subject_does_not_count(root_of: Root, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[[accept]]\nid = "HD201"\nsubject = "GPU1"\nreason = "x"\nuntil = 2999-01-01\n')
    assert hostdoctor("check", "--from", root_of("demo"), "--config", str(config)).status == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[accept]]\nid = 'HD201'\nreason = 'x'\n", "until"),
        ("[[accpt]]\n", "accpt"),
        ("[[accept]\n", ""),
        ("[[accept]]\nid = 'HD201'\nreason = 'x'\nuntil = 'soon'\n", "until"),
        ("[[accept]]\nid = 'HD999'\nreason = 'x'\nuntil = 2999-01-01\n", "config.toml: accept: unknown"),
    ],
)
def test_a_bad_configuration_is_one_line_and_usage(tmp_path: Path, text: str, says: str) -> None:
    config = tmp_path / "config.toml"
    config.write_text(text)
    ran = hostdoctor("check", "--demo", "--config", str(config))
    assert (ran.status, ran.out, ran.err.count("\n")) == (64, "", 1)
    assert says in ran.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--select", "HD999"), "unknown check id"),
        (("--select", "HD10"), "did you mean HD1"),
        (("--ignore", "gpu-numa-unknow"), "did you mean HD101"),
        (("--format", "yaml"), "yaml"),
        (("--timeout", "0"), "timeout"),
        (("--gpus", "17"), "no GPU '17'"),
        (("--no-such-option",), "no-such-option"),
        (("--config", "/nowhere/config.toml"), "no such file"),
    ],
)
def test_bad_usage_is_one_line_and_64(arguments: tuple[str, ...], says: str) -> None:
    ran = hostdoctor("check", "--demo", *arguments)
    assert (ran.status, ran.out, ran.err.count("\n")) == (64, "", 1)
    assert says in ran.err


def test_a_gpu_without_a_node_is_never_ok(tmp_path: Path) -> None:
    (tmp_path / "topo.txt").write_text("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-31\t\tN/A\n")
    ran = hostdoctor("check", "--from", str(tmp_path / "topo.txt"))
    assert ran.status == 3
    assert ran.out.startswith("UNKNOWN  ")
    assert "GPU0" in ran.out


@pytest.mark.parametrize(
    "nodes",
    ["No NUMA available on this system\n", "available: 1 nodes (0)\nnode 0 cpus: 0 1 2 3\nnode 0 size: 9 MB\n"],
)
def test_a_gpu_on_a_node_that_the_list_lacks_is_never_ok(tmp_path: Path, nodes: str) -> None:
    rows = ["\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity", "GPU0\t X \tSYS\t0-3\t0", "GPU1\tSYS\t X \t4-7\t1", ""]
    (tmp_path / "topo.txt").write_text("\n".join(rows))
    (tmp_path / "nodes.txt").write_text(nodes)
    texts = [part for text in ("topo.txt", "nodes.txt") for part in ("--from", str(tmp_path / text))]
    ran = hostdoctor("check", "--all", *texts)
    assert (ran.status, ran.out.splitlines()[1]) == (3, "  Not known: no source tells the NUMA node of GPU1.")
    assert "HD101 gpu-numa-unknown: a device names a NUMA node that the host does not list (no-evidence)" in ran.out
    wrapped = hostdoctor("wrap", "--gpus", "1", *texts, "--", "true")
    assert (wrapped.status, wrapped.out) == (3, "")
    assert "GPU1: NUMA node unknown" in wrapped.err


def test_two_nodes_whose_cpus_nobody_told_are_not_one(tmp_path: Path) -> None:
    (tmp_path / "topo.txt").write_text("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t\tN/A\n")
    (tmp_path / "nodes.txt").write_text("available: 2 nodes (0-1)\nnode 0 size: 9 MB\nnode 1 size: 9 MB\n")
    texts = [part for text in ("topo.txt", "nodes.txt") for part in ("--from", str(tmp_path / text))]
    ran = hostdoctor("check", "--all", *texts)
    assert (ran.status, ran.out.splitlines()[1]) == (3, "  Not known: no source tells the NUMA node of GPU0.")
    assert "HD101 gpu-numa-unknown: which nodes have CPUs is not known (no-evidence)" in ran.out


def test_devices_that_no_text_lists_are_no_evidence(tmp_path: Path) -> None:
    (tmp_path / "nodes.txt").write_text("available: 1 nodes (0)\nnode 0 cpus: 0 1 2 3\nnode 0 size: 9 MB\n")
    out = hostdoctor("check", "--all", "--from", str(tmp_path / "nodes.txt")).out
    assert "HD101 gpu-numa-unknown: no source lists the GPUs (no-evidence)" in out
    assert "HD405 nvme-health: no NVMe controller known (no-evidence)" in out


def test_nccl_lists_no_drives(tmp_path: Path) -> None:
    gpu = '<pci busid="0000:18:00.0" class="0x030200"><gpu dev="0" sm="90" rank="0" gdr="1"/></pci>'
    text = f'<system version="1"><cpu numaid="0" affinity="0000ffff" arch="x86_64">{gpu}</cpu></system>'
    (tmp_path / "topo.xml").write_text(text)
    ran = hostdoctor("check", "--from", str(tmp_path / "topo.xml"))
    assert "1 GPU, 1 NUMA node" in ran.out.splitlines()[0]
    assert "NVMe" not in ran.out.splitlines()[0]


def test_what_a_text_cannot_list_is_not_counted_as_none(tmp_path: Path) -> None:
    (tmp_path / "topo.txt").write_text("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-31\t0\n")
    out = hostdoctor("check", "--from", str(tmp_path / "topo.txt")).out
    assert ": 1 GPU\n" in out
    assert " 0 " not in out.splitlines()[0]


def test_the_headline_says_how_many_gpus_were_judged(root_of: Root) -> None:
    assert "2 of 8 GPUs" in hostdoctor("check", "--from", root_of("pod-2-of-8")).out
    assert "1 of 8 GPUs" in hostdoctor("check", "--from", root_of("demo"), "--gpus", "3").out


def test_an_ended_acceptance_is_named(root_of: Root, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[[accept]]\nid = "gpu-link-narrow"\nsubject = "GPU5"\nreason = "riser"\nuntil = 2020-01-31\n')
    out = hostdoctor("check", "--from", root_of("demo"), "--config", str(config)).out
    assert "acceptance of HD201 GPU5 ended on 2020-01-31: riser" in out


def test_an_acceptance_shows_its_reason_and_date_everywhere(root_of: Root, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[[accept]]\nid = "HD201"\nreason = "riser ordered"\nuntil = 2999-01-31\n')
    common = ("check", "--from", root_of("demo"), "--config", str(config))
    assert "accepted until 2999-01-31 (riser ordered) HD201" in hostdoctor(*common, "--all").out
    assert " accepted=1 " in hostdoctor(*common, "--format", "nagios").out
    assert "1 finding accepted" in hostdoctor(*common, "--format", "markdown").out
    results = {r["id"]: r for r in json.loads(hostdoctor(*common, "--format", "json").out)["results"]}
    assert results["HD201"]["accepted"][0]["reason"] == "riser ordered"


def test_an_acceptance_of_an_unknown_id_is_a_mistake(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[[accept]]\nid = "HD999"\nreason = "x"\nuntil = 2999-01-31\n')
    ran = hostdoctor("check", "--demo", "--config", str(config))
    assert (ran.status, ran.err.count("\n")) == (64, 1)
    assert "HD999" in ran.err


@pytest.mark.parametrize("arguments", [("--gpus", ","), ("--gpus", " , "), ("--select", "HD201", "--ignore", "HD201")])
def test_a_selection_of_nothing_is_usage_not_ok(arguments: tuple[str, ...]) -> None:
    ran = hostdoctor("check", "--demo", *arguments)
    assert (ran.status, ran.out, ran.err.count("\n")) == (64, "", 1)


@pytest.mark.parametrize("text", ["x = " + "[" * 100_000, "a" * (2 << 20)])
def test_a_hostile_configuration_is_usage(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    ran = hostdoctor("check", "--demo", "--config", str(tmp_path / "config.toml"))
    assert (ran.status, ran.err.count("\n")) == (64, 1)


def test_a_configuration_that_is_no_file_is_usage() -> None:
    assert hostdoctor("check", "--demo", "--config", "/dev/zero").status == 64
