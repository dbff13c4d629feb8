"""Real outputs of ``lscpu``: expected answers were read from the texts, not taken from the parser."""

import json
from pathlib import Path
from typing import Any

import pytest

from hostdoctor.errors import ParseError
from hostdoctor.parsers.cpulist import canonical_cpulist
from hostdoctor.parsers.lscpu import LscpuRecord, parse_lscpu
from tests.support.corpus import corpus_names, corpus_text
from tests.support.mangle import MANGLINGS

KIND = "lscpu"
NAMES = corpus_names(KIND)
PASTES = corpus_names("collect-env")
EXPECTED: dict[str, Any] = json.loads(Path(__file__).with_name("lscpu_expected.json").read_text())
FIELDS = [field for field in LscpuRecord.__struct_fields__ if field not in {"nodes", "gaps"}]

pytestmark = [pytest.mark.corpus, pytest.mark.skipif(not NAMES, reason="no corpus")]


def facts(record: LscpuRecord) -> dict[str, object]:
    values = {field: getattr(record, field) for field in FIELDS}
    values |= {f"nodes[{node.id}]": node.cpus for node in record.nodes}
    return {name: value for name, value in values.items() if value is not None}


def expected_facts(name: str) -> dict[str, object]:
    expected = dict(EXPECTED[name[:3]])
    nodes = {f"nodes[{node}]": canonical_cpulist(cpus) for node, cpus in expected.pop("nodes").items()}
    return {field: value for field, value in expected.items() if value is not None} | nodes


@pytest.mark.parametrize("name", NAMES)
def test_says_what_the_text_says(name: str) -> None:
    assert facts(parse_lscpu(corpus_text(KIND, name))) == expected_facts(name)


@pytest.mark.parametrize("mangling", MANGLINGS)
@pytest.mark.parametrize("name", NAMES)
def test_mangled_text_gives_no_other_value(name: str, mangling: str) -> None:
    expected = expected_facts(name)
    found = facts(parse_lscpu(MANGLINGS[mangling](corpus_text(KIND, name))))
    if mangling == "blanks collapsed":
        expected = {fact: " ".join(v.split()) if isinstance(v, str) else v for fact, v in expected.items()}
    assert {fact: value for fact, value in found.items() if expected.get(fact) != value} == {}
    assert len(found) >= len(expected) - 1 or mangling == "on one line"


@pytest.mark.parametrize("name", NAMES)
def test_cut_text_gives_no_other_value(name: str) -> None:
    text = corpus_text(KIND, name)
    expected = expected_facts(name)
    for at in range(0, len(text), 29):
        for part in (text[:at], text[at:]):
            try:
                found = facts(parse_lscpu(part))
            except ParseError:
                continue
            assert {fact: value for fact, value in found.items() if expected.get(fact) != value} == {}, (at, part[-80:])


@pytest.mark.parametrize("name", PASTES)
def test_reads_the_cpu_section_of_a_collect_env_paste(name: str) -> None:
    record = parse_lscpu(corpus_text("collect-env", name))
    nodes = int(name.partition("numa")[0].rpartition("-")[2] or -1) if "numa" in name else 2
    assert len(record.nodes) == nodes
    assert record.cpus == len(canonical_ids(record.online))
    assert record.sockets


def canonical_ids(online: str | None) -> frozenset[int]:
    from hostdoctor.parsers.cpulist import parse_cpulist

    assert online
    return parse_cpulist(online)
