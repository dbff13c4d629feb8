"""Real outputs of ``numactl --hardware``: expected answers were read from the texts, not taken from the parser.

``numactl_expected.json``: by file number the nodes (``[cpulist, size in MB, free MB]``, null when the text only says
that the node is there) and the distances (columns, then rows in their order or by node).
"""

import json
from pathlib import Path
from typing import Any

import pytest

from hostdoctor.errors import ParseError
from hostdoctor.parsers.cpulist import canonical_cpulist
from hostdoctor.parsers.numactl import MIB, NumactlHardware, parse_numactl
from tests.support.corpus import corpus_names, corpus_text
from tests.support.mangle import MANGLINGS

KIND = "numactl-hardware"
NAMES = corpus_names(KIND)
EXPECTED: dict[str, Any] = json.loads(Path(__file__).with_name("numactl_expected.json").read_text())

pytestmark = [pytest.mark.corpus, pytest.mark.skipif(not NAMES, reason="no corpus")]


def facts(record: NumactlHardware) -> dict[str, object]:
    values = {
        f"{node.id}.{field}": getattr(node, field)
        for node in record.nodes
        for field in ("cpus", "memory_bytes", "free_bytes", "distances")
    }
    return {name: value for name, value in values.items() if value not in (None, {})}


def expected_facts(name: str) -> dict[str, object]:
    expected = EXPECTED[name[:3]]
    found: dict[str, object] = {}
    for node, told in expected["nodes"].items():
        cpus, size, free = told or (None, None, None)
        found[f"{node}.cpus"] = cpus if cpus is None else canonical_cpulist(cpus)
        found[f"{node}.memory_bytes"] = size if size is None else size * MIB
        found[f"{node}.free_bytes"] = free if free is None else free * MIB
    for header, rows in (expected["distances"] or {}).items():
        columns = header.split()
        by_node = rows if isinstance(rows, dict) else dict(zip(columns, rows, strict=True))
        found |= {f"{node}.distances": dict(zip(columns, row, strict=True)) for node, row in by_node.items()}
    return {fact: value for fact, value in found.items() if value is not None}


@pytest.mark.parametrize("name", NAMES)
def test_says_what_the_text_says(name: str) -> None:
    record = parse_numactl(corpus_text(KIND, name))
    assert facts(record) == expected_facts(name)
    assert [node.id for node in record.nodes] == sorted(map(int, EXPECTED[name[:3]]["nodes"]))
    assert record.elided == EXPECTED[name[:3]].get("elided", False)


@pytest.mark.parametrize("name", NAMES)
def test_every_unknown_value_has_a_gap(name: str) -> None:
    record = parse_numactl(corpus_text(KIND, name))
    gaps = {gap.fact for gap in record.gaps}
    for node in record.nodes:
        for field in ("cpus", "memory_bytes", "free_bytes", "distances"):
            known = getattr(node, field) not in (None, {})
            names = {f"numa_nodes[{node.id}]", f"numa_nodes[{node.id}].{field}", f"numa_nodes.{field}"}
            assert known != bool(gaps & names), (node.id, field)


@pytest.mark.parametrize("mangling", MANGLINGS)
@pytest.mark.parametrize("name", NAMES)
def test_mangled_text_gives_no_other_value(name: str, mangling: str) -> None:
    text = corpus_text(KIND, name)
    expected = expected_facts(name)
    found = facts(parse_numactl(MANGLINGS[mangling](text)))
    assert {fact: value for fact, value in found.items() if expected.get(fact) != value} == {}
    assert len(found) >= len(expected) - 5


@pytest.mark.parametrize("name", NAMES)
def test_cut_text_gives_no_other_value(name: str) -> None:
    text = corpus_text(KIND, name)
    expected = expected_facts(name)
    for at in range(0, len(text), 13):
        for part in (text[:at], text[at:]):
            try:
                found = facts(parse_numactl(part))
            except ParseError:
                continue
            assert {fact: value for fact, value in found.items() if expected.get(fact) != value} == {}, (at, part[-80:])
