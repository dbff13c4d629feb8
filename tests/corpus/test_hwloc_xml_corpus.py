"""Real hwloc XML: expected answers were read from the files, not taken from the parser."""

import json
from pathlib import Path
from typing import Any

import pytest

from hostdoctor.facts import Host
from hostdoctor.sources.texts import TextSource
from hostdoctor.survey import survey
from tests.support.corpus import corpus, corpus_text
from tests.support.mangle import MANGLINGS

EXPECTED: dict[str, Any] = json.loads(Path(__file__).with_name("hwloc_xml_expected.json").read_text())
SAFE = ("CRLF", "byte-order mark", "escapes", "quoted", "log", "rank", "fenced", "in a session", "indented")
DGX2 = "nvidiaDGX2.xml"

pytestmark = pytest.mark.corpus


def host_of(text: str) -> Host:
    return survey(TextSource([("host.xml", text)]))


def digest(host: Host) -> dict[str, Any]:
    system = host.system
    return {
        "hostname": system.hostname,
        "kernel": system.kernel,
        "architecture": system.architecture,
        "packages": system.packages,
        "nodes": {str(n.id): [n.cpus, n.memory_bytes, n.distances] for n in host.numa_nodes},
        "gpus": {g.bdf: [g.index, g.numa_node, g.root_complex, [*g.upstream], g.name] for g in host.gpus},
        "nics": {n.bdf: [n.name, n.numa_node, [*n.netdevs]] for n in host.nics},
        "nvme": {d.bdf: [d.name, d.numa_node, [*d.namespaces]] for d in host.nvme},
        "functions": len(host.pci_devices),
    }


@pytest.mark.parametrize("how", ["as it is", *SAFE])
@pytest.mark.parametrize("name", EXPECTED)
def test_says_what_the_file_says(name: str, how: str) -> None:
    text = corpus_text("hwloc", name)
    assert digest(host_of(MANGLINGS[how](text) if how in MANGLINGS else text)) == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_cut_text_gives_no_other_value(name: str) -> None:
    text = corpus_text("hwloc", name)
    expected = EXPECTED[name]
    for end in range(text.index("<object"), len(text), 499):
        found = digest(host_of(text[:end] if "<object " in text[:end] else text))
        for kind in ("nodes", "gpus", "nics"):
            for key, values in found[kind].items():
                assert all(a in (b, None, [], {}) for a, b in zip(values, expected[kind][key], strict=True)), (end, key)


def test_sixteen_gpus_behind_switches() -> None:
    """GPUs 0-7 are behind node 0, 8-15 behind node 1, four to a root port, two to a switch; one NVSwitch is unread."""
    host = host_of(corpus("hwloc", DGX2).read_text())
    gpus = {gpu.index: gpu for gpu in host.gpus}
    assert [gpus[i].numa_node for i in range(16)] == [0] * 8 + [1] * 8
    buses = ["34", "36", "39", "3b", "57", "59", "5c", "5e", "b7", "b9", "bc", "be", "e0", "e2", "e5", "e7"]
    assert [gpus[i].bdf for i in range(16)] == [f"0000:{bus}:00.0" for bus in buses]
    assert {gpu.name for gpu in host.gpus} == {"Tesla V100-SXM3-32GB-H"}
    assert [gpus[4 * i].root_complex for i in range(4)] == ["0000:2b", "0000:4e", "0000:ae", "0000:d7"]
    bridges = ("2b:00.0", "2c:00.0", "2d:04.0", "32:00.0", "33:00.0")
    assert gpus[0].upstream == tuple(f"0000:{bridge}" for bridge in bridges)
    assert all((gpu.uuid or "").startswith("GPU-") for gpu in host.gpus)
    assert "0321019030775" not in repr(host)
    unread = next(device for device in host.pci_devices if device.bdf == "0000:66:00.0")
    assert (unread.vendor_id, unread.class_code, unread.numa_node) == (None, None, 0)
    assert [(node.cpus, node.memory_bytes) for node in host.numa_nodes] == [
        ("0-1", 810234351616),
        ("24-25", 811737923584),
    ]
