"""What hostdoctor says of whole hosts: the map and the verdict beside each description, in ``expected.json``."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hostdoctor.diagnosis import Ask, Report
from hostdoctor.diagnosis.registry import load_rules
from hostdoctor.diagnosis.runner import diagnose
from hostdoctor.outputs.report_text import render_report
from hostdoctor.outputs.style import Style
from hostdoctor.outputs.topo_text import render_topo
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import MemoryTree
from hostdoctor.survey import survey
from tests.support.hostbuilder import build_files, host_names, load_host, rooted_files

HERE = Path(__file__).parent
HEALTHY = (
    "dgx-h100",
    "oci-h100",
    "l40s-4",
    "aws-p5",
    "azure-ndv5",
    "gb200-tray",
    "pod-2-of-8",
    "workstation",
)
FIRST_SCREEN_LINES = 25
MAX_INFO_LINES = 5


@cache
def report_on(name: str) -> Report:
    files = build_files(load_host(name))
    host = survey(RootSource(MemoryTree(rooted_files(files), files.links), name))
    return diagnose(host, Ask(), load_rules())


@pytest.mark.parametrize("name", host_names())
def test_the_map_and_the_verdict_are_as_expected(name: str, request: pytest.FixtureRequest) -> None:
    found = digest(report_on(name))
    path = HERE / name / "expected.json"
    if request.config.getoption("--update-golden"):
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert found == json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_host_is_quiet(name: str) -> None:
    report = report_on(name)
    findings = [finding for result in report.results for finding in result.findings]
    assert report.status == "ok"
    assert {finding.severity for finding in findings} <= {"info"}
    assert len(findings) <= MAX_INFO_LINES


@pytest.mark.parametrize("name", host_names())
def test_the_first_screen_is_short(name: str) -> None:
    text = render_report(report_on(name), Style(width=80))
    assert len(text.splitlines()) <= FIRST_SCREEN_LINES
    assert text.count("do: ") <= 5


@pytest.mark.parametrize("name", host_names())
def test_no_check_fails_to_run(name: str) -> None:
    assert [result for result in report_on(name).results if result.status == "error"] == []


@pytest.mark.parametrize("name", host_names())
def test_every_device_is_in_the_tree(name: str) -> None:
    host = report_on(name).host
    text = render_topo(host, Style())
    for gpu in host.gpus:
        assert text.count(f"{gpu.bdf} ") + text.count(f"{gpu.bdf},") + text.count(f"{gpu.bdf}\n") >= 1
    for drive in host.nvme:
        assert f"{drive.name} " in text


def digest(report: Report) -> dict[str, Any]:
    """Return what a reader of a diff wants to see of a report."""
    host = report.host
    return {
        "status": report.status,
        "findings": [
            f"{finding.severity} {result.id} {finding.subject}: {finding.message}"
            for result in report.results
            for finding in result.findings
        ],
        "skipped": {r.id: f"{r.skip_kind}: {r.reason}" for r in report.results if r.status == "skip"},
        "nodes": [f"{n.id} {n.kind} package {n.package} cpus {n.cpus} {n.memory_bytes}" for n in host.numa_nodes],
        "gpus": [
            f"{g.index} {g.bdf} node {g.numa_node} of {list(g.numa_nodes)} memory node {g.memory_numa_node}"
            f" cpus {g.cpus} x{g.link.width_lanes} under {'/'.join((g.root_complex or '?', *g.upstream))}"
            f" visible {g.visible}"
            for g in host.gpus
        ],
        "nics": [f"{n.label} {n.name} {n.bdf} node {n.numa_node} under {n.root_port}" for n in host.nics],
        "nvme": [f"{d.name} {d.bdf} node {d.numa_node} {len(d.queues)} queues, {d.model}" for d in host.nvme],
        "gaps": [f"{gap.fact}: {gap.reason}" for gap in host.gaps],
        "disagreements": [f"{d.fact}: {d.values}" for d in host.disagreements],
    }
