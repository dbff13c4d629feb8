"""The feature file for node-feature-discovery, read by the rules of its documentation."""

import datetime
import re

import pytest

from hostdoctor.diagnosis import Report
from hostdoctor.facts import Gpu, Host, System
from hostdoctor.outputs.nfd import fit, render_nfd
from tests.cli.support import hostdoctor
from tests.hosts.test_verdicts import report_on
from tests.support.hostbuilder import host_names

NOW = datetime.datetime(2027, 1, 31, 12, 0, 0, tzinfo=datetime.timezone.utc)
NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")  # of a Kubernetes label, and its value
MAX_FILE_BYTES = 64 << 10


def labels(text: str) -> dict[str, str]:
    """Return what nfd-worker takes from a file: comments left out, ``namespace/name=value``."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    found = {}
    for line in lines:
        key, equals, value = line.partition("=")
        namespace, _, name = key.partition("/")
        assert namespace == "feature.node.kubernetes.io"
        assert equals
        assert NAME.fullmatch(name), name
        assert NAME.fullmatch(value), value
        found[name.removeprefix("hostdoctor.")] = value
    assert len(found) == len(lines)
    return found


def test_the_demos_labels() -> None:
    assert labels(hostdoctor("check", "--demo", "--format", "nfd").out) == {
        "status": "critical",
        "HD201-gpu-link-narrow": "critical",
        "nvidia-driver": "570.133.20",
        "numa-nodes": "2",
        "gpus": "8",
        "gpus-on-node-0": "4",
        "gpus-on-node-1": "4",
        "gpu-model": "NVIDIA-H100-80GB-HBM3",
    }


@pytest.mark.parametrize("name", host_names())
def test_every_host_gives_labels_that_kubernetes_takes(name: str) -> None:
    text = render_nfd(report_on(name), NOW)
    assert labels(text)["status"] == report_on(name).status
    assert len(text.encode()) < MAX_FILE_BYTES


def test_this_hosts_labels_expire_and_a_captures_do_not() -> None:
    assert render_nfd(Report(), NOW).startswith("# +expiry-time=2027-01-31T13:00:00Z\n")
    assert hostdoctor("check", "--format", "nfd", "--select", "HD302").out.startswith("# +expiry-time=20")
    assert "expiry" not in hostdoctor("check", "--demo", "--format", "nfd").out


def test_an_unknown_node_gives_no_label() -> None:
    host = Host(gpus=(Gpu(index=0, name="A", numa_node=0), Gpu(index=1, name="B")))
    assert labels(render_nfd(Report(host=host), None)) == {"status": "ok", "gpus": "2"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Tesla V100 (SXM2)", "Tesla-V100-SXM2"),
        ("-.x._", "x"),
        ("Ω", ""),
        ("a" * 80, "a" * 63),
        ("a" * 62 + "(R)", "a" * 62),
    ],
)
def test_texts_become_values(text: str, value: str) -> None:
    assert fit(text) == value


def test_a_text_that_leaves_nothing_has_no_label() -> None:
    assert labels(render_nfd(Report(host=Host(system=System(nvidia_driver="()"))), None)) == {"status": "ok"}
