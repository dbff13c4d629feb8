"""Real NCCL topology files: expected answers were read from the files, not taken from the parser."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hostdoctor.diagnosis import Ask
from hostdoctor.diagnosis.registry import load_rules
from hostdoctor.diagnosis.runner import diagnose
from hostdoctor.facts import Host, Link
from hostdoctor.sources.texts import TextSource
from hostdoctor.survey import survey
from tests.support.corpus import corpus_names, corpus_text
from tests.support.mangle import MANGLINGS

KIND = "nccl-xml"
NAMES = corpus_names(KIND)
EXPECTED: dict[str, Any] = json.loads(Path(__file__).with_name("nccl_expected.json").read_text())
SAFE = ("CRLF", "byte-order mark", "escapes", "quoted", "log", "rank", "ray", "fenced", "in a session", "indented")

pytestmark = [pytest.mark.corpus, pytest.mark.skipif(not NAMES, reason="no corpus")]


def host_of(text: str) -> Host:
    return survey(TextSource([("topo.xml", text)]))


def digest(host: Host) -> dict[str, Any]:
    labels = {f"GPU{gpu.index}" for gpu in host.gpus}
    driver = [gpu.bdf for gpu in sorted(host.gpus, key=lambda gpu: gpu.index or 0)]
    return {
        "nodes": {str(node.id): node.cpus for node in host.numa_nodes},
        "gpus": {gpu.bdf: gpu.numa_node for gpu in host.gpus},
        "nics": {nic.name or nic.bdf: nic.numa_node for nic in host.nics},
        "bridges": sorted(d.bdf for d in host.pci_devices if (d.class_code or "").startswith("0604")),
        "indices": driver,
        "gpu_paths": dict(Counter(p.kind for p in host.paths if {p.a, p.b} <= labels and p.kind.startswith("NV"))),
    }


@pytest.mark.parametrize("how", ["as it is", *SAFE])
@pytest.mark.parametrize("name", NAMES)
def test_says_what_the_file_says(name: str, how: str) -> None:
    text = corpus_text(KIND, name)
    host = host_of(MANGLINGS[how](text) if how in MANGLINGS else text)
    expected = EXPECTED[name[:3]] | {"bridges": sorted(EXPECTED[name[:3]]["bridges"])}
    found = digest(host)
    if not expected["indices"]:  # no driver was asked: in order of address
        expected["indices"] = sorted(expected["gpus"])
    assert found == expected
    functions = {*expected["gpus"], *expected["bridges"]} | {nic for nic in expected["nics"] if ":" in nic}
    assert {d.bdf for d in host.pci_devices} >= functions
    assert not any(d.bdf.startswith("ffff") for d in host.pci_devices)


@pytest.mark.parametrize("name", NAMES)
def test_link_values_are_nobodys(name: str) -> None:
    host = host_of(corpus_text(KIND, name))
    assert {d.link for d in host.pci_devices} | {gpu.link for gpu in host.gpus} == {Link()}
    assert {d.upstream for d in host.pci_devices} | {gpu.upstream for gpu in host.gpus} == {()}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_wrong_with_these_hosts(name: str) -> None:
    report = diagnose(host_of(corpus_text(KIND, name)), Ask(), load_rules())
    assert {finding.severity for result in report.results for finding in result.findings} <= {"info"}
